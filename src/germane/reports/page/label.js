import { detailsOf, queries, report } from "./data.js";
import { announce, data, el, put } from "./dom.js";
import { texts, verdicts } from "./query.js";

/** Answers stand by their place in the order, so each draw keeps answers of its own. */
const KEY = `germane-labels ${report.name} ${report.created} ${queries.id.length} ${JSON.stringify(report.label?.design)} ${report.label?.order.length}`;
const GRADES = ["unrelated", "related, does not answer", "answers in part", "answers"];
/** @typedef {{answer: any, scale: string, at: string, blind: boolean}} Answer: a grade, or null if unsure */
const FRESH = { who: "", scale: report.settings.scale ?? "graded", at: 0, answers: {}, past: [] };
let state = structuredClone(FRESH);
let home = null;
let help = false;
/** Places whose verdicts were shown before they were answered anew. */
const seen = new Set();

/** What this browser keeps of a person; null if nothing.
 * @param {string} [who] by default who labelled last */
function kept(who) {
  try {
    return JSON.parse(localStorage.getItem(`${KEY}\n${who ?? localStorage.getItem(KEY) ?? ""}`) ?? "null");
  } catch {
    announce("what was kept in this browser could not be read");
    return null;
  }
}

/** Give the answers so far their name, or go on with those of another person.
 * @param {string} who */
function labelAs(who) {
  const theirs = kept(who);
  if (!state.who && !theirs) state.who = who;
  else {
    state = { ...structuredClone(FRESH), ...theirs, who };
    seen.clear();
    draw();
  }
  keep();
}

function keep() {
  try {
    localStorage.setItem(`${KEY}\n${state.who}`, JSON.stringify(state));
    localStorage.setItem(KEY, state.who);
  } catch {
    announce("this browser keeps nothing: download the labels before you close the page");
  }
}

/** The label page: one context at a time, in random order, without anybody's verdict until it is answered.
 * @param {HTMLElement} main */
export async function label(main) {
  state = kept() ?? state;
  home = main;
  await draw();
}

/** @param {number} at */
async function placeAt(at) {
  const [query, call, rank, item] = report.label.order[at];
  const facts = await detailsOf(query);
  return { query, call, rank, item, facts, context: facts.calls[call].contexts[rank], several: facts.calls.length > 1 };
}

async function draw() {
  const main = home;
  if (!main) return;
  const total = report.label.order.length;
  const at = Math.min(state.at, total);
  const done = Object.keys(state.answers).length;
  const bar = el("div", { class: "filters" }, el("label", null, "Your name", el("input", { type: "text", value: state.who, autocomplete: "name", onchange: (event) => labelAs(event.target.value.trim()) })),
    el("label", null, "Scale", el("select", { onchange: (event) => { state.scale = event.target.value; keep(); draw(); } }, el("option", { value: "graded", selected: state.scale === "graded" }, "0 to 3"), el("option", { value: "binary", selected: state.scale === "binary" }, "yes or no"))),
    el("button", { type: "button", id: "download", onclick: download, disabled: done === 0 }, `Download labels.jsonl (${done} ${done === 1 ? "label" : "labels"})`));
  const head = [el("h1", null, "Label"), bar, el("progress", { max: total, value: done, "aria-label": `${done} of ${total} answered` }), el("p", { class: "quiet" }, `${done.toLocaleString("en")} of ${total.toLocaleString("en")} answered${state.who && ` by ${state.who}`}; drawn at random from ${report.label.population.toLocaleString("en")} passages${report.capped ? ` of ${report.random.toLocaleString("en")} random queries` : ""}, ${report.label.design.design === "queries" ? "whole queries at a time" : "some of every query"}. Your answers stay in this browser until you download them; nothing is sent.`), ...report.label.corrects.map((text) => el("p", { class: "quiet" }, data(text)))];
  if (at >= total) {
    put(main, ...head, el("p", null, "That was the last one."), el("button", { type: "button", onclick: () => go(-1) }, "Previous (k)"), ...helped());
    return;
  }
  const { query, facts, context } = await placeAt(at);
  const answer = state.answers[at];
  const { against } = report.settings;
  const shown = against === "query" ? "" : against && against !== "auto" ? against : facts.reference ? "reference" : "criterion"; // what the judge is shown
  if (answer) seen.add(at);
  const pressed = (value) => String(Boolean(answer && answer.answer === value && answer.scale === state.scale));
  const buttons = state.scale === "graded"
    ? GRADES.map((word, grade) => el("button", { type: "button", "aria-pressed": pressed(grade), onclick: () => give(grade) }, el("kbd", null, grade), ` ${word}`))
    : [{ value: true, key: "y", word: "relevant" }, { value: false, key: "n", word: "not relevant" }].map(({ value, key, word }) => el("button", { type: "button", "aria-pressed": pressed(value), onclick: () => give(value) }, el("kbd", null, key), ` ${word}`));
  put(main, ...head,
    el("h2", null, data(queries.query[query])),
    texts([...(facts.history ?? []), shown && [shown, facts[shown]]].filter(Boolean)),
    el("section", { class: "card passage", "aria-label": "Passage" }, data(context.passage, "p")),
    el("div", { class: "answers", role: "group", "aria-label": "Your answer" }, ...buttons, el("button", { type: "button", onclick: () => give(null), "aria-pressed": String(answer?.answer === null) }, el("kbd", null, "u"), " unsure")),
    answer ? el("p", null, "Others: ", ...verdicts(context.labels)) : el("p", { class: "quiet" }, "Others' verdicts are shown once you have answered."),
    el("p", null, el("button", { type: "button", onclick: () => go(-1), disabled: at === 0 }, "← Previous (k)"), " ", el("button", { type: "button", onclick: () => go(1) }, "Next (j) →"), " ", el("button", { type: "button", onclick: undo, disabled: !state.past.length }, "Undo (z)"), " ", el("button", { type: "button", onclick: toggle }, "Keys (?)")),
    ...helped());
}

function helped() {
  if (!help) return [];
  const keys = [["0 1 2 3", "grade"], ["y n", "relevant, not relevant"], ["u", "unsure"], ["z", "undo"], ["j k", "next, previous"], ["?", "this help"]];
  return [el("dl", { class: "facts" }, ...keys.flatMap(([key, word]) => [el("dt", null, el("kbd", null, key)), el("dd", null, word)]))];
}

function toggle() {
  help = !help;
  draw();
}

function give(value) {
  answered({ answer: value, scale: state.scale, at: new Date().toISOString(), blind: !seen.has(state.at) });
}

/** @param {Answer} answer */
function answered(answer) {
  if (state.at >= report.label.order.length) return;
  state.past.push([state.at, state.answers[state.at] ?? null]);
  state.answers[state.at] = answer;
  state.at += 1;
  keep();
  announce(`answered, ${state.at + 1} of ${report.label.order.length}`);
  draw();
}

function undo() {
  const last = state.past.pop();
  if (last === undefined) return;
  const [at, before] = last;
  if (before) state.answers[at] = before;
  else delete state.answers[at];
  state.at = at;
  keep();
  draw();
}

/** @param {number} by */
function go(by) {
  state.at = Math.min(Math.max(state.at + by, 0), report.label.order.length);
  keep();
  draw();
}

async function download() {
  const lines = [];
  // The order is nested: whoever stops after n labels has a sample of the same design, about n of the population.
  const { design: drawn, population, share } = report.label;
  const budget = Object.keys(state.answers).length;
  const design = { ...drawn, budget, population, probability: (share * budget) / population };
  for (const [at, answer] of Object.entries(state.answers)) {
    const { query, call, rank, item } = await placeAt(Number(at));
    lines.push(JSON.stringify({
      item, kind: "relevance", answer: answer.answer, scale: answer.scale, who: state.who || null, at: answer.at, queue: "random",
      design, blind: answer.blind, guideline: report.label.guideline, reason: answer.answer === null ? "unsure" : null,
      sample: queries.id[query], system: report.systems[queries.system[query]], call: call + 1, rank: rank + 1,
    }));
  }
  const url = URL.createObjectURL(new Blob([lines.map((line) => `${line}\n`).join("")], { type: "application/jsonl" }));
  const link = el("a", { href: url, download: "labels.jsonl" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  announce(`${lines.length} labels written`);
}

/** The keys of the label page.
 * @param {KeyboardEvent} event */
export function pressedKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof HTMLInputElement) || (event.target instanceof HTMLSelectElement)) return;
  const key = event.key;
  if (state.scale === "graded" && /^[0-3]$/.test(key)) give(Number(key));
  else if (state.scale === "binary" && (key === "y" || key === "n")) give(key === "y");
  else if (key === "u") give(null);
  else if (key === "z") undo();
  else if (key === "j") go(1);
  else if (key === "k") go(-1);
  else if (key === "?") toggle();
}
