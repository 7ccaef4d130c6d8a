import { signKey, strip } from "./charts.js";
import { lists } from "./compare.js";
import { detailsOf, nameOf, queries, queryOf, report, sourceOf, sources, whose } from "./data.js";
import { data, digits, el, measureName, num, numHead, number, put, table } from "./dom.js";
import { labelSwitch, passing, showing } from "./queries.js";
import { address, note } from "./state.js";

/** One query: its contexts with everybody's labels, claims and contexts, what is missing, the formulas.
 * @param {HTMLElement} main @param {URLSearchParams} settings */
export async function one(main, settings) {
  const at = queryOf(settings);
  if (at < 0) {
    put(main, el("h1", null, "Query"), el("p", null, data(settings.get("id") ?? ""), report.capped ? ` is not among the ${report.capped} queries on this page. germane explain shows any query.` : " is not in this report."), el("p", null, el("a", { href: "#queries" }, "All queries")));
    return;
  }
  const source = sourceOf(settings);
  const facts = await detailsOf(at);
  const place = passing.indexOf(at);
  const step = (by, name) => {
    const next = passing[place + by];
    return place >= 0 && next !== undefined ? el("a", { href: address("query", { ...nameOf(next), labels: settings.get("labels") }) }, name) : null;
  };
  put(main,
    el("p", { class: "steps" }, el("a", { href: "#queries" }, "All queries"), step(-1, "← previous"), step(1, "next →")),
    el("h1", null, data(queries.query[at] || queries.id[at])),
    el("p", { class: "quiet" }, data(queries.id[at]), data(whose(at)), ...(facts.tags ?? []).flatMap((tag) => [" ", el("a", { class: "chip", href: address("queries", { tag }) }, data(tag))])),
    el("p", null, strip(queries.strips[source][at], queries.missed[at]), " ", el("span", { class: "quiet small" }, showing(source))), signKey(),
    sources.length > 1 && el("div", { class: "filters" }, labelSwitch(source, (value) => { const more = { ...nameOf(at), labels: value }; note("query", more); one(main, new URLSearchParams(Object.entries(more).map(([key, text]) => [key, String(text)]))); })),
    facts.error && el("p", { class: "note bad" }, "✗ ", data(facts.error)),
    texts([...(facts.history ?? []), ...["reference", "criterion", "response"].map((name) => [name, facts[name]])]),
    facts.missing && el("section", { class: "note bad" }, el("h2", null, "Gold that did not come back"), el("ul", null, ...facts.missing.map((gold) => el("li", null, "◇ ", data(gold.id), ` (grade ${gold.grade})`)))),
    scores(facts.measures ?? []),
    ...(facts.matrices ?? []).map((found) => matrix(found, facts.calls ?? [])),
    ...(report.baseline ? [el("h2", null, "Compared with the baseline"), lists(at, source)] : []),
    searches(at, facts.calls ?? []),
    ...contexts(facts.calls ?? []),
  );
}

/** Texts of a query that there are, each with its name.
 * @param {[string, string | undefined][]} known */
export function texts(known) {
  const found = known.filter(([, text]) => text);
  return found.length > 0 && el("dl", { class: "texts" }, ...found.flatMap(([name, text]) => [el("dt", null, data(name)), el("dd", null, data(text))]));
}

/** @param {any[]} rows */
function scores(rows) {
  const made = rows.map((row) => [
    el("th", { scope: "row" }, measureName(row.measure)),
    num(row.value === null ? el("span", { class: "warn" }, row.status) : el("strong", null, number(row.value))),
    el("td", null,
      row.formula && el("div", { class: "formula quiet" }, row.formula),
      row.numbers && el("div", { class: "formula" }, `${row.numbers} = ${number(row.value)}`),
      row.reasoning && data(row.reasoning, "div"),
      row.why && data(row.why, "div"),
      row.bounds && el("div", null, `between ${number(row.bounds[0])} and ${number(row.bounds[1])}`),
      ...(row.hits ?? []).map((text) => el("div", null, el("span", { class: "good" }, "+ "), data(text))),
      ...(row.misses ?? []).map((text) => el("div", null, el("span", { class: "bad" }, "− "), data(text)))),
  ]);
  return el("section", null, el("h2", null, "Scores"), table("Scores of this query", ["measure", numHead("value"), "how"], made, "measures"));
}

/** Each claim beside the contexts that support it.
 * @param {any} found @param {any[]} calls */
function matrix(found, calls) {
  const named = found.rows.flatMap((row) => row.contexts).map(Number);
  const most = Math.max(1, ...named, calls.length === 1 ? calls[0].contexts.length : 0);
  const places = Array.from({ length: most }, (_, at) => at + 1);
  const missing = found.rows.filter((row) => !row.contexts.length).length;
  const heads = ["claim", ...places.map((at) => el("th", { scope: "col", class: "num", title: calls.length === 1 ? calls[0].contexts[at - 1]?.id ?? "" : "" }, at)), "why"];
  const rows = found.rows.map((row) => [
    el("th", { scope: "row", class: row.contexts.length ? "" : "missing" }, el("span", { class: row.contexts.length ? "good" : "bad" }, row.contexts.length ? "✓ " : "✗ missing "), data(row.text)),
    ...places.map((at) => {
      const on = row.contexts.includes(at);
      return el("td", { class: `cell ${on ? "on" : ""}`, "aria-label": on ? `supported by context ${at}` : `not by context ${at}` }, on ? "●" : "·");
    }),
    el("td", { class: "quiet" }, data(row.reason)),
  ]);
  const title = found.kind === "support" ? "Claims and the contexts that support them" : `${found.kind} and contexts`;
  return el("section", null, el("h2", null, title), el("p", { class: "quiet" }, `${found.rows.length - missing} of ${found.rows.length} are in the contexts.`), table(title, heads, rows, "matrix"));
}

/** The searches one after the other: what each asked, brought and added.
 * @param {number} at @param {any[]} calls */
function searches(at, calls) {
  const made = calls.filter((call) => !call.final);
  if (made.length < 2) return null;
  const known = queries.gold[at];
  const found = new Set();
  const asked = new Set();
  const rows = made.map((call, place) => {
    const complete = known > 0 && found.size === known;
    const relevant = call.contexts.filter((context) => context.labels.some((label) => label.source === "gold" && label.relevant)).map((context) => context.id);
    const added = [...new Set(relevant)].filter((id) => !found.has(id));
    added.forEach((id) => found.add(id));
    const query = call.query.toLowerCase().split(/\s+/).join(" ").trim();
    const remarks = [query && asked.has(query) && "asked before", complete && "all gold had come", !call.contexts.length && "nothing came back"].filter(Boolean);
    asked.add(query);
    return [
      el("th", { scope: "row" }, String(place + 1)),
      el("td", null, data(call.query)),
      num(String(call.contexts.length)),
      ...(known ? [el("td", null, added.length ? el("span", { class: "good" }, "+ ", data(added.join(", "))) : el("span", { class: "quiet" }, "–")), num(number(found.size / known))] : []),
      el("td", { class: remarks.length ? "warn" : "" }, remarks.join(", ")),
    ];
  });
  const heads = ["call", "searched for", numHead("passages"), ...(known ? ["new gold", numHead("recall so far")] : []), ""];
  return el("section", null, el("h2", null, "Search by search"), table("The searches of this query", heads, rows));
}

/** @param {any[]} calls */
function contexts(calls) {
  if (!calls.length) return [el("p", { class: "warn" }, "△ no context came back")];
  return calls.flatMap((call, number) => [
    el("h2", null, call.final ? "Handed back in the end" : calls.length > 1 ? `Call ${number + 1}: ` : "Contexts", calls.length > 1 && !call.final && data(call.query)),
    call.contexts.length ? el("ol", { class: "cards" }, ...call.contexts.map((context) => card(context))) : el("p", { class: "warn" }, "△ nothing came back"),
  ]);
}

function card(context) {
  const [mark, ...others] = new Set(context.labels.map((label) => label.relevant)); // labels that differ have no common colour
  const said = others.length ? "open" : mark === true ? "yes" : mark === false ? "no" : "open";
  return el("li", { class: `card ${said}` },
    el("div", { class: "head" }, el("strong", { class: "rank", "aria-label": `rank ${context.rank}` }, context.rank), context.id && el("strong", null, data(context.id)), context.score !== null && el("span", { class: "quiet small" }, `score ${digits(context.score)}`), ...verdicts(context.labels)),
    context.passage !== undefined && data(context.passage, "p"),
    ...context.labels.filter((label) => label.reason).map((label) => el("p", { class: "reason quiet" }, el("strong", null, `${label.source}: `), data(label.reason))));
}

/** Everybody's label as glyph, word and colour.
 * @param {any[]} labels */
export function verdicts(labels) {
  if (!labels.length) return [el("span", { class: "chip quiet" }, "· unjudged")];
  return labels.map((label) => {
    const [glyph, word, kind] = label.relevant === true ? ["■", "relevant", "good"] : label.relevant === false ? ["□", "not relevant", "bad"] : ["?", "no verdict", "warn"];
    const grade = label.grade === null || typeof label.grade === "boolean" ? "" : ` (${label.grade})`;
    return el("span", { class: `chip ${kind}` }, `${glyph} ${label.source}: ${word}${grade}`, label.who && " by ", label.who && data(label.who));
  });
}
