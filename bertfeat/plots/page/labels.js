// Labels on a map: words on a canvas, each where there is room for it.

const SIZE = 13, GAP = 4; // pixels

/** Draw labels, { name, x, y } on the screen, the first first; one that would cover another is left out. */
export function drawLabels(pen, labels, { width, height, ink, paper }) {
  const taken = []; // [left, top, right, bottom]
  Object.assign(pen, { font: `600 ${SIZE}px system-ui, sans-serif`, textAlign: "center", textBaseline: "middle",
    lineJoin: "round", lineWidth: 4, strokeStyle: paper, fillStyle: ink });
  for (const { name, x, y } of labels) {
    if (!name) continue;
    const half = pen.measureText(name).width / 2 + GAP, high = SIZE / 2 + GAP;
    if (x < 0 || y < 0 || x > width || y > height || 2 * half > width) continue;
    const middle = Math.min(Math.max(x, half), width - half), level = Math.min(Math.max(y, high), height - high);
    const box = [middle - half, level - high, middle + half, level + high];
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    pen.strokeText(name, middle, level);
    pen.fillText(name, middle, level);
  }
}
