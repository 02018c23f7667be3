// The view Search: a query, its hits with their texts, and filters.

import { Latest, wasLeft } from "./api.js";
import { byId, count, element, Message, plural, valueList } from "./dom.js";
import { citation, exportButtons, keptNames } from "./export.js";
import { Facets } from "./facets.js";
import { markedText } from "./marks.js";
import { session, writeAddress } from "./state.js";

const LONG = 500; // characters, from which a text is folded

export class SearchView {
  constructor() {
    this.message = new Message("search-message");
    this.latest = new Latest();
    this.facets = new Facets(() => this.run());
    this.answer = null;
    byId("search-form").onsubmit = (event) => { event.preventDefault(); this.run(); };
    byId("exact").onchange = byId("search-k").onchange = () => this.run();
    if (matchMedia("(min-width: 761px)").matches) byId("facets").open = true;
  }

  /** What the server said of itself has come, or more of it. */
  learn({ index }) {
    byId("search-form").hidden = byId("facets").hidden = !index;
    byId("query-hint").hidden = !index || index.unit === "document";
    this.facets.show(index?.facets);
    if (!index) this.message.tell("This server was started without an index, so there is nothing to search.");
    else this.message.tell(`${plural(index.documents, "document")}. Type a query and press Enter.`);
  }

  show(parameters) {
    const query = parameters.get("q") ?? "";
    if (this.answer && (!parameters.toString() || location.hash === this.address)) return;
    byId("query").value = query;
    byId("search-k").value = parameters.get("k") ?? 10;
    byId("exact").checked = parameters.has("exact");
    this.facets.restore(parameters.get("facets"), parameters.get("where"));
    if (query && session.state?.index) this.run();
  }

  async run() {
    const query = byId("query").value.trim();
    if (!query) return;
    const k = Math.max(1, Math.min(1000, Number(byId("search-k").value) || 10)), exact = byId("exact").checked;
    const { condition, saved, written } = this.facets;
    writeAddress("search", { q: query, k: k === 10 ? null : k, exact, facets: saved, where: written.trim() });
    this.address = location.hash;
    this.message.busy("Searching");
    const began = performance.now();
    try {
      const body = { query, k, where: condition, exact, highlight: true };
      this.answer = await this.latest.ask("search", { body });
    } catch (error) {
      if (wasLeft(error)) return;
      this.fail(error);
      return;
    }
    this.asked = { query, k, condition, exact };
    this.draw(performance.now() - began);
  }

  fail(error) {
    byId("hits").replaceChildren();
    byId("search-tools").hidden = true;
    this.answer = null;
    this.message.fail(error);
  }

  draw(milliseconds) {
    const { hits, highlights } = this.answer;
    const { query, k, condition: where } = this.asked;
    Object.assign(session, { query, asked: { query, k, where }, hits, searched: session.searched + 1 });
    const { condition } = this.asked;
    const told = hits.length ? plural(hits.length, "hit") : "No hits";
    this.message.tell(`${told} in ${count(Math.round(milliseconds))} ms${condition ? `, where ${condition}` : ""}.`
      + (hits.length || !condition ? "" : " No document meets the condition."));
    byId("hits").replaceChildren(...hits.map((hit, at) => drawHit(hit, hit.highlights ?? highlights?.[at])));
    const tools = byId("search-tools");
    tools.hidden = !hits.length;
    tools.replaceChildren(...exportButtons("search", () => hitTable(hits), () => this.cite()),
      element("a", { href: "#map" }, "Show the hits on the map"));
  }

  cite() {
    const { query, k, condition, exact } = this.asked, { index } = session.state;
    return citation(session.state, [
      ["Query", query],
      ["Condition", condition],
      ["Hits", `${this.answer.hits.length} nearest (asked for ${k})${exact ? ", compared with every vector" : ""}`],
      ["Index", `${index.name}, ${count(index.documents)} documents, ${index.column}, ${index.metric}`],
      ["Recall at 10 as measured", index.recall?.at?.["10"]],
    ]);
  }
}

function hitTable(hits) {
  const kept = keptNames(hits);
  const names = ["rank", "id", "row", "score", "text", "pair", "word"];
  const rows = hits.map(({ rank, id, row, score, text, pair, string, values }) =>
    [rank, id, row, score, text, pair, string, ...kept.map((name) => values?.[name])]);
  return { names: [...names, ...kept], rows };
}

function drawHit(hit, highlights) {
  const head = element("div", { className: "head" },
    element("span", { className: "score", title: "Score" }, hit.score.toFixed(4)), element("span", {}, `id ${hit.id}`));
  const marks = hit.start === undefined ? highlights ?? [] : [[hit.start, hit.end, 1]];
  const texts = [[hit.text, hit.in_pair ? [] : marks], [hit.pair, hit.in_pair ? marks : []]].filter(([text]) => text);
  const shown = texts.flatMap(([text, inside]) => drawText(text, inside));
  if (!shown.length) shown.push(element("p", { className: "soft" }, "The index keeps no texts."));
  return element("li", { value: hit.rank }, head, shown, valueList(hit.values));
}

function drawText(text, marks) {
  const paragraph = element("p", { dir: "auto" }, markedText(text, marks));
  if (text.length <= LONG) return [paragraph];
  paragraph.classList.add("long");
  const more = element("button", { type: "button", className: "more", "aria-expanded": "false" }, "Whole text");
  more.onclick = () => {
    const open = paragraph.classList.toggle("open");
    more.setAttribute("aria-expanded", String(open));
    more.textContent = open ? "Less" : "Whole text";
  };
  return [paragraph, more];
}
