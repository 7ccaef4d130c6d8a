import { interval } from "./charts.js";
import { report } from "./data.js";
import { between, data, el, extent, inQueries, num, numHead, number, signed, table } from "./dom.js";

/** What each stage of the retrieval handed on of the relevant documents, as a funnel; nothing where no gold is known. */
export function stages() {
  if (!report.stages?.length) return null;
  return el("section", null, el("h2", null, "Where relevant documents were lost"), ...report.stages.flatMap((one) => [
    one.system && el("h3", null, data(one.system)),
    one.stages.slice(1).some((stage) => stage.lost || stage.saved) && funnel(one),
    el("p", { class: "quiet small" }, `${one.known.toLocaleString("en")} relevant documents of ${inQueries(one.queries, Boolean(report.capped))}: ${Object.entries(one.ends).map(([where, times]) => `${times.toLocaleString("en")} ${where}`).join(", ")}. germane stages names each of them.`),
    ...one.notes.map((text) => el("p", { class: "quiet small" }, data(text))),
  ]));
}

/** A line per stage: its share of the relevant documents as a bar, what it lost and saved. */
function funnel(one) {
  const heads = ["stage", "relevant documents", ...["lost", "saved"].map(numHead), "recall, 95% interval", numHead("change")];
  const rows = one.stages.map((stage) => [
    el("th", { scope: "row" }, data(stage.name)),
    el("td", null, el("progress", { max: one.known, value: stage.in, "aria-label": `${stage.in} of ${one.known}` }), el("div", { class: "small quiet" }, `${stage.in} of ${one.known}`)),
    num(stage.lost || "–", stage.lost ? "bad" : "quiet"),
    num(stage.saved || "–", stage.saved ? "good" : "quiet"),
    el("td", null, interval(stage.recall, stage.interval, [0, 1]), el("div", { class: "small quiet" }, `${number(stage.recall)} · ${extent(stage.interval)}`)),
    el("td", { class: "num", title: stage.difference_interval ? between(stage.difference_interval) : "" }, stage.difference === null ? "" : signed(stage.difference)),
  ]);
  return table("Stages of the retrieval", heads, rows, "measures");
}
