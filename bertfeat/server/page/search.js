// The view Search: a query, its hits with their texts, a page of them at a time, and filters.

import { Latest, wasLeft } from "./api.js";
import { byId, count, cutter, element, Message, plural, valueList, valueOf } from "./dom.js";
import { citation, exportButtons, keptNames } from "./export.js";
import { Facets } from "./facets.js";
import { markedText } from "./marks.js";
import { session, writeAddress } from "./state.js";
import { Reasons } from "./why.js";

const LONG = 500; // characters, from which a text is folded
const AROUND = 150; // characters on each side of a word or span in a folded text
const OF_A_PAGE = 25; // hits

export class SearchView {
  constructor() {
    this.message = new Message("search-message");
    this.latest = new Latest();
    this.facets = new Facets(() => this.run());
    this.reasons = new Reasons();
    this.answer = null;
    this.page = 0; // of the hits that are shown
    byId("search-form").onsubmit = (event) => { event.preventDefault(); this.run(); };
    byId("exact").onchange = byId("one-a-text").onchange = byId("search-k").onchange = () => this.run();
    byId("hits-before").onclick = () => this.turn(-1);
    byId("hits-after").onclick = () => this.turn(1);
    if (matchMedia("(min-width: 761px)").matches) byId("facets").open = true;
  }

  /** What the server said of itself has come, or more of it. */
  learn({ index }) {
    byId("search-form").hidden = byId("facets").hidden = !index;
    byId("query-hint").hidden = !index?.marks_words;
    byId("one-of-each").hidden = !index || index.per_text;
    this.facets.show(index?.facets);
    if (!index) this.message.tell("This server was started without an index, so there is nothing to search.");
    else this.message.tell(`${plural(index.documents, "document")}. Type a query and press Enter.`);
  }

  show(parameters) {
    const query = parameters.get("q") ?? "";
    if (this.answer && (!parameters.toString() || location.hash === this.address)) return;
    this.wantedPage = Math.max(0, (parseInt(parameters.get("page"), 10) || 1) - 1);
    byId("query").value = query;
    byId("search-k").value = parameters.get("k") ?? 10;
    byId("exact").checked = parameters.has("exact");
    byId("one-a-text").checked = parameters.has("one");
    this.facets.restore(parameters.get("facets"), parameters.get("where"));
    if (query && session.state?.index) this.run();
  }

  async run() {
    const query = byId("query").value.trim();
    if (!query) return;
    const k = Math.max(1, Math.min(1000, Number(byId("search-k").value) || 10)), exact = byId("exact").checked;
    const { condition } = this.facets, page = this.wantedPage ?? 0;
    this.wantedPage = null;
    const one = byId("one-a-text").checked && !byId("one-of-each").hidden;
    this.asked = { query, k, condition, exact, one };
    this.write(page);
    this.message.busy("Searching");
    this.reasons.stop();
    const began = performance.now();
    try {
      const body = { query, k, where: condition, exact, one_per_document: one };
      this.answer = await this.latest.ask("search", { body });
    } catch (error) {
      if (wasLeft(error)) return;
      this.fail(error);
      return;
    }
    this.draw(performance.now() - began, page);
  }

  /** Put what is asked, and the page that is shown, into the address. */
  write(page) {
    const { query, k, exact, one } = this.asked, { saved, written } = this.facets;
    writeAddress("search", { q: query, k: k === 10 ? null : k, exact, one, facets: saved, where: written.trim(), page: page ? page + 1 : null });
    this.address = location.hash;
  }

  fail(error) {
    byId("hits").replaceChildren();
    byId("search-tools").hidden = byId("hit-pages").hidden = true;
    this.answer = null;
    this.message.fail(error);
  }

  draw(milliseconds, page) {
    const { hits } = this.answer;
    const { query, k, condition: where } = this.asked;
    Object.assign(session, { query, asked: { query, k, where }, hits, searched: session.searched + 1 });
    const { condition } = this.asked;
    const told = hits.length ? plural(hits.length, "hit") : "No hits";
    this.message.tell(`${told} in ${count(Math.round(milliseconds))} ms${condition ? `, where ${condition}` : ""}.`
      + (hits.length || !condition ? "" : ` No document meets the condition.${this.facets.ranges()}`), this.answer.warnings);
    this.reasons.begin(query);
    this.drawPage(Math.min(page, Math.max(0, Math.ceil(hits.length / OF_A_PAGE) - 1)));
    const tools = byId("search-tools");
    tools.hidden = !hits.length;
    tools.replaceChildren(...exportButtons("search", () => hitTable(hits), () => this.cite()),
      element("a", { href: "#map" }, "Show the hits on the map"));
  }

  drawPage(page) {
    const { hits } = this.answer, start = page * OF_A_PAGE, stop = Math.min(hits.length, start + OF_A_PAGE);
    this.page = page;
    byId("hits").replaceChildren(...hits.slice(start, stop).map((hit) => drawHit(hit, this.reasons)));
    byId("hit-pages").hidden = hits.length <= OF_A_PAGE;
    byId("hit-range").textContent = `${count(start + 1)} to ${count(stop)} of ${count(hits.length)}`;
    byId("hits-before").disabled = !page;
    byId("hits-after").disabled = stop >= hits.length;
  }

  turn(by) {
    this.drawPage(this.page + by);
    this.write(this.page);
    byId("hits").focus({ preventScroll: true });
    byId("search-message").scrollIntoView();
  }

  cite() {
    const { query, k, condition, exact, one } = this.asked, { index } = session.state;
    return citation(session.state, [
      ["Query", query],
      ["Condition", condition],
      ["Hits", `${this.answer.hits.length} nearest (asked for ${k})${one ? ", one of each text" : ""}${exact ? ", compared with every vector" : ""}`],
      ["Index", `${index.name}, ${count(index.documents)} documents, ${index.column}, ${index.metric}`],
      ["Recall at 10 as measured", index.recall?.at?.["10"]],
    ]);
  }
}

function hitTable(hits) {
  const kept = keptNames(hits);
  const names = ["rank", "id", "row", "score", "text", "pair", "string"];
  const rows = hits.map(({ rank, id, row, score, text, pair, string, values }) =>
    [rank, id, row, score, text, pair, string, ...kept.map((name) => valueOf(values, name))]);
  return { names: [...names, ...kept], rows };
}

/** A hit; the words of its text are shaded by what they add to its score once it is on the screen. */
function drawHit(hit, reasons) {
  const head = element("div", { className: "head" },
    element("span", { className: "score", title: "Score" }, hit.score.toFixed(4)), element("span", {}, `id ${hit.id}`));
  const isWord = hit.start !== undefined, marks = isWord ? [[hit.start, hit.end, 1]] : [];
  const texts = [[hit.text, hit.in_pair ? [] : marks], [hit.pair, hit.in_pair ? marks : []]].filter(([text]) => text);
  const shown = texts.flatMap(([text, inside]) => drawText(text, inside));
  if (!shown.length) shown.push(element("p", { className: "soft" }, "The index keeps no texts."));
  const item = element("li", { value: hit.rank }, head, shown, valueList(hit.values));
  if (!isWord && hit.text && hit.number !== undefined)
    reasons.follow(item, hit.number, (marks) => shown[0].replaceChildren(...markedText(hit.text, marks)));
  return item;
}

function drawText(text, marks) {
  const paragraph = element("p", { dir: "auto" }, markedText(text, marks));
  if (text.length <= LONG) return [paragraph];
  const whole = [...paragraph.childNodes], part = marks.length ? around(text, marks[0]) : whole;
  paragraph.replaceChildren(...part);
  paragraph.classList.add("long");
  const more = element("button", { type: "button", className: "more", "aria-expanded": "false" }, "Whole text");
  more.onclick = () => {
    const open = paragraph.classList.toggle("open");
    if (marks.length) paragraph.replaceChildren(...(open ? whole : part));
    more.setAttribute("aria-expanded", String(open));
    more.textContent = open ? "Less" : "Whole text";
  };
  return [paragraph, more];
}

/** A word or a span with what is around it in its text. */
function around(text, [start, end, weight]) {
  const cut = cutter(text), from = Math.max(0, start - AROUND), rest = cut(end + AROUND, Infinity) ? "…" : "";
  const before = `${from ? "…" : ""}${cut(from, start)}`;
  return [before, ...markedText(cut(start, end), [[0, end - start, weight]]), `${cut(end, end + AROUND)}${rest}`];
}
