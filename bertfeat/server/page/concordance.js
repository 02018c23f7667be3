// Keywords in context: a table of lines that are aligned on the word, with kept columns beside them.

import { element, rove, shown, valueOf } from "./dom.js";
import { Reading } from "./reading.js";

// characters of each side: of a line, which the screen cuts, and of the few lines that a phone shows
const SIDE = 160, SIDE_ON_A_PHONE = 70;
const COLUMNS = 4; // kept columns beside a line; the others are shown where a line is opened
const WIDE = "7em", NARROW = "4.6em"; // a column of texts, and one of numbers
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/**
 * A table of usages. `how` has `choose(usage)`, by which the others are sorted by likeness, `isCurrent(usage)`, and the
 * order `sort` of the lines with `resort(order)`, which are missing where lines have no order to choose.
 */
export function drawConcordance(usages, set, how) {
  const columns = columnsOf(usages, set, how.sort), scored = usages.some(({ score }) => score !== null);
  const table = element("table", { className: "concordance" },
    element("thead", {}, headings(columns, scored, how)),
    element("tbody", {}, usages.map((usage) => drawLine(usage, columns, scored, set, how))));
  const widths = [scored ? "4.4em" : "", "minmax(0, 1fr) auto minmax(0, 1fr)", ...columns.map(({ width }) => width), "3.4em"];
  table.style.setProperty("--columns", widths.join(" "));
  if (RIGHT_TO_LEFT.test(usages[0].word)) table.dir = "rtl"; // what comes before the word stands on its right there
  rove(table, ".choose");
  return table;
}

/** The first kept columns that have values, and the one by which lines are sorted; the id where there are none. */
function columnsOf(usages, { kept }, sort) {
  const names = kept.map(({ name }) => name).filter((name) => usages.some(({ values }) => (valueOf(values, name) ?? "") !== ""));
  if (!names.length) return [{ name: "id", of: ({ id }) => id, width: WIDE }];
  const few = names.slice(0, COLUMNS);
  if (names.includes(sort) && !few.includes(sort)) few.push(sort);
  return few.map((name) => {
    const { kind } = kept.find((column) => column.name === name);
    return { name, of: ({ values }) => valueOf(values, name), sort: name, width: kind === "string" ? WIDE : NARROW };
  });
}

function headings(columns, scored, { sort, resort }) {
  const heading = (name, order, className = "") => {
    const sorts = resort && order !== undefined;
    const button = sorts ? element("button", { type: "button", title: `Sort by ${name}`, onclick: () => resort(order) }, name) : name;
    return element("th", { scope: "col", className, "aria-sort": sorts && sort === order && order ? "ascending" : null }, button);
  };
  return element("tr", {}, scored ? heading("score") : null, heading("left", "left", "left"), heading("word"),
    heading("right", "right"), columns.map((column) => heading(column.name, column.sort, "value")),
    element("td", {}));
}

function drawLine(usage, columns, scored, set, how) {
  const [left, right] = sides(usage);
  const choose = element("button", { type: "button", className: "choose", title: "Sort all lines by likeness to this one",
    onclick: () => how.choose(usage) }, element("bdi", {}, flat(usage.word)));
  const more = element("button", { type: "button", className: "more", "aria-expanded": "false", title: "Read on" },
    "read", element("span", { className: "unseen" }, ` around ${flat(usage.word)}`));
  const line = element("tr", { className: "line" },
    scored ? element("td", { className: "score" }, usage.score === null ? "" : usage.score.toFixed(4)) : null,
    element("td", { className: "left" }, element("span", {}, element("bdi", {}, left))),
    element("td", { className: "word" }, choose),
    element("td", { className: "right" }, element("span", {}, element("bdi", {}, right))),
    columns.map(({ name, of }) => drawValue(name, of(usage))), element("td", { className: "open" }, more));
  if (how.isCurrent?.(usage)) line.setAttribute("aria-current", "true");
  const toggle = () => toggleReading(line, more, usage, set);
  more.onclick = toggle;
  for (const side of line.querySelectorAll(".left, .right")) side.onclick = () => { if (getSelection().isCollapsed) toggle(); };
  return line;
}

function drawValue(name, value) {
  const text = value === null || value === undefined ? "" : shown(value);
  return element("td", { className: "value", title: text, "data-name": text && name }, element("bdi", {}, text));
}

function toggleReading(line, button, usage, set) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) line.nextElementSibling.remove();
  else line.after(element("tr", { className: "reading" },
    element("td", { colSpan: line.children.length }, new Reading(usage, set).element)));
}

/** The two sides of a line, in characters and not halves of them; on a phone, where they wrap, in whole words. */
function sides({ left, right }) {
  const [before, after] = [left, right].map((text) => [...flat(text)]);
  if (!matchMedia("(max-width: 760px)").matches) return [before.slice(-SIDE).join(""), after.slice(0, SIDE).join("")];
  const [near, next] = [before.slice(-SIDE_ON_A_PHONE).join(""), after.slice(0, SIDE_ON_A_PHONE).join("")];
  return [before.length > SIDE_ON_A_PHONE ? near.replace(/^\S*(?=\s)/, "…") : near,
    after.length > SIDE_ON_A_PHONE ? next.replace(/(?<=\s)\S*$/, "…") : next];
}

const flat = (text) => text.replace(/\s+/g, " ");
