import { between, el, extent, inQueries, number, signed, svg } from "./dom.js";

/** Glyph, class, word. */
const SIGNS = {
  A: ["■", "r0", "relevant (0)"], B: ["■", "r1", "relevant (1)"], C: ["■", "r2", "relevant (2)"], D: ["■", "r3", "relevant (3)"],
  a: ["□", "s0", "not relevant"], b: ["□", "s0", "not relevant (1)"], c: ["□", "s0", "not relevant (2)"], d: ["□", "s0", "not relevant (3)"],
  ".": ["·", "u", "unjudged"], "?": ["?", "f", "no verdict"],
};

/** So many signs of a ranking are shown, as in the terminal. */
export const SIGNS_SHOWN = 20;

/** One sign in words.
 * @param {string} sign */
export function wordOf(sign) {
  return SIGNS[sign]?.[2] ?? "";
}

/** One sign as a cell of the strip.
 * @param {string} sign */
export function cellOf(sign) {
  return el("i", { class: SIGNS[sign]?.[1] ?? "u" }, SIGNS[sign]?.[0] ?? "·");
}

/** The rank heat strip: glyph and shade per rank, calls apart, a mark for missed gold.
 * @param {string} text @param {number} missed */
export function strip(text, missed) {
  const shown = text.slice(0, SIGNS_SHOWN);
  const words = [...shown].map((sign, at) => (sign === "|" ? "next call" : `${at + 1} ${wordOf(sign)}`)).join(", ") || "nothing came back";
  const lost = missed ? `; ${missed} gold missed` : "";
  const cells = [...shown].map((sign) => (sign === "|" ? el("i", { class: "cut" }) : cellOf(sign)));
  return el("span", { class: "strip", role: "img", "aria-label": `ranks: ${words}${lost}` }, ...cells, text.length > SIGNS_SHOWN && "…", missed > 0 && el("span", { class: "lost" }, `◇${missed}`));
}

/** What the signs of the strips mean. */
export function signKey() {
  const parts = [["D", "relevant, grade 3"], ["C", "2"], ["B", "1"], ["a", "not relevant"], [".", "unjudged"], ["?", "no verdict"]];
  return el("p", { class: "key quiet" }, ...parts.map(([sign, word]) => el("span", null, el("span", { class: "strip", "aria-hidden": "true" }, cellOf(sign)), ` ${word}`)), el("span", null, el("span", { class: "lost" }, "◇1"), " gold that did not come back"));
}

/** A histogram whose bars are buttons; the arrow keys move between them.
 * @param {string} name @param {number[]} counts @param {number[]} edges of the bars; the last bar holds its upper end too
 * @param {number | null} gate @param {(from: number, to: number | null) => void} pick */
export function histogram(name, counts, edges, gate, pick) {
  const [low, high] = [edges[0], edges.at(-1)];
  const most = Math.max(...counts, 1);
  const bars = counts.map((height, at) => {
    const [from, to] = edges.slice(at, at + 2);
    const bar = el("i", { style: { height: height ? `max(2px, ${Math.round((100 * height) / most)}%)` : "0" } });
    const label = `${name} ${from.toFixed(2)} to ${to.toFixed(2)}: ${inQueries(height)}`;
    return el("button", { type: "button", "aria-label": label, title: label, tabindex: at ? "-1" : "0", onclick: () => pick(from, to === high ? null : to) }, bar);
  });
  const line = gate === null ? null : el("span", { class: "gate", title: `gate ${gate}`, style: { left: `${(100 * (gate - low)) / (high - low || 1)}%` } });
  const move = (event) => {
    const at = bars.indexOf(document.activeElement);
    const next = bars[at + (event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0)];
    if (next && (event.key === "ArrowRight" || event.key === "ArrowLeft")) next.focus();
  };
  return el("div", { class: "histogram", role: "group", "aria-label": `histogram of ${name}`, onkeydown: move }, ...bars, line);
}

/** A value with its interval on a track, and where a gate or zero stands.
 * @param {number | null} value @param {number[] | null} ends @param {[number, number]} range
 * @param {{gate?: number | null, zero?: boolean, kind?: string}} [more] */
export function interval(value, ends, range, more = {}) {
  const [low, high] = range;
  const place = (at) => 4 + (152 * Math.min(Math.max(at - low, 0), high - low)) / (high - low || 1);
  const marks = [];
  if (more.zero) marks.push(svg("line", { class: "zero", x1: place(0), x2: place(0), y1: 2, y2: 18 }));
  if (ends) {
    const [from, to] = [place(ends[0]), place(ends[1])];
    marks.push(svg("rect", { class: "band", x: from, y: 6, width: Math.max(to - from, 2), height: 8, rx: 4 }));
  }
  if (more.gate !== null && more.gate !== undefined) marks.push(svg("line", { class: "gate", x1: place(more.gate), x2: place(more.gate), y1: 1, y2: 19 }));
  if (value !== null) marks.push(svg("circle", { class: "dot", cx: place(value), cy: 10, r: 4.5 }));
  const words = `${(more.zero ? signed : number)(value)}${ends ? `, interval ${(more.zero ? between : extent)(ends)}` : ""}`;
  return svg("svg", { class: `interval ${more.kind ?? ""}`, viewBox: "0 0 160 20", width: 160, height: 20, role: "img", "aria-label": words }, svg("line", { class: "track", x1: 4, x2: 156, y1: 10, y2: 10 }), ...marks);
}

/** Wins, ties and losses as one bar.
 * @param {number} wins @param {number} ties @param {number} losses */
export function tally(wins, ties, losses) {
  const whole = wins + ties + losses || 1;
  const parts = [["win", wins], ["tie", ties], ["loss", losses]];
  const bar = el("span", { class: "tally", "aria-hidden": "true" }, ...parts.filter(([, size]) => size).map(([name, size]) => el("i", { class: name, style: { width: `${(100 * size) / whole}%` } })));
  return el("span", { class: "tallied" }, el("span", { class: "good" }, `▲ ${wins}`), el("span", { class: "quiet" }, `= ${ties}`), el("span", { class: "bad" }, `▼ ${losses}`), bar);
}

/** The charts of a kind that were drawn when the page was made, with a line below where they are of some queries only.
 * @param {string} kind @param {string} [below] */
export function charts(kind, below = "") {
  const found = [...document.querySelectorAll(`template[id^="chart-${kind}-"]`)];
  return found.map((one) => el("figure", { class: "chart" }, one.content.cloneNode(true), below && el("figcaption", { class: "quiet small" }, below)));
}
