import { signKey, strip } from "./charts.js";
import { count, difference, queries, report, statusOf } from "./data.js";
import { announce, data, el, number, put, signed } from "./dom.js";
import { address, note } from "./state.js";

const ROW = 36;
const PRINTED = 2000;
const FILTERS = ["text", "tag", "system", "first", "only", "measure", "from", "to", "sort"];
/** @type {string[]} */
let lower = [];
/** @type {number[]} the queries that pass, in their order */
export let passing = [...Array(count).keys()];

/** Lower-cased id and query of each, for the text filter. */
function texts() {
  if (!lower.length) lower = queries.id.map((/** @type {string} */ id, /** @type {number} */ at) => `${id}\n${queries.query[at]}`.toLowerCase());
  return lower;
}

/** The queries that pass the filters, sorted; what is not known comes last, whichever way.
 * @param {URLSearchParams} settings */
export function select(settings) {
  const text = (settings.get("text") ?? "").toLowerCase();
  const tag = settings.get("tag") ?? "";
  const system = settings.get("system") ? report.systems.indexOf(settings.get("system")) : -1;
  const first = Number(settings.get("first") ?? 0);
  const only = settings.get("only") ?? "";
  const measure = report.names.indexOf(settings.get("measure") || report.names[0]);
  const from = settings.get("from") ? Number(settings.get("from")) : null;
  const to = settings.get("to") ? Number(settings.get("to")) : null;
  const words = text ? texts() : [];
  const gates = report.gates.map((/** @type {any} */ gate) => ({ ...gate, at: report.names.indexOf(gate.measure) })).filter((/** @type {any} */ gate) => gate.at >= 0);
  const last = to !== null && to >= 0.9999;
  const kept = [];
  for (let query = 0; query < count; query++) {
    if (text && !words[query].includes(text)) continue;
    if (tag && !queries.tags[query].includes(tag)) continue;
    if (system >= 0 && queries.system[query] !== system) continue;
    if (first && !(queries.first[query] > first || queries.first[query] === 0)) continue;
    if (only === "none" && queries.first[query] !== 0) continue;
    if (only === "missed" && !queries.missed[query]) continue;
    if (only === "errors" && !queries.bad[query]) continue;
    if (only === "gate" && !gates.some((/** @type {any} */ gate) => fails(gate, queries.values[gate.at][query]))) continue;
    if (from !== null || to !== null) {
      const value = queries.values[measure][query];
      if (value === null || (from !== null && value < from) || (to !== null && (last ? value > to : value >= to))) continue;
    }
    kept.push(query);
  }
  const [name, way] = (settings.get("sort") ?? "").split("~");
  const key = keyOf(name);
  if (key) {
    const sign = way === "down" ? -1 : 1;
    const known = kept.filter((query) => key(query) !== null);
    const unknown = kept.filter((query) => key(query) === null);
    if (typeof key(known[0]) === "number") {
      const keys = new Float64Array(count);
      for (const query of known) keys[query] = sign * key(query);
      known.sort((a, b) => keys[a] - keys[b] || a - b);
    } else known.sort((a, b) => sign * order(key(a), key(b)) || a - b);
    return [...known, ...unknown];
  }
  return kept;
}

/** @param {string} a @param {string} b */
function order(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @param {any} gate @param {number | null} value */
function fails(gate, value) {
  if (value === null) return false;
  return gate.op.startsWith(">") ? value < gate.limit : gate.op.startsWith("<") ? value > gate.limit : false;
}

/** @param {string} name @returns {((query: number) => any) | null} */
function keyOf(name) {
  if (name === "id") return (query) => queries.id[query];
  if (name === "first") return (query) => queries.first[query] || null;
  if (name?.startsWith("difference ")) {
    const at = report.names.indexOf(name.slice(11));
    return at < 0 ? null : (query) => difference(at, query);
  }
  const at = report.names.indexOf(name);
  return at < 0 ? null : (query) => queries.values[at][query];
}

/** The table of queries.
 * @param {HTMLElement} main @param {URLSearchParams} settings */
export function list(main, settings) {
  /** @type {Record<string, any>} */
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, settings.get(name) ?? ""]));
  const info = el("p", { class: "quiet", id: "shown" });
  const change = (/** @type {Record<string, any>} */ changes) => {
    Object.assign(chosen, changes);
    note("queries", chosen);
    update();
  };
  const body = el("tbody");
  const scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Queries", onscroll: () => window.requestAnimationFrame(() => draw()) });
  window.onbeforeprint = () => draw(true);
  window.onafterprint = () => draw();
  const several = report.systems.length > 1;
  const compared = report.baseline ? report.baseline.measures[0] : null;
  const columns = [["id", "id"], ["", "query"], ["first", "ranks"], ...(several ? [["", "system"]] : []), ...report.names.map((/** @type {string} */ name) => [name, name]), ...(compared ? [[`difference ${compared}`, `Δ ${compared}`]] : [])];
  const heads = columns.map(([key, name], at) => {
    const far = at === 1 || (at > 2 && at !== (several ? 4 : 3));
    const sort = () => change({ sort: chosen.sort === key ? `${key}~down` : chosen.sort === `${key}~down` ? "" : key });
    return el("th", { scope: "col", class: `${at > 2 ? "num" : ""} ${far ? "wide" : ""}`, "data-key": key || null }, key ? el("button", { type: "button", onclick: sort }, name) : name);
  });
  const longest = Math.min(queries.strip.reduce((/** @type {number} */ most, /** @type {string} */ text) => Math.max(most, text.length), 4), 30);
  const widths = columns.map(([, name], at) => (at === 0 ? 11 : at === 1 ? 20 : at === 2 ? 1.3 * longest + 4.5 : Math.max(6.5, 0.62 * name.length + 1.5)));
  const made = el("table", { "aria-label": "Queries" }, el("colgroup", null, ...heads.map((head, at) => el("col", { class: head.classList.contains("wide") || at === 1 ? "wide" : "", style: { width: `${widths[at]}rem` } }))), el("thead", null, el("tr", null, ...heads)), body);
  scroller.append(made);

  const ranges = new Map(report.measures.map((/** @type {any} */ one) => [one.measure, one.range]));
  const shaded = report.names.map((/** @type {string} */ name) => ranges.get(name)?.[0] === 0 && ranges.get(name)?.[1] === 1);

  function draw(whole = false) {
    const from = whole ? 0 : Math.max(Math.floor(scroller.scrollTop / ROW) - 6, 0);
    const room = Math.min(Math.ceil(scroller.clientHeight / ROW) + 12, 40);
    const rows = passing.slice(from, from + (whole ? PRINTED : room));
    const gap = (/** @type {number} */ height) => el("tr", { class: "gap", "aria-hidden": "true" }, el("td", { colspan: columns.length, style: { height: `${height}px` } }));
    const left = passing.length - from - rows.length;
    const last = whole && left ? el("tr", null, el("td", { colspan: columns.length }, `and ${left} more`)) : gap(whole ? 0 : left * ROW);
    body.replaceChildren(gap(from * ROW), ...rows.map((query, at) => line(query, from + at)), last);
  }

  /** @param {number} query @param {number} at */
  function line(query, at) {
    const values = report.names.map((/** @type {string} */ name, /** @type {number} */ measure) => {
      const value = queries.values[measure][query];
      const shade = value === null || !shaded[measure] ? null : { "--much": Math.min(Math.max(value, 0), 1) };
      return el("td", { class: `num ${measure ? "wide" : ""} ${shade ? "meter" : ""}`, title: name, style: shade }, value === null ? el("span", { class: "warn" }, statusOf(measure, query)) : number(value));
    });
    const moved = compared ? difference(report.names.indexOf(compared), query) : null;
    return el("tr", { "aria-rowindex": at + 2 },
      el("td", null, el("a", { href: address("query", { at: query }) }, data(queries.id[query]))),
      el("td", { class: "wide" }, data(queries.query[query].slice(0, 200))),
      el("td", null, strip(queries.strip[query], queries.missed[query])),
      several && el("td", { class: "num wide" }, data(report.systems[queries.system[query]])),
      ...values,
      compared && el("td", { class: `num wide ${moved === null ? "" : moved > 0 ? "good" : moved < 0 ? "bad" : ""}` }, signed(moved)));
  }

  function update() {
    passing = select(new URLSearchParams(chosen));
    info.textContent = `${passing.length} of ${count}${chosen.from !== "" ? ` · ${chosen.measure} from ${chosen.from} to ${chosen.to}` : ""}`;
    announce(`${passing.length} queries`);
    made.setAttribute("aria-rowcount", String(passing.length + 1));
    for (const head of heads) {
      const key = head.dataset.key;
      head.setAttribute("aria-sort", !key ? "none" : chosen.sort === key ? "ascending" : chosen.sort === `${key}~down` ? "descending" : "none");
      if (!key) head.removeAttribute("aria-sort");
    }
    scroller.scrollTop = 0;
    draw();
  }

  const tags = [...new Set(queries.tags.flat())].sort();
  put(main, 
    el("div", { class: "titled" }, el("h1", null, "Queries"), info),
    el("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      field("Text", el("input", { type: "search", value: chosen.text, oninput: (/** @type {any} */ event) => change({ text: event.target.value }) })),
      field("Show", choice([["", "all"], ["gate", "below a gate"], ["none", "none relevant"], ["missed", "missed gold"], ["errors", "errors"]], chosen.only, (value) => change({ only: value }))),
      field("First relevant after rank", el("input", { type: "number", min: 0, max: 1000, value: chosen.first, oninput: (/** @type {any} */ event) => change({ first: event.target.value }) })),
      tags.length > 0 && field("Tag", choice([["", "any"], ...tags.map((tag) => /** @type {[string, string]} */ ([String(tag), String(tag)]))], chosen.tag, (value) => change({ tag: value }))),
      several && field("System", choice([["", "all"], ...report.systems.map((/** @type {string} */ name) => [name, name || "–"])], chosen.system, (value) => change({ system: value }))),
      el("button", { type: "button", onclick: () => { location.hash = "queries"; list(main, new URLSearchParams()); } }, "Clear")),
    signKey(),
    scroller,
  );
  update();
}

/** @param {string} name @param {HTMLElement} control */
function field(name, control) {
  return el("label", null, name, control);
}

/** @param {[string, string][]} options @param {string} now @param {(value: string) => void} pick */
export function choice(options, now, pick) {
  return el("select", { onchange: (/** @type {any} */ event) => pick(event.target.value) }, ...options.map(([value, name]) => el("option", { value, selected: value === now }, name)));
}
