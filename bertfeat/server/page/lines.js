// The usages of a word as lines, a page at a time, in an order of the visitor's choice.

import { byId, count, element, valueOf, wholeNumber } from "./dom.js";
import { keptNames } from "./export.js";
import { drawConcordance, isOrder } from "./concordance.js";

const CONTEXT = 300; // characters on either side
const LINES = 50;
const LIKENESS = ":like"; // the order of a sentence; no kept column is asked for by that name

export class Lines {
  busy = "Looking up";
  file = "usages"; // the beginning of the names of saved files

  constructor(view) {
    this.view = view;
    this.page = 1;
    this.chosen = null; // the usage that the others are compared with, and for which word it was chosen
    byId("like").oninput = () => this.#offerLikeness();
    byId("sort").onchange = () => {
      if (byId("sort").value !== LIKENESS) this.forget();
      view.look();
    };
    byId("usages-k").onchange = byId("sample").onchange = () => view.again();
    byId("lines-before").onclick = () => this.turn(-1);
    byId("lines-after").onclick = () => this.turn(1);
  }

  open({ kept }) {
    const orders = [["", "of the corpus"], ["left", "by the words on the left"], ["right", "by the words on the right"],
      ...kept.filter(({ name }) => isOrder(name)).map(({ name }) => [name, `by ${name}`]), [LIKENESS, "by likeness to the sentence"]];
    byId("sort").replaceChildren(...orders.map(([value, name]) => element("option", { value }, name)));
    this.chosen = null;
    this.#offerLikeness();
  }

  /** Lines are ordered by likeness where there is a sentence. */
  #offerLikeness() { byId("sort").querySelector(`[value="${LIKENESS}"]`).disabled = !byId("like").value.trim(); }

  /** Compare with no sentence. */
  forget() {
    byId("like").value = "";
    this.chosen = null;
  }

  restore(parameters) {
    byId("like").value = parameters.get("like") ?? "";
    byId("sort").value = parameters.get("sort") ?? "";
    if (!byId("sort").value) byId("sort").value = "";
    this.#offerLikeness();
    byId("usages-k").value = parameters.get("k") ?? LINES;
    byId("sample").value = parameters.get("sample") ?? "";
    this.page = Math.max(1, parseInt(parameters.get("page"), 10) || 1);
  }

  begin() {
    this.page = 1;
    const word = byId("word").value.trim(); // of *, every word, a chosen line stays: all are compared with it
    if (this.chosen && word !== "*" && this.chosen.word !== word) this.forget();
  }

  body({ column, one, spans }) {
    const like = byId("like").value.trim() || null, chosen = byId("sort");
    this.#offerLikeness();
    if (like) chosen.value = LIKENESS;
    else if (chosen.value === LIKENESS) chosen.value = "";
    this.sort = like ? null : chosen.value || null;
    this.k = wholeNumber("usages-k", LINES);
    this.sample = wholeNumber("sample", null);
    return { like, sort: this.sort, k: this.k, page: this.page, sample: this.sample,
      layers: column, one_per_document: one, context: spans ? null : CONTEXT };
  }

  address() {
    return { like: byId("like").value.trim(), sort: this.sort, k: this.k === LINES ? null : this.k,
      sample: this.sample, page: this.page > 1 ? this.page : null };
  }

  draw(answer, asked) {
    const { usages, found, skipped, column } = answer, { like, k, page, sample, one_per_document: one } = asked;
    const total = one ? null : Math.min(found, sample ?? found) - skipped;
    const start = k * (page - 1), stop = start + usages.length;
    byId("line-pages").hidden = page === 1 && (usages.length < k || total === k);
    const range = usages.length ? `${count(start + 1)} to ${count(stop)}` : "no lines";
    byId("line-range").textContent = total === null ? range : `${range} of ${count(total)}`;
    byId("lines-before").disabled = page === 1;
    byId("lines-after").disabled = usages.length < k || stop === total;
    const parts = [this.view.found(answer)];
    if (found && sample && sample < found) parts.push(`a random sample of ${count(sample)}`);
    if (skipped) parts.push(`${count(skipped)} without a vector`);
    if (like) parts.push(`the nearest by ${column} first`);
    else if (usages.length) parts.push("choose the word of a line to sort all by likeness to it");
    if (found && !usages.length) parts.push(`page ${count(page)} has none`);
    const nodes = usages.length ? [drawConcordance(usages, this.view.set, this.#how(asked))] : [];
    return { nodes, told: parts.join("; "), table: () => usageTable(usages.map((usage) => ({ usage }))) };
  }

  #how({ like, sort }) {
    return {
      sort: like ? null : sort ?? "",
      resort: (value) => { byId("sort").value = value; byId("sort").onchange(); },
      choose: (usage) => this.choose(usage),
      isCurrent: ({ row, start, in_pair: inPair }) => {
        const chosen = this.chosen?.usage;
        return Boolean(chosen && like === this.chosen.like && chosen.row === row && chosen.start === start && chosen.in_pair === inPair);
      },
    };
  }

  /** Sort all lines by likeness to one of them. */
  choose(usage) {
    const like = sentenceOf(usage);
    byId("like").value = like;
    this.chosen = { usage, like, word: byId("word").value.trim() };
    this.view.go("lines");
    this.view.look();
  }

  turn(by) {
    this.view.restate();
    this.page = this.view.asked.page + by;
    this.view.run();
    byId("usages-shown").focus({ preventScroll: true });
    byId("usages-message").scrollIntoView();
  }

  cite({ column, found, usages }, { like, sort, sample, page, k }) {
    return [
      ["Compared with", like],
      ["Column", like && column],
      ["Order", !like && sort ? `by ${sort}` : null],
      ["Sample", sample && `${count(sample)}, at random`],
      ["Usages", `${count(usages.length)} shown of ${count(found)}${page > 1 ? `, from number ${count(k * (page - 1) + 1)}` : ""}`],
    ];
  }
}

/** Usages, each with the number of its sense or none, as rows of a file. */
export function usageTable(numbered) {
  const kept = keptNames(numbered.map(({ usage }) => usage));
  const names = ["score", "id", "row", "left", "word", "right", "start", "end"];
  const rows = numbered.map(({ usage, sense }) =>
    [sense, ...names.map((name) => usage[name]), ...kept.map((name) => valueOf(usage.values, name))]);
  return { names: ["sense", ...names, ...kept], rows };
}

/** A line that holds a usage, with its word marked. Other stars would be marks too, so they become spaces. */
function sentenceOf(usage) {
  const plain = (text) => text.replaceAll("*", " ").replace(/\s+/g, " ");
  const before = [...usage.left], after = [...usage.right];
  // where a side is cut off, it may begin or end within a word
  const left = before.length < CONTEXT ? usage.left : before.slice(-CONTEXT).join("").replace(/^\S*\s/, "");
  const right = after.length < CONTEXT ? usage.right : after.slice(0, CONTEXT).join("").replace(/\s\S*$/, "");
  return `${plain(left)}*${plain(usage.word)}*${plain(right)}`.trim();
}
