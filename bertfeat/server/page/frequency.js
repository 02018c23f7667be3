// How often a word is in each slice of a kept column, such as decades, as bars and as a table.

import { byId, count, countTable, element, plural, scrolled } from "./dom.js";
import { save } from "./export.js";

const HEIGHT = 220, PLACE = 56, TOP = 26, BOTTOM = 30, MARGIN = 8; // of the picture
const MOST_PLACES = 60; // with more, slices stand side by side, without gaps for those that are missing
const SVG = "http://www.w3.org/2000/svg";

export class Frequency {
  busy = "Counting";
  file = "frequency"; // the beginning of the names of saved files

  constructor(view) {
    this.view = view;
    byId("by").onchange = () => { byId("slices").value = ""; this.#hint(); view.again(); };
    byId("slices").onchange = () => view.again();
  }

  /** Offer the kept columns; the first one that looks like years is proposed. */
  open({ kept }) {
    this.kinds = new Map(kept.map(({ name, kind }) => [name, kind]));
    const names = [...this.kinds.keys()], proposed = names.find((name) => this.#isNumber(name) && /year|date|time|jahr/i.test(name));
    byId("slices").value = "";
    byId("by").replaceChildren(...names.map((name) => element("option", { selected: name === proposed }, name)));
    this.#hint();
  }

  #isNumber(name) { return ["int64", "float64"].includes(this.kinds.get(name)); }

  #hint() { byId("slices").placeholder = this.#isNumber(byId("by").value) ? "1850-1899,1900-1950 or every:10" : "all values, or some: draft,print"; }

  restore(parameters) {
    if (this.kinds?.has(parameters.get("by"))) byId("by").value = parameters.get("by");
    byId("slices").value = parameters.get("slices") ?? "";
    this.#hint();
  }

  address() { return { by: byId("by").value, slices: byId("slices").value.trim(), column: null, one: null }; }

  body() {
    const by = byId("by").value;
    if (!by) throw new Error("This feature set keeps no columns by which usages could be counted. Extract with --keep to have some.");
    return { by, slices: byId("slices").value.trim() || (this.#isNumber(by) ? "every" : null), k: 0 };
  }

  draw(answer, { by }) {
    const { slices, documents, outside } = answer;
    const found = slices.reduce((sum, one) => sum + one.found, 0), words = slices.reduce((sum, one) => sum + one.words, 0);
    const inside = this.view.found({ found, documents, per_million: words && (1e6 * found) / words });
    const parts = found || !outside ? [inside] : [];
    if (outside) parts.push(`${plural(outside, found ? "more usage" : "usage")} in no slice`);
    const names = ["slice", "documents", "words", "usages", "per_million"];
    const rows = slices.map(({ slice, words, found, per_million: often }) => [slice.name, slice.documents, words, found, often]);
    this.picture = found ? drawBars(slices, by) : null;
    const shown = rows.map(([name, ...numbers]) => [name, ...numbers.map((each) => each.toLocaleString("en", { maximumFractionDigits: 1 }))]);
    const nodes = found ? [scrolled("Picture", this.picture), countTable("Table", [by, ...names.slice(1, -1), "per million"], shown)] : [];
    return { nodes, told: parts.join("; "), table: () => ({ names, rows: found ? rows : [] }) };
  }

  buttons(name) {
    if (!this.picture) return [];
    const button = element("button", { type: "button" }, "Save picture");
    button.onclick = () => save(`${name}.svg`, new XMLSerializer().serializeToString(this.picture), "image/svg+xml");
    return [button];
  }

  cite(answer, { by, slices }) { return [["Frequency", `per million words, by ${by}${slices ? ` (${slices})` : ""}`]]; }
}

/** Bars of usages per million words. Slices of equal steps stand where their numbers are. */
function drawBars(slices, by) {
  const places = placesOf(slices.map(({ slice }) => slice)), most = Math.max(...slices.map(({ per_million: often }) => often));
  const width = 2 * MARGIN + PLACE * (Math.max(...places) + 1), high = HEIGHT - TOP - BOTTOM;
  const picture = shape("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "bars", role: "img",
    "font-family": "sans-serif", "font-size": 12, fill: "#1b1d22" });
  const title = shape("title", {});
  title.textContent = `Usages per million words, by ${by}`;
  picture.append(title);
  slices.forEach(({ slice, per_million: often }, at) => {
    const x = MARGIN + PLACE * places[at], bar = Math.max(1, (high * often) / most), middle = x + PLACE / 2;
    const label = often.toLocaleString("en", { maximumFractionDigits: often < 100 ? 1 : 0 });
    picture.append(shape("rect", { x: x + 3, y: TOP + high - bar, width: PLACE - 6, height: bar, rx: 2, fill: "#3910bb", class: "bar" }),
      words(label, middle, TOP + high - bar - 5), words(shortName(slice.name), middle, HEIGHT - 10, slice.name));
  });
  return picture;
}

/** For each slice its place; between slices of one width that have no documents, places are left empty. */
function placesOf(slices) {
  const side = slices.map((_, at) => at), [{ first: start, last: end }] = slices, width = end - start;
  if (!slices.every(({ first, last }) => typeof first === "number" && near(last - first, width))) return side;
  const step = Math.min(...slices.slice(1).map(({ first }, at) => first - slices[at].first));
  const places = slices.map(({ first }) => (first - start) / step);
  const even = step > 0 && places.every((place) => near(place, Math.round(place))) && places.at(-1) < MOST_PLACES;
  return even ? places.map(Math.round) : side;
}

const near = (one, other) => Math.abs(one - other) <= 1e-6 * Math.max(1, Math.abs(other));

const shortName = (name) => (/^\d+0-\d+9$/.test(name) && Number(name.split("-")[1]) - Number(name.split("-")[0]) === 9
  ? `${name.split("-")[0]}s` : name.length > 9 ? `${name.slice(0, 8)}…` : name);

function words(text, x, y, whole = text) {
  const made = shape("text", { x, y, "text-anchor": "middle" });
  made.textContent = text;
  if (whole !== text) {
    const title = shape("title", {});
    title.textContent = whole;
    made.append(title);
  }
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
