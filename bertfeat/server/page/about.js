// The view About: the model, what is served, recall as measured, and how to call the API at this very address.

import { base, hasKey } from "./api.js";
import { byId, count, element } from "./dom.js";
import { copyButton } from "./export.js";

export class AboutView {
  learn(state) {
    byId("about-content").replaceChildren(
      element("h3", {}, "What this is"),
      element("p", {}, "A frozen BERT model reads texts once and keeps the vectors of its layers. Search compares whole texts by "
        + "their vectors. Usages compares the occurrences of one word. The same vectors can be had by the API below."),
      ...describe(state),
      element("h3", {}, "How to call the API"),
      element("p", {}, "All routes are in the ", element("a", { href: "docs" }, "documentation of the API"), "."),
      ...examples(state).flatMap(([title, code]) => [element("h4", {}, title), codeBlock(code)]),
    );
  }

  show() {}
}

function describe({ model, precision, version, index, features, tagger }) {
  const tables = [element("h3", {}, "Model"), table([
    ["Name", model.name], ["Layers", model.layers], ["Width of a layer", model.hidden_size], ["Precision", precision],
    ["Fingerprint", model.fingerprint], ["bertfeat", version], ["Tagger", tagger ? "yes, at /tag" : "none"],
  ])];
  if (index) tables.push(element("h3", {}, `Index ${index.name}`), table(indexRows(index)));
  for (const set of features) tables.push(element("h3", {}, `Feature set ${set.name}`), table([
    ["Documents", count(set.documents)], ["Columns", set.columns.join(", ")],
    ["Single layers", set.layers.map(({ layer }) => layer).join(", ") || "none"],
    ["Kept columns", set.kept.map(({ name }) => name).join(", ") || "none"],
  ]));
  return tables;
}

function indexRows({ version, made, documents, vectors, column, metric, type, factory, recall, facets }) {
  const rows = [["Version", version], ["Written", new Date(1000 * made).toLocaleString()], ["Documents", count(documents)], ["Vectors", count(vectors)], ["Column", column], ["Score", metric],
    ["Type", `${type} (${factory})`], ["Kept columns", facets?.map(({ name }) => name).join(", ") || "none"]];
  if (!recall) return [...rows, ["Recall", "not measured: every vector is compared, or the index is small"]];
  for (const [at, share] of Object.entries(recall.at)) rows.push([`Recall at ${at}`, `${(100 * share).toFixed(1)} %`]);
  rows.push(["Measured on", `${count(recall.queries)} ${recall.of} queries${recall.changed_since ? ", before the index was changed" : ""}`]);
  rows.push(["Queries a second", `${count(Math.round(recall.queries_per_second))} (exact: ${count(Math.round(recall.exact_queries_per_second))})`]);
  return rows;
}

function table(rows) {
  return element("table", {}, element("tbody", {}, rows.map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, String(value))))));
}

function examples({ model, index, features }) {
  const root = base.replace(/\/$/, ""), name = model.name;
  const key = hasKey() ? ' \\\n  -H "Authorization: Bearer $KEY"' : "";
  const post = (path, body) => `curl ${root}${path}${key} \\\n  -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(body).replaceAll("'", "\\u0027")}'`;
  const all = [
    ["Vectors of texts, with curl", post("/v1/embeddings", { model: name, input: ["A text.", "Another one."] })],
    ["Word vectors of four layers", post("/v1/embeddings", { model: name, input: "He sat on the bank.", layers: "concat4", pooling: "word" })],
    ["With the openai library", `from openai import OpenAI\n\nclient = OpenAI(base_url="${root}/v1", api_key="${hasKey() ? "KEY" : "none"}")\n`
      + `answer = client.embeddings.create(model="${name}", input=["A text.", "Another one."])\nvectors = [each.embedding for each in answer.data]`],
  ];
  if (index) all.push(["Search", post("/search", { query: index.marks_words ? "He sat on the *bank*." : "how do bats find their prey", k: 5 })]);
  if (features.length) all.push(["Usages of a word", post("/usages", { word: "bank", like: "He sat on the *bank* of the river.", k: 5 })]);
  return all;
}

function codeBlock(code) {
  return element("div", { className: "code" }, element("pre", { tabIndex: 0 }, element("code", {}, code)), copyButton("Copy", () => code));
}
