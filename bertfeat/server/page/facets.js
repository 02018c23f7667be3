// Filters made from the kept columns of the index.

import { byId, count, element, later, shown } from "./dom.js";
import { wholeCondition } from "./where.js";

// An address can hold anything: only choices of the forms that there are, are taken.
function sound(read) {
  const choices = new Map();
  for (const [name, choice] of Array.isArray(read) ? read.filter(Array.isArray) : []) {
    const { values, min, max, contains } = choice ?? {};
    if (typeof name !== "string") continue;
    if (Array.isArray(values) && values.length && values.every((each) => typeof each !== "object")) choices.set(name, { values });
    else if (Number.isFinite(min) || Number.isFinite(max)) choices.set(name, { min, max });
    else if (typeof contains === "string" && contains) choices.set(name, { contains });
  }
  return choices;
}

export class Facets {
  /** `changed` is called when the visitor chose something else. */
  constructor(changed) {
    this.choices = new Map(); // column → { values } or { min, max } or { contains }
    this.written = "";
    this.facets = [];
    this.changed = changed;
    this.form = byId("facet-form");
    this.form.onsubmit = (event) => event.preventDefault();
  }

  get condition() { return wholeCondition(this.choices, this.written); }

  /** The choices as the address has them. */
  get saved() { return this.choices.size ? JSON.stringify([...this.choices]) : null; }

  /** The ranges of the columns of numbers that have a choice, or that the visitor wrote of, as a sentence. */
  ranges() {
    const meant = this.facets.filter(({ name, min }) => min !== null && (this.choices.has(name) || this.written.includes(name)));
    return meant.map(({ name, min, max }) => ` ${name} goes from ${shown(min)} to ${shown(max)}.`).join("");
  }

  restore(saved, written) {
    this.written = written ?? "";
    try {
      this.choices = sound(JSON.parse(saved ?? "[]"));
    } catch {
      this.choices = new Map();
    }
    this.draw();
  }

  show(facets) {
    this.facets = facets ?? [];
    this.draw();
  }

  draw() {
    const fields = this.facets.map((facet) => this.#field(facet));
    const written = element("input", { id: "where", type: "text", value: this.written, spellcheck: false,
      autocomplete: "off", placeholder: "year > 1900" });
    written.onchange = () => { this.written = written.value; this.#tell(); };
    const clear = element("button", { type: "button" }, "Clear all filters");
    clear.onclick = () => { this.choices = new Map(); this.written = ""; this.draw(); this.#tell(); };
    const condition = element("fieldset", {}, element("legend", {}, element("label", { for: "where" }, "Condition")), written);
    this.form.replaceChildren(...fields, condition, clear);
    this.#mark();
  }

  #field(facet) {
    const field = element("fieldset", {}, element("legend", {}, facet.name));
    if (facet.values) field.append(this.#values(facet));
    else if (facet.kind === "string") field.append(this.#contains(facet));
    else field.append(this.#range(facet));
    return field;
  }

  #values(facet) {
    const chosen = this.choices.get(facet.name)?.values ?? [];
    return element("div", { className: "values" }, facet.values.map(({ value, count: documents }) => {
      const box = element("input", { type: "checkbox", checked: chosen.includes(value) });
      box.onchange = () => {
        const before = this.choices.get(facet.name)?.values ?? [];
        const values = box.checked ? [...before, value] : before.filter((each) => each !== value);
        this.#choose(facet.name, values.length ? { values } : null);
      };
      const name = value === "" ? "(empty)" : String(value);
      return element("label", { className: "check" }, box, element("span", {}, name),
        element("span", { className: "count" }, count(documents)));
    }));
  }

  #contains(facet) {
    const input = element("input", { type: "text", value: this.choices.get(facet.name)?.contains ?? "",
      placeholder: "contains", "aria-label": `${facet.name} contains` });
    input.onchange = () => this.#choose(facet.name, input.value ? { contains: input.value } : null);
    return input;
  }

  #range(facet) {
    const { min, max } = this.choices.get(facet.name) ?? {};
    const inputs = [[min, facet.min, "from"], [max, facet.max, "to"]].map(([value, end, name]) => element("input", {
      type: "number", step: facet.kind === "int64" ? "1" : "any", value: value ?? "", placeholder: end ?? "",
      "aria-label": `${facet.name}, ${name}` }));
    const choose = later(400, () => {
      const [min, max] = inputs.map((input) => (input.value === "" ? null : Number(input.value)));
      this.#choose(facet.name, min === null && max === null ? null : { min, max });
    });
    for (const input of inputs) input.oninput = choose;
    return element("div", { className: "ends" }, inputs[0], "–", inputs[1]);
  }

  #choose(name, choice) {
    if (choice) this.choices.set(name, choice);
    else this.choices.delete(name);
    this.#tell();
  }

  #tell() {
    this.#mark();
    this.changed();
  }

  #mark() {
    const chosen = this.choices.size + Number(Boolean(this.written.trim()));
    byId("facet-count").textContent = chosen ? `${chosen} on` : "";
  }
}
