import { glyphOf, wordOf } from "./charts.js";
import { count, difference, queries, report } from "./data.js";
import { data, el, num, number, put, signed, svg, table } from "./dom.js";
import { choice } from "./queries.js";
import { address, note } from "./state.js";

const TIE = 1e-9;

/** The paired differences of each measure, and the queries that moved most.
 * @param {HTMLElement} main @param {URLSearchParams} settings */
export function compare(main, settings) {
  const base = report.baseline;
  const measure = settings.get("measure") ?? base.measures[0] ?? "";
  const rows = base.measures.map((/** @type {string} */ name) => {
    const at = report.names.indexOf(name);
    const better = report.lower.includes(name) ? -1 : 1;
    const paired = Array.from({ length: count }, (_, query) => query).filter((query) => difference(at, query) !== null);
    const found = paired.map((query) => Number(difference(at, query)));
    const before = paired.reduce((total, query) => total + base.rows[query].values[base.measures.indexOf(name)], 0) / paired.length;
    const sum = found.reduce((a, b) => a + b, 0);
    const wins = found.filter((value) => value * better > TIE).length;
    const losses = found.filter((value) => value * better < -TIE).length;
    return [el("th", { scope: "row" }, data(name)), num(found.length), num(found.length ? number(before) : "–"), num(found.length ? signed(sum / found.length) : "–"), num(`▲ ${wins}`, "good"), num(`= ${found.length - wins - losses}`), num(`▼ ${losses}`, "bad")];
  });
  const at = report.names.indexOf(measure);
  const moved = Array.from({ length: count }, (_, query) => query).map((query) => ({ query, by: difference(at, query) })).filter((one) => one.by !== null && Math.abs(one.by) > TIE);
  moved.sort((a, b) => Math.abs(b.by ?? 0) - Math.abs(a.by ?? 0));
  const unchanged = count - moved.length;
  put(main, 
    el("h1", null, "Beside the baseline ", data(base.name)),
    el("p", { class: "quiet" }, "Difference = this report minus the baseline, over the queries measured in both."),
    table("Paired differences", ["measure", ...["queries", "baseline mean", "mean difference", "better", "same", "worse"].map((name) => el("th", { scope: "col", class: "num" }, name))], rows),
    base.gone.length > 0 && el("p", { class: "warn" }, `△ ${base.gone.length} queries of the baseline are not in this report`),
    el("h2", null, "Queries that moved"),
    el("div", { class: "filters" }, el("label", null, "Measure", choice(base.measures.map((/** @type {string} */ name) => [name, name]), measure, (value) => { note("compare", { measure: value }); compare(main, new URLSearchParams({ measure: value })); }))),
    el("p", { class: "quiet" }, `${moved.length} moved, ${unchanged} did not${moved.length > 40 ? "; the 40 that moved most" : ""}`),
    ...moved.slice(0, 40).map(({ query, by }) => el("section", { class: "card" },
      el("h3", null, el("span", { class: (by ?? 0) * (report.lower.includes(measure) ? -1 : 1) > 0 ? "good" : "bad" }, `${(by ?? 0) > 0 ? "▲" : "▼"} ${signed(by)} `), el("a", { href: address("query", { at: query }) }, data(queries.id[query])), " ", data(queries.query[query])),
      lists(query))),
  );
}

/** The two ranked lists of a query, joined by lines, with what is new, dropped and moved.
 * @param {number} query */
export function lists(query) {
  const before = report.baseline.rows[query]?.places;
  if (!before) return el("p", { class: "quiet" }, "The baseline has no such query.");
  const now = report.baseline.now[query];
  const old = new Map(before.map((/** @type {any} */ [name], /** @type {number} */ at) => [name, at]));
  const fresh = new Map(now.map((/** @type {any} */ [name], /** @type {number} */ at) => [name, at]));
  const left = before.map((/** @type {any} */ [name, sign], /** @type {number} */ at) => item(at, name, sign, fresh.has(name) ? null : ["✗ dropped", "bad"]));
  const right = now.map((/** @type {any} */ [name, sign], /** @type {number} */ at) => {
    const was = old.get(name);
    return item(at, name, sign, was === undefined ? ["✚ new", "good"] : was === at ? null : was > at ? [`▲ up ${was - at}`, "good"] : [`▼ down ${at - was}`, "bad"]);
  });
  const height = 30 * Math.max(left.length, right.length, 1);
  const lines = now.flatMap((/** @type {any} */ [name], /** @type {number} */ at) => {
    const was = old.get(name);
    return was === undefined ? [] : [svg("line", { class: `link ${was > at ? "up" : was < at ? "down" : ""}`, x1: 0, x2: 64, y1: 30 * was + 15, y2: 30 * at + 15 })];
  });
  return el("div", { class: "lists" },
    el("ol", { "aria-label": "baseline" }, ...left),
    svg("svg", { viewBox: `0 0 64 ${height}`, width: 64, height, "aria-hidden": "true" }, ...lines),
    el("ol", { "aria-label": "this report" }, ...right));
}

/** @param {number} at @param {string} name @param {string} sign @param {[string, string] | null} chip */
function item(at, name, sign, chip) {
  return el("li", { title: wordOf(sign) }, `${at + 1} ${glyphOf(sign)} `, chip && el("span", { class: `chip ${chip[1]}` }, chip[0]), " ", data(name));
}
