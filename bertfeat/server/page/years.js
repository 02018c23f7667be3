// Usages over time: counts by a numeric kept column, a bar a decade.

import { ask } from "./api.js";
import { byId, count, element, Message, valueOf } from "./dom.js";

const MOST = 1000; // usages of one answer
const FEW = 25; // bars; of a wider range a bar is a decade, a century …

export class Years {
  constructor() {
    this.message = new Message("years-message");
    byId("count-years").onclick = () => this.count();
  }

  /** The numeric columns of the feature set; the first one that looks like years is proposed. */
  offer(kept) {
    const names = kept.filter(({ kind }) => kind === "int64" || kind === "float64").map(({ name }) => name);
    const proposed = names.find((name) => /year|date|time|jahr/i.test(name));
    byId("year-column").replaceChildren(...names.map((name) => element("option", { selected: name === proposed }, name)));
    this.available = names.length > 0;
    this.clear(null);
  }

  /** Other usages are shown; `body` is what they were asked by. */
  clear(body) {
    this.body = body;
    byId("over-time").hidden = !this.available || !body;
    byId("years").replaceChildren();
    this.message.tell("");
  }

  async count() {
    const column = byId("year-column").value, { like, senses, ...rest } = this.body;
    this.message.busy("Counting");
    try {
      const body = { ...rest, k: MOST, context: 0, match: rest.match === "any" ? "exact" : rest.match };
      const { usages, found } = await ask("usages", { body });
      this.draw(usages.map(({ values }) => valueOf(values, column)).filter((value) => Number.isFinite(value)), found, column);
    } catch (error) {
      this.message.fail(error);
    }
  }

  draw(years, found, column) {
    if (!years.length) {
      this.message.tell(`No usage has a number in ${column}.`);
      return;
    }
    const low = Math.min(...years), high = Math.max(...years);
    const step = [1, 10, 100, 1000, 10_000].find((wide) => (high - low) / wide < FEW) ?? (high - low) / FEW;
    const counts = new Map();
    for (let at = Math.floor(low / step) * step; at <= high; at += step) counts.set(at, 0);
    for (const year of years) {
      const at = Math.floor(year / step) * step;
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }
    const most = Math.max(...counts.values());
    const whole = years.length < found ? `The first ${count(years.length)} of ${count(found)}` : `All ${count(found)}`;
    this.message.tell(`${whole} usages, by ${column}${step === 10 ? ", a bar a decade" : step > 1 ? `, a bar is ${count(step)}` : ""}.`);
    const bars = [...counts].map(([at, usages]) => {
      const bar = element("span", { className: "bar", "aria-hidden": "true" });
      bar.style.height = `${Math.round((100 * usages) / most)}px`;
      const name = step === 10 ? `${at}s` : `${at}`;
      return element("div", { role: "listitem" }, String(usages), bar, name);
    });
    byId("years").replaceChildren(element("div", { className: "bars", role: "list", tabIndex: 0,
      "aria-label": `Usages by ${column}` }, bars));
  }
}
