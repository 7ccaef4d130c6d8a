/**
 * An element with text only: nothing is ever read as HTML.
 * @param {string} name
 * @param {Record<string, any> | null} [props] class, on... (listeners), style (an object), else attributes; null leaves out
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {any}
 */
export function el(name, props, ...children) {
  const node = document.createElement(name);
  fill(node, props);
  node.append(...shown(children));
  return node;
}

/** An SVG element, likewise.
 * @param {string} name
 * @param {Record<string, any> | null} [props]
 * @param {...any} children
 * @returns {any} */
export function svg(name, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(node, props);
  node.append(...shown(children));
  return node;
}

/** @param {any[]} children */
function shown(children) {
  return children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : plain(String(child))));
}

/** @param {any} node @param {Record<string, any> | null | undefined} props */
function fill(node, props) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, one] of Object.entries(value)) node.style.setProperty(name, String(one));
    else node.setAttribute(key, value === true ? "" : String(value));
  }
}

/** Text of the data: isolated in direction, without control characters.
 * @param {string | null | undefined} text @param {string} [name] */
export function data(text, name = "span") {
  return el(name, { class: "hostile", dir: "auto" }, text ?? "");
}

/** A name that may break after an underscore and before an at sign, and nowhere else.
 * @param {string} text */
export function measureName(text) {
  const parts = text.split(/(?<=_)|(?=@)/).flatMap((part, at) => (at ? [el("wbr"), plain(part)] : [plain(part)]));
  return el("span", { class: "hostile", dir: "auto" }, ...parts);
}

/** @param {string} text */
export function plain(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "");
}

/** So many queries, `random` ones where only some were looked at.
 * @param {number} count */
export function inQueries(count, random = false) {
  return `${count.toLocaleString("en")} ${random ? "random " : ""}${count === 1 ? "query" : "queries"}`;
}

/** A number with so many digits behind the point, rounded as Python does: half to even.
 * @param {number} value */
export function fixed(value, digits = 4) {
  const text = value.toFixed(digits);
  const half = (Math.abs(value) * 2 ** (digits + 1)) % 2 === 1;
  return half && "13579".includes(text.slice(-1)) ? value.toFixed(digits + 1).slice(0, -1) : text;
}

/** @param {number | null | undefined} value */
export function number(value) {
  return value === null || value === undefined ? "–" : fixed(value);
}

/** A passage's own score, of whatever size, to four digits.
 * @param {number} value */
export function digits(value) {
  const size = Math.abs(value);
  return size && size < 0.001 ? value.toPrecision(4) : fixed(value);
}

/** @param {number | null} value */
export function signed(value) {
  return value === null ? "–" : `${value >= 0 ? "+" : "−"}${fixed(Math.abs(value))}`;
}

/** The interval of a difference, rounded outwards, or one number where it has no width, as in every other format.
 * @param {[number, number]} ends
 * @param {number} digits */
export function between(ends, digits = 4) {
  return outwards(ends, digits, (value) => `${value >= 0 ? "+" : "−"}${fixed(Math.abs(value), digits)}`);
}

/** The interval of a mean likewise, without signs; a dash where there is none.
 * @param {[number, number] | null} ends */
export function extent(ends) {
  return ends ? outwards(ends, 4, number) : "–";
}

/** @param {[number, number]} ends @param {number} digits @param {(value: number) => string} shown */
function outwards([low, high], digits, shown) {
  const unit = 10 ** digits;
  if (high - low <= 1e-12) return shown(low);
  return `${shown(Math.floor(low * unit + 1e-6) / unit)} to ${shown(Math.ceil(high * unit - 1e-6) / unit)}`;
}

/** The only children of a place. The control that has the focus keeps it, so that the keyboard can go on.
 * @param {HTMLElement} place
 * @param {...any} children as of `el` */
export function put(place, ...children) {
  const controls = () => [...place.querySelectorAll("button, select, input")];
  const at = controls().indexOf(document.activeElement);
  place.replaceChildren(...shown(children));
  controls()[at]?.focus({ preventScroll: true });
}

/** A table in a box that scrolls sideways.
 * @param {string} caption @param {any[]} heads @param {any[][]} rows @param {string} [name] */
export function table(caption, heads, rows, name = "") {
  const head = el("tr", null, ...heads.map((one) => (one instanceof Node ? one : el("th", { scope: "col" }, one))));
  const body = rows.map((row) => el("tr", null, ...row.map((cell, at) => (cell instanceof HTMLTableCellElement ? cell : at ? el("td", null, cell) : el("th", { scope: "row" }, cell)))));
  const made = el("table", { class: name, "aria-label": caption }, el("thead", null, head), el("tbody", null, ...body));
  return el("div", { class: "wrap", tabindex: "0", role: "region", "aria-label": caption }, made);
}

/** @param {any} text @param {string} [more] */
export function num(text, more = "") {
  return el("td", { class: `num ${more}` }, text);
}

/** The heading of a column of numbers.
 * @param {string} text */
export function numHead(text) {
  return el("th", { scope: "col", class: "num" }, text);
}

/** @param {string} text */
export function announce(text) {
  const place = document.getElementById("status");
  if (place) place.textContent = text;
}
