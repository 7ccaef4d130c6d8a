import { chart, histogram, interval } from "./charts.js";
import { count, queries, report } from "./data.js";
import { between, data, el, num, number, put, table } from "./dom.js";
import { stages } from "./stages.js";
import { address } from "./state.js";

/** What was run, what came out, what it rests on.
 * @param {HTMLElement} main */
export function overview(main) {
  const systems = report.systems.length > 1;
  const some = (/** @type {string} */ name) => report.measures.some((/** @type {any} */ one) => one[name]);
  const columns = ["measure", ...(systems ? ["system"] : []), "mean", ...(some("interval") ? ["95% interval"] : []), "over", ...["skipped", "incomplete", "errors"].filter(some), "per query"];
  const rows = report.measures.map((/** @type {any} */ one) => row(one, columns));
  put(main,
    el("h1", null, "Report ", data(report.name)),
    verdict(),
    report.stopped && el("p", { class: "note warn" }, `△ Interrupted, this is a part: ${report.stopped}`),
    tiles(),
    files(),
    el("h2", null, report.files.length ? "Measures over all files" : "Measures"),
    table("Measures", columns.map((name) => el("th", { scope: "col", class: ["measure", "system", "per query", "95% interval"].includes(name) ? "" : "num" }, name)), rows, "measures"),
    ...(report.remarks ?? []).map((/** @type {string} */ remark) => el("p", { class: "note warn" }, "△ ", data(remark))),
    whys(),
    el("div", { class: "panels" }, gates(), judge(), agreement(), ...["ranks", "cutoffs", "tokens", "latency"].map(chart)),
    stages(),
    slices(),
  );
}

function verdict() {
  const good = report.verdict.gates.length ? "good" : "neutral";
  const kind = { 0: good, 1: "bad" }[/** @type {0 | 1} */ (report.verdict.exit_code)] ?? "warn";
  const glyph = { good: "✓", bad: "✗", warn: "△" }[kind] ?? "○";
  const reasons = report.verdict.reasons.filter((/** @type {string} */ one) => kind !== "neutral" && !report.verdict.gates.some((/** @type {any} */ gate) => one.includes(gate.gate)));
  return el("p", { class: `banner ${kind}` }, el("strong", null, `${glyph} ${report.verdict.word}`), el("span", null, `exit code ${report.verdict.exit_code}`), ...reasons.map((/** @type {string} */ one) => el("span", null, data(one))));
}

/** The report at a glance. */
function tiles() {
  const cases = new Set(queries.id).size;
  const made = (report.created ?? "").replace("T", " ").replace(/(:\d\d)(\.\d+)?([+-]00:00|Z)$/, "$1 UTC");
  const shown = [
    ["queries", cases.toLocaleString("en"), count === cases ? "" : `${count.toLocaleString("en")} samples`],
    report.cases && ["failed cases", report.cases.failed, `of ${report.cases.total.toLocaleString("en")}`],
    report.systems.length > 1 && ["systems", report.systems.length, ""],
    ["judge", report.judge.source ?? "none", report.judge.source ? "" : "gold labels alone"],
    ["made", made.slice(0, 10), made.slice(11)],
    ["germane", report.germane, ""],
  ].filter(Boolean);
  return el("dl", { class: "tiles" }, ...shown.map((/** @type {any} */ [name, value, more]) => el("div", null, el("dt", null, name), el("dd", null, data(String(value ?? "–")), more && el("small", null, data(String(more)))))));
}

/** @param {any} one @param {string[]} columns */
function row(one, columns) {
  const at = report.names.indexOf(one.measure);
  const system = report.systems.indexOf(one.system);
  const values = queries.values[at].filter((/** @type {any} */ _, /** @type {number} */ query) => queries.system[query] === system);
  const high = one.range[1] ?? Math.max(1, ...values.filter((/** @type {any} */ v) => v !== null));
  const gate = report.gates.find((/** @type {any} */ gate) => gate.measure === one.measure && gate.how === "mean");
  const pick = (/** @type {number} */ from, /** @type {number} */ to) => (location.hash = address("queries", { measure: one.measure, from: from.toFixed(4), to: to.toFixed(4), system: report.systems.length > 1 ? one.system : "" }));
  const fixed = one.corrected;
  /** @type {Record<string, () => any>} */
  const cells = {
    measure: () => el("th", { scope: "row" }, data(one.measure), el("div", { class: "quiet formula wide" }, one.formula), one.better === "lower" && el("div", { class: "quiet small" }, "lower is better")),
    system: () => el("td", null, data(one.system || "–")),
    mean: () => num(el("div", null, el("strong", { class: "mean" }, one.words), fixed && el("div", { class: "small", title: `${between(fixed.interval)} of queries like these${fixed.set_interval ? `; ${between(fixed.set_interval)} of these queries` : ""}` }, `corrected ${number(fixed.mean)}`)), "wraps"),
    "95% interval": () => el("td", { title: `${one.interval_method ?? ""}, of queries like these` }, interval(one.mean, one.interval, [one.range[0], high], { gate: gate?.limit }), el("div", { class: "small quiet" }, one.interval_words ?? "–", gate && ` · gate ${gate.op} ${gate.limit}`)),
    over: () => num(`${one.n}/${one.total}`),
    skipped: () => num(one.skipped || "–", "quiet"),
    incomplete: () => num(one.incomplete || "–", one.incomplete ? "warn" : "quiet"),
    errors: () => num(one.errors || "–", one.errors ? "bad" : "quiet"),
    "per query": () => el("td", null, histogram(one.measure, values, [one.range[0], high], gate?.limit ?? null, pick)),
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
  return el("section", { class: "panel" }, el("h2", null, "Gates"), el("ul", { class: "plain" }, ...report.verdict.gates.map((/** @type {any} */ gate) => {
    const outcome = /** @type {"passed" | "failed" | "undecided"} */ (gate.outcome);
    return el("li", null, el("span", { class: `chip ${kinds[outcome]}` }, `${glyphs[outcome]} ${gate.word}`), " ", el("code", null, data(gate.gate)), el("div", { class: "small quiet" }, data(gate.detail)));
  })));
}

function judge() {
  const { source, stand_in: standIn, spent } = report.judge;
  const bases = report.measures.map((/** @type {any} */ one) => one.basis);
  const judged = bases.filter((/** @type {any} */ basis) => basis.source === "judge");
  const calibrated = judged.filter((/** @type {any} */ basis) => basis.calibrated).length;
  const lists = ["models", "modes"].flatMap((name) => {
    const found = new Map();
    for (const basis of bases) for (const [key, times] of Object.entries(basis[name] ?? {})) found.set(key, Math.max(found.get(key) ?? 0, Number(times)));
    return found.size ? [el("dt", null, name), el("dd", null, data([...found].map(([key, times]) => `${key} (${times})`).join(", ")))] : [];
  });
  const known = Object.entries(report.settings);
  return el("section", { class: "panel" }, el("h2", null, "Judge and cost"),
    el("p", null, el("strong", null, source ? data(source) : "nobody was asked: gold labels alone")),
    source && judged.length > 0 && el("p", null, calibrated ? el("span", { class: "chip good" }, `✓ calibrated by people's labels: ${calibrated} of ${judged.length} measures`) : el("span", { class: "chip warn" }, "△ not calibrated by people's labels")),
    el("dl", { class: "facts" }, ...lists, ...(spent ? [el("dt", null, "spent"), el("dd", null, data(spent))] : []), ...(known.length ? [el("dt", null, "asked"), el("dd", null, data(known.map(([key, value]) => `${key} ${value}`).join(", ")))] : [])),
    standIn && el("p", { class: "warn small" }, "△ ", data(standIn)),
    ...(report.notes ?? []).map((/** @type {string} */ text) => el("p", { class: "quiet small" }, data(text))));
}

/** How far the judge agrees with people, by kind of question. */
function agreement() {
  const audit = report.audit;
  if (!audit?.kinds?.length && !audit?.warnings?.length) return null;
  const fact = (/** @type {string} */ name, /** @type {any} */ value, /** @type {string} */ title) => (value === null || value === undefined ? [] : [el("dt", { title }, name), el("dd", null, value)]);
  const kinds = (audit.kinds ?? []).map((/** @type {any} */ kind) => el("div", null,
    el("h3", null, `${kind.kind} (${kind.scale})`),
    el("p", { class: "quiet small" }, `${kind.n} labels in ${kind.queries} queries`),
    el("dl", { class: "facts" },
      ...fact("equal", kind.raw === null ? null : `${(100 * kind.raw).toFixed(0)}% (${(100 * kind.base_rate).toFixed(0)}% by always giving the commonest grade)`, "share of equal grades"),
      ...fact("kappa", kind.kappa?.toFixed(2), "Cohen's kappa: agreement beyond chance"),
      ...fact("quadratic", kind.kappa_quadratic?.toFixed(2), "Cohen's kappa, far disagreements weigh more"),
      ...fact("alpha", kind.alpha_ordinal?.toFixed(2), "Krippendorff's ordinal alpha"),
      ...fact("bias", kind.bias && kind.bias.mean !== null ? `${signedShort(kind.bias.mean)}${kind.bias.interval ? ` (${between(kind.bias.interval, 2)})` : ""}` : null, "the judge's mean grade minus the people's")),
    confusion(kind.confusion)));
  return el("section", { class: "panel" }, el("h2", null, "The judge beside people"),
    kinds.length ? null : el("p", { class: "quiet" }, "No labels yet: label a few contexts in the Label tab, or with germane label."),
    ...kinds,
    ...(audit.warnings ?? []).filter((/** @type {string} */ text) => text !== report.judge.stand_in).map((/** @type {string} */ text) => el("p", { class: "warn small" }, "△ ", data(text))));
}

/** @param {number} value */
function signedShort(value) {
  return `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;
}

/** People's grades by the judge's, shaded by how often.
 * @param {any} found */
function confusion(found) {
  if (!found?.grades?.length) return null;
  const cells = found.people_by_judge;
  const most = Math.max(1, ...cells.flat());
  const rows = cells.map((/** @type {number[]} */ line, /** @type {number} */ at) => [el("th", { scope: "row" }, `people ${found.grades[at]}`), ...line.map((times, other) => el("td", { class: `num heat ${at === other ? "same" : ""}`, style: { "--much": times / most } }, String(times)))]);
  return table("People's grades by the judge's", ["", ...found.grades.map((/** @type {number} */ grade) => el("th", { scope: "col", class: "num" }, `judge ${grade}`))], rows, "confusion");
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
  return el("section", null, el("h2", null, "Slices"), table("Means by tag", heads, rows), el("p", { class: "quiet small" }, "Means over the samples with this tag that could be measured. Small slices vary by chance."));
}
