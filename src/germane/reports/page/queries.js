import { SIGNS_SHOWN, signKey, strip } from "./charts.js";
import { count, difference, firstRelevant, isShare, systemName, nameOf, queries, report, severalSystems, severalTrials, sourceOf, sources, statusOf } from "./data.js";
import { announce, data, el, inQueries, measureName, num, number, put, signed } from "./dom.js";
import { address, note } from "./state.js";

const ROW = 36;
const PRINTED = 2000;
const MEASURES_SHOWN = 3;
const FILTERS = ["text", "tag", "system", "first", "only", "measure", "from", "to", "sort", "labels", "columns"];
/** The first measure from its worst value on. */
const WORST = report.names.length ? `${report.names[0]}${report.lower.includes(report.names[0]) ? "~down" : ""}` : "id";
let lower = [];
/** The queries that pass, in their order. */
export let passing = [...Array(count).keys()];

/** Lower-cased id and query of each, for the text filter. */
function searched() {
  if (!lower.length) lower = queries.id.map((id, at) => `${id}\n${queries.query[at]}`.toLowerCase());
  return lower;
}

/** The queries that pass the filters, sorted; what is not known comes last, whichever way.
 * @param {URLSearchParams} settings */
export function select(settings) {
  const text = (settings.get("text") ?? "").toLowerCase();
  const tag = settings.get("tag") ?? "";
  const system = settings.get("system") ? report.systems.map(systemName).indexOf(settings.get("system")) : -1;
  const first = Number(settings.get("first") ?? 0);
  const ranks = firstRelevant(sourceOf(settings));
  const only = settings.get("only") ?? "";
  const measure = report.names.indexOf(settings.get("measure") || report.names[0]);
  const from = settings.get("from") ? Number(settings.get("from")) : null;
  const to = settings.get("to") ? Number(settings.get("to")) : null;
  const words = text ? searched() : [];
  const kept = [];
  for (let query = 0; query < count; query++) {
    if (text && !words[query].includes(text)) continue;
    if (tag && !queries.tags[query].includes(tag)) continue;
    if (system >= 0 && queries.system[query] !== system) continue;
    if (first && !(ranks[query] > first || ranks[query] === 0)) continue;
    if (only === "none" && ranks[query] !== 0) continue;
    if (only === "missed" && !queries.missed[query]) continue;
    if (only === "errors" && !queries.status.some((of) => "ie".includes(of[query]))) continue;
    if (only === "gate" && !queries.below[query]) continue;
    if (from !== null || to !== null) {
      const value = queries.values[measure][query];
      if (value === null || (from !== null && value < from) || (to !== null && value >= to)) continue;
    }
    kept.push(query);
  }
  const [name, way] = (settings.get("sort") || WORST).split("~");
  const key = keyOf(name, ranks);
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

/** All queries of the page, the worst by the first measure first. */
export function worstFirst() {
  return select(new URLSearchParams());
}

/** @param {string} name @param {number[]} ranks @returns {((query: number) => any) | null} */
function keyOf(name, ranks) {
  if (name === "id") return (query) => queries.id[query];
  if (name === "first") return (query) => ranks[query] || null;
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
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, settings.get(name) ?? ""]));
  const info = el("p", { class: "quiet", id: "shown" });
  const change = (changes) => {
    Object.assign(chosen, changes);
    note("queries", chosen);
    update();
  };
  const above = el("tr");
  const below = el("tr");
  const body = el("tbody");
  /** The rows that are shown, by their place in `passing`. */
  const drawn = new Map();
  const scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Queries", onscroll: () => window.requestAnimationFrame(() => draw()) });
  window.onbeforeprint = () => draw(true);
  window.onafterprint = () => draw();
  const compared = report.baseline ? report.baseline.measures[0] : null;
  const longest = Math.min(queries.strips[sources[0]].reduce((most, text) => Math.max(most, text.length), 4), SIGNS_SHOWN);
  const narrow = window.matchMedia("(max-width: 44rem)").matches;
  const measures = report.names.map((name, at) => ({ key: name, name, at, num: true, width: Math.max(7, 0.62 * name.length + 3.4) }));
  /** The first is always shown. */
  const every = [
    { key: "id", name: "id", width: Math.min(Math.max(...queries.id.slice(0, 200).map((id) => id.length), 4), narrow ? 11 : 18) * 0.58 + 2 },
    { key: "", name: "query", width: narrow ? 9 : 20 },
    { key: "first", name: "ranks", width: 1.32 * longest + 4 },
    ...(severalSystems ? [{ key: "", name: "system", width: 8 }] : []),
    ...(severalTrials ? [{ key: "", name: "trial", num: true, width: 4 }] : []),
    ...measures.slice(0, 1),
    ...(compared ? [{ key: `difference ${compared}`, name: `Δ ${compared}`, num: true, width: Math.max(7, 0.62 * compared.length + 4.4) }] : []),
    ...measures.slice(1),
    ...(queries.tags.some((tags) => tags.length) ? [{ key: "", name: "tags", width: 12 }] : []),
  ];
  const most = narrow ? 1 : MEASURES_SHOWN;
  const usual = every.filter((column) => !["tags", ...(narrow ? ["ranks", `Δ ${compared}`] : [])].includes(column.name) && !(column.at >= most)).map((column) => column.name);
  const shownNames = () => (chosen.columns ? chosen.columns.split("|") : usual);
  let columns = [];
  let heads = [];
  const made = el("table", { "aria-label": "Queries" });
  scroller.append(made);

  /** The heads of the columns that are shown. */
  function frame() {
    const names = shownNames();
    columns = every.filter((column, at) => !at || names.includes(column.name));
    heads = columns.map((column) => {
      const now = () => chosen.sort || WORST;
      const sort = () => change({ sort: now() === column.key ? `${column.key}~down` : column.key });
      return el("th", { scope: "col", class: column.num ? "num" : "", "data-key": column.key || null }, column.key ? el("button", { type: "button", onclick: sort }, measureName(column.name)) : column.name);
    });
    const widths = columns.map((column) => column.width);
    made.style.setProperty("min-width", `${widths.reduce((sum, width) => sum + width, 0)}rem`);
    made.replaceChildren(el("colgroup", null, ...columns.map((column) => el("col", { style: column.name === "query" ? null : { width: `${column.width}rem` } }))), el("thead", null, el("tr", null, ...heads)), body);
  }

  /** Show the rows in view, or all for print. A row that stays is the same element, so that a click or the focus on its
   * link outlasts the scrolling that brought it into view. */
  function draw(whole = false) {
    const from = whole ? 0 : Math.max(Math.floor(scroller.scrollTop / ROW) - 6, 0);
    const to = Math.min(from + (whole ? PRINTED : Math.min(Math.ceil(scroller.clientHeight / ROW) + 12, 40)), passing.length);
    for (const [at, row] of drawn) {
      if (at >= from && at < to) continue;
      row.remove();
      drawn.delete(at);
    }
    let next = below;
    for (let at = to - 1; at >= from; at--) {
      const row = drawn.get(at) ?? line(passing[at], at);
      if (row.nextSibling !== next) body.insertBefore(row, next);
      drawn.set(at, row);
      next = row;
    }
    const left = passing.length - to;
    space(above, from * ROW);
    space(below, whole ? 0 : left * ROW, whole && left ? `and ${left} more` : "");
  }

  /** Give the row that stands for those out of view their height, or words.
   * @param {HTMLElement} row @param {number} height @param {string} words */
  function space(row, height, words = "") {
    row.className = words ? "" : "gap";
    row.ariaHidden = words ? null : "true";
    row.replaceChildren(el("td", { colspan: columns.length, style: words ? null : { height: `${height}px` } }, words));
  }

  /** @param {number} query @param {number} at */
  function line(query, at) {
    return el("tr", { "aria-rowindex": at + 2 }, ...columns.map((column) => cell(column, query)));
  }

  /** @param {any} column @param {number} query */
  function cell(column, query) {
    if (column.at !== undefined) {
      const value = queries.values[column.at][query];
      const shade = value === null || !isShare(column.name) ? null : { "--much": Math.min(Math.max(value, 0), 1) };
      return el("td", { class: `num ${shade ? "meter" : ""}`, title: column.name, style: shade }, value === null ? el("span", { class: "warn" }, statusOf(column.at, query)) : number(value));
    }
    if (column.name === "id") return el("td", { class: "first" }, el("a", { href: address("query", { ...nameOf(query), labels: chosen.labels }) }, data(queries.id[query])));
    if (column.name === "query") return el("td", null, data(queries.query[query].slice(0, 200)));
    if (column.name === "ranks") return el("td", null, strip(queries.strips[sourceOf(new URLSearchParams(chosen))][query], queries.missed[query]));
    if (column.name === "system") return el("td", null, data(systemName(report.systems[queries.system[query]])));
    if (column.name === "trial") return num(queries.trial[query]);
    if (column.name === "tags") return el("td", null, data(queries.tags[query].join(", ")));
    const moved = difference(report.names.indexOf(compared), query);
    const gain = (moved ?? 0) * (report.lower.includes(compared) ? -1 : 1);
    return num(signed(moved), gain > 0 ? "good" : gain < 0 ? "bad" : "");
  }

  function update() {
    passing = select(new URLSearchParams(chosen));
    const sorted = chosen.sort || WORST;
    info.textContent = `${passing.length.toLocaleString("en")} of ${report.capped ? `the ${count.toLocaleString("en")} on this page, which holds ${report.capped} queries` : count.toLocaleString("en")}${chosen.from !== "" ? ` · ${chosen.measure} from ${chosen.from}${chosen.to && ` to ${chosen.to}`}` : ""}${sorted === WORST ? " · worst first" : ""}`;
    announce(inQueries(passing.length));
    made.setAttribute("aria-rowcount", String(passing.length + 1));
    for (const head of heads) {
      const key = head.dataset.key;
      if (key) head.setAttribute("aria-sort", sorted === key ? "ascending" : sorted === `${key}~down` ? "descending" : "none");
    }
    scroller.scrollTop = 0;
    drawn.clear();
    body.replaceChildren(above, below);
    draw();
  }

  /** Check boxes for the columns. */
  function chooser() {
    const boxes = every.slice(1).map((column) => el("label", null, el("input", { type: "checkbox", checked: shownNames().includes(column.name), onchange: (event) => {
      const now = new Set(shownNames());
      if (event.target.checked) now.add(column.name);
      else now.delete(column.name);
      Object.assign(chosen, { columns: [...now].join("|") });
      frame();
      change({});
    } }), " ", measureName(column.name)));
    return el("details", { class: "columns" }, el("summary", null, "Columns"), el("div", null, ...boxes));
  }

  const key = el("p", { class: "quiet small" }, showing(sourceOf(new URLSearchParams(chosen))));
  const tags = [...new Set(queries.tags.flat())].sort();
  put(main, 
    el("div", { class: "titled" }, el("h1", null, "Queries"), info),
    el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      field("Text", el("input", { type: "search", value: chosen.text, oninput: (event) => change({ text: event.target.value }) })),
      field("Show", choice([["", "all"], ["gate", "below a gate"], ["none", "none relevant"], ["missed", "missed gold"], ["errors", "errors"]], chosen.only, (value) => change({ only: value }))),
      field("First relevant after rank", el("input", { type: "number", min: 0, max: 1000, value: chosen.first, oninput: (event) => change({ first: event.target.value }) })),
      tags.length > 0 && field("Tag", choice([["", "any"], ...tags.map((tag) => [String(tag), String(tag)])], chosen.tag, (value) => change({ tag: value }))),
      severalSystems && field("System", choice([["", "all"], ...report.systems.map((name) => [systemName(name), systemName(name)])], chosen.system, (value) => change({ system: value }))),
      sources.length > 1 && labelSwitch(sourceOf(new URLSearchParams(chosen)), (value) => { change({ labels: value }); key.textContent = showing(value); }),
      chooser(),
      el("button", { type: "button", onclick: () => { location.hash = "queries"; list(main, new URLSearchParams()); } }, "Clear")),
    el("div", { class: "titled" }, signKey(), key),
    scroller,
  );
  frame();
  update();
}

/** Whose labels the strips show.
 * @param {string} source */
export function showing(source) {
  return `ranks by ${report.sources[source]}`;
}

/** Chooses whose labels strips and charts show.
 * @param {string} now @param {(source: string) => void} pick */
export function labelSwitch(now, pick) {
  return field("Ranks by", choice(sources.map((source) => [source, report.sources[source]]), now, pick));
}

/** @param {string} name @param {HTMLElement} control */
function field(name, control) {
  return el("label", null, name, control);
}

/** @param {[string, string][]} options @param {string} now @param {(value: string) => void} pick */
export function choice(options, now, pick) {
  return el("select", { onchange: (event) => pick(event.target.value) }, ...options.map(([value, name]) => el("option", { value, selected: value === now }, name)));
}
