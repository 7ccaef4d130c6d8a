import { charts, histogram, interval, strip } from "./charts.js";
import { KINDS, outcomes } from "./compare.js";
import { systemName, queries, report, severalSystems, sourceOf, sources } from "./data.js";
import { diagnosis } from "./diagnosis.js";
import { between, data, el, extent, inQueries, measureName, num, numHead, number, put, signed, table } from "./dom.js";
import { labelSwitch, worstFirst } from "./queries.js";
import { stages } from "./stages.js";
import { address, note } from "./state.js";

const PRINTED_WORST = 50;

/** The answer first, then what it rests on.
 * @param {HTMLElement} main @param {URLSearchParams} settings */
export function overview(main, settings) {
  const some = (name) => report.measures.some((one) => one[name]);
  const columns = ["measure", ...(severalSystems ? ["system"] : []), "mean", ...(report.comparison ? ["change"] : []), ...(some("interval") ? ["95% interval"] : []), "labels", "measured", ...["skipped", "incomplete", "errors"].filter(some), "how the queries spread"];
  const left = ["measure", "system", "labels", "how the queries spread", "95% interval"];
  const rows = report.measures.map((one) => row(one, columns));
  put(main,
    el("h1", { class: "report" }, data(report.name)),
    el("p", { class: "quiet small facts-line" }, ...facts().flatMap((fact, at) => [at > 0 && " · ", data(fact)])),
    outcomes(),
    verdict(),
    report.stopped && el("p", { class: "note warn" }, `△ Interrupted, this is a part: ${report.stopped}`),
    el("div", { class: "panels lead" }, answer(), weakest(), steps()),
    el("h2", null, "Measures"),
    table("Measures", columns.map((name) => el("th", { scope: "col", class: left.includes(name) ? "" : "num" }, name)), rows, "measures"),
    basis(),
    whys(),
    slices(),
    stages(),
    diagnosis(),
    pictures(sourceOf(settings)),
  );
  window.onbeforeprint = () => main.append(paper(sourceOf(settings)));
  window.onafterprint = () => main.querySelector(".paper")?.remove();
}

/** What the report is of, in a line. */
function facts() {
  const made = (report.created ?? "").replace("T", " ").replace(/(:\d\d)(\.\d+)?([+-]00:00|Z)$/, "$1 UTC");
  const { source, spent } = report.judge;
  return [
    inQueries(report.total),
    severalSystems && `${report.systems.length} systems`,
    report.cases && `${report.cases.failed.toLocaleString("en")} of ${report.cases.total.toLocaleString("en")} cases failed`,
    !source ? "no judge was asked" : spent ? `judged by ${source} (${spent})` : `scored by ${source}`,
    made,
    report.germane && `germane ${report.germane}`,
    report.capped && `this page holds ${report.capped} queries, drawn at random`,
  ].filter(Boolean);
}

/** What the gates say: neutral where there are none. */
function verdict() {
  const { gates, exit_code: code, reasons } = report.verdict;
  const good = gates.length ? "good" : "neutral";
  const kind = { 0: good, 1: "bad" }[code] ?? "warn";
  const glyph = { good: "✓", bad: "✗", warn: "△" }[kind] ?? "○";
  const others = reasons.filter((one) => !["neutral", "good"].includes(kind) && !gates.some((gate) => one.includes(gate.sentence ?? gate.gate)));
  const glyphs = { passed: "✓", failed: "✗", undecided: "△" };
  const kinds = { passed: "good", failed: "bad", undecided: "warn" };
  return el("section", { class: `banner ${kind}`, "aria-label": "Verdict" },
    el("strong", null, `${glyph} ${report.verdict.word}`),
    kind === "neutral" ? el("span", null, "No gate was declared, so nothing passed or failed.") : el("span", { class: "quiet small" }, `exit code ${code}`),
    ...others.map((one) => el("span", null, data(one))),
    gates.length > 0 && el("ul", { class: "plain" }, ...gates.map((gate) => {
      const outcome = gate.outcome;
      return el("li", null, el("span", { class: `chip ${kinds[outcome]}` }, `${glyphs[outcome]} ${gate.word}`), " ", ...(gate.sentence ? [data(gate.sentence)] : [el("code", null, data(gate.gate)), " ", el("span", { class: "small" }, data(gate.detail))]));
    })));
}

function answer() {
  const found = report.answer;
  if (!found) return el("section", { class: "panel" }, el("h2", null, "The answer"), el("p", null, "Nothing could be measured: see why scores are missing."));
  return el("section", { class: "panel" }, el("h2", null, measureName(found.name)), el("p", { class: "big" }, found.mean), ...found.text.map((text) => el("p", { class: "small" }, data(text))));
}

function weakest() {
  const found = report.weakest;
  if (!found) return null;
  const tagged = queries.tags.some((tags) => tags.includes(found.name));
  const shown = data(found.name);
  return el("section", { class: "panel" }, el("h2", null, "Worst slice: ", tagged ? el("a", { href: address("queries", { tag: found.name, system: systemName(found.system) }) }, shown) : shown), el("p", { class: "big" }, found.mean), ...found.text.map((text) => el("p", { class: "small" }, data(text))));
}

function steps() {
  const found = report.next.filter((step) => step.link !== "label" || report.label.order.length);
  return el("section", { class: "panel" }, el("h2", null, "What to do next"), el("ol", { class: "next" }, ...found.map((step) => el("li", null, step.link ? el("a", { href: `#${step.link}` }, data(step.text)) : data(step.text)))), ...commands(found), !report.slices.length && el("p", { class: "quiet small" }, "With tags on the samples this page also says which slice does worst."));
}

/** The commands of the next steps, by their numbers.
 * @param {any[]} steps */
function commands(steps) {
  const found = steps.map((step, at) => [at + 1, step.command]).filter(([, command]) => command);
  return found.length ? [el("p", { class: "quiet small" }, "As commands:"), el("ol", { class: "next commands small" }, ...found.map(([at, command]) => el("li", { value: at }, el("code", null, data(command)))))] : [];
}

/** @param {any} one @param {string[]} columns */
function row(one, columns) {
  const gate = report.gates.find((gate) => gate.measure === one.measure);
  const pick = (from, to) => (location.hash = address("queries", { measure: one.measure, from, to, system: systemName(one.system) }));
  const fixed = one.corrected;
  const span = [one.edges[0], one.edges.at(-1)];
  const cells = {
    measure: () => el("th", { scope: "row" }, measureName(one.measure), el("div", { class: "quiet small wide", title: one.formula }, one.meaning), one.better === "lower" && el("div", { class: "quiet small" }, "lower is better")),
    system: () => el("td", null, data(systemName(one.system))),
    mean: () => num(el("div", null, el("strong", { class: "mean" }, fixed ? number(fixed.mean) : one.words), fixed && el("div", { class: "small", title: `The judge says ${one.words}, interval ${extent(one.interval)}` }, `corrected; judge ${one.words}`)), "wraps"),
    change: () => change(one),
    "95% interval": () => el("td", { title: `${fixed ? `${fixed.method}; ${fixed.set_interval ? `${extent(fixed.set_interval)} for these queries; ` : ""}` : `${one.interval_method ?? ""}, `}for queries like these` }, interval(fixed ? fixed.mean : one.mean, fixed ? fixed.interval : one.interval, span, { gate: gate?.limit }), el("div", { class: "small quiet" }, fixed ? extent(fixed.interval) : extent(one.interval), gate && ` · gate ${gate.op} ${gate.limit}`)),
    labels: () => el("td", null, { gold: "gold", judge: "judge", human: "people", best: "people, else judge" }[one.basis.source] ?? one.basis.source, one.basis.source === "judge" && one.basis.calibrated && el("div", { class: "small good" }, "✓ calibrated")),
    measured: () => num(el("div", null, `${one.n.toLocaleString("en")}/${one.total.toLocaleString("en")}`, one.trials && el("div", { class: "small quiet" }, `${[one.trials].flat().join(" to ")} trials each`), one.sampled && el("div", { class: "small quiet" }, `${(100 * one.sampled.n / one.sampled.of).toPrecision(3)}% of all`))),
    skipped: () => num(one.skipped || "–", "quiet"),
    incomplete: () => num(one.incomplete || "–", one.incomplete ? "warn" : "quiet"),
    errors: () => num(one.errors || "–", one.errors ? "bad" : "quiet"),
    "how the queries spread": () => el("td", null, histogram(one.measure, one.bars, one.edges, gate?.limit ?? null, pick)),
  };
  return columns.map((name) => cells[name]());
}

/** The difference of a mean to the baseline, and its outcome.
 * @param {any} one */
function change(one) {
  const name = severalSystems ? `:${one.system}` : "";
  const found = report.comparison.comparisons.find((row) => row.measure === one.measure && row.b.endsWith(name));
  const kind = KINDS[found?.outcome] ?? "";
  return found ? num(el("div", { class: kind }, signed((found.corrected ?? found).difference), found.corrected && el("div", { class: "small" }, "corrected"), found.outcome && el("div", { class: "small quiet" }, found.outcome))) : num("–", "quiet");
}

/** What must be said of the means, in one list. */
function basis() {
  const remarks = report.remarks ?? [];
  return remarks.length ? el("section", { class: "note warn" }, el("h2", null, "△ What these means rest on"), el("ul", null, ...remarks.map((remark) => el("li", null, data(remark))))) : null;
}

function whys() {
  const lines = report.measures.flatMap((one) => one.why.filter(() => one.n < one.total || one.trials_failed).map(([why, times]) => [one.measure, times, why]));
  if (!lines.length) return null;
  return el("details", null, el("summary", null, "Why scores are missing"), el("ul", null, ...lines.map(([name, times, why]) => el("li", null, data(name), `: ${times} × `, data(why)))));
}

/** The charts, and who judged; charts of labels show one source, and say which. A chart that would be empty is a line.
 * @param {string} source */
function pictures(source) {
  const below = report.capped ? `Over ${report.random.toLocaleString("en")} random queries of ${report.total.toLocaleString("en")}.` : "";
  const ranks = charts(`ranks-${source}`, below);
  const labelled = queries.strips[source].some((text) => /[A-Da-d]/.test(text));
  const change = (value) => {
    note("overview", { labels: value });
    const next = pictures(value);
    made.replaceWith(next);
    next.querySelector("select")?.focus({ preventScroll: true });
  };
  const none = labelled && !ranks.length && el("p", null, `No passage at any rank is relevant, by ${report.sources[source]}.`);
  const made = el("section", { class: "pictures" },
    sources.length > 1 && charts(`ranks-${sources[0]}`).concat(charts(`ranks-${sources[1]}`)).length > 0 && el("div", { class: "filters" }, labelSwitch(source, change)),
    none,
    el("div", { class: "panels" }, ...ranks, judge(), agreement()));
  return made;
}

function judge() {
  const { source, stand_in: standIn, spent } = report.judge;
  if (!source && !(report.notes ?? []).length) return null;
  const bases = report.measures.map((one) => one.basis);
  const judged = bases.filter((basis) => basis.source === "judge");
  const calibrated = judged.filter((basis) => basis.calibrated).length;
  const lists = ["models", "modes"].flatMap((name) => {
    const found = new Map();
    for (const basis of bases) for (const [key, times] of Object.entries(basis[name] ?? {})) found.set(key, Math.max(found.get(key) ?? 0, Number(times)));
    const words = { models: "answered by", modes: "output mode" }[name];
    return found.size ? [el("dt", null, words), el("dd", null, data([...found].map(([key, times]) => `${key} (${times})`).join(", ")))] : [];
  });
  return el("section", { class: "panel" }, el("h2", null, source ? "Judge and cost" : "Notes"),
    source && el("p", null, el("strong", null, data(source))),
    source && judged.length > 0 && el("p", null, calibrated ? el("span", { class: "chip good" }, `✓ calibrated by people's labels: ${calibrated} of ${judged.length} measures`) : el("span", { class: "chip warn" }, "△ not calibrated by people's labels")),
    source && judged.length > 0 && el("p", { class: "small" }, asked()),
    el("dl", { class: "facts" }, ...lists, ...(spent ? [el("dt", null, "spent"), el("dd", null, data(spent))] : [])),
    standIn && el("p", { class: "warn small" }, "△ ", data(standIn)),
    ...(report.notes ?? []).map((text) => el("p", { class: "quiet small" }, data(text))));
}

/** How relevance was asked about, as a sentence. */
function asked() {
  const { against, scale, rubric } = report.settings;
  const held = { auto: "the query, and to the reference where there is one", query: "the query alone", reference: "the reference" }[against] ?? against;
  const graded = { graded: "from 0 (unrelated) to 3 (answers it)", binary: "relevant or not" }[scale] ?? scale;
  return held ? `The judge compared each passage to ${held}, and graded it ${graded}${rubric ? `, by the rubric ${rubric}` : ""}.` : "";
}

/** How far the judge agrees with people, by kind of question. */
function agreement() {
  const audit = report.audit;
  const warnings = (audit?.warnings ?? []).filter((text) => text !== report.judge.stand_in);
  if (!audit?.kinds?.length && !warnings.length) return null;
  const percent = (value) => `${(100 * value).toFixed(0)}%`;
  const kinds = (audit.kinds ?? []).map((kind) => el("div", null,
    el("h3", null, kind.kind),
    el("ul", { class: "plain" },
      kind.raw !== null && el("li", null, `The judge gives the same ${kind.scale === "binary" ? "answer" : "grade"} as people for ${percent(kind.raw)} of ${kind.n} labels in ${inQueries(kind.queries)}; always giving the commonest one would reach ${percent(kind.base_rate)}.`),
      kind.kappa !== null && kind.kappa !== undefined && el("li", null, `Beyond chance that is ${kind.kappa.toFixed(2)} of what is possible (Cohen's kappa; 0 is chance, 1 is always${kind.kappa_quadratic === null || kind.kappa_quadratic === undefined ? "" : `; ${kind.kappa_quadratic.toFixed(2)} where near misses count less`}).`),
      kind.bias && kind.bias.mean !== null && el("li", null, `Its grades are on average ${Math.abs(kind.bias.mean).toFixed(2)} ${kind.bias.mean >= 0 ? "above" : "below"} people's${kind.bias.interval ? ` (95% interval ${between(kind.bias.interval, 2)})` : ""}.`)),
    confusion(kind.confusion)));
  return el("section", { class: "panel" }, el("h2", null, "Can the judge be trusted?"),
    kinds.length ? null : el("p", null, report.label.order.length ? "Nobody has labelled passages yet, so nobody knows. Label a few in the Label part, or with germane label." : "There is no passage to label."),
    ...kinds,
    ...warnings.filter(() => kinds.length).map((text) => el("p", { class: "warn small" }, "△ ", data(text))));
}

/** People's grades by the judge's, shaded by how often. */
function confusion(found) {
  if (!found?.grades?.length) return null;
  const cells = found.people_by_judge;
  const most = Math.max(1, ...cells.flat());
  const rows = cells.map((line, at) => [el("th", { scope: "row" }, `people ${found.grades[at]}`), ...line.map((times, other) => el("td", { class: `num heat ${at === other ? "same" : ""}`, style: { "--much": times / most } }, String(times)))]);
  return table("People's grades by the judge's", ["", ...found.grades.map((grade) => numHead(`judge ${grade}`))], rows, "confusion");
}

/** The mean of each measure over the samples with each tag. */
function slices() {
  if (!report.slices.length) return null;
  const found = new Map();
  for (const line of report.slices) {
    const key = JSON.stringify([line.name, line.system]);
    if (!found.has(key)) found.set(key, new Map());
    found.get(key)?.set(line.measure, line);
  }
  const [first] = report.names;
  const better = report.lower.includes(first) ? -1 : 1;
  const worth = (lines) => better * (lines.get(first)?.mean ?? Infinity);
  const rows = [...found].sort(([, a], [, b]) => worth(a) - worth(b)).map(([key, lines]) => {
    const [tag, system] = JSON.parse(key);
    const tagged = queries.tags.some((tags) => tags.includes(tag));
    return [
      el("th", { scope: "row" }, tagged ? el("a", { href: address("queries", { tag, system: systemName(system) }) }, data(tag)) : data(tag)),
      ...(severalSystems ? [data(systemName(system))] : []),
      num(Math.max(...[...lines.values()].map((line) => line.n)).toLocaleString("en")),
      ...report.names.map((measure) => num(number(lines.get(measure)?.mean))),
    ];
  });
  const heads = ["slice", ...(severalSystems ? ["system"] : []), "queries", ...report.names].map((name, at) => el("th", { scope: "col", class: at > Number(severalSystems) ? "num" : "" }, measureName(name)));
  return el("section", null, el("h2", null, "Slices, the worst first"), table("Means by slice", heads, rows), el("p", { class: "quiet small" }, "Means over what could be measured in the slice. Small slices vary by chance."));
}

/** The worst queries as a table, for paper.
 * @param {string} source */
function paper(source) {
  const shown = worstFirst().slice(0, PRINTED_WORST);
  const names = report.names.slice(0, 3);
  const rows = shown.map((query) => [
    el("th", { scope: "row" }, data(queries.id[query])),
    data(queries.query[query].slice(0, 120)),
    strip(queries.strips[source][query], queries.missed[query]),
    ...names.map((_, at) => num(number(queries.values[at][query]))),
  ]);
  const heads = ["id", "query", `ranks, by ${report.sources[source]}`, ...names].map((name, at) => el("th", { scope: "col", class: at > 2 ? "num" : "" }, name));
  return el("section", { class: "paper" }, el("h2", null, `The worst ${shown.length} of ${report.total.toLocaleString("en")} queries`), table("The worst queries", heads, rows));
}
