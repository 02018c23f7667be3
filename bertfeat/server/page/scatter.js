// Many points on a canvas: by WebGL, or where there is none by squares on a plain canvas.

const MOST_COLORS = 16;

const VERTEX = `
attribute vec2 place; attribute float picked, code;
uniform vec2 scale, shift; uniform float size, opacity;
uniform vec4 palette[MOST]; uniform vec3 pickedColor;
varying vec4 paint;
void main() {
  gl_Position = vec4(place * scale + shift, 0.0, 1.0);
  gl_PointSize = size * (1.0 + 0.4 * picked);
  bool isPicked = picked > 0.5;
  vec4 own = palette[int(code + 0.5)];
  paint = isPicked ? vec4(pickedColor.r < 0.0 ? own.rgb : pickedColor, 1.0) : vec4(own.rgb, own.a * opacity);
}`.replace("MOST", MOST_COLORS);

const FRAGMENT = `
precision mediump float;
varying vec4 paint;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  if (dot(off, off) > 0.25) discard;
  gl_FragColor = vec4(paint.rgb * paint.a, paint.a);
}`;

/**
 * A drawer of points; `draw(view, size, look)`, where screen = place × view.scale + (view.x, view.y), y downwards.
 * A point's color is that of its code (`paint`) in look.palette, of { color, strength }; look.pickedColor is null where
 * picked points keep theirs.
 */
export function makeScatter(canvas, x, y) {
  const gl = canvas.getContext("webgl", { antialias: false, premultipliedAlpha: true });
  return gl ? new GlScatter(canvas, gl, x, y) : new PlainScatter(canvas, x, y);
}

class GlScatter {
  constructor(canvas, gl, x, y) {
    Object.assign(this, { canvas, gl, count: x.length });
    this.slots = spread(x.length); // point → its place in the buffers
    this.places = new Float32Array(2 * x.length);
    this.slots.forEach((slot, i) => { this.places[2 * slot] = x[i]; this.places[2 * slot + 1] = y[i]; });
    this.picked = new Uint8Array(x.length);
    this.codes = new Uint8Array(x.length);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.#prepare(); this.again?.(); });
    this.#prepare();
  }

  #prepare() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.uniforms = Object.fromEntries(["scale", "shift", "size", "opacity", "palette", "pickedColor"].map((name) =>
      [name, gl.getUniformLocation(program, name)]));
    this.#fill(gl.getAttribLocation(program, "place"), this.places, 2, gl.FLOAT);
    this.pickedBuffer = this.#fill(gl.getAttribLocation(program, "picked"), this.picked, 1, gl.UNSIGNED_BYTE);
    this.codeBuffer = this.#fill(gl.getAttribLocation(program, "code"), this.codes, 1, gl.UNSIGNED_BYTE);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  #fill(at, values, size, kind) {
    const { gl } = this, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, kind, false, 0, 0);
    return buffer;
  }

  pick(numbers) {
    this.picked.fill(0);
    for (const i of numbers) this.picked[this.slots[i]] = 1;
    this.#refill(this.pickedBuffer, this.picked);
  }

  paint(codes) {
    this.slots.forEach((slot, i) => { this.codes[slot] = codes ? codes[i] : 0; });
    this.#refill(this.codeBuffer, this.codes);
  }

  #refill(buffer, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.STATIC_DRAW);
  }

  draw(view, { width, height, ratio }, { palette, pickedColor, opacity, radius, share }) {
    const { gl, uniforms } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.scale, (2 * view.scale) / width, (2 * view.scale) / height);
    gl.uniform2f(uniforms.shift, (2 * view.x) / width - 1, 1 - (2 * view.y) / height);
    gl.uniform1f(uniforms.size, 2 * radius * ratio);
    gl.uniform1f(uniforms.opacity, opacity);
    const colors = Array.from({ length: MOST_COLORS }, (_, at) => palette[at] ?? palette[0]);
    gl.uniform4fv(uniforms.palette, colors.flatMap(({ color, strength }) => [...parts(color), strength]));
    gl.uniform3f(uniforms.pickedColor, ...(pickedColor ? parts(pickedColor) : [-1, 0, 0]));
    gl.drawArrays(gl.POINTS, 0, Math.ceil(this.count * share));
  }
}

class PlainScatter {
  constructor(canvas, x, y) {
    Object.assign(this, { canvas, x, y, pen: canvas.getContext("2d"), picked: new Uint8Array(x.length), codes: null });
  }

  pick(numbers) {
    this.picked.fill(0);
    for (const i of numbers) this.picked[i] = 1;
  }

  paint(codes) { this.codes = codes; }

  draw(view, { ratio }, { palette, pickedColor, opacity, radius, share }) {
    const { pen, canvas, x, y, picked, codes } = this, step = Math.round(1 / share);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (const wanted of [0, 1]) {
      const side = 2 * radius * ratio * (wanted ? 1.4 : 1);
      let style = null;
      for (let i = 0; i < x.length; i += step) {
        if (picked[i] !== wanted) continue;
        const left = (x[i] * view.scale + view.x) * ratio, top = (view.y - y[i] * view.scale) * ratio;
        if (left < 0 || top < 0 || left > canvas.width || top > canvas.height) continue;
        const own = palette[codes ? codes[i] : 0];
        if (own !== style) {
          style = own;
          pen.fillStyle = wanted && pickedColor ? pickedColor : own.color;
          pen.globalAlpha = wanted ? 1 : opacity * own.strength;
        }
        pen.fillRect(left - side / 2, top - side / 2, side, side);
      }
    }
  }
}

/** "#3910bb" → its three parts from 0 to 1. */
const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);

/** Slots for points, so that those in the first slots are an even sample of all. */
function spread(count) {
  const common = (a, b) => (b ? common(b, a % b) : a);
  let stride = Math.max(1, Math.floor(count * 0.6180339887));
  while (common(count, stride) !== 1) stride++;
  return Uint32Array.from({ length: count }, (_, i) => (i * stride) % count);
}
