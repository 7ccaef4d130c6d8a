/** What is shown stands behind the # of the address: a part, and its settings.
 * @returns {{part: string, settings: URLSearchParams}} */
export function read() {
  const [part, rest] = location.hash.slice(1).split("?");
  return { part: part || "overview", settings: new URLSearchParams(rest ?? "") };
}

/** @param {string} part @param {Record<string, any>} [settings] */
export function address(part, settings = {}) {
  const kept = Object.entries(settings).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const text = new URLSearchParams(kept.map(([key, value]) => [key, value === true ? "1" : String(value)])).toString();
  return `#${part}${text ? `?${text}` : ""}`;
}

/** Change the address without another entry in the history.
 * @param {string} part @param {Record<string, any>} settings */
export function note(part, settings) {
  history.replaceState(null, "", address(part, settings));
}
