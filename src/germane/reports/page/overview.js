import { histogram, profile } from "./charts.js";
import { count, queries, report } from "./data.js";
import { data, el, num, number, put, table } from "./dom.js";
import { address } from "./state.js";

/** What was run, what came out, what it rests on.
 * @param {HTMLElement} main */
export function overview(main) {
  const systems = report.systems.length > 1;
  const columns = ["measure", ...(systems ? ["system"] : []), "mean", ...(report.measures.some((/** @type {any} */ one) => one.interval) ? ["interval"] : []), "over", "skipped", "incomplete", "errors", "per query"];
  const rows = report.measures.map((/** @type {any} */ one) => row(one, columns));
  put(main, 
    el("h1", null, "Report ", data(report.name)),
    verdict(),
    report.stopped && el("p", { class: "warn" }, `Interrupted, this is a part: ${report.stopped}`),
    files(),
    el("h2", null, report.files.length ? "Measures over all files" : "Measures"),
    table("Measures", columns.map((name) => el("th", { scope: "col", class: ["measure", "system", "per query", "interval"].includes(name) ? "" : "num" }, name)), rows),
    ...(report.remarks ?? []).map((/** @type {string} */ remark) => el("p", { class: "warn" }, "△ ", data(remark))),
    whys(),
    el("div", { class: "panels" }, gates(), ranks(), judge()),
    slices(),
  );
}

function verdict() {
  const kind = { 0: "good", 1: "bad" }[/** @type {0 | 1} */ (report.verdict.code)] ?? "warn";
  const glyph = { good: "✓", bad: "✗", warn: "△" }[kind];
  return el("p", null, el("strong", { class: kind }, `${glyph} ${report.verdict.word}`), ` (exit code ${report.verdict.code}) · ${count} samples · ${report.created ?? ""} · germane ${report.germane ?? ""}`);
}

/** @param {any} one @param {string[]} columns */
function row(one, columns) {
  const at = report.names.indexOf(one.measure);
  const system = report.systems.indexOf(one.system);
  const values = queries.values[at].filter((/** @type {any} */ _, /** @type {number} */ query) => queries.system[query] === system);
  const high = one.range[1] ?? Math.max(1, ...values.filter((/** @type {any} */ v) => v !== null));
  const gate = report.gates.find((/** @type {any} */ gate) => gate.measure === one.measure && gate.how === "mean");
  const pick = (/** @type {number} */ from, /** @type {number} */ to) => (location.hash = address("queries", { measure: one.measure, from: from.toFixed(4), to: to.toFixed(4), system: report.systems.length > 1 ? one.system : "" }));
  /** @type {Record<string, () => any>} */
  const cells = {
    measure: () => el("th", { scope: "row" }, data(one.measure), el("div", { class: "quiet formula wide" }, one.formula), one.better === "lower" && el("div", { class: "quiet" }, "lower is better")),
    system: () => el("td", null, data(one.system || "–")),
    mean: () => num(el("strong", null, one.words)),
    interval: () => el("td", { class: "num", title: one.method ?? "" }, one.interval ?? "–"),
    over: () => num(`${one.n}/${one.total}`),
    skipped: () => num(one.skipped || "–"),
    incomplete: () => num(one.incomplete || "–", one.incomplete ? "warn" : ""),
    errors: () => num(one.errors || "–", one.errors ? "bad" : ""),
    "per query": () => el("td", null, histogram(one.measure, values, [one.range[0], high], gate?.limit ?? null, pick), gate && el("small", { class: "quiet" }, `┆ gate ${gate.op} ${gate.limit}`)),
  };
  return columns.map((name) => cells[name]());
}

/** The measures of each eval file over its own cases, where there are several. */
function files() {
  if (!report.files.length) return null;
  const heads = ["file", "measure", "system", "mean", "interval", "over"].map((name, at) => el("th", { scope: "col", class: at > 2 ? "num" : "" }, name));
  const rows = report.files.map((/** @type {string[]} */ [file, measure, system, mean, interval, over]) => [el("th", { scope: "row" }, data(file)), data(measure), data(system || "–"), num(el("strong", null, mean)), num(interval), num(over)]);
  return el("section", null, el("h2", null, "Eval files"), table("Means by eval file", heads, rows));
}

function whys() {
  const lines = report.measures.flatMap((/** @type {any} */ one) => one.why.filter(() => one.n < one.total).map((/** @type {any} */ [why, times]) => [one.measure, times, why]));
  if (!lines.length) return null;
  return el("details", null, el("summary", null, "Why scores are missing"), el("ul", null, ...lines.map((/** @type {any} */ [name, times, why]) => el("li", null, data(name), `: ${times} × `, data(why)))));
}

function gates() {
  if (!report.verdict.gates.length) return el("section", { class: "panel" }, el("h2", null, "Gates"), el("p", { class: "quiet" }, "none declared"));
  const glyphs = { passed: "✓", failed: "✗", undecided: "△" };
  const kinds = { passed: "good", failed: "bad", undecided: "warn" };
  return el("section", { class: "panel" }, el("h2", null, "Gates"), el("ul", null, ...report.verdict.gates.map((/** @type {any} */ gate) => {
    const outcome = /** @type {"passed" | "failed" | "undecided"} */ (gate.outcome);
    return el("li", null, el("strong", { class: kinds[outcome] }, `${glyphs[outcome]} ${gate.word}`), " ", data(`${gate.gate}: ${gate.detail}`));
  })));
}

function ranks() {
  return el("section", { class: "panel" }, el("h2", null, "Relevant by rank"), profile(queries.strip), el("p", { class: "quiet" }, "Share of the queries with a context at this rank for which it is relevant."));
}

function judge() {
  const { source, stand_in: standIn, spent } = report.judge;
  const bases = report.measures.map((/** @type {any} */ one) => one.basis);
  const lists = ["models", "modes"].map((name) => {
    const found = new Map();
    for (const basis of bases) for (const [key, times] of Object.entries(basis[name] ?? {})) found.set(key, Math.max(found.get(key) ?? 0, Number(times)));
    return found.size ? el("p", null, `${name}: `, data([...found].map(([key, times]) => `${key} (${times})`).join(", "))) : null;
  });
  const calibrated = bases.every((/** @type {any} */ basis) => basis.calibrated);
  return el("section", { class: "panel" }, el("h2", null, "Judge and cost"),
    el("p", null, source ? data(source) : "nobody was asked: gold labels alone"),
    source && el("p", { class: calibrated ? "good" : "warn" }, calibrated ? "✓ calibrated by people's labels" : "△ not calibrated by people's labels"),
    ...lists,
    spent && el("p", null, data(spent)),
    standIn && el("p", { class: "warn" }, "△ ", data(standIn)),
    Object.keys(report.settings).length > 0 && el("p", { class: "quiet" }, Object.entries(report.settings).map(([key, value]) => `${key} ${value}`).join(", ")),
    ...(report.notes ?? []).map((/** @type {string} */ text) => el("p", { class: "quiet" }, data(text))));
}

function slices() {
  const several = report.systems.length > 1;
  /** @type {Map<string, {tag: string, system: number, mine: number[]}>} */
  const found = new Map();
  queries.tags.forEach((/** @type {string[]} */ tags, /** @type {number} */ query) => tags.forEach((tag) => {
    const system = queries.system[query];
    const key = `${tag}\n${system}`;
    if (!found.has(key)) found.set(key, { tag, system, mine: [] });
    found.get(key)?.mine.push(query);
  }));
  if (!found.size) return null;
  const rows = [...found.values()].sort((a, b) => b.mine.length - a.mine.length || a.tag.localeCompare(b.tag)).slice(0, 60).map(({ tag, system, mine }) => [
    el("th", { scope: "row" }, el("a", { href: address("queries", { tag, system: several ? report.systems[system] : "" }) }, data(tag))),
    ...(several ? [data(report.systems[system])] : []),
    num(mine.length),
    ...report.names.map((/** @type {string} */ _, /** @type {number} */ at) => {
      const values = mine.map((query) => queries.values[at][query]).filter((value) => value !== null);
      return el("td", { class: "num", title: `${values.length} of ${mine.length} measured` }, values.length ? number(values.reduce((a, b) => a + b, 0) / values.length) : "–");
    }),
  ]);
  const heads = ["tag", ...(several ? ["system"] : []), "samples", ...report.names].map((name, at) => el("th", { scope: "col", class: at > (several ? 1 : 0) ? "num" : "" }, name));
  return el("section", null, el("h2", null, "Slices"), table("Means by tag", heads, rows), el("p", { class: "quiet" }, "Means over the samples with this tag that could be measured. Small slices vary by chance."));
}
