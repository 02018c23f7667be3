// The words of hits that match a query best, asked for when the hits come onto the screen.

import { ask, wasLeft } from "./api.js";
import { later } from "./dom.js";

const AT_ONCE = 50; // hits of a request
const AHEAD = "150px"; // of the screen

export class Highlights {
  constructor() {
    this.send = later(60, () => this.#ask());
    this.watcher = new IntersectionObserver((entries) => this.#see(entries), { rootMargin: AHEAD });
    this.stop();
  }

  /** Hits of another query follow; `available` says whether the server has words to compare. */
  begin(query, available) {
    this.stop();
    Object.assign(this, { query, available, leaving: new AbortController() });
  }

  stop() {
    this.leaving?.abort();
    this.watcher.disconnect();
    this.known = new Map(); // number → highlights
    this.shown = new Map(); // element → { number, draw }
    this.wanted = new Map(); // number → draw
  }

  /** Call `draw` with the highlights of a hit once its element is on the screen. */
  follow(item, number, draw) {
    if (!this.available) return;
    if (this.known.has(number)) draw(this.known.get(number));
    else {
      this.shown.set(item, { number, draw });
      this.watcher.observe(item);
    }
  }

  #see(entries) {
    for (const { target, isIntersecting } of entries) {
      const seen = this.shown.get(target);
      if (!isIntersecting || !seen) continue;
      this.watcher.unobserve(target);
      this.shown.delete(target);
      this.wanted.set(seen.number, seen.draw);
    }
    if (this.wanted.size) this.send();
  }

  async #ask() {
    const { known, query, leaving: { signal } } = this, some = [...this.wanted].slice(0, AT_ONCE);
    if (!some.length || signal.aborted) return;
    for (const [number] of some) this.wanted.delete(number);
    if (this.wanted.size) this.send();
    try {
      const body = { query, numbers: some.map(([number]) => number) };
      const { highlights } = await ask("page/highlights", { body, signal });
      some.forEach(([number, draw], at) => {
        known.set(number, highlights[at]);
        draw(highlights[at]);
      });
    } catch (error) {
      if (!wasLeft(error)) console.warn(`The words of ${some.length} hits are not marked: ${error.message}`);
    }
  }
}
