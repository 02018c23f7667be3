
// This file: the card of a point, the search and the legend; and the beginning, last.

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

// ── the card ─────────────────────────────────────────────────────────────────────────────────────────────────

function openCard(i, stay) {
  if (i === current && stay === kept) return;
  current = i;
  kept = stay && i >= 0;
  fillCard();
  redraw();
}

function fillCard() {
  card.hidden = current < 0;
  if (current < 0) return;
  card.className = kept ? "kept" : "";
  card.setAttribute("aria-live", kept ? "polite" : "off");
  const close = element("button", "×");
  close.setAttribute("aria-label", "Close");
  close.onclick = () => { openCard(-1, false); canvas.focus(); };
  const list = element("dl");
  for (const { name, values } of data.fields)
    list.append(element("dt", name), element("dd", values[current] === null ? "–" : String(values[current])));
  const texts = data.texts.map((texts) => element("p", texts[current] ?? ""));
  for (const made of [...texts, ...list.children]) made.dir = "auto";
  card.replaceChildren(...(kept ? [close] : []), ...texts, list);
  card.scrollTop = 0;
}

function placeCard() {
  if (current < 0) return;
  const gap = 12, x = screenX(current), y = screenY(current);
  const { offsetWidth: width, offsetHeight: height } = card;
  const beside = x + gap + width < size.width ? x + gap : x - gap - width;
  const below = y + gap + height < size.height ? y + gap : y - gap - height;
  card.style.left = `${Math.max(4, Math.min(beside, size.width - width - 4))}px`;
  card.style.top = `${Math.max(4, Math.min(below, size.height - height - 4))}px`;
}

// ── search ───────────────────────────────────────────────────────────────────────────────────────────────────

const folded = (value) => String(value ?? "").normalize("NFKC").toLowerCase();
let haystack = null; // point → all that can be found of it; made when it is first needed

function searchAll() {
  const wanted = folded(search.value.trim());
  haystack ??= data.x.map((_, i) =>
    [...data.texts.map((texts) => texts[i]), ...data.fields.map(({ values }) => values[i])].map(folded).join("\n"));
  matches = wanted ? Uint8Array.from(haystack, (text) => Number(text.includes(wanted))) : null;
  update();
}

function showNext(step) {
  for (let k = 1; k <= count; k++) {
    const i = (((Math.max(current, step > 0 ? -1 : 0) + step * k) % count) + count) % count;
    if (!findable(i)) continue;
    openCard(i, true);
    const x = screenX(i), y = screenY(i);
    if (x < 0 || y < 0 || x > size.width || y > size.height) center(data.x[i], data.y[i]);
    return;
  }
}

function update() {
  let hits = 0;
  for (let i = 0; i < count; i++) hits += Number(findable(i));
  found.textContent = matches ? `${formatted(hits)} of ${formatted(count)} match` : "";
  if (current >= 0 && !findable(current)) openCard(-1, false);
  redraw();
}

search.oninput = searchAll;
search.onkeydown = (event) => {
  if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); showNext(-1); }
};
document.getElementById("tools").onsubmit = (event) => { event.preventDefault(); showNext(1); };

// ── legend ───────────────────────────────────────────────────────────────────────────────────────────────────

function fillLegend() {
  legend.hidden = data.column === null;
  if (legend.hidden) return;
  const all = element("button", "show all", "all");
  all.onclick = () => show(() => true);
  const list = element("ul");
  list.hidden = data.scale !== null && groups === 1; // nothing to tell apart
  for (const button of [...data.groups.map(groupButton), all]) {
    list.append(element("li"));
    list.lastChild.append(button);
  }
  legend.replaceChildren(element("h2", data.column), ...(data.scale ? scaleBar() : []), list);
}

function groupButton(group, at) {
  const button = element("button");
  const mark = element("span", group.mark === "cross" ? "×" : "", group.mark);
  mark.style[group.mark === "cross" ? "color" : "background"] = group[theme()];
  const members = data.of.reduce((sum, of) => sum + Number(of === at), 0);
  button.append(...(data.scale && !group.grey ? [] : [mark]));
  button.append(element("span", group.label, "name"), element("span", formatted(members), "count"));
  button.setAttribute("aria-pressed", shown[at]);
  button.title = "Click: show or hide. Double click: only this";
  button.onclick = () => show((k) => (k === at ? !shown[k] : shown[k]));
  button.ondblclick = () => show((k) => k === at);
  return button;
}

function scaleBar() {
  const bar = element("div", undefined, "bar"), marks = element("div", undefined, "ends");
  bar.style.background = `linear-gradient(to right, ${data.scale[theme()].join(", ")})`;
  marks.append(...data.scale.ends.map((end) => element("span", end)));
  return [bar, marks];
}

function show(rule) {
  shown.splice(0, shown.length, ...shown.map((_, k) => rule(k)));
  legend.querySelectorAll("[aria-pressed]").forEach((button, at) => button.setAttribute("aria-pressed", shown[at]));
  update();
}

// ── the beginning ────────────────────────────────────────────────────────────────────────────────────────────

document.getElementById("axes").textContent = `→ ${data.axes[0]}   ↑ ${data.axes[1]}`;
canvas.setAttribute("aria-label", `Map of ${formatted(count)} documents; Enter shows them one by one`);
dark.onchange = () => { fillLegend(); redraw(); };
fillLegend();
new ResizeObserver(fit).observe(stage);
