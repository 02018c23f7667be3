// What is shown, as a CSV file and as a text to cite.

import { element } from "./dom.js";
import { sharedAddress } from "./state.js";

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Rows as CSV (RFC 4180), with a byte order mark, by which spreadsheets know UTF-8. */
export function csv(names, rows) {
  return `\ufeff${[names, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** The names of all kept columns that occur in documents. */
export const keptNames = (documents) => [...new Set(documents.flatMap(({ values }) => Object.keys(values ?? {})))];

export function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The lines by which somebody else finds the same again. */
export function citation(state, lines) {
  const { model, precision, version } = state;
  const today = new Date().toISOString().slice(0, 10);
  const all = [
    ...lines,
    ["Model", `${model.name} (${model.layers} layers, ${precision})`],
    ["Model fingerprint", model.fingerprint],
    ["Software", `bertfeat ${version}`],
    ["Date", today],
    ["Address", sharedAddress()],
  ];
  return `${all.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`).join("\n")}\n`;
}

/** Buttons for both; `table` gives { names, rows }, or a promise of them, and `cite` the text. */
export function exportButtons(name, table, cite) {
  const asCsv = element("button", { type: "button" }, "Save as CSV");
  asCsv.onclick = async () => {
    const { names, rows } = await table();
    save(`${name}.csv`, csv(names, rows), "text/csv");
  };
  const asText = element("button", { type: "button" }, "Save citation");
  asText.onclick = () => save(`${name}.txt`, cite(), "text/plain");
  return [asCsv, asText, copyButton("Copy citation", cite)];
}

/** A button that copies a text; where the browser does not allow that, it shows it to be copied by hand. */
export function copyButton(label, text) {
  const button = element("button", { type: "button" }, label);
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      prompt("Copy this text:", text());
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  };
  return button;
}
