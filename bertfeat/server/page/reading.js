// A usage to read on: its whole text, the texts before and after it in the corpus, and more of them.

import { ask } from "./api.js";
import { cutter, element, valueList, valueOf } from "./dom.js";

const MORE = 3; // texts that are added at a time

export class Reading {
  constructor(usage, set) {
    Object.assign(this, { usage, set });
    this.texts = element("div", {}, this.#draw({ row: usage.row, id: usage.id, values: usage.values }));
    this.note = element("p", { className: "message bad", role: "status", hidden: true });
    this.earlier = element("button", { type: "button", onclick: () => this.#add(this.first - MORE, this.first) }, "Earlier");
    this.later = element("button", { type: "button", onclick: () => this.#add(this.last + 1, this.last + 1 + MORE) }, "Later");
    this.element = element("div", { className: "texts" }, this.earlier, this.texts, this.note, this.later);
    this.first = this.last = usage.row;
    this.#add(usage.row - 1, usage.row + 2);
  }

  /** Add the texts of some rows of the corpus, before or after those that are shown. */
  async #add(start, stop) {
    this.earlier.disabled = this.later.disabled = true; // until the answer is there
    const from = Math.max(0, start), query = new URLSearchParams({ features: this.set.name, start: from, stop });
    try {
      const { documents } = await ask(`page/reading?${query}`);
      const own = documents.find(({ row }) => row === this.usage.row);
      if (own) this.texts.replaceChildren();
      const drawn = documents.map((document) => this.#draw(document));
      if (stop <= this.first) this.texts.prepend(...drawn);
      else this.texts.append(...drawn);
    } catch (error) {
      this.note.textContent = error.message;
      this.note.hidden = false;
      this.earlier.disabled = this.later.disabled = false;
      return;
    }
    this.note.hidden = true;
    this.first = Math.min(this.first, from);
    this.last = Math.max(this.last, stop - 1);
    this.earlier.disabled = this.first === 0;
    this.later.disabled = this.last >= this.set.rows - 1;
  }

  #draw(document) {
    const isOwn = document.row === this.usage.row, before = this.usage.values ?? {};
    const values = Object.entries(document.values).filter(([name, value]) => isOwn || value !== valueOf(before, name));
    const texts = [[document.text, false], [document.pair, true]].filter(([text]) => text);
    const paragraphs = texts.map(([text, inPair]) => element("p", { dir: "auto" },
      isOwn && inPair === this.usage.in_pair ? this.#mark(text) : text));
    if (isOwn && !texts.length) paragraphs.push(element("p", { dir: "auto" }, this.#context()));
    return element("div", { className: isOwn ? "own" : "" }, valueList(Object.fromEntries(values), [["id", document.id]]), paragraphs);
  }

  /** The text with its word marked; where it is longer than what was sent, the context of the usage. */
  #mark(text) {
    const { start, end, word } = this.usage, cut = cutter(text);
    return cut(start, end) === word ? [cut(0, start), element("mark", {}, word), cut(end, Infinity)] : this.#context();
  }

  #context() {
    const { left, word, right } = this.usage;
    return [left, element("mark", {}, word), right];
  }
}
