// Many points on a canvas: by WebGL, or where there is none by squares on a plain canvas.

const VERTEX = `
attribute vec2 place; attribute float picked;
uniform vec2 scale, shift; uniform float size;
varying float isPicked;
void main() {
  gl_Position = vec4(place * scale + shift, 0.0, 1.0);
  gl_PointSize = size * (1.0 + 0.4 * picked);
  isPicked = picked;
}`;

const FRAGMENT = `
precision mediump float;
uniform vec4 color, pickedColor;
varying float isPicked;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  if (dot(off, off) > 0.25) discard;
  vec4 chosen = isPicked > 0.5 ? pickedColor : color;
  gl_FragColor = vec4(chosen.rgb * chosen.a, chosen.a);
}`;

/** A drawer of points; `draw(view, size, look)`, where screen = place × view.scale + (view.x, view.y), y downwards. */
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
    this.uniforms = Object.fromEntries(["scale", "shift", "size", "color", "pickedColor"].map((name) =>
      [name, gl.getUniformLocation(program, name)]));
    this.#fill(gl.getAttribLocation(program, "place"), this.places, 2, gl.FLOAT);
    this.pickedAt = gl.getAttribLocation(program, "picked");
    this.pickedBuffer = this.#fill(this.pickedAt, this.picked, 1, gl.UNSIGNED_BYTE);
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
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.pickedBuffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, this.picked, this.gl.STATIC_DRAW);
  }

  draw(view, { width, height, ratio }, { color, pickedColor, opacity, radius, share }) {
    const { gl, uniforms } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.scale, (2 * view.scale) / width, (2 * view.scale) / height);
    gl.uniform2f(uniforms.shift, (2 * view.x) / width - 1, 1 - (2 * view.y) / height);
    gl.uniform1f(uniforms.size, 2 * radius * ratio);
    gl.uniform4f(uniforms.color, ...parts(color), opacity);
    gl.uniform4f(uniforms.pickedColor, ...parts(pickedColor), 1);
    gl.drawArrays(gl.POINTS, 0, Math.ceil(this.count * share));
  }
}

class PlainScatter {
  constructor(canvas, x, y) {
    Object.assign(this, { canvas, x, y, pen: canvas.getContext("2d"), picked: new Uint8Array(x.length) });
  }

  pick(numbers) {
    this.picked.fill(0);
    for (const i of numbers) this.picked[i] = 1;
  }

  draw(view, { ratio }, { color, pickedColor, opacity, radius, share }) {
    const { pen, canvas, x, y, picked } = this, side = 2 * radius * ratio, step = Math.round(1 / share);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (const [wanted, style, alpha] of [[0, color, opacity], [1, pickedColor, 1]]) {
      pen.fillStyle = style;
      pen.globalAlpha = alpha;
      for (let i = 0; i < x.length; i += step) {
        if (picked[i] !== wanted) continue;
        const left = (x[i] * view.scale + view.x) * ratio, top = (view.y - y[i] * view.scale) * ratio;
        if (left < 0 || top < 0 || left > canvas.width || top > canvas.height) continue;
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

