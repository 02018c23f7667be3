
"use strict";
// A map of points: one canvas, a grid that finds the point under the pointer, and plain controls around it.
// This file: what there is, and how it is drawn. Texts reach the page as text only (textContent), never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const [stage, canvas, card, legend, search, found] = ["stage", "map", "card", "legend", "search", "found"].map((id) =>
  document.getElementById(id));
const pen = canvas.getContext("2d");
const dark = matchMedia("(prefers-color-scheme: dark)");
const count = data.x.length;
const ends = (values) => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
const [lowX, highX] = ends(data.x);
const [lowY, highY] = ends(data.y);

const shown = data.groups.map(() => true); // group → whether the legend has it on
const view = { scale: 1, x: 0, y: 0 }; // screen = data × scale + (x, y); the screen's y grows downwards
let size = { width: 1, height: 1 }; // of the canvas, in CSS pixels
let wholeScale = 0; // at which the whole map is seen
let matches = null; // point → 0 or 1, while something is searched for
let current = -1; // the point whose card is open
let kept = false; // whether the card stays when the pointer moves on

const visible = (i) => shown[data.of[i]];
const findable = (i) => visible(i) && (!matches || matches[i] === 1);
const screenX = (i) => data.x[i] * view.scale + view.x;
const screenY = (i) => view.y - data.y[i] * view.scale;
const theme = () => (dark.matches ? "dark" : "light");
const formatted = (value) => value.toLocaleString("en");

// grey points first, the others in no order, so that no color hides another
const shuffled = (i) => Math.imul(i + 1, 2654435761) >>> 0;
const isGrey = data.of.map((group) => Number(data.groups[group].grey));
const order = data.x.map((_, i) => i).sort((a, b) => isGrey[b] - isGrey[a] || shuffled(a) - shuffled(b));

// ── sprites: one small picture a color, drawn once, which is much faster than an arc a point ────────────────

const STEPS = 64; // colors of a scale
const groups = data.groups.length;
const spriteOf = data.of.map((group, i) =>
  data.scale && data.scale.at[i] >= 0 ? groups + Math.round(data.scale.at[i] * (STEPS - 1)) : group);
let looks = [];
let sprites = [];
let spritesFor = ""; // the theme and size they were made for

function mixed(stops, share) {
  const at = share * (stops.length - 1), first = Math.min(Math.floor(at), stops.length - 2);
  const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const mix = (k) => Math.round(part(stops[first], k) * (first + 1 - at) + part(stops[first + 1], k) * (at - first));
  return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`;
}

function makeSprites() {
  const r = radius() * devicePixelRatio;
  if (spritesFor === `${theme()} ${r}`) return;
  spritesFor = `${theme()} ${r}`;
  looks = data.groups.map((group) => ({ color: group[theme()], cross: group.mark === "cross" }));
  for (let k = 0; data.scale && k < STEPS; k++) looks.push({ color: mixed(data.scale[theme()], k / (STEPS - 1)) });
  sprites = looks.map((look) => madeSprite(look, r));
}

function madeSprite({ color, cross }, r) {
  const made = document.createElement("canvas");
  made.width = made.height = Math.ceil(2 * r) + 2;
  const ink = made.getContext("2d");
  ink.translate(made.width / 2, made.width / 2);
  ink.fillStyle = ink.strokeStyle = color;
  ink.lineWidth = Math.max(1, r / 2.5);
  ink.beginPath();
  if (cross) {
    for (const sign of [1, -1]) { ink.moveTo(-r, -r * sign); ink.lineTo(r, r * sign); }
    ink.stroke();
  } else {
    ink.arc(0, 0, r, 0, 7);
    ink.fill();
  }
  return made;
}

function radius() {
  const even = Math.sqrt((0.1 * size.width * size.height) / count / Math.PI);
  return Math.min(8, Math.min(Math.max(even, 1.6), 5) * Math.max(1, view.scale / wholeScale) ** 0.25);
}

// ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────

function draw() {
  makeSprites();
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (matches) {
    drawDots((i) => matches[i] === 0, 0.1, 1);
    drawDots((i) => matches[i] === 1, 1, 1.6);
  } else drawDots(() => true, Math.min(0.9, Math.max(0.55, (1500 / count) ** 0.25)), 1);
  if (current >= 0) drawRing();
  drawNames();
}

function drawNames() {
  const ratio = devicePixelRatio, style = getComputedStyle(document.body);
  pen.globalAlpha = 1;
  pen.save();
  pen.scale(ratio, ratio);
  const labels = data.labels.map(({ name, x, y }) => ({ name, x: x * view.scale + view.x, y: view.y - y * view.scale }));
  drawLabels(pen, labels, { ...size, ink: style.color, paper: style.backgroundColor });
  pen.restore();
}

function drawDots(wanted, opacity, larger) {
  const ratio = devicePixelRatio, side = sprites[0].width * larger, half = side / 2;
  const rough = moving && count > ROUGH;
  pen.globalAlpha = opacity;
  for (const i of order) {
    if (!visible(i) || !wanted(i)) continue;
    const x = screenX(i) * ratio, y = screenY(i) * ratio;
    if (x < -half || y < -half || x > canvas.width + half || y > canvas.height + half) continue;
    if (!rough) pen.drawImage(sprites[spriteOf[i]], x - half, y - half, side, side);
    else {
      pen.fillStyle = looks[spriteOf[i]].color;
      pen.fillRect(Math.round(x - half) + 1, Math.round(y - half) + 1, side - 2, side - 2);
    }
  }
}

function drawRing() {
  const ratio = devicePixelRatio;
  pen.globalAlpha = 1;
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 2 * ratio;
  pen.beginPath();
  pen.arc(screenX(current) * ratio, screenY(current) * ratio, radius() * ratio + 3, 0, 7);
  pen.stroke();
}

// while the view moves, many points are squares: without a graphics processor, five times faster
const ROUGH = 3000;
let moving = null; // the timer that ends the movement

function redrawMoving() {
  clearTimeout(moving);
  moving = setTimeout(() => { moving = null; redraw(); }, 150);
  redraw();
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); placeCard(); });
}
