
// This file: the view, the point under the pointer, pointer and keys.

function showWhole() {
  const pad = 24;
  const wide = Math.max(highX - lowX, 1e-12), high = Math.max(highY - lowY, 1e-12);
  wholeScale = view.scale = Math.max(1e-9, Math.min((size.width - 2 * pad) / wide, (size.height - 2 * pad) / high));
  center((lowX + highX) / 2, (lowY + highY) / 2);
}

function center(x, y) {
  view.x = size.width / 2 - x * view.scale;
  view.y = size.height / 2 + y * view.scale;
  redraw();
}

function zoom(factor, x = size.width / 2, y = size.height / 2) {
  const scale = Math.min(Math.max(view.scale * factor, wholeScale / 2), wholeScale * 5000);
  view.x = x - (x - view.x) * (scale / view.scale);
  view.y = y - (y - view.y) * (scale / view.scale);
  view.scale = scale;
  redrawMoving();
}

function pan(x, y) {
  view.x += x;
  view.y += y;
  redrawMoving();
}

function fit() {
  const before = size;
  size = { width: Math.max(60, stage.clientWidth), height: Math.max(60, stage.clientHeight) };
  canvas.width = Math.round(size.width * devicePixelRatio);
  canvas.height = Math.round(size.height * devicePixelRatio);
  if (view.scale === wholeScale || !wholeScale) showWhole();
  else pan((size.width - before.width) / 2, (size.height - before.height) / 2);
}

// ── the grid ─────────────────────────────────────────────────────────────────────────────────────────────────

const side = Math.max(1, Math.ceil(Math.sqrt(count / 2))); // of the grid, in cells
const cellOf = (value, low, high) =>
  Math.min(side - 1, Math.max(0, Math.floor(((value - low) / (high - low || 1)) * side)));
const columnOf = (x) => cellOf(x, lowX, highX);
const rowOf = (y) => cellOf(y, lowY, highY);
const cells = Array.from({ length: side * side }, () => []);
for (let i = 0; i < count; i++) cells[rowOf(data.y[i]) * side + columnOf(data.x[i])].push(i);

function nearest(at, reach) {
  const x = (at.x - view.x) / view.scale, y = (view.y - at.y) / view.scale, far = reach / view.scale;
  let best = -1, least = far * far;
  for (let row = rowOf(y - far); row <= rowOf(y + far); row++)
    for (let column = columnOf(x - far); column <= columnOf(x + far); column++)
      for (const i of cells[row * side + column]) {
        const distance = (data.x[i] - x) ** 2 + (data.y[i] - y) ** 2;
        if (distance <= least && findable(i)) { best = i; least = distance; }
      }
  return best;
}

// ── pointer and keys ─────────────────────────────────────────────────────────────────────────────────────────

const REACH = 14, REACH_OF_A_FINGER = 24; // pixels
const down = new Map(); // pointer → where it is
let moved = 0; // how far, since the first went down

function placeOf(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function pinch() {
  const [a, b] = [...down.values()];
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, far: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
}

canvas.onpointerdown = (event) => {
  if (event.button > 0) return;
  if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  if (!down.size) moved = 0;
  down.set(event.pointerId, placeOf(event));
};

canvas.onpointermove = (event) => {
  const now = placeOf(event), before = down.get(event.pointerId);
  if (!before) {
    if (!kept && event.pointerType !== "touch") openCard(nearest(now, REACH), false);
    return;
  }
  const was = down.size === 2 ? pinch() : null;
  down.set(event.pointerId, now);
  moved += Math.hypot(now.x - before.x, now.y - before.y);
  if (was) {
    const is = pinch();
    pan(is.x - was.x, is.y - was.y);
    zoom(is.far / was.far, is.x, is.y); // what was between the fingers stays between them
  } else if (down.size === 1 && moved > 4) pan(now.x - before.x, now.y - before.y);
};

canvas.onpointerup = (event) => {
  const only = down.size === 1 && down.has(event.pointerId);
  down.delete(event.pointerId);
  if (only && moved <= 4) openCard(nearest(placeOf(event), event.pointerType === "touch" ? REACH_OF_A_FINGER : REACH), true);
};
canvas.onpointercancel = (event) => down.delete(event.pointerId);
canvas.onpointerleave = () => { if (!kept && !down.size) openCard(-1, false); };

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const { x, y } = placeOf(event);
  const pixels = Math.max(-300, Math.min(300, event.deltaY * [1, 16, 400][event.deltaMode]));
  zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.002)), x, y); // ctrl: a pinch on a touchpad
}, { passive: false });

const keys = new Map([
  ["ArrowLeft", () => pan(60, 0)], ["ArrowRight", () => pan(-60, 0)], ["ArrowUp", () => pan(0, 60)],
  ["ArrowDown", () => pan(0, -60)], ["+", () => zoom(1.4)], ["=", () => zoom(1.4)], ["-", () => zoom(1 / 1.4)],
  ["0", showWhole], ["Enter", () => showNext(1)],
]);
canvas.onkeydown = (event) => {
  if (!keys.has(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys.get(event.key)();
};
document.onkeydown = (event) => { if (event.key === "Escape") openCard(-1, false); };
document.getElementById("in").onclick = () => zoom(1.5);
document.getElementById("out").onclick = () => zoom(1 / 1.5);
document.getElementById("home").onclick = showWhole;
