// The usages of a word, grouped into senses, each with its most central lines.

import { byId, count, element, plural, wholeNumber } from "./dom.js";
import { drawConcordance } from "./concordance.js";
import { usageTable } from "./lines.js";

const OF_A_SENSE = 10; // lines of each
const CONTEXT = 300;

export class Senses {
  busy = "Grouping";
  file = "senses"; // the beginning of the names of saved files

  constructor(view) {
    this.view = view;
    byId("senses").onchange = () => view.again();
    byId("one-per-document").onchange = () => view.again();
  }

  restore(parameters) { byId("senses").value = parameters.get("senses") ?? 3; }

  address() { return { senses: this.number }; }

  body({ column, one, spans }) {
    this.number = wholeNumber("senses", 3);
    return { senses: this.number, k: OF_A_SENSE, layers: column, one_per_document: one, context: spans ? null : CONTEXT };
  }

  draw(answer) {
    const { senses, skipped, grouped, column } = answer;
    const parts = [this.view.found(answer)];
    if (skipped) parts.push(`${count(skipped)} without a vector`);
    if (senses.length) parts.push(`${count(grouped)} grouped by ${column}, the most central ones first`);
    const how = { choose: (usage) => this.view.ways.get("lines").choose(usage) };
    const nodes = senses.flatMap(({ usages, count: members }, at) => [
      element("h3", {}, `Sense ${at + 1}: ${plural(members, "usage")}`), drawConcordance(usages, this.view.set, how)]);
    const numbered = senses.flatMap(({ usages }, at) => usages.map((usage) => ({ usage, sense: at + 1 })));
    return { nodes, told: parts.join("; "), table: () => usageTable(numbered) };
  }

  cite({ column, grouped }, { senses }) {
    return [["Senses", `${senses}, by k-means`], ["Column", column], ["Usages", `${count(grouped)} grouped`]];
  }
}
