// The view Map: the corpus as points. Hovering shows a text, the hits of the last search light up, a lasso lists documents.

import { ask, wasLeft } from "./api.js";
import { Colors } from "./colors.js";
import { byId, count, element, later, Message, plural, valueList } from "./dom.js";
import { Picked, textsOf } from "./picked.js";
import { Stage } from "./stage.js";
import { replaceAddress, session } from "./state.js";

const AT_ONCE = 200; // documents of a request
const MOST_KNOWN = 5000; // whose texts are kept here
const QUICK = "pca"; // the layout that is there at once

export class MapView {
  constructor() {
    this.message = new Message("map-message");
    this.known = new Map(); // number → document
    this.picked = new Picked(this);
    this.lit = -1; // the search whose hits are lit
    this.step = -1;
    this.colors = new Colors((points, what) => this.list(points, what), () => this.paint());
    byId("layout").onchange = () => {
      this.goal = null; // in another layout
      this.loading = this.load(byId("layout").value);
      this.loading.catch((error) => this.fail(error));
    };
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
    this.layouts = new Map((index?.layouts ?? []).map(({ name, title }) => [name, title]));
    byId("layout").replaceChildren(...[...this.layouts].map(([value, title]) => element("option", { value }, title)));
    byId("layout-label").hidden = this.layouts.size < 2;
    this.colors.offer(index?.facets);
    if (!index) this.message.tell("This server was started without an index, so there is no map.");
  }

  async show(parameters) {
    if (!session.state?.index) return;
    const color = parameters.get("color") ?? "";
    if (color !== this.colors.column) this.colors.wanted = color; // until the visitor chooses another, while the map is loading
    const wanted = parameters.get("layout") ?? "", layout = this.layouts.has(wanted) ? wanted : [...this.layouts.keys()][0];
    const [x, y, zoom] = ["x", "y", "zoom"].map((name) => Number(parameters.get(name)));
    if (parameters.has("zoom") && [x, y, zoom].every(Number.isFinite)) this.goal = { x, y, zoom };
    const other = layout !== this.wanted;
    try {
      if (other) this.loading = this.load(layout);
      await this.loading;
      if (!this.stage) return;
      this.arrive();
      if (!other && this.colors.wanted !== this.colors.column) this.paint();
      if (parameters.has("q") && !session.searched) await this.search(parameters);
      await this.light();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) { if (!wasLeft(error)) this.message.fail(error); }

  /** Show the map by a layout. Until it is computed, and where it cannot be, this shows the one by PCA, which is there at once. */
  async load(layout) {
    this.wanted = byId("layout").value = layout;
    try {
      await this.loadOrStandIn(layout);
    } catch (error) {
      if (this.wanted === layout) this.wanted = null; // to be tried again
      throw error;
    }
  }

  async loadOrStandIn(layout) {
    const address = (name) => `page/map?${new URLSearchParams({ layout: name })}`;
    this.message.busy("The map is computed once, or loading");
    let ready = null, problem = null;
    try {
      ready = await ask(address(layout), { binary: true, wait: layout === QUICK });
    } catch (error) {
      if (layout === QUICK) throw error;
      problem = error;
    }
    if (this.wanted !== layout) return;
    if (ready) return this.lay(layout, ready);
    const quick = await ask(address(QUICK), { binary: true });
    if (this.wanted !== layout) return;
    this.lay(QUICK, quick);
    if (problem) return this.fail(problem);
    const title = this.layouts.get(layout);
    this.message.tell(`The map by ${title} is being computed, once and for some minutes at most; this one is by ${this.layouts.get(QUICK)}.`);
    ask(address(layout), { binary: true }).then((answer) => this.wanted === layout && this.lay(layout, answer))
      .catch((error) => this.fail(error));
  }

  /** Put the points where an answer says; hits, colors and labels follow when they are there. */
  lay(layout, { data, headers }) {
    const points = Number(headers.get("X-Points")), of = Number(headers.get("X-Of"));
    const [x, y] = [0, 4 * points].map((at) => new Float32Array(data, at, points));
    this.numbers = new Uint32Array(data, 8 * points, points);
    const shares = headers.get("X-Shares").split(",").reduce((sum, share) => sum + Number(share), 0);
    byId("map-note").textContent = `Each point is a ${session.state.index.unit}: ${points === of ? "all" : `${count(points)} of`} ${count(of)}. `
      + `Near points have similar vectors${shares ? "" : "; far distances tell nothing"}. Laid out by ${this.layouts.get(layout)}`
      + (shares ? `, which keeps ${(100 * shares).toFixed(1)} % of the variance.` : ".");
    this.close();
    this.known.clear(); // with their places
    if (this.stage) this.stage.lay(x, y);
    else this.makeStage(x, y);
    this.stage.layout = layout;
    byId("legend").hidden = true;
    this.arrive();
    this.message.tell(points ? "" : "The index is empty.");
    this.lit = -1;
    this.clusters = ask(`page/clusters?${new URLSearchParams({ layout })}`);
    for (const step of [this.light(), this.paint(), this.label()]) step.catch((error) => this.fail(error));
  }

  /** Show the words of the clusters on the map. */
  async label() {
    const { layout } = this.stage, { labels, missing } = await this.clusters;
    if (layout !== this.stage.layout) return;
    this.stage.labels = labels;
    this.stage.redraw();
    if (missing) this.message.tell(`There are no clusters: ${missing}`);
  }

  /** Go where the address says, once the layout that it is about is there. */
  arrive() {
    if (!this.goal || this.stage.layout !== this.wanted) return;
    this.stage.go(this.goal);
    this.goal = null;
  }

  makeStage(x, y) {
    this.stage = new Stage(x, y, {
      hover: (i) => { if (!this.kept) this.hover(i); },
      keep: (i) => this.open(i, true),
      lasso: (found) => this.list(found, "inside of the lasso"),
      moved: later(300, () => this.remember()),
      drawn: () => this.placeCard(),
      keys: { n: () => this.next(1), p: () => this.next(-1), l: () => this.listView(), Enter: () => this.next(1) },
    });
  }

  remember() {
    if (byId("map").hidden) return;
    const layout = this.wanted === [...this.layouts.keys()][0] ? null : this.wanted;
    const place = this.stage.layout === this.wanted ? this.stage.position : this.goal; // not the one on the map that stands in
    replaceAddress("map", { layout, ...place, color: this.colors.column, q: session.query, where: session.asked?.where, k: session.asked?.k });
  }

  async paint() {
    if (!this.stage) return;
    try {
      await this.colors.paint(this.stage, this.clusters);
      this.remember();
    } catch (error) {
      this.fail(error);
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
    const { searched } = session, { layout } = this.stage;
    this.lit = searched;
    this.step = -1;
    const hits = await this.placesOf(session.hits).catch((error) => { this.lit = -1; throw error; });
    if (layout !== this.stage.layout || searched !== session.searched) return;
    this.stage.hits = hits;
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
    const { layout } = this.stage, byNumber = by === "numbers";
    const missing = byNumber ? wanted.filter((number) => !this.known.has(number)) : wanted;
    const found = new Map(byNumber ? wanted.map((number) => [number, this.known.get(number)]) : []);
    for (let at = 0; at < missing.length; at += AT_ONCE) {
      const asked = new URLSearchParams({ layout, [by]: missing.slice(at, at + AT_ONCE).join(",") });
      const { documents } = await ask(`page/documents?${asked}`);
      for (const each of documents) {
        found.set(each.number, each);
        if (layout === this.stage.layout) this.known.set(each.number, each); // with its place
      }
    }
    if (this.known.size > MOST_KNOWN) this.known.clear();
    return [...found.values()].filter(Boolean);
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

  list(points, where) {
    this.stage.pick(points);
    return this.picked.list(points.map((i) => this.numbers[i]), where);
  }
}
