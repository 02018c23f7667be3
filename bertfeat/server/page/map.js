// The view Map: the corpus as points. Hovering shows a text, the hits of the last search light up, a lasso lists documents.

import { ask, wasLeft } from "./api.js";
import { Colors } from "./colors.js";
import { byId, count, element, later, Message, plural, valueList, valueOf } from "./dom.js";
import { citation, exportButtons, keptNames } from "./export.js";
import { markedText } from "./marks.js";
import { Stage } from "./stage.js";
import { replaceAddress, session } from "./state.js";

const AT_ONCE = 200; // documents of a request
const LISTED = 100; // of a list, until more are asked for
const MOST_SAVED = 2000; // documents of a file
const MOST_KNOWN = 5000; // whose texts are kept here

export class MapView {
  constructor() {
    this.message = new Message("map-message");
    this.known = new Map(); // number → document
    this.picked = [];
    this.lit = -1; // the search whose hits are lit
    this.step = -1;
    this.colors = new Colors((points, what) => this.list(points, what), () => this.paint());
    byId("zoom-in").onclick = () => this.stage?.zoom(1.5);
    byId("zoom-out").onclick = () => this.stage?.zoom(1 / 1.5);
    byId("whole").onclick = () => this.stage?.showWhole();
    byId("list-view").onclick = () => this.listView();
    byId("lasso").onclick = () => {
      if (!this.stage) return;
      this.stage.lassoing = !this.stage.lassoing;
      byId("lasso").setAttribute("aria-pressed", String(this.stage.lassoing));
    };
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(); });
    this.hover = later(40, (i) => this.open(i, false));
  }

  learn({ index }) {
    for (const id of ["stage", "map-keys"]) byId(id).hidden = !index;
    byId("map").querySelector(".tools").hidden = !index;
    this.colors.offer(index?.facets);
    if (!index) this.message.tell("This server was started without an index, so there is no map.");
  }

  async show(parameters) {
    if (!session.state?.index) return;
    const color = parameters.get("color") ?? "";
    if (color !== this.colors.column) this.colors.wanted = color; // until the visitor chooses another, while the map is loading
    try {
      if (!this.stage) await this.load();
      const [x, y, zoom] = ["x", "y", "zoom"].map((name) => Number(parameters.get(name)));
      if (parameters.has("zoom") && [x, y, zoom].every(Number.isFinite)) this.stage.go({ x, y, zoom });
      if (this.colors.wanted !== this.colors.column) await this.paint();
      if (parameters.has("q") && !session.searched) await this.search(parameters);
      await this.light();
    } catch (error) {
      if (!wasLeft(error)) this.message.fail(error);
    }
  }

  async load() {
    this.message.busy("The map is computed once after the start, or loading");
    const { data, headers } = await ask("page/map", { binary: true });
    const points = Number(headers.get("X-Points")), of = Number(headers.get("X-Of"));
    const [x, y] = [0, 4 * points].map((at) => new Float32Array(data, at, points));
    this.numbers = new Uint32Array(data, 8 * points, points);
    const shares = headers.get("X-Shares").split(",").reduce((sum, share) => sum + Number(share), 0);
    byId("map-note").textContent = `Each point is a ${session.state.index.unit}: ${points === of ? "all" : `${count(points)} of`} ${count(of)}. `
      + `Near points have similar vectors. Laid out by PCA, which keeps ${(100 * shares).toFixed(1)} % of the variance.`;
    this.stage = new Stage(x, y, {
      hover: (i) => { if (!this.kept) this.hover(i); },
      keep: (i) => this.open(i, true),
      lasso: (found) => this.list(found, "inside of the lasso"),
      moved: later(300, () => this.remember()),
      drawn: () => this.placeCard(),
      keys: { n: () => this.next(1), p: () => this.next(-1), l: () => this.listView(), Enter: () => this.next(1) },
    });
    this.message.tell(points ? "" : "The index is empty.");
  }

  remember() {
    if (byId("map").hidden) return;
    replaceAddress("map", { ...this.stage.position, color: this.colors.column, q: session.query, where: session.asked?.where, k: session.asked?.k });
  }

  async paint() {
    if (!this.stage) return;
    try {
      await this.colors.paint(this.stage);
      this.message.tell("");
      this.remember();
    } catch (error) {
      if (!wasLeft(error)) this.message.fail(error);
    }
  }

  // ── hits ──

  async search(parameters) {
    const asked = { query: parameters.get("q"), where: parameters.get("where"), k: Number(parameters.get("k")) || 10 };
    const { hits } = await ask("search", { body: asked });
    Object.assign(session, { query: asked.query, asked, hits, searched: session.searched + 1 });
  }

  async light() {
    if (this.lit === session.searched || !session.searched) return;
    this.lit = session.searched;
    this.step = -1;
    this.stage.hits = await this.placesOf(session.hits);
    byId("map-hits").textContent = session.hits.length
      ? `${plural(this.stage.hits.length, "hit")} of “${session.query}”; n steps through them` : "";
    this.stage.redraw();
    this.remember();
  }

  /** Where hits are, the best first; of hits without numbers by their rows. */
  async placesOf(hits) {
    if (hits.every(({ number }) => number !== undefined)) return this.fetch(hits.map(({ number }) => number));
    if (session.state.index.unit !== "document") return [];
    const rank = new Map(hits.map(({ id }, at) => [id, at]));
    const found = await this.fetch(hits.map(({ row }) => row), "rows");
    return found.filter(({ id }) => rank.has(id)).sort((a, b) => rank.get(a.id) - rank.get(b.id));
  }

  next(step) {
    const places = this.stage.hits.length ? this.stage.hits : this.stage.inView().map((i) => this.place(i));
    if (!places.length) return;
    this.step = (this.step + step + places.length) % places.length;
    const place = places[this.step];
    if (!this.stage.sees(place)) this.stage.center(place.x, place.y);
    this.openPlace(place, true);
  }

  // ── documents ──

  place(i) { return { number: this.numbers[i], x: this.stage.x[i], y: this.stage.y[i] }; }

  /** Documents by their numbers, or by their rows, in that order. */
  async fetch(wanted, by = "numbers") {
    const missing = by === "numbers" ? wanted.filter((number) => !this.known.has(number)) : wanted, found = [];
    for (let at = 0; at < missing.length; at += AT_ONCE) {
      const { documents } = await ask(`page/documents?${by}=${missing.slice(at, at + AT_ONCE).join(",")}`);
      for (const each of documents) this.known.set(each.number, each);
      found.push(...documents);
    }
    const all = by === "numbers" ? wanted.map((number) => this.known.get(number)).filter(Boolean) : found;
    if (this.known.size > MOST_KNOWN) this.known.clear();
    return all;
  }

  open(i, keep) {
    if (i < 0) this.close();
    else this.openPlace(this.place(i), keep);
  }

  async openPlace(place, keep) {
    if (this.stage.current?.number === place.number && this.kept === keep) return;
    this.kept = keep;
    this.stage.current = place;
    this.stage.redraw();
    try {
      const [found] = await this.fetch([place.number]);
      if (this.stage.current === place) this.fillCard(found, keep);
    } catch (error) {
      this.message.fail(error);
    }
  }

  close() {
    this.kept = false;
    byId("card").hidden = true;
    if (!this.stage) return;
    this.stage.current = null;
    this.stage.redraw();
  }

  fillCard(found, keep) {
    const card = byId("card");
    const texts = textsOf(found);
    const close = element("button", { type: "button" }, "Close");
    close.onclick = () => { this.close(); byId("points").focus(); };
    const like = found.text && element("a", { href: `#search?${new URLSearchParams({ q: found.text.slice(0, 400) })}` }, "Search with this text");
    card.className = keep ? "kept" : "";
    card.setAttribute("aria-live", keep ? "polite" : "off");
    card.replaceChildren(...texts, valueList(found.values, [["id", found.id]]),
      ...(keep ? [element("div", { className: "tools" }, close, session.state.index.unit === "document" ? like : null)] : []));
    card.hidden = false;
    this.placeCard();
  }

  placeCard() {
    const card = byId("card"), current = this.stage?.current;
    if (card.hidden || !current) return;
    const [x, y] = this.stage.toScreen(current), { width, height } = this.stage.size, gap = 14;
    const left = x + gap + card.offsetWidth < width ? x + gap : x - gap - card.offsetWidth;
    const top = y + gap + card.offsetHeight < height ? y + gap : y - gap - card.offsetHeight;
    card.style.left = `${Math.max(4, Math.min(left, width - card.offsetWidth - 4))}px`;
    card.style.top = `${Math.max(4, Math.min(top, height - card.offsetHeight - 4))}px`;
  }

  // ── lists ──

  listView() { if (this.stage) this.list(this.stage.inView(), "in view"); }

  async list(points, where) {
    this.stage.pick(points);
    this.picked = points.map((i) => this.numbers[i]);
    this.where = where;
    const title = element("h3", { tabIndex: -1 }, `${plural(points.length, session.state.index.unit)} ${where}`);
    const list = element("ol", { className: "hits" });
    const more = element("button", { type: "button" }, "Show more");
    const clear = element("button", { type: "button" }, "Clear");
    clear.onclick = () => { byId("picked").replaceChildren(); this.stage.pick([]); byId("points").focus(); };
    const tools = element("div", { className: "tools" }, points.length ? this.exports() : [], clear);
    byId("picked").replaceChildren(title, tools, list, more);
    title.focus();
    more.onclick = () => this.extend(list, more);
    await this.extend(list, more);
  }

  async extend(list, more) {
    const start = list.children.length;
    try {
      const found = await this.fetch(this.picked.slice(start, start + LISTED));
      list.append(...found.map((each) => element("li", {}, element("div", { className: "head" }, `id ${each.id}`),
        textsOf(each, "long"), valueList(each.values))));
    } catch (error) {
      this.message.fail(error);
    }
    more.hidden = list.children.length >= this.picked.length;
  }

  exports() {
    const cite = () => citation(session.state, [
      ["Map", `${plural(this.picked.length, session.state.index.unit)} ${this.where}, PCA`],
      ["Colored by", this.colors.column],
      ["Index", `${session.state.index.name}, ${count(session.state.index.documents)} documents, ${session.state.index.column}`],
    ]);
    return exportButtons("map", () => this.table(), cite);
  }

  async table() {
    const documents = await this.fetch(this.picked.slice(0, MOST_SAVED)), kept = keptNames(documents);
    const names = ["number", "id", "row", "x", "y", "text", "pair", "start", "end"];
    return { names: [...names, ...kept], rows: documents.map((each) =>
      [...names.map((name) => each[name]), ...kept.map((name) => valueOf(each.values, name))]) };
  }
}

/** The texts of a document; in an index of words or tokens, with the one that the point stands for marked. */
function textsOf({ text, pair, start, end, in_pair: inPair }, className = "") {
  const marks = start === undefined ? [] : [[start, end, 1]];
  return [[text, inPair ? [] : marks], [pair, inPair ? marks : []]].filter(([each]) => each)
    .map(([each, inside]) => element("p", { dir: "auto", className }, markedText(each, inside)));
}
