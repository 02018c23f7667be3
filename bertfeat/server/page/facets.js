// Filters made from the kept columns of the index.

import { byId, count, element, later } from "./dom.js";
import { wholeCondition } from "./where.js";

// An address can hold anything: only choices of the forms that there are, are taken.
const FORMS = {
  values: (value) => Array.isArray(value) && value.length > 0 && value.every((each) => typeof each !== "object"),
  min: Number.isFinite, max: Number.isFinite, contains: (value) => typeof value === "string",
};

function sound(read) {
  const choices = Object.entries(read ?? {}).map(([name, choice]) =>
    [name, Object.fromEntries(Object.entries(choice ?? {}).filter(([form, value]) => FORMS[form]?.(value)))]);
  return Object.fromEntries(choices.filter(([, choice]) => Object.keys(choice).length));
}

export class Facets {
  /** `changed` is called when the visitor chose something else. */
  constructor(changed) {
    this.choices = {}; // column → { values } or { min, max } or { contains }
    this.written = "";
    this.facets = [];
    this.changed = changed;
    this.form = byId("facet-form");
    this.form.onsubmit = (event) => event.preventDefault();
  }

  get condition() { return wholeCondition(this.choices, this.written); }

  /** The choices as the address has them. */
  get saved() { return Object.keys(this.choices).length ? JSON.stringify(this.choices) : null; }

  restore(saved, written) {
    this.written = written ?? "";
    try {
      this.choices = sound(JSON.parse(saved ?? "{}"));
    } catch {
      this.choices = {};
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
    clear.onclick = () => { this.choices = {}; this.written = ""; this.draw(); this.#tell(); };
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
    const chosen = this.choices[facet.name]?.values ?? [];
    return element("div", { className: "values" }, facet.values.map(({ value, count: documents }) => {
      const box = element("input", { type: "checkbox", checked: chosen.includes(value) });
      box.onchange = () => {
        const before = this.choices[facet.name]?.values ?? [];
        const values = box.checked ? [...before, value] : before.filter((each) => each !== value);
        this.#choose(facet.name, values.length ? { values } : null);
      };
      const name = value === "" ? "(empty)" : String(value);
      return element("label", { className: "check" }, box, element("span", {}, name),
        element("span", { className: "count" }, count(documents)));
    }));
  }

  #contains(facet) {
    const input = element("input", { type: "text", value: this.choices[facet.name]?.contains ?? "",
      placeholder: "contains", "aria-label": `${facet.name} contains` });
    input.onchange = () => this.#choose(facet.name, input.value ? { contains: input.value } : null);
    return input;
  }

  #range(facet) {
    const choice = this.choices[facet.name] ?? {};
    const inputs = ["min", "max"].map((end) => element("input", { type: "number", step: facet.kind === "int64" ? "1" : "any",
      value: choice[end] ?? "", placeholder: facet[end] ?? "", "aria-label": `${facet.name}, ${end === "min" ? "from" : "to"}` }));
    const choose = later(400, () => {
      const [min, max] = inputs.map((input) => (input.value === "" ? null : Number(input.value)));
      this.#choose(facet.name, min === null && max === null ? null : { min, max });
    });
    for (const input of inputs) input.oninput = choose;
    return element("div", { className: "ends" }, inputs[0], "–", inputs[1]);
  }

  #choose(name, choice) {
    if (choice) this.choices[name] = choice;
    else delete this.choices[name];
    this.#tell();
  }

  #tell() {
    this.#mark();
    this.changed();
  }

  #mark() {
    const chosen = Object.keys(this.choices).length + Number(Boolean(this.written.trim()));
    byId("facet-count").textContent = chosen ? `${chosen} on` : "";
  }
}
