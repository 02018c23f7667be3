// The view Usages: a word, and one of four ways to look at it: its lines, senses, collocates or frequency.

import { Latest, wasLeft } from "./api.js";
import { Collocates } from "./collocates.js";
import { byId, count, element, Message, plural, wholeNumber } from "./dom.js";
import { citation, exportButtons } from "./export.js";
import { Frequency } from "./frequency.js";
import { Layers } from "./layers.js";
import { Lines } from "./lines.js";
import { Senses } from "./senses.js";
import { replaceAddress, session, writeAddress } from "./state.js";

const REACH = ["near-left", "near-right"]; // the fields of the numbers of words that are near

const reachOf = (words) => words === null ? "any number of words" : `up to ${plural(words, "word")}`;

export class UsagesView {
  constructor() {
    this.usual = "5"; // what the fields of REACH hold where the visitor types nothing
    this.message = new Message("usages-message");
    this.latest = new Latest();
    this.sets = [];
    this.answer = null;
    this.way = "lines";
    this.layers = new Layers(() => this.again());
    this.ways = new Map([["lines", new Lines(this)], ["senses", new Senses(this)],
      ["collocates", new Collocates(this)], ["frequency", new Frequency(this)]]);
    this.form = byId("usages-form");
    this.form.onsubmit = (event) => { event.preventDefault(); this.look(); };
    byId("set").onchange = () => { this.openSet(); this.again(); };
    for (const id of REACH) byId(id).onchange = () => this.again();
    byId("within").onchange = () => { this.arrange(); this.again(); };
    byId("near").oninput = () => this.arrange();
    for (const button of byId("ways").children) button.onclick = () => this.switch(button.value);
    this.go("lines");
  }

  learn({ features }) {
    this.form.hidden = !features.length;
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

  get current() { return this.ways.get(this.way); }

  /** What a usage is shown in, with the words near it: "sentences", "paragraphs", or null for its text. */
  get spans() { return byId("within").value || null; }

  /** The number of words on each side that are near, where the visitor says nothing; null: all of the span. */
  get usualReach() { return this.spans && this.way !== "collocates" ? null : 5; }

  /** The words before and after a usage that are near; null where nothing must be near. */
  get reach() {
    const asked = this.way === "collocates" || byId("near").value.trim();
    return asked ? { left: wholeNumber("near-left", this.usualReach), right: wholeNumber("near-right", this.usualReach) } : null;
  }

  openSet(column = null) {
    this.layers.offer(this.set, column);
    for (const way of this.ways.values()) way.open?.(this.set);
    this.arrange();
  }

  /** Choose what is shown; the fields that it does not read are hidden. */
  go(way) {
    this.way = way;
    for (const button of byId("ways").children) button.setAttribute("aria-pressed", String(button.value === way));
    this.arrange();
  }

  /** Look at the word in another way, at the wish of the visitor. */
  switch(way) {
    this.go(way);
    this.look();
  }

  arrange() {
    for (const field of this.form.querySelectorAll("[data-ways]"))
      field.hidden = !field.dataset.ways.split(" ").includes(this.way);
    const usual = String(this.usualReach ?? "");
    for (const id of REACH) {
      if (byId(id).value === this.usual) byId(id).value = usual; // what the visitor did not type
      byId(id).parentElement.hidden = this.way !== "collocates" && !byId("near").value.trim();
    }
    this.usual = usual;
    this.layers.arrange();
  }

  show(parameters) {
    if (!this.sets.length || (this.answer && (!parameters.toString() || location.hash === this.address))) return;
    this.go(this.ways.has(parameters.get("show")) ? parameters.get("show") : "lines");
    byId("word").value = parameters.get("word") ?? "";
    this.restoreSpans(parameters.get("spans") ?? "");
    this.usual = String(this.usualReach ?? "");
    for (const [id, name, usual] of [["usages-where", "where", ""], ["near", "near", ""], ["near-left", "left", this.usual], ["near-right", "right", this.usual]])
      byId(id).value = parameters.get(name) ?? usual;
    byId("one-per-document").checked = parameters.has("one");
    if (parameters.has("set")) byId("set").value = parameters.get("set");
    if (!byId("set").value) byId("set").value = this.sets[0].name;
    this.openSet(parameters.get("column"));
    for (const way of this.ways.values()) way.restore(parameters);
    if (byId("word").value) this.run(replaceAddress);
  }

  /** Choose spans, also those that the list does not offer, such as words:50. */
  restoreSpans(spans) {
    byId("within").value = spans;
    if (byId("within").value === spans) return;
    byId("within").append(element("option", { value: spans }, spans));
    byId("within").value = spans;
  }

  /** Look up what the form says, from its first page. */
  look() {
    this.current.begin?.();
    return this.run();
  }

  /** Look up again, after a field was changed, if something is shown. */
  again() { if (this.answer) this.look(); }

  /** Put what was asked back into the fields that may have been changed since. */
  restate() {
    for (const [id, value] of [["word", this.asked.word], ["usages-where", this.asked.where], ["near", this.asked.near],
      ["within", this.asked.spans], ["like", this.asked.like]]) byId(id).value = value ?? "";
  }

  async run(write = writeAddress) {
    const word = byId("word").value.trim(), { current } = this;
    if (!word) {
      this.latest.stop();
      this.message.tell("Type a word and press Enter.");
      return;
    }
    const where = byId("usages-where").value.trim() || null, features = this.set.name;
    const one = byId("one-per-document").checked, column = this.layers.column;
    const near = this.way === "collocates" ? null : byId("near").value.trim() || null;
    const { spans } = this;
    let asked;
    try {
      asked = { word, where, features, spans, ...(near ? { near, ...this.reach } : {}), ...current.body({ column, one, spans }) };
    } catch (error) {
      this.fail(error);
      return;
    }
    write("usages", { word, spans, near, ...(near ? this.reach : {}), where, one, column,
      show: this.way === "lines" ? null : this.way, set: this.sets.length > 1 ? features : null, ...current.address() });
    this.address = location.hash;
    this.message.busy(current.busy);
    byId("usages-tools").inert = true; // they save the answer before, whose address is gone
    let answer;
    try {
      answer = await this.latest.ask(current.path ?? "usages", { body: asked });
    } catch (error) {
      if (!wasLeft(error)) this.fail(error);
      return;
    }
    Object.assign(this, { answer, asked });
    this.draw(current);
  }

  fail(error) {
    this.latest.stop();
    byId("usages-shown").replaceChildren();
    byId("usages-tools").hidden = byId("line-pages").hidden = true;
    this.answer = null;
    this.message.fail(error);
  }

  /** Show the answer in the way that it was asked for. */
  draw(way) {
    const { answer, asked } = this, shown = byId("usages-shown"), { activeElement: before } = document;
    const focused = shown.contains(before), order = before?.dataset.order;
    byId("line-pages").hidden = true;
    const { nodes, told, table } = way.draw(answer, asked);
    shown.replaceChildren(...nodes);
    if (focused) {
      const heading = [...shown.querySelectorAll("[data-order]")].find((each) => each.dataset.order === order);
      (heading ?? shown.querySelector(".line[aria-current] .choose") ?? shown.querySelector(".choose") ?? shown).focus({ preventScroll: true });
    }
    this.message.tell(`${told}.`, answer.warnings);
    const tools = byId("usages-tools"), name = `${way.file}-${asked.word}`;
    tools.hidden = !table().rows.length;
    tools.inert = false;
    tools.replaceChildren(...exportButtons(name, table, () => this.cite(way)), ...(way.buttons?.(name) ?? []));
  }

  /** How often the word was found, as the beginning of a sentence. */
  found({ found, per_million: often, documents }) {
    const { word, near, spans } = this.asked, where = `${spans ? `within ${spans} ` : ""}in ${plural(documents, "document")}`;
    if (!found && near) return `“${word}” does not occur near “${near}” ${where}`;
    if (!found) return `“${word}” does not occur ${where}${/^[\p{L}\p{N}]+$/u.test(word) ? `; “${word}*” also finds words that begin so` : ""}`;
    const share = often ? `, ${often.toLocaleString("en", { maximumFractionDigits: often < 1000 ? 1 : 0 })} per million words` : "";
    return `${plural(found, "usage")}${near ? ` near “${near}”` : ""} ${where}${share}`;
  }

  cite(way) {
    const { asked, answer } = this;
    return citation(session.state, [
      ["Word", asked.word],
      ["Near", asked.near && `${asked.near}, ${reachOf(asked.left)} before and ${reachOf(asked.right)} after`],
      ["Within", asked.spans],
      ...way.cite(answer, asked),
      ["Condition", asked.where],
      ["Feature set", `${asked.features}, ${count(this.set.documents)} documents`],
    ]);
  }
}
