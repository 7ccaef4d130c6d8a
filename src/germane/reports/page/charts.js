import { el, number, svg } from "./dom.js";

/** @type {Record<string, [string, string, string]>} glyph, class, word */
const SIGNS = {
  A: ["■", "r0", "relevant (0)"], B: ["■", "r1", "relevant (1)"], C: ["■", "r2", "relevant (2)"], D: ["■", "r3", "relevant (3)"],
  a: ["□", "s0", "not relevant"], b: ["□", "s0", "not relevant (1)"], c: ["□", "s0", "not relevant (2)"], d: ["□", "s0", "not relevant (3)"],
  ".": ["·", "u", "unjudged"], "?": ["?", "f", "no verdict"],
};

/** One sign in words.
 * @param {string} sign */
export function wordOf(sign) {
  return SIGNS[sign]?.[2] ?? "";
}

/** One sign of the strip, glyph only.
 * @param {string} sign */
export function glyphOf(sign) {
  return SIGNS[sign]?.[0] ?? "";
}

/** The rank heat strip: glyph and shade per rank, calls apart, a mark for missed gold.
 * @param {string} text @param {number} missed */
export function strip(text, missed) {
  const shown = text.slice(0, 30);
  const words = [...shown].map((sign, at) => (sign === "|" ? "next call" : `${at + 1} ${wordOf(sign)}`)).join(", ") || "nothing came back";
  const lost = missed ? `; ${missed} gold missed` : "";
  const cells = [...shown].map((sign) => (sign === "|" ? el("i", { class: "cut" }) : el("i", { class: SIGNS[sign][1] }, SIGNS[sign][0])));
  return el("span", { class: "strip", role: "img", "aria-label": `ranks: ${words}${lost}` }, ...cells, text.length > 30 && "…", missed > 0 && el("span", { class: "bad" }, ` ◇${missed}`));
}

/** A histogram whose bars are buttons; the arrow keys move between them.
 * @param {string} name @param {(number | null)[]} values @param {[number, number]} range @param {number | null} gate
 * @param {(from: number, to: number) => void} pick */
export function histogram(name, values, range, gate, pick) {
  const bins = 10;
  const [low, high] = range;
  const wide = (high - low) / bins || 1;
  const counts = new Array(bins).fill(0);
  for (const value of values) if (value !== null) counts[Math.min(Math.max(Math.floor((value - low) / wide), 0), bins - 1)]++;
  const most = Math.max(...counts, 1);
  const bars = counts.map((height, at) => {
    const from = low + at * wide;
    const to = low + (at + 1) * wide;
    const bar = el("i", { style: { height: `${Math.round((100 * height) / most)}%` } });
    const label = `${name} ${from.toFixed(2)} to ${to.toFixed(2)}: ${height} queries`;
    return el("button", { type: "button", "aria-label": label, title: label, tabindex: at ? "-1" : "0", onclick: () => pick(from, to) }, bar);
  });
  const line = gate === null ? null : el("span", { class: "gate", title: `gate ${gate}`, style: { left: `${(100 * (gate - low)) / (high - low || 1)}%` } });
  const move = (/** @type {KeyboardEvent} */ event) => {
    const at = bars.indexOf(/** @type {any} */ (document.activeElement));
    const next = bars[at + (event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0)];
    if (next && (event.key === "ArrowRight" || event.key === "ArrowLeft")) next.focus();
  };
  return el("div", { class: "histogram", role: "group", "aria-label": `histogram of ${name}`, onkeydown: move }, ...bars, line);
}

/** The share of relevant places at each rank.
 * @param {string[]} strips */
export function profile(strips) {
  /** @type {number[]} */
  const found = [];
  /** @type {number[]} */
  const all = [];
  for (const text of strips) {
    for (const call of text.split("|")) {
      for (let rank = 0; rank < Math.min(call.length, 20); rank++) {
        all[rank] = (all[rank] ?? 0) + 1;
        if (call[rank] >= "A" && call[rank] <= "D") found[rank] = (found[rank] ?? 0) + 1;
      }
    }
  }
  const shares = all.map((total, rank) => (found[rank] ?? 0) / total);
  const step = 30;
  const width = 40 + step * shares.length;
  const bars = shares.flatMap((share, rank) => [
    svg("rect", { class: "bar", x: 34 + rank * step, y: 110 - 100 * share, width: step - 4, height: 100 * share }),
    svg("text", { x: 34 + rank * step + step / 2 - 2, y: 124, "text-anchor": "middle" }, rank + 1),
  ]);
  const words = shares.map((share, rank) => `rank ${rank + 1}: ${number(share)}`).join(", ");
  const axis = [0, 0.5, 1].map((value) => svg("text", { x: 28, y: 114 - 100 * value, "text-anchor": "end" }, value));
  const picture = svg("svg", { viewBox: `0 0 ${width} 130`, width, height: 130, role: "img", "aria-label": `share relevant by rank: ${words}` }, svg("line", { class: "axis", x1: 32, x2: width, y1: 110, y2: 110 }), ...axis, ...bars);
  picture.style.maxWidth = "100%";
  return picture;
}
