// Keyword in context: lines that are aligned on the word.

import { element, rove, shown } from "./dom.js";

const SIDE = 160; // characters of each side in a line; the whole context is below it

/** A list of lines; `choose` is called with the usage that was clicked. */
export function drawLines(usages, choose, isCurrent = () => false) {
  const list = element("ol", { className: "lines" }, usages.map((usage) => drawLine(usage, choose, isCurrent(usage))));
  rove(list, ".line");
  return list;
}

function drawLine(usage, choose, current) {
  const left = flat(usage.left), right = flat(usage.right);
  const line = element("button", { type: "button", className: "line", title: "Sort all lines by likeness to this one" },
    element("span", { className: "left" }, element("bdi", {}, left.slice(-SIDE))),
    element("span", { className: "word" }, element("bdi", {}, flat(usage.word))),
    element("span", {}, element("bdi", {}, right.slice(0, SIDE))));
  if (current) line.setAttribute("aria-current", "true");
  line.onclick = () => choose(usage);
  return element("li", {}, line, aboutLine(usage));
}

function aboutLine(usage) {
  const facts = [`id ${usage.id}`, ...Object.entries(usage.values ?? {}).map(([name, value]) => `${name} ${shown(value)}`)];
  if (usage.score !== null) facts.unshift(usage.score.toFixed(4));
  const whole = element("p", {}, usage.left, element("mark", {}, usage.word), usage.right);
  const more = element("details", {}, element("summary", {}, "context"), whole);
  return element("div", { className: "about-line" }, facts.map((fact) => element("span", {}, fact)), more);
}

const flat = (text) => text.replace(/\s+/g, " ");

/** The sentence of a usage with its word marked. Other stars would be marks too, so they become spaces. */
export function likeOf(usage, context) {
  const plain = (text) => text.replaceAll("*", " ");
  // where a side was cut off, it may begin or end within a word
  const left = [...usage.left].length < context ? usage.left : usage.left.replace(/^\S*\s/, "");
  const right = [...usage.right].length < context ? usage.right : usage.right.replace(/\s\S*$/, "");
  return `${plain(left)}*${plain(usage.word)}*${plain(right)}`.trim();
}
