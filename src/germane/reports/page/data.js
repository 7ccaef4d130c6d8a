export const report = JSON.parse(document.getElementById("data")?.textContent ?? "{}");
export const queries = report.queries;
export const count = queries.id.length;
/** Whose labels the page can show, those of the first ranked measure first. */
export const sources = Object.keys(report.sources);

/** The labels that a view shows.
 * @param {URLSearchParams} settings */
export function sourceOf(settings) {
  const asked = settings.get("labels") ?? "";
  return sources.includes(asked) ? asked : sources[0];
}

const firsts = new Map();

/** The rank of the first relevant place of each query in any of its calls; 0 where there is none.
 * @param {string} source */
export function firstRelevant(source) {
  let found = firsts.get(source);
  if (!found) {
    found = queries.strips[source].map((strip) => Math.min(...strip.split("|").map((call) => call.search(/[A-D]/)).filter((at) => at >= 0)) + 1).map((rank) => (Number.isFinite(rank) ? rank : 0));
    firsts.set(source, found);
  }
  return found;
}

export const severalSystems = report.systems.length > 1;
export const severalTrials = queries.trial.some(Boolean);

/** What names a system in an address and to readers, "" where there is only one; one without a name is a dash.
 * @param {string} system */
export function systemName(system) {
  return severalSystems ? system || "–" : "";
}

/** Whose answer to a query it is, where there are several systems or trials.
 * @param {number} query */
export function whose(query) {
  const system = report.systems[queries.system[query]] || systemName("");
  return `${system && ` · ${system}`}${severalTrials ? ` · trial ${queries.trial[query]}` : ""}`;
}

/** What names a query in an address: its id, and its system and trial where there are several.
 * @param {number} query */
export function nameOf(query) {
  return { id: queries.id[query], system: systemName(report.systems[queries.system[query]]), trial: severalTrials ? queries.trial[query] : "" };
}

/** The query that an address names; -1 where it is not on the page.
 * @param {URLSearchParams} settings */
export function queryOf(settings) {
  const [id, system, trial] = ["id", "system", "trial"].map((name) => settings.get(name) ?? "");
  return queries.id.findIndex((name, at) => name === id && (!system || systemName(report.systems[queries.system[at]]) === system) && (!trial || String(queries.trial[at]) === trial));
}

const shares = new Set(report.measures.filter(({ range }) => range[0] === 0 && range[1] === 1).map((one) => one.measure));

/** If a measure is from 0 to 1, so that such measures can share a scale.
 * @param {string} measure */
export function isShare(measure) {
  return shares.has(measure);
}

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=/?@^_`{|}~";
const VALUES = new Uint8Array(128);
[...DIGITS].forEach((digit, value) => (VALUES[digit.charCodeAt(0)] = value));

/** The bytes of a text in base 85.
 * @param {string} text */
function decode85(text) {
  const padding = (5 - (text.length % 5)) % 5;
  const padded = text + "~".repeat(padding);
  const bytes = new Uint8Array((padded.length / 5) * 4);
  for (let at = 0, to = 0; at < padded.length; at += 5, to += 4) {
    let value = 0;
    for (let digit = 0; digit < 5; digit++) value = value * 85 + VALUES[padded.charCodeAt(at + digit)];
    bytes[to] = value >>> 24;
    bytes[to + 1] = (value >>> 16) & 255;
    bytes[to + 2] = (value >>> 8) & 255;
    bytes[to + 3] = value & 255;
  }
  return bytes.subarray(0, bytes.length - padding);
}

const blocks = new Map();
const MOST = 60;

/** A block of the file; the ones read last are kept.
 * @param {number} group @param {number} at */
function block(group, at) {
  const id = `block-${group}-${at}`;
  let found = blocks.get(id);
  if (!found) {
    const bytes = decode85(document.getElementById(id)?.textContent ?? "");
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    found = new Response(stream).json();
    if (blocks.size >= MOST) blocks.delete(blocks.keys().next().value);
    blocks.set(id, found);
  }
  return found;
}

/** Everything that is known of a query, with its passages' texts.
 * @param {number} query */
export async function detailsOf(query) {
  const size = report.sizes.details;
  const facts = (await block(0, Math.floor(query / size)))[query % size];
  for (const call of facts.calls ?? []) {
    for (const context of call.contexts) {
      if (typeof context.text === "number") {
        const texts = report.sizes.texts;
        context.passage = (await block(1, Math.floor(context.text / texts)))[context.text % texts];
      }
    }
  }
  return facts;
}

const STATUS = { o: "ok", s: "skipped", i: "incomplete", e: "error", "-": "not measured" };

/** @param {number} measure @param {number} query */
export function statusOf(measure, query) {
  return STATUS[queries.status[measure][query]];
}

/** The difference to the baseline; null where either is not known.
 * @param {number} measure @param {number} query */
export function difference(measure, query) {
  const base = report.baseline;
  const at = base ? base.measures.indexOf(report.names[measure]) : -1;
  const before = at < 0 ? null : base.rows[query]?.values[at];
  const now = queries.values[measure][query];
  return before === null || before === undefined || now === null ? null : now - before;
}
