// The stage of the map: what part is seen, how it is drawn, pointer and keys. What it shows is the map's business.

import { byId } from "./dom.js";
import { Grid } from "./grid.js";
import { drawLabels } from "./labels.js";
import { makeScatter } from "./scatter.js";

const REACH = 12, REACH_OF_A_FINGER = 24; // pixels
const STILL = 5; // pixels that a click may move
const DEEPEST = 2000; // times the whole map
const PLAIN = [{ name: "--point", strength: 1 }];

export class Stage {
  /** `events`: hover(i), keep(i), lasso(points), moved(), drawn(), and keys by their names. */
  constructor(x, y, events) {
    Object.assign(this, { events, view: { scale: 1, x: 0, y: 0 }, wholeScale: 0 });
    [this.canvas, this.overlay, this.box] = ["points", "overlay", "stage"].map(byId);
    this.pen = this.overlay.getContext("2d");
    this.trail = null; // of the lasso: [x, y] on the screen
    this.lassoing = false; // dragging draws, without shift too
    this.pace = 1; // the share of the points that is drawn while the view moves
    this.#listen();
    new ResizeObserver(() => this.fit()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.lay(x, y);
  }

  /** Put the points in other places; hits, labels and colors go with the old ones. */
  lay(x, y) {
    Object.assign(this, { x, y, grid: new Grid(x, y), wholeScale: 0, scatter: makeScatter(this.canvas, x, y) });
    this.scatter.again = () => this.redraw();
    this.hits = []; // { x, y }, the best first
    this.labels = []; // { name, x, y }, in the order in which they are given room
    this.paints = null; // { name, strength } of the colors of the points' codes, where they have codes
    this.somePicked = false;
    this.current = null; // { x, y } that has a ring
    this.fit();
  }

  // ── what is seen ──

  fit() {
    const width = Math.max(60, this.box.clientWidth), height = Math.max(60, this.box.clientHeight);
    const ratio = Math.min(2, devicePixelRatio || 1), before = this.size;
    this.size = { width, height, ratio };
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    if (!this.wholeScale || this.view.scale === this.wholeScale) this.showWhole();
    else this.pan((width - before.width) / 2, (height - before.height) / 2);
  }

  showWhole() {
    const { lowX, highX, lowY, highY } = this.grid, { width, height } = this.size, pad = 24;
    const wide = Math.max(highX - lowX, 1e-9), high = Math.max(highY - lowY, 1e-9);
    this.wholeScale = this.view.scale = Math.min((width - 2 * pad) / wide, (height - 2 * pad) / high);
    this.center((lowX + highX) / 2, (lowY + highY) / 2);
  }

  center(x, y) {
    this.view.x = this.size.width / 2 - x * this.view.scale;
    this.view.y = this.size.height / 2 + y * this.view.scale;
    this.#move();
  }

  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const { view, wholeScale } = this;
    const scale = Math.min(Math.max(view.scale * factor, wholeScale / 2), wholeScale * DEEPEST);
    view.x = x - (x - view.x) * (scale / view.scale);
    view.y = y - (y - view.y) * (scale / view.scale);
    view.scale = scale;
    this.#move();
  }

  pan(x, y) {
    this.view.x += x;
    this.view.y += y;
    this.#move();
  }

  #move() {
    clearTimeout(this.moving);
    this.moving = setTimeout(() => { this.moving = this.before = null; this.redraw(); }, 160);
    this.redraw();
    this.events.moved();
  }

  /** The middle and the zoom, to be kept in an address; null for the whole map. */
  get position() {
    if (this.view.scale === this.wholeScale) return null;
    const [x, y] = this.toMap(this.size.width / 2, this.size.height / 2);
    return { x: x.toPrecision(5), y: y.toPrecision(5), zoom: (this.view.scale / this.wholeScale).toPrecision(4) };
  }

  go({ x, y, zoom }) {
    this.view.scale = this.wholeScale * Math.min(DEEPEST, Math.max(0.5, zoom));
    this.center(x, y);
  }

  toMap(x, y) { return [(x - this.view.x) / this.view.scale, (this.view.y - y) / this.view.scale]; }
  toScreen({ x, y }) { return [x * this.view.scale + this.view.x, this.view.y - y * this.view.scale]; }

  inView() {
    const [lowX, highY] = this.toMap(0, 0), [highX, lowY] = this.toMap(this.size.width, this.size.height);
    return this.grid.inBox(lowX, lowY, highX, highY);
  }

  sees(place) {
    const [x, y] = this.toScreen(place);
    return x >= 0 && y >= 0 && x <= this.size.width && y <= this.size.height;
  }

  // ── drawing ──

  pick(points) {
    this.somePicked = points.length > 0;
    this.scatter.pick(points);
    this.redraw();
  }

  /** Give the points colors by their codes, each { name, strength } of a CSS variable. Without codes all have one color. */
  paint(codes, paints) {
    this.paints = codes && paints;
    this.scatter.paint(codes);
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.#draw(); });
  }

  /** While the view moves, a machine without a graphics processor draws a part of many points, which is an even sample. */
  #paceShare() {
    const now = performance.now(), gap = this.before ? now - this.before : null;
    this.before = now;
    if (gap !== null && gap > 45) this.pace = Math.max(1 / 32, this.pace / 2);
    else if (gap !== null && gap < 20) this.pace = Math.min(1, this.pace * 1.2);
    return this.pace;
  }

  #draw() {
    const count = this.x.length, { width, height, ratio } = this.size;
    const even = Math.sqrt((0.1 * width * height) / count / Math.PI);
    const radius = Math.min(8, Math.min(Math.max(even, 1.2), 5) * Math.max(1, this.view.scale / this.wholeScale) ** 0.25);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const crowded = Math.min(0.9, Math.max(0.35, (1500 / count) ** 0.25));
    const dimmed = this.paints ? this.somePicked : this.hits.length; // points with colors keep them when they are picked
    const palette = (this.paints ?? PLAIN).map(({ name, strength }) => ({ color: color(name), strength }));
    this.scatter.draw(this.view, this.size, { radius, palette,
      pickedColor: this.paints ? null : color("--picked"), opacity: dimmed ? crowded / 2 : crowded,
      share: this.moving ? this.#paceShare() : 1 });
    const { pen } = this;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    // not clearRect: Chromium does not show a frame in which a canvas was only cleared after a touch, so a lasso would stay
    pen.globalCompositeOperation = "copy";
    pen.fillStyle = "transparent";
    pen.fillRect(0, 0, width, height);
    pen.globalCompositeOperation = "source-over";
    pen.lineWidth = 1.5;
    pen.fillStyle = color(this.paints ? "--ink" : "--hit");
    pen.strokeStyle = color("--paper");
    for (const hit of this.hits) this.#dot(hit, Math.max(5, radius * 1.6), true);
    pen.strokeStyle = color("--ink");
    pen.lineWidth = 2;
    if (this.current) this.#dot(this.current, Math.max(7, radius * 1.6 + 3), false);
    drawLabels(pen, this.#labelsInView(), { width, height, ink: color("--ink"), paper: color("--paper") });
    if (this.trail) this.#drawTrail();
    this.events.drawn();
  }

  #labelsInView() {
    return this.labels.map((label) => { const [x, y] = this.toScreen(label); return { name: label.name, x, y }; });
  }

  #dot(place, radius, filled) {
    const [x, y] = this.toScreen(place);
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 7);
    if (filled) this.pen.fill();
    this.pen.stroke();
  }

  #drawTrail() {
    this.pen.setLineDash([5, 4]);
    this.pen.beginPath();
    for (const [x, y] of this.trail) this.pen.lineTo(x, y);
    this.pen.closePath();
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  // ── pointer and keys ──

  #listen() {
    const { canvas, events } = this, down = new Map(); // pointer → where it is
    let moved = 0;
    const placeOf = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const pinch = () => {
      const [a, b] = [...down.values()];
      return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, far: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
    };
    const under = (place, reach) => this.grid.nearest(...this.toMap(place.x, place.y), reach / this.view.scale);
    canvas.onpointerdown = (event) => {
      if (event.button > 0) return;
      if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
      const place = placeOf(event);
      if (!down.size) moved = 0;
      down.set(event.pointerId, place);
      this.trail = down.size === 1 && (event.shiftKey || this.lassoing) ? [[place.x, place.y]] : null;
    };
    canvas.onpointermove = (event) => {
      const now = placeOf(event), before = down.get(event.pointerId);
      if (!before) {
        if (event.pointerType !== "touch") events.hover(under(now, REACH));
        return;
      }
      const was = down.size === 2 ? pinch() : null;
      down.set(event.pointerId, now);
      moved += Math.hypot(now.x - before.x, now.y - before.y);
      if (was) {
        const is = pinch();
        this.pan(is.x - was.x, is.y - was.y);
        this.zoom(is.far / was.far, is.x, is.y);
      } else if (this.trail) {
        this.trail.push([now.x, now.y]);
        this.redraw();
      } else if (moved > STILL) this.pan(now.x - before.x, now.y - before.y);
    };
    canvas.onpointerup = (event) => {
      const only = down.size === 1 && down.has(event.pointerId), { trail } = this;
      down.delete(event.pointerId);
      this.trail = null;
      if (only && moved <= STILL) events.keep(under(placeOf(event), event.pointerType === "touch" ? REACH_OF_A_FINGER : REACH));
      else if (trail?.length > 2) events.lasso(this.grid.inPolygon(trail.map(([x, y]) => this.toMap(x, y))));
      this.redraw();
    };
    canvas.onpointercancel = (event) => { down.delete(event.pointerId); this.trail = null; };
    canvas.onpointerleave = () => { if (!down.size) events.hover(-1); };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x, y } = placeOf(event);
      const pixels = Math.max(-300, Math.min(300, event.deltaY * [1, 16, 400][event.deltaMode]));
      this.zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.002)), x, y); // ctrl: a pinch on a touchpad
    }, { passive: false });
    const keys = new Map(Object.entries({ ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0),
      ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60), "+": () => this.zoom(1.4), "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4), 0: () => this.showWhole(), ...events.keys }));
    canvas.onkeydown = (event) => {
      if (!keys.has(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys.get(event.key)();
    };
  }
}
