// Small helpers. Texts reach the page as text only (textContent), never as markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties ("aria-…", "data-…" and "for" become attributes) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.includes("-") || name === "for" || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const count = (value) => Number(value).toLocaleString("en");

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export const shown = (value) => (value === null || value === undefined ? "–" : String(value));

/** The whole number in a field, within its bounds, as the field then shows it; `otherwise` where there is none. */
export function wholeNumber(id, otherwise) {
  const field = byId(id), given = field.value.trim() === "" ? NaN : Number(field.value);
  const low = field.min === "" ? -Infinity : Number(field.min), high = field.max === "" ? Infinity : Number(field.max);
  const value = Number.isFinite(given) ? Math.max(low, Math.min(high, Math.round(given))) : otherwise;
  field.value = value ?? "";
  return value;
}

/** A table of names and numbers, which scrolls by itself where it is wide. */
export function countTable(label, names, rows) {
  const heading = names.map((name, at) => element("th", { scope: "col", className: at ? "number" : "" }, name));
  const body = rows.map(([first, ...others]) => element("tr", {}, element("th", { scope: "row" }, first),
    others.map((value) => element("td", { className: "number" }, value))));
  return scrolled(label, element("table", { className: "counts" },
    element("thead", {}, element("tr", {}, heading)), element("tbody", {}, body)));
}

/** Something wide, which scrolls by itself. */
export const scrolled = (label, inside) =>
  element("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": label }, inside);

/** A function that runs a moment after it was called last. */
export function later(milliseconds, work) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

/** What is told in a view's live region. */
export class Message {
  constructor(id) { this.place = byId(id); }
  /** Tell a result, and the warnings about it, each a sentence without its capital and full stop. */
  tell(text, warnings = []) {
    this.place.className = "message";
    this.place.replaceChildren(text, ...warnings.map((each) => element("strong", {}, ` But ${each}.`)));
  }
  busy(text) { this.place.className = "message busy"; this.place.textContent = text; }
  fail(error) { this.place.className = "message bad"; this.place.textContent = error.message; }
}

// Offsets of answers count characters (code points); JavaScript's strings count halves of some of them.
const WIDE = /[\ud800-\udbff]/;

/** A function that cuts a text by offsets of characters. */
export function cutter(text) {
  if (!WIDE.test(text)) return (start, end) => text.slice(start, end);
  const characters = Array.from(text);
  return (start, end) => characters.slice(start, end).join("");
}

/** A kept value of a document; undefined where it has none, though every object inherits a `constructor`. */
export const valueOf = (values, name) => (values && Object.hasOwn(values, name) ? values[name] : undefined);

/** The kept values of a document as a list of names and values; what it has no value of is left out. */
export function valueList(values, more = []) {
  const entries = [...more, ...Object.entries(values ?? {})].filter(([, value]) => value !== null && value !== undefined);
  if (!entries.length) return null;
  return element("dl", { className: "values" }, entries.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, shown(value)))));
}

/** Up and down, Home and End go through the buttons of a list; only one of them is reached by Tab. */
export function rove(list, selector) {
  const all = () => [...list.querySelectorAll(selector)];
  all().forEach((each, at) => { each.tabIndex = at ? -1 : 0; });
  list.onkeydown = (event) => {
    const buttons = all(), at = buttons.indexOf(document.activeElement);
    const last = buttons.length - 1;
    const to = new Map([["ArrowDown", at + 1], ["ArrowUp", at - 1], ["Home", 0], ["End", last]]).get(event.key);
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = buttons[Math.max(0, Math.min(last, to))];
    buttons[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };
}
