// The list of what was picked on the map: documents, words or tokens, to read and to save.

import { byId, count, element, plural, valueList, valueOf } from "./dom.js";
import { citation, exportButtons, keptNames } from "./export.js";
import { markedText } from "./marks.js";
import { session } from "./state.js";

const LISTED = 100; // until more are asked for
const MOST_SAVED = 2000; // documents of a file

export class Picked {
  constructor(map) { this.map = map; }

  /** List vectors by their numbers; `where` tells where on the map they are. */
  async list(numbers, where) {
    const { layouts, stage, colors } = this.map;
    Object.assign(this, { numbers, where, layout: layouts.get(stage.layout), color: colors.column || "clusters" });
    const title = element("h3", { tabIndex: -1 }, `${plural(numbers.length, session.state.index.unit)} ${where}`);
    const list = element("ol", { className: "hits" });
    const more = element("button", { type: "button" }, "Show more");
    const clear = element("button", { type: "button" }, "Clear");
    clear.onclick = () => { byId("picked").replaceChildren(); this.map.stage.pick([]); byId("points").focus(); };
    const tools = element("div", { className: "tools" }, numbers.length ? this.exports() : [], clear);
    byId("picked").replaceChildren(title, tools, list, more);
    title.focus();
    more.onclick = () => this.extend(list, more);
    await this.extend(list, more);
  }

  async extend(list, more) {
    const start = list.children.length;
    try {
      const found = await this.map.fetch(this.numbers.slice(start, start + LISTED));
      list.append(...found.map((each) => element("li", {}, element("div", { className: "head" }, `id ${each.id}`),
        textsOf(each, "long"), valueList(each.values))));
    } catch (error) {
      this.map.message.fail(error);
    }
    more.hidden = list.children.length >= this.numbers.length;
  }

  exports() {
    const cite = () => citation(session.state, [
      ["Map", `${plural(this.numbers.length, session.state.index.unit)} ${this.where}, ${this.layout}`],
      ["Colored by", this.color],
      ["Index", `${session.state.index.name}, ${count(session.state.index.documents)} documents, ${session.state.index.column}`],
    ]);
    return exportButtons("map", () => this.table(), cite);
  }

  async table() {
    const documents = await this.map.fetch(this.numbers.slice(0, MOST_SAVED)), kept = keptNames(documents);
    const names = ["number", "id", "row", "x", "y", "text", "pair", "start", "end"];
    return { names: [...names, ...kept], rows: documents.map((each) =>
      [...names.map((name) => each[name]), ...kept.map((name) => valueOf(each.values, name))]) };
  }
}

/** The texts of a document; with the token, word or span marked that the point stands for. They begin at `from`. */
export function textsOf({ text, pair, start, end, in_pair: inPair, from = 0 }, className = "") {
  const marks = start === undefined ? [] : [[start - from, end - from, 1]];
  return [[text, inPair ? [] : marks], [pair, inPair ? marks : []]].filter(([each]) => each)
    .map(([each, inside]) => element("p", { dir: "auto", className }, markedText(each, inside)));
}
