// A text with some of its characters marked.

import { cutter, element } from "./dom.js";

/** A text with its marks, each [start, end, weight]; the heavier, the stronger. */
export function markedText(text, marks) {
  const cut = cutter(text), parts = [];
  const most = Math.max(...marks.map(([, , weight]) => weight), 1e-9);
  let at = 0;
  for (const [start, end, weight] of [...marks].sort((a, b) => a[0] - b[0])) {
    if (start < at || !(weight > 0)) continue;
    const strength = Math.max(1, Math.ceil((3 * weight) / most));
    parts.push(cut(at, start), element("mark", { className: `w${strength}` }, cut(start, end)));
    at = end;
  }
  parts.push(cut(at, Infinity));
  return parts.filter(Boolean);
}
