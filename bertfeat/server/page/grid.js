// A grid over points: which is the nearest, which are inside of something.

export class Grid {
  constructor(x, y) {
    this.x = x;
    this.y = y;
    const count = x.length;
    [this.lowX, this.highX] = ends(x);
    [this.lowY, this.highY] = ends(y);
    this.side = Math.max(1, Math.ceil(Math.sqrt(count / 2)));
    this.starts = new Uint32Array(this.side * this.side + 1); // cell → its first place in `members`
    this.members = new Uint32Array(count);
    const cellOf = new Uint32Array(count);
    for (let i = 0; i < count; i++) this.starts[(cellOf[i] = this.row(y[i]) * this.side + this.column(x[i])) + 1]++;
    for (let cell = 0; cell < this.side * this.side; cell++) this.starts[cell + 1] += this.starts[cell];
    const next = this.starts.slice();
    for (let i = 0; i < count; i++) this.members[next[cellOf[i]]++] = i;
  }

  column(x) { return cell(x, this.lowX, this.highX, this.side); }
  row(y) { return cell(y, this.lowY, this.highY, this.side); }

  *#near(lowX, lowY, highX, highY) {
    for (let row = this.row(lowY); row <= this.row(highY); row++)
      for (let column = this.column(lowX); column <= this.column(highX); column++) {
        const at = row * this.side + column;
        for (let k = this.starts[at]; k < this.starts[at + 1]; k++) yield this.members[k];
      }
  }

  /** The point nearest to a place, if one is within reach; else -1. */
  nearest(x, y, reach) {
    let best = -1, least = reach * reach;
    for (const i of this.#near(x - reach, y - reach, x + reach, y + reach)) {
      const distance = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
      if (distance <= least) { best = i; least = distance; }
    }
    return best;
  }

  inBox(lowX, lowY, highX, highY) {
    const inside = [];
    for (const i of this.#near(lowX, lowY, highX, highY))
      if (this.x[i] >= lowX && this.x[i] <= highX && this.y[i] >= lowY && this.y[i] <= highY) inside.push(i);
    return inside;
  }

  /** The points inside of a polygon of [x, y]. */
  inPolygon(corners) {
    const [lowX, highX] = ends(corners.map(([x]) => x)), [lowY, highY] = ends(corners.map(([, y]) => y));
    return this.inBox(lowX, lowY, highX, highY).filter((i) => isInside(this.x[i], this.y[i], corners));
  }
}

const cell = (value, low, high, side) =>
  Math.min(side - 1, Math.max(0, Math.floor(((value - low) / (high - low || 1)) * side)));

function ends(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** Whether a ray to the right crosses the border an odd number of times. */
function isInside(x, y, corners) {
  let inside = false;
  for (let at = 0, before = corners.length - 1; at < corners.length; before = at++) {
    const [x1, y1] = corners[at], [x2, y2] = corners[before];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}
