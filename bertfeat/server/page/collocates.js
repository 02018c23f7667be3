// The words that stand near a word more often than by chance.

import { byId, count, element, plural } from "./dom.js";

const MOST = 50; // collocates

const COLUMNS = [["near", "near"], ["by chance", "expected"], ["left", "left"], ["right", "right"], ["in the corpus", "found"],
  ["log-likelihood", "log_likelihood"], ["logDice", "log_dice"]];
const DIGITS = new Map([["expected", 1], ["log_likelihood", 1], ["log_dice", 2]]);

export class Collocates {
  path = "collocates";
  busy = "Counting";
  file = "collocates"; // the beginning of the names of saved files

  constructor(view) {
    this.view = view;
    for (const id of ["near-left", "near-right", "measure"]) byId(id).onchange = () => view.again();
  }

  restore(parameters) {
    byId("near-left").value = parameters.get("left") ?? 5;
    byId("near-right").value = parameters.get("right") ?? 5;
    byId("measure").value = parameters.get("measure") ?? "log-likelihood";
  }

  #sides() { return { left: Number(byId("near-left").value), right: Number(byId("near-right").value) }; }

  address() { return { ...this.#sides(), measure: byId("measure").value, column: null, one: null }; }

  body() { return { ...this.#sides(), measure: byId("measure").value, k: MOST }; }

  draw(answer, { left, right }) {
    const { collocates } = answer, parts = [this.view.found(answer)];
    if (answer.found) parts.push(`${plural(collocates.length, "word")} up to ${left} before and ${right} after it, those that stand near least by chance first`);
    const rows = collocates.map((one) => element("tr", {},
      element("th", { scope: "row" }, this.#word(one.word)),
      COLUMNS.map(([, name]) => element("td", { className: "number" }, number(one, name)))));
    const head = element("tr", {}, element("th", { scope: "col" }, "word"),
      COLUMNS.map(([title]) => element("th", { scope: "col", className: "number" }, title)));
    const table = element("table", { className: "counts" }, element("thead", {}, head), element("tbody", {}, rows));
    const names = COLUMNS.map(([, name]) => name);
    return { nodes: rows.length ? [element("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": "Collocates" }, table)] : [],
      told: parts.join("; "),
      table: () => ({ names: ["word", ...names], rows: collocates.map((one) => [one.word, ...names.map((name) => one[name])]) }) };
  }

  #word(word) {
    const button = element("button", { type: "button", className: "more", title: `Look up ${word}` }, word);
    button.onclick = () => { byId("word").value = word; byId("match").value = "exact"; this.view.go("lines"); this.view.look(); };
    return button;
  }

  cite(answer, { left, right, measure }) {
    return [["Collocates", `${measure}, up to ${left} words before and ${right} after`], ["Usages", count(answer.found)]];
  }
}

function number(one, name) {
  const digits = DIGITS.get(name) ?? 0;
  return one[name].toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
