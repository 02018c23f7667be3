// The layer whose vectors are compared: a single one by a slider, or a column of several layers.

import { byId, element, later } from "./dom.js";
import { session } from "./state.js";

export class Layers {
  /** `changed` is called when the visitor chose another layer. */
  constructor(changed) {
    this.set = null;
    const resort = later(120, changed);
    byId("layer").oninput = () => { byId("column").value = ""; this.#name(); resort(); };
    byId("column").onchange = () => { this.#name(); changed(); };
  }

  get column() { return byId("column").value || this.set.layers[Number(byId("layer").value)]?.column; }

  /** Offer the layers and columns of a feature set; the one that is wanted, else the last, is chosen. */
  offer(set, wanted) {
    const { layers, columns } = (this.set = set);
    this.combined = columns.filter((name) => !layers.some(({ column }) => column === name));
    byId("layer").max = Math.max(0, layers.length - 1);
    const single = layers.length ? [element("option", { value: "" }, "a single layer")] : [];
    byId("column").replaceChildren(...single, ...this.combined.map((name) => element("option", { value: name }, name)));
    const stored = columns.length - this.combined.length; // of single layers
    const start = wanted ?? (stored > 1 ? layers.at(-1).column : columns[0]);
    const at = layers.findIndex(({ column }) => column === start);
    byId("column").value = at < 0 ? this.combined.find((name) => name === start) ?? this.combined[0] ?? "" : "";
    byId("layer").value = at < 0 ? layers.length - 1 : at;
    this.#name();
  }

  /** Hide what has nothing to choose. */
  arrange() {
    if (!this.set) return;
    const { layers } = this.set;
    byId("layer-box").hidden ||= layers.length < 2;
    byId("column-label").hidden ||= !this.combined.length || this.combined.length + layers.length < 2;
  }

  #name() {
    const { layers } = this.set, layer = layers[Number(byId("layer").value)]?.layer;
    const name = byId("column").value ? "(not used)" : layer === 0 ? "0, the embeddings" : `${layer} of ${session.state.model.layers}`;
    byId("layer-name").textContent = name;
    byId("layer").setAttribute("aria-valuetext", name);
  }
}
