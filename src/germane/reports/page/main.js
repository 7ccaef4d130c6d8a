import { compare } from "./compare.js";
import { report } from "./data.js";
import { el, plain } from "./dom.js";
import { label, pressedKey } from "./label.js";
import { overview } from "./overview.js";
import { list } from "./queries.js";
import { one } from "./query.js";
import { read } from "./state.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const PARTS = [["overview", "Overview"], ["queries", "Queries"]];
if (report.baseline) PARTS.push(["compare", "Compare"]);
if (report.label?.order.length) PARTS.push(["label", "Label"]);

async function show() {
  const { part, settings } = read();
  document.title = `germane: ${plain(report.name)}, ${part}`;
  nav.replaceChildren(...PARTS.map(([name, title]) => el("a", { href: `#${name}`, "aria-current": name === part || (part === "query" && name === "queries") ? "page" : null }, title)));
  document.body.dataset.part = part;
  window.onbeforeprint = window.onafterprint = null;
  if (part === "queries") list(main, settings);
  else if (part === "query") await one(main, settings);
  else if (part === "compare" && report.baseline) compare(main, settings);
  else if (part === "label" && report.label) await label(main);
  else overview(main, settings);
  document.body.dataset.ready = part;
}

const named = document.getElementById("name");
if (named) named.textContent = plain(report.name);
addEventListener("hashchange", async () => {
  await show();
  main.focus();
  scrollTo(0, 0);
});
addEventListener("keydown", (event) => {
  if (read().part === "label" && report.label) pressedKey(event);
});
show();
