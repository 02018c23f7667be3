// The view Usages: a word in its contexts, sorted by likeness to one of them, grouped into senses, layer by layer.

import { Latest, wasLeft } from "./api.js";
import { byId, count, element, later, Message, plural, valueOf } from "./dom.js";
import { citation, exportButtons, keptNames } from "./export.js";
import { drawLines, likeOf } from "./lines.js";
import { session, writeAddress } from "./state.js";
import { Years } from "./years.js";

const CONTEXT = 300; // characters on either side
const OF_A_SENSE = 10; // lines of each

export class UsagesView {
  constructor() {
    this.message = new Message("usages-message");
    this.latest = new Latest();
    this.years = new Years();
    this.sets = [];
    this.senses = null; // how many, where usages are grouped
    this.chosen = null; // the usage that the others are compared with
    this.counted = null; // the usages that are offered to be counted over time
    byId("usages-form").onsubmit = (event) => { event.preventDefault(); this.senses = this.chosen = null; this.run(); };
    byId("group").onclick = () => { this.senses = Number(byId("senses").value) || 3; this.run(); };
    byId("in-order").onclick = () => { byId("like").value = ""; this.senses = this.chosen = null; this.run(); };
    const resort = later(120, () => this.run());
    byId("layer").oninput = () => { byId("column").value = ""; this.nameLayer(); if (this.answer) resort(); };
    byId("column").onchange = () => { this.nameLayer(); if (this.answer) this.run(); };
    byId("set").onchange = () => { this.openSet(); if (this.answer) this.run(); };
  }

  learn({ features }) {
    byId("usages-form").hidden = byId("usages-views").hidden = !features.length;
    if (!features.length) {
      this.message.tell("This server was started without a feature set of words. "
        + "Make one with: bertfeat extract CORPUS --pooling word --layers all");
    }
    if (!features.length || this.sets.length) return;
    this.sets = features;
    byId("set").replaceChildren(...features.map(({ name }) => element("option", {}, name)));
    byId("set-label").hidden = features.length < 2;
    this.openSet();
    this.message.tell("Type a word and press Enter.");
  }

  get set() { return this.sets.find(({ name }) => name === byId("set").value) ?? this.sets[0]; }

  get column() { return byId("column").value || this.set.layers[Number(byId("layer").value)]?.column; }

  /** Offer the layers and columns of the set that is chosen. */
  openSet(wanted = null) {
    const { layers, columns, kept } = this.set;
    const combined = columns.filter((name) => !layers.some(({ column }) => column === name));
    byId("layer").max = Math.max(0, layers.length - 1);
    byId("layer-box").hidden = layers.length < 2;
    const single = layers.length ? [element("option", { value: "" }, "a single layer")] : [];
    byId("column").replaceChildren(...single, ...combined.map((name) => element("option", { value: name }, name)));
    byId("column-label").hidden = !combined.length || combined.length + layers.length < 2;
    const stored = columns.length - combined.length; // of single layers
    const start = wanted ?? (stored > 1 ? layers.at(-1).column : columns[0]);
    const at = layers.findIndex(({ column }) => column === start);
    byId("column").value = at < 0 ? combined.find((name) => name === start) ?? combined[0] ?? "" : "";
    byId("layer").value = at < 0 ? layers.length - 1 : at;
    this.nameLayer();
    this.years.offer(kept);
    this.counted = null;
  }

  nameLayer() {
    const { layers } = this.set, layer = layers[Number(byId("layer").value)]?.layer;
    const name = byId("column").value ? "(not used)" : layer === 0 ? "0, the embeddings" : `${layer} of ${session.state.model.layers}`;
    byId("layer-name").textContent = name;
    byId("layer").setAttribute("aria-valuetext", name);
  }

  show(parameters) {
    if (!this.sets.length || (this.answer && (!parameters.toString() || location.hash === this.address))) return;
    byId("word").value = parameters.get("word") ?? "";
    byId("like").value = parameters.get("like") ?? "";
    byId("match").value = parameters.get("match") ?? "exact";
    byId("usages-k").value = parameters.get("k") ?? 50;
    byId("usages-where").value = parameters.get("where") ?? "";
    byId("one-per-document").checked = parameters.has("one");
    if (parameters.has("set")) byId("set").value = parameters.get("set");
    if (!byId("set").value) byId("set").value = this.sets[0].name;
    this.openSet(parameters.get("column"));
    this.senses = Number(parameters.get("senses")) || null;
    if (this.senses) byId("senses").value = this.senses;
    if (byId("word").value) this.run();
  }

  /** What the server is asked. */
  body() {
    const like = this.senses ? null : byId("like").value.trim() || null;
    const k = Math.max(1, Math.min(1000, Number(byId("usages-k").value) || 50));
    return {
      word: byId("word").value.trim(), like, senses: this.senses, match: byId("match").value,
      k: this.senses ? Math.min(k, OF_A_SENSE) : k, layers: this.column, where: byId("usages-where").value.trim() || null,
      one_per_document: byId("one-per-document").checked, context: CONTEXT, features: this.set.name,
    };
  }

  async run() {
    const body = this.body();
    if (!body.word) return;
    if (body.match === "any" && !body.like) {
      this.fail(new Error(body.senses ? "Senses are those of one word: match the word itself, or words that begin with it."
        : "Every word of the corpus is compared with a word in a sentence: type one below, with stars around the word."));
      return;
    }
    const k = Number(byId("usages-k").value);
    writeAddress("usages", {
      word: body.word, like: body.like, senses: body.senses, match: body.match === "exact" ? null : body.match,
      k: k === 50 ? null : k, column: body.layers, where: body.where, one: body.one_per_document,
      set: this.sets.length > 1 ? body.features : null,
    });
    this.address = location.hash;
    this.message.busy(body.senses ? "Grouping" : "Looking up");
    try {
      this.answer = await this.latest.ask("usages", { body });
    } catch (error) {
      if (!wasLeft(error)) this.fail(error);
      return;
    }
    this.asked = body;
    this.draw();
  }

  fail(error) {
    this.latest.stop();
    byId("lines").replaceChildren();
    byId("usages-tools").hidden = true;
    this.years.clear(null);
    this.answer = this.counted = null;
    this.message.fail(error);
  }

  draw() {
    const { answer, asked } = this, focused = byId("lines").contains(document.activeElement);
    const groups = answer.senses ?? [{ usages: answer.usages }];
    this.rows = groups.flatMap(({ usages }, at) => usages.map((usage) => ({ ...usage, sense: answer.senses ? at + 1 : null })));
    this.message.tell(this.summary());
    byId("lines").replaceChildren(...groups.flatMap(({ usages, count: members }, at) => {
      const list = drawLines(usages, (usage) => this.choose(usage), (usage) => this.isChosen(usage));
      return members === undefined ? [list] : [element("h3", {}, `Sense ${at + 1}: ${plural(members, "usage")}`), list];
    }));
    if (focused) byId("lines").querySelector(".line[aria-current], .line")?.focus();
    byId("in-order").hidden = !asked.like && !asked.senses;
    const tools = byId("usages-tools");
    tools.hidden = !this.rows.length;
    tools.replaceChildren(...exportButtons(`usages-${asked.word}`, () => this.table(), () => this.cite()));
    if (this.counted !== this.yearsKey()) this.years.clear(answer.found ? asked : null);
    this.counted = this.yearsKey();
  }

  summary() {
    const { found, skipped, documents, senses, grouped, column } = this.answer, { like, match } = this.asked;
    if (!found) return `“${this.asked.word}” does not occur in ${plural(documents, "document")}. ${match === "exact" ? "Match “words that begin with it” finds more." : ""}`;
    const parts = [`${plural(found, "usage")} in ${plural(documents, "document")}`];
    if (skipped) parts.push(`${count(skipped)} without a vector`);
    if (senses) parts.push(`${count(grouped)} grouped by ${column}, the most central ones first`);
    else if (like) parts.push(`the ${count(this.rows.length)} nearest by ${column}`);
    else parts.push(`the first ${count(this.rows.length)}, in the order of the corpus. Choose a line to sort all by likeness to it`);
    return `${parts.join("; ")}.`;
  }

  choose(usage) {
    this.chosen = usage;
    this.senses = null;
    byId("like").value = likeOf(usage, CONTEXT);
    if (byId("match").value === "any") byId("word").value = usage.word;
    this.run();
  }

  isChosen({ row, start, in_pair: inPair }) {
    const { chosen, asked } = this;
    return Boolean(asked.like && chosen && chosen.row === row && chosen.start === start && chosen.in_pair === inPair);
  }

  /** By what usages are counted over time: likeness and layer change nothing of it. */
  yearsKey() {
    const { word, match, where, features, one_per_document: one } = this.asked;
    return JSON.stringify([word, match, where, features, one]);
  }

  table() {
    const kept = keptNames(this.rows);
    const names = ["sense", "score", "id", "row", "left", "word", "right", "start", "end"];
    return { names: [...names, ...kept], rows: this.rows.map((usage) => [
      ...names.map((name) => usage[name]), ...kept.map((name) => valueOf(usage.values, name))]) };
  }

  cite() {
    const { asked, answer } = this;
    return citation(session.state, [
      ["Word", `${asked.word} (match: ${asked.match})`],
      ["Compared with", asked.like],
      ["Senses", asked.senses && `${asked.senses}, by k-means`],
      ["Column", answer.column],
      ["Condition", asked.where],
      ["Usages", `${count(this.rows.length)} shown of ${count(answer.found)}`],
      ["Feature set", `${asked.features}, ${count(this.set.documents)} documents`],
    ]);
  }
}
