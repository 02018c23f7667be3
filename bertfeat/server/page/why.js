// Which words of hits meet which words of the query: asked for when the hits come onto the screen.

import { ask, wasLeft } from "./api.js";
import { byId, cutter, element, later } from "./dom.js";

const AT_ONCE = 50; // hits of a request
const AHEAD = "150px"; // of the screen
const FAINT = 0.3; // of the largest share of a hit: words of less are not shaded

export class Reasons {
  constructor() {
    this.place = byId("query-words");
    this.send = later(60, () => this.#ask());
    this.watcher = new IntersectionObserver((entries) => this.#see(entries), { rootMargin: AHEAD });
    this.stop();
  }

  /** Hits of another query follow. */
  begin(query) {
    this.stop();
    Object.assign(this, { query, leaving: new AbortController() });
  }

  stop() {
    this.leaving?.abort();
    this.watcher.disconnect();
    this.known = new Map(); // number → what is known of a hit
    this.shown = new Map(); // element → { number, draw }
    this.wanted = new Map(); // element → the same, on the screen
    this.drawn = new Map(); // element → { found, draw }
    this.pointed = this.pinned = null; // a word of the query
    this.place.hidden = true;
  }

  /** Call `draw` with the marks of a hit once its element is on the screen, and whenever a word is pointed at. */
  follow(item, number, draw) {
    if (this.known.has(number)) this.#draw(item, this.known.get(number), draw);
    else {
      this.shown.set(item, { number, draw });
      this.watcher.observe(item);
    }
  }

  /** Shade by what one word of the query adds, or by what all do (null). */
  point(word) {
    if (word === this.pointed) return;
    this.pointed = word;
    for (const [item, { found, draw }] of this.drawn) {
      if (item.isConnected) draw(this.#marks(found));
      else this.drawn.delete(item);
    }
  }

  #draw(item, found, draw) {
    this.drawn.set(item, { found, draw });
    draw(this.#marks(found));
  }

  /** The words of a hit that add most, as [start, end, share]. */
  #marks({ words, shares }) {
    const rows = this.pointed === null ? shares : [shares.at(this.pointed)];
    const marks = words.map(([start, end], at) => [start, end, rows.reduce((sum, row) => sum + row[at], 0)]);
    const least = FAINT * Math.max(...marks.map(([, , share]) => share), 0);
    return marks.filter(([, , share]) => share > least);
  }

  #see(entries) {
    for (const { target, isIntersecting } of entries) {
      const seen = this.shown.get(target);
      if (!isIntersecting || !seen) continue;
      this.watcher.unobserve(target);
      this.shown.delete(target);
      this.wanted.set(target, seen);
    }
    if (this.wanted.size) this.send();
  }

  async #ask() {
    const { known, query, leaving: { signal } } = this, some = [...this.wanted].slice(0, AT_ONCE);
    if (!some.length || signal.aborted) return;
    for (const [item] of some) this.wanted.delete(item);
    if (this.wanted.size) this.send();
    try {
      const body = { query, numbers: some.map(([, { number }]) => number) };
      const found = await ask("page/why", { body, signal });
      if (found.problem) return; // scores of this index are no sums over words
      this.#drawQuery(found.query);
      some.forEach(([item, { number, draw }], at) => {
        known.set(number, found.hits[at]);
        this.#draw(item, found.hits[at], draw);
      });
    } catch (error) {
      if (!wasLeft(error)) console.warn(`The words of ${some.length} hits are not marked: ${error.message}`);
    }
  }

  /** The query, each word of which can be pointed at. */
  #drawQuery(words) {
    if (!this.place.hidden) return;
    const cut = cutter(this.query), parts = [];
    let at = 0;
    words.forEach(([start, end], number) => {
      parts.push(cut(at, start), this.#button(cut(start, end), number));
      at = end;
    });
    parts.push(cut(at, Infinity));
    this.place.replaceChildren(element("span", { className: "soft" }, "Shaded by what it adds to the score: "), ...parts.filter(Boolean));
    this.place.hidden = !words.length;
  }

  #button(word, number) {
    const made = element("button", { type: "button", "aria-pressed": "false", title: `Shade by “${word}” alone` }, word);
    made.onpointerenter = made.onfocus = () => this.point(number);
    made.onpointerleave = made.onblur = () => this.point(this.pinned);
    made.onclick = () => {
      this.pinned = this.pinned === number ? null : number;
      for (const each of this.place.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === made && this.pinned !== null));
      this.point(this.pinned ?? number);
    };
    return made;
  }
}
