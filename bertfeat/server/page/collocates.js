// The words that stand near a word more often than by chance.

import { byId, count, countTable, element, plural } from "./dom.js";

const MOST = 50; // collocates

const COLUMNS = [["near", "near"], ["by chance", "expected"], ["left", "left"], ["right", "right"], ["in the corpus", "found"],
  ["documents", "documents"], ["DP", "dispersion"], ["log-likelihood", "log_likelihood"], ["logDice", "log_dice"]];
const DIGITS = new Map([["expected", 1], ["dispersion", 2], ["log_likelihood", 1], ["log_dice", 2]]);

export class Collocates {
  path = "collocates";
  busy = "Counting";
  file = "collocates"; // the beginning of the names of saved files

  constructor(view) {
    this.view = view;
    byId("measure").onchange = () => view.again();
  }

  restore(parameters) { byId("measure").value = parameters.get("measure") ?? "log-likelihood"; }

  address() { return { ...this.view.reach, measure: byId("measure").value, column: null, one: null }; }

  body() { return { ...this.view.reach, measure: byId("measure").value, k: MOST }; }

  draw(answer, { left, right, measure }) {
    const { collocates } = answer, parts = [this.view.found(answer)];
    if (answer.found) parts.push(`${plural(collocates.length, "word")} up to ${left} before and ${right} after it, strongest first by ${measure}`);
    const names = COLUMNS.map(([, name]) => name);
    const rows = collocates.map((one) => [this.#word(one.word), ...names.map((name) => number(one, name))]);
    return { nodes: rows.length ? [countTable("Collocates", ["word", ...COLUMNS.map(([title]) => title)], rows)] : [],
      told: parts.join("; "),
      table: () => ({ names: ["word", ...names], rows: collocates.map((one) => [one.word, ...names.map((name) => one[name])]) }) };
  }

  #word(word) {
    const button = element("button", { type: "button", className: "more", title: `Show the lines with ${word}` }, word);
    button.onclick = () => {
      this.view.restate();
      byId("near").value = word.replace(/[^\p{L}\p{M}\p{N}\s]/gu, "\\$&"); // signs of patterns
      this.view.ways.get("lines").forget();
      this.view.switch("lines");
    };
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
