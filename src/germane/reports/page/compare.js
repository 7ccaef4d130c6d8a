import { cellOf, charts, interval, tally, wordOf } from "./charts.js";
import { count, difference, isShare, nameOf, queries, report, severalSystems, sourceOf, sources, whose } from "./data.js";
import { between, data, el, measureName, num, numHead, number, put, signed, svg, table } from "./dom.js";
import { choice, labelSwitch, showing } from "./queries.js";
import { address, note } from "./state.js";

const TIE = 1e-9;
/** The colours of outcomes. */
export const KINDS = { better: "good", worse: "bad" };

/** The paired differences of each measure, and the queries that moved most.
 * @param {HTMLElement} main @param {URLSearchParams} settings */
export function compare(main, settings) {
  const base = report.baseline;
  const source = sourceOf(settings);
  const again = (changes) => {
    const kept = { measure, labels: source, ...changes };
    note("compare", kept);
    compare(main, new URLSearchParams(kept));
  };
  const measure = settings.get("measure") ?? base.measures[0] ?? "";
  const lower = report.lower.includes(measure);
  const at = report.names.indexOf(measure);
  const paired = Array.from({ length: count }, (_, query) => ({ query, by: difference(at, query) })).filter((one) => one.by !== null);
  const moved = paired.filter((one) => Math.abs(one.by) > TIE);
  moved.sort((a, b) => Math.abs(b.by ?? 0) - Math.abs(a.by ?? 0));
  put(main,
    el("h1", null, "Compared with ", data(base.name)),
    outcomes(),
    el("p", { class: "quiet" }, "A difference is this report minus the baseline, paired over the queries that were measured in both."),
    differences(),
    base.gone > 0 && el("p", { class: "note warn" }, `△ ${base.gone.toLocaleString("en")} queries of the baseline are not in this report`),
    el("div", { class: "panels" }, ...charts("differences"), noise(source)),
    el("h2", null, "Queries that moved"),
    el("div", { class: "filters" }, el("label", null, "Measure", choice(base.measures.map((name) => [name, name]), measure, (value) => again({ measure: value }))),
      sources.length > 1 && labelSwitch(source, (value) => again({ labels: value })),
      el("p", { class: "quiet" }, `${moved.length} moved, ${paired.length - moved.length} did not${report.capped ? `, of the ${report.capped} queries on this page` : ""}${moved.length > 40 ? "; the 40 that moved most" : ""}; ${showing(source)}`)),
    el("div", { class: "cards pairs" }, ...moved.slice(0, 40).map(({ query, by }) => el("section", { class: "card" },
      el("h3", null, el("span", { class: `chip ${(by ?? 0) * (lower ? -1 : 1) > 0 ? "good" : "bad"}` }, `${(by ?? 0) > 0 ? "▲" : "▼"} ${signed(by)}`), " ", el("a", { href: address("query", nameOf(query)) }, data(queries.id[query])), el("span", { class: "quiet" }, data(whose(query))), " ", data(queries.query[query])),
      lists(query, source)))),
  );
}

/** Who won: the outcome of each primary measure against the baseline, in a sentence. */
export function outcomes() {
  const found = (report.comparison?.comparisons ?? []).filter((one) => one.sentence);
  return found.length > 0 && el("ul", { class: "plain outcomes", "aria-label": "Who won" }, ...found.map((one) => el("li", { class: KINDS[one.outcome] ?? "" }, data(one.sentence))));
}

/** One line per measure: what `germane compare` says; plain means where it cannot compare the two as a whole. */
function differences() {
  const base = report.baseline;
  const found = report.comparison?.comparisons ?? base.measures.map(plainly);
  // a corrected difference is a line of its own, which has the outcome and the adjusted p
  const known = found.flatMap((one) => (one.corrected ? [{ ...one, p_holm: null, outcome: null }, { ...one, ...one.corrected, fixed: true }] : [one]));
  const far = (rows) => Math.max(0.01, ...rows.flatMap((one) => [one.difference, ...(one.interval ?? [])]).map((value) => Math.abs(value ?? 0)));
  const shared = far(known.filter((one) => isShare(one.measure)));
  const tested = known.some((one) => one.p !== null && one.p !== undefined);
  const rows = known.map((one) => {
    const ends = one.interval;
    const kind = KINDS[one.outcome] ?? "";
    const reach = isShare(one.measure) ? shared : far([one]);
    return [
      compared(one, one.fixed ? el("div", { class: "small" }, `corrected by ${one.labels} labels`) : one.due > one.n && el("div", { class: "small warn" }, `${one.due - one.n} not measured in both`)),
      ...(one.fixed ? ["", "", ""] : [one.n, number(one.mean_a), number(one.mean_b)]).map((text) => num(text)),
      num(el("strong", { class: kind }, signed(one.difference))),
      el("td", null, interval(one.difference, ends, [-reach, reach], { zero: true, kind }), el("div", { class: "small quiet" }, ends ? between(ends) : one.interval_why ?? "–")),
      ...(tested ? [num(chance(one.p)), num(chance(one.p_holm))] : []),
      el("td", null, !one.fixed && tally(one.wins, one.ties, one.losses)),
    ];
  });
  const heads = ["measure", ...["queries", "baseline", "now", "difference"].map(numHead), el("th", { scope: "col", title: "for queries like these" }, "95% interval"), ...(tested ? [el("th", { scope: "col", class: "num", title: "the test that belongs to the interval" }, "p"), el("th", { scope: "col", class: "num", title: "Holm: adjusted for how many measures are compared" }, "p, adjusted")] : []), "better, same, worse"];
  return el("section", null, table("Paired differences", heads, rows, "measures"),
    !report.comparison && el("p", { class: "quiet small" }, "Several systems stand on a side: these are plain differences, without intervals."),
    ...(report.comparison?.notes ?? []).map((text) => el("p", { class: "quiet small" }, data(text))));
}

/** What a line of a comparison is of: its measure, and its system where there are several. */
function compared(one, ...more) {
  return el("th", { scope: "row" }, measureName(one.measure), severalSystems && one.b && el("div", { class: "small" }, data(one.b.replace(/^[^:]*:/, "") || "–")), ...more);
}

/** @param {string} name */
function plainly(name) {
  const base = report.baseline;
  const at = report.names.indexOf(name);
  const better = report.lower.includes(name) ? -1 : 1;
  const paired = Array.from({ length: count }, (_, query) => query).filter((query) => difference(at, query) !== null);
  const found = paired.map((query) => Number(difference(at, query)));
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  const wins = found.filter((value) => value * better > TIE).length;
  const losses = found.filter((value) => value * better < -TIE).length;
  const old = mean(paired.map((query) => base.rows[query].values[base.measures.indexOf(name)]));
  return { measure: name, n: found.length, due: found.length, mean_a: old, mean_b: mean(paired.map((query) => queries.values[at][query])), difference: mean(found), interval: null, wins, ties: found.length - wins - losses, losses };
}

/** @param {number | null | undefined} p */
function chance(p) {
  return p === null || p === undefined ? "–" : p < 0.00005 ? "<.0001" : number(p);
}

/** How much of the differences is the retrieval, and how much are other verdicts on the same passages.
 * @param {string} source */
function noise(source) {
  const mine = report.baseline.signs.indexOf(source);
  let same = 0;
  let other = 0;
  report.baseline.rows.forEach((row, query) => {
    const before = new Map(row?.places ?? []);
    for (const [name, signs] of report.baseline.now[query]) {
      const old = before.get(name)?.[mine];
      const sign = signs[mine];
      if (old && /[A-Da-d]/.test(old) && /[A-Da-d]/.test(sign)) old === sign ? same++ : other++;
    }
  });
  const parts = (report.comparison?.comparisons ?? []).filter((one) => one.parts);
  const rows = parts.map((one) => [compared(one), num(signed(one.parts.retrieval)), num(signed(one.parts.labels))]);
  return el("section", { class: "panel" }, el("h2", null, "What it is made of"),
    el("p", null, same + other ? `${other.toLocaleString("en")} of ${(same + other).toLocaleString("en")} passages that stand in both lists${report.capped ? " of the queries on this page" : ""} have another label now (${report.sources[source]}).` : `No passage with a label stands in both lists (${report.sources[source]}).`),
    rows.length > 0 && table("Retrieval and labels", ["measure", ...["retrieval", "labels"].map(numHead)], rows),
    rows.length > 0 && el("p", { class: "quiet small" }, "Retrieval: what other passages and ranks change. Labels: what other labels of the same passages change."));
}

/** The two ranked lists of a query, joined by lines, with what is new, dropped and moved, and verdicts that changed.
 * @param {number} query @param {string} source whose labels are shown */
export function lists(query, source) {
  const mine = report.baseline.signs.indexOf(source);
  const shown = (places) => places.map(([name, signs]) => [name, signs[mine]]);
  const known = report.baseline.rows[query]?.places;
  if (!known) return el("p", { class: "quiet" }, "The baseline has no such query.");
  const before = shown(known);
  const now = shown(report.baseline.now[query]);
  const old = new Map(before.map(([name, sign], at) => [name, { at, sign }]));
  const fresh = new Set(now.map(([name]) => name));
  const left = before.map(([name, sign], at) => item(at, name, sign, [fresh.has(name) ? null : ["✗", " dropped", "bad"]]));
  const right = now.map(([name, sign], at) => {
    const was = old.get(name);
    const move = !was ? ["✚", " new", "good"] : was.at === at ? null : was.at > at ? ["▲", " up ", "good", was.at - at] : ["▼", " down ", "bad", at - was.at];
    return item(at, name, sign, [move, was && wordOf(was.sign) !== wordOf(sign) ? ["△", " was ", wordOf(was.sign) === "unjudged" ? "" : "warn", cell(was.sign)] : null]);
  });
  const height = 32 * Math.max(left.length, right.length, 1);
  const lines = now.flatMap(([name], at) => {
    const was = old.get(name)?.at;
    if (was === undefined) return [];
    const [from, to] = [32 * was + 16, 32 * at + 16];
    return [svg("path", { class: `link ${was > at ? "up" : was < at ? "down" : ""}`, d: `M0 ${from}C32 ${from} 32 ${to} 64 ${to}` })];
  });
  return el("div", { class: "lists" },
    el("p", { class: "quiet small" }, "baseline"), el("span"), el("p", { class: "quiet small" }, "this report"),
    el("ol", { "aria-label": "baseline" }, ...left),
    svg("svg", { viewBox: `0 0 64 ${height}`, preserveAspectRatio: "none", width: 64, height, "aria-hidden": "true" }, ...lines),
    el("ol", { "aria-label": "this report" }, ...right));
}

/** @param {number} at @param {string} name @param {string} sign @param {(any[] | null | undefined)[]} chips */
function item(at, name, sign, chips) {
  const words = ([glyph, word, , rest]) => `${glyph}${word}${rest?.ariaLabel ?? rest ?? ""}`;
  return el("li", { title: `${name}: ${wordOf(sign)}` }, el("span", { class: "rank" }, at + 1), cell(sign), " ", data(name), ...chips.filter(Boolean).map((chip) => el("span", { class: `chip ${chip[2]}`, title: words(chip) }, chip[0], el("span", null, chip[1]), chip[3])));
}

/** A label as a cell, with its word for screen readers.
 * @param {string} sign */
function cell(sign) {
  return el("span", { class: "strip", role: "img", "aria-label": wordOf(sign) }, cellOf(sign));
}
