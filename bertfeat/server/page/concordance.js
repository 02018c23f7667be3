// Keywords in context: a table of lines that are aligned on the word, with kept columns beside them.

import { element, rove, shown, valueOf } from "./dom.js";
import { Reading } from "./reading.js";

// Characters on each side: on a wide screen, which cuts them, and on a phone, which wraps them.
const SIDE = 160, SIDE_ON_A_PHONE = 70;
const COLUMNS = 4; // kept columns beside a line; the others are shown where a line is opened
const WIDE = "7em", NARROW = "4.6em"; // a column of texts, and one of numbers
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/**
 * A table of usages. `how.choose(usage)` is called for the usage that others are to be compared with, and
 * `how.resort(order)` for a heading; without it headings are no buttons. `how.sort` is the order of the lines.
 */
export function drawConcordance(usages, set, how) {
  const columns = columnsOf(usages, set, how.sort), scored = usages.some(({ score }) => score !== null);
  const table = element("table", { className: "concordance", role: "table" }, // said, since rows are laid out as grids
    element("thead", { role: "rowgroup" }, headings(columns, scored, how)),
    element("tbody", { role: "rowgroup" }, usages.map((usage) => drawLine(usage, columns, scored, set, how))));
  const widths = [scored ? "4.4em" : "", "minmax(0, 1fr) auto minmax(0, 1fr)", ...columns.map(({ width }) => width), "3.4em"];
  table.style.setProperty("--columns", widths.join(" "));
  if (RIGHT_TO_LEFT.test(usages[0].word)) table.dir = "rtl"; // what comes before the word stands on its right there
  rove(table, ".choose");
  return table;
}

/** Whether lines can be sorted by a kept column: "left" and "right" are the orders by neighbors. */
export const isOrder = (name) => !["left", "right"].includes(name);

/** The first kept columns that have values, and the one by which lines are sorted; the id where there are none. */
function columnsOf(usages, { kept }, sort) {
  const names = kept.map(({ name }) => name).filter((name) => usages.some(({ values }) => (valueOf(values, name) ?? "") !== ""));
  if (!names.length) return [{ name: "id", of: ({ id }) => id, width: WIDE }];
  const few = names.slice(0, COLUMNS);
  if (names.includes(sort) && !few.includes(sort)) few.push(sort);
  return few.map((name) => {
    const { kind } = kept.find((column) => column.name === name);
    return { name, of: ({ values }) => valueOf(values, name), sort: isOrder(name) ? name : undefined, width: kind === "string" ? WIDE : NARROW };
  });
}

function headings(columns, scored, { sort, resort }) {
  const heading = (name, order, className = "") => {
    const sorts = resort && order !== undefined;
    const button = sorts ? element("button", { type: "button", title: `Sort by ${name}`, onclick: () => resort(order), "data-order": order }, name) : name;
    return element("th", { scope: "col", role: "columnheader", className, "aria-sort": sorts && sort === order && order ? "ascending" : null }, button);
  };
  return element("tr", { role: "row" }, scored ? heading("score") : null, heading("left", "left", "left"), heading("word"),
    heading("right", "right"), columns.map((column) => heading(column.name, column.sort, "value")),
    element("td", { role: "cell" }));
}

function drawLine(usage, columns, scored, set, how) {
  const [left, right] = sides(usage);
  const choose = element("button", { type: "button", className: "choose", title: "Sort all lines by likeness to this one",
    onclick: () => how.choose(usage) }, element("bdi", {}, flat(usage.word)));
  const more = element("button", { type: "button", className: "more", "aria-expanded": "false", title: "Read on" },
    "read", element("span", { className: "unseen" }, ` around ${flat(usage.word)}`));
  const line = element("tr", { className: "line", role: "row" },
    scored ? element("td", { className: "score" }, usage.score === null ? "" : usage.score.toFixed(4)) : null,
    element("td", { className: "left" }, element("span", {}, element("bdi", {}, left))),
    element("td", { className: "word" }, choose),
    element("td", { className: "right" }, element("span", {}, element("bdi", {}, right))),
    columns.map(({ name, of }) => drawValue(name, of(usage))), element("td", { className: "open" }, more));
  for (const cell of line.children) cell.setAttribute("role", "cell");
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
  else line.after(element("tr", { className: "reading", role: "row" },
    element("td", { role: "cell", colSpan: line.children.length }, new Reading(usage, set).element)));
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
