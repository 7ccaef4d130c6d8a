import { interval, tally } from "./charts.js";
import { systemName, queryOf, report } from "./data.js";
import { between, data, el, inQueries, measureName, num, numHead, number, signed, table } from "./dom.js";
import { address } from "./state.js";

const SHOWN = 10;

/** What would help, by the report's first ranked measure, and the queries that would gain most; nothing where no labels are known. */
export function diagnosis() {
  if (!report.diagnosis?.length) return null;
  return el("section", null, el("h2", null, "What would help"), ...report.diagnosis.flatMap((one) => [
    one.system && el("h3", null, data(one.system)),
    one.blame && el("p", null, data(one.blame)),
    one.measure && el("p", { class: "small" }, measureName(one.measure), ` is ${number(one.mean)} over ${inQueries(one.n, Boolean(report.capped))}. Each change is a paired difference over the same queries, from stored labels alone; "at most" is what a perfect step would bring.`),
    one.measure && changes(one),
    one.queries.length > 0 && el("h3", null, "Queries that would gain most"),
    one.queries.length > 0 && gains(one),
    one.queries.length > SHOWN && el("p", { class: "quiet small" }, `and ${(one.queries.length - SHOWN).toLocaleString("en")} more: germane diagnose --json lists them.`),
    ...one.notes.map((text) => el("p", { class: "quiet small" }, data(text))),
  ]));
}

function changes(one) {
  const ends = one.changes.flatMap((row) => [row.difference ?? 0, ...(row.interval ?? [])]);
  const range = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const heads = ["change", numHead("mean with it"), numHead("difference"), "95% interval", numHead("p (Holm)"), "win/tie/loss", numHead("drops")];
  const rows = one.changes.map((row) => [
    el("th", { scope: "row" }, data(row.change), row.limit && el("div", { class: "small quiet" }, "at most")),
    num(number(row.mean)),
    num(row.difference === null ? "–" : signed(row.difference)),
    el("td", null, interval(row.difference, row.interval, range, { zero: true }), el("div", { class: "small quiet" }, row.interval ? between(row.interval) : "–")),
    num(row.p_holm === null ? "–" : row.p_holm < 0.0001 ? row.p_holm.toExponential(0) : number(row.p_holm)),
    el("td", null, tally(row.wins, row.ties, row.losses)),
    num(row.dropped === null ? "" : `${(100 * row.dropped).toFixed(0)}%`),
  ]);
  return table("What would help", heads, rows, "measures");
}

function gains(one) {
  const rows = one.queries.slice(0, SHOWN).map((row) => {
    const found = { id: row.sample, system: systemName(one.system), trial: row.trial };
    const there = queryOf(new URLSearchParams(found)) >= 0;
    const name = data(row.sample);
    return [el("th", { scope: "row" }, there ? el("a", { href: address("query", found) }, name) : name), el("td", { style: { "min-width": "16rem" } }, data(row.query ?? "")), el("td", { style: { "min-width": "10rem" } }, data(row.change)), num(number(row.value)), num(signed(row.gain), "good")];
  });
  return table("Queries that would gain most", ["query", "asked", "by", numHead("now"), numHead("gain")], rows, "measures");
}
