// Colors of the map's points, by their clusters or by a kept column, and their legend.

import { ask } from "./api.js";
import { byId, count, element } from "./dom.js";

const VARIABLES = new Map([["name", "--n"], ["shade", "--s"], ["others", "--others"], ["none", "--none"]]);
const WEAK = ["others", "none"];

export class Colors {
  /** `list(points, what)` lists the points of a color; `changed` is called when the visitor chose another column. */
  constructor(list, changed) {
    this.list = list;
    this.wanted = ""; // a column, or nothing for the clusters
    this.column = null; // that the points are painted by; null before they are
    this.select = byId("color");
    this.select.onchange = () => { this.wanted = this.select.value; changed(); };
  }

  /** Offer the columns that have few values, or numbers. */
  offer(facets) {
    const names = (facets ?? []).filter(({ values, min }) => values?.length || min !== null).map(({ name }) => name);
    this.select.replaceChildren(element("option", { value: "" }, "clusters"),
      ...names.map((name) => element("option", { value: name, selected: name === this.wanted }, name)));
    byId("color-label").hidden = !names.length;
  }

  /** Paint the points of the stage by the column that is wanted, or by their clusters, which are a promise. */
  async paint(stage, clusters) {
    const column = this.wanted, { layout } = stage;
    const answer = await (column ? ask(`page/colors?${new URLSearchParams({ column })}`) : clusters);
    if (column !== this.wanted || layout !== stage.layout) return; // another one was chosen meanwhile
    this.column = this.select.value = column;
    byId("legend").hidden = !answer.entries.length;
    const codes = Uint8Array.from(atob(answer.codes), (byte) => byte.charCodeAt(0));
    const paints = answer.entries.map((entry) => ({ name: variableOf(entry), strength: WEAK.includes(entry.paint) ? 0.45 : 1 }));
    stage.paint(codes.length ? codes : null, paints);
    byId("legend").replaceChildren(...answer.entries.flatMap((entry, at) => 
      entry.count ? [this.#entry(entry, at, paints[at].name, codes)] : []));
  }

  #entry({ label, count: points }, at, variable, codes) {
    const swatch = element("span", { className: "swatch", "aria-hidden": "true" });
    swatch.style.background = `var(${variable})`;
    const button = element("button", { type: "button", title: "List these documents" }, swatch, element("bdi", {}, label),
      element("span", { className: "count" }, count(points)));
    button.onclick = () => {
      const points = [];
      codes.forEach((code, i) => { if (code === at) points.push(i); });
      this.list(points, this.column ? `with ${this.column}: ${label}` : `of the cluster “${label}”`);
    };
    return element("li", {}, button);
  }
}

const variableOf = ({ paint, number }) => VARIABLES.get(paint) + (paint === "name" || paint === "shade" ? number : "");
