// Keyword in context: lines that are aligned on the word.

import { element, rove, shown } from "./dom.js";

// characters of each side: of a line, which the screen cuts, and of the few lines that a phone shows; the whole context is below
const SIDE = 160, SIDE_ON_A_PHONE = 70;
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** A list of lines; `choose` is called with the usage that was clicked. */
export function drawLines(usages, choose, isCurrent = () => false) {
  const list = element("ol", { className: "lines" }, usages.map((usage) => drawLine(usage, choose, isCurrent(usage))));
  rove(list, ".line");
  return list;
}

function drawLine(usage, choose, current) {
  const [left, right] = sides(usage);
  const dir = RIGHT_TO_LEFT.test(usage.word) ? "rtl" : "ltr"; // what comes before the word stands on its right there
  const line = element("button", { type: "button", className: "line", dir, title: "Sort all lines by likeness to this one" },
    element("span", { className: "left" }, element("bdi", {}, left)),
    element("span", { className: "word" }, element("bdi", {}, flat(usage.word))),
    element("span", {}, element("bdi", {}, right)));
  if (current) line.setAttribute("aria-current", "true");
  line.onclick = () => choose(usage);
  return element("li", {}, line, aboutLine(usage));
}

/** The two sides of a line, in characters and not halves of them; on a phone, where they wrap, in whole words. */
function sides({ left, right }) {
  const [before, after] = [left, right].map((text) => [...flat(text)]);
  if (!matchMedia("(max-width: 760px)").matches) return [before.slice(-SIDE).join(""), after.slice(0, SIDE).join("")];
  const [near, next] = [before.slice(-SIDE_ON_A_PHONE).join(""), after.slice(0, SIDE_ON_A_PHONE).join("")];
  return [before.length > SIDE_ON_A_PHONE ? near.replace(/^\S*(?=\s)/, "…") : near,
    after.length > SIDE_ON_A_PHONE ? next.replace(/(?<=\s)\S*$/, "…") : next];
}

function aboutLine(usage) {
  const values = Object.entries(usage.values ?? {}).filter(([, value]) => value !== null);
  const facts = [`id ${usage.id}`, ...values.map(([name, value]) => `${name} ${shown(value)}`)];
  if (usage.score !== null) facts.unshift(usage.score.toFixed(4));
  const whole = element("p", { dir: "auto" }, usage.left, element("mark", {}, usage.word), usage.right);
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
