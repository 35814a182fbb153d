// The look of one box and one edge: sizes, text and SVG elements. Colours are classes and variables, never literals.

import { s } from "../lib/dom/dom";
import type { DrawnEdge, Layout } from "../lib/layout/layout";
import type { Size } from "../lib/layout/layered";
import type { Box } from "../lib/model/schema";

const LABEL_CHAR = 7.9;
const DETAIL_CHAR = 6.3;
const MOST_LABEL = 32;
const MOST_DETAIL = 38;
const OP_HEIGHT = 26;
const TALL_HEIGHT = 40;

export function sizeOf(box: Box, isCluster: boolean, copies: number): Size {
  const label = letters(middleCut(box.label, MOST_LABEL)) * LABEL_CHAR;
  const detail = letters(shortened(box.detail, MOST_DETAIL)) * DETAIL_CHAR;
  const left = isCluster ? 18 : 0;
  const extras = (copies > 1 ? 18 + 8 * String(copies).length : 0) + (box.writes ? 14 : 0);
  return { width: Math.max(56, Math.ceil(left + Math.max(label + extras, detail) + 22)), height: box.detail ? TALL_HEIGHT : OP_HEIGHT };
}

/** The length of a text, where an ideograph takes the room of two letters. */
function letters(text: string): number {
  return text.replace(/[\u{2e80}-\u{10ffff}]/gu, "WW").length;
}

export function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** The text without its middle: paths of modules differ at their ends. */
function middleCut(text: string, most: number): string {
  const half = Math.floor((most - 1) / 2);
  return text.length > most ? `${text.slice(0, most - 1 - half)}…${text.slice(-half)}` : text;
}

export interface Look {
  open: boolean;
  cluster: boolean;
  copies: number;
  /** The box's colour, as a CSS value. */
  colour: string;
  depth: number;
  id: string;
  words: boolean;
  /** Whether it reads from, and feeds, what is outside the box around it. */
  reads: boolean;
  feeds: boolean;
  /** Whether it copies a tensor and does nothing else. */
  moves: boolean;
  /** Why no kernel of another compiler computes it; else empty. */
  unrun: string;
  /** Its share of the time, if colours mean time; else empty. */
  share: string;
  /** What a closed box holds of each equivalence class, if colours mean classes. */
  classes: readonly (readonly [colour: string, share: number])[];
}

export function boxElement(box: Box, layout: Layout, index: number, look: Look): SVGGElement {
  const [w, height] = [layout.w[index], layout.h[index]];
  const element = s("g", {
    id: look.id, class: `irs-box irs-kind-${box.kind} ${look.open ? "open" : ""} ${box.writes ? "writes" : ""} ${look.moves ? "moves" : ""} ${look.unrun ? "unrun" : ""}`,
    "data-box": index, "data-id": box.id, style: `--c: ${look.colour}`,
    role: "treeitem", "aria-level": look.depth + 1, "aria-label": spoken(box, look),
    "aria-selected": "false", "aria-expanded": look.cluster ? (look.open ? "true" : "false") : null,
  }, s("title", {}, `${box.label}${box.detail ? `\n${box.detail}` : ""}${box.writes ? "\nwrites memory in place" : ""}${look.moves ? "\ncopies a tensor and does nothing else: its Layout says why" : ""}${look.unrun ? `\nin no kernel: ${look.unrun}` : ""}`));
  const round = box.kind === "input" || box.kind === "output" ? height / 2 : look.cluster ? 7 : 4;
  if (look.cluster && !look.open) element.append(s("rect", { class: "irs-behind", x: 3, y: 3, width: w, height, rx: round }));
  element.append(s("rect", { class: "irs-face", width: w, height, rx: round }));
  if (!look.open && box.kind === "op") element.append(s("rect", { class: "irs-strip", x: 0, y: 3, width: 4, height: height - 6, rx: 2 }));
  let from = 8;
  for (const [colour, share] of look.classes) {
    const width = share * (w - 16);
    element.append(s("rect", { x: from, y: height - 3, width, height: 6, style: `fill: ${colour}` }));
    from += width;
  }
  if (look.reads) element.append(s("path", { class: "irs-tick", d: `M${w / 2} -10V0${head([w / 2, 0], 1)}` }));
  if (look.feeds) element.append(s("path", { class: "irs-tick", d: `M${w / 2} ${height}v8` }));
  if (look.words) element.append(...words(box, w, height, look));
  place(element, layout, index);
  return element;
}

/** Puts the element of a box where its layout has it. */
export function place(element: SVGGElement, layout: Layout, index: number): void {
  element.setAttribute("transform", `translate(${layout.x[index]} ${layout.y[index]})`);
}

function words(box: Box, w: number, height: number, look: Look): (SVGElement | string)[] {
  const left = look.cluster ? 26 : box.kind === "op" ? 12 : w / 2;
  const anchor = look.cluster || box.kind === "op" ? "start" : "middle";
  const middle = look.open ? 17 : box.detail ? 17 : height / 2 + 4.5;
  const made: (SVGElement | string)[] = [s("text", { class: "irs-label", x: left, y: middle, "text-anchor": anchor }, middleCut(box.label, MOST_LABEL))];
  if (box.detail && !look.open) {
    made.push(" ", s("text", { class: "irs-detail", x: left, y: 33, "text-anchor": anchor }, shortened(box.detail, MOST_DETAIL)));
  }
  if (look.share) {
    const wide = 8 + 7 * look.share.length;
    made.push(" ", s("g", { class: "irs-share", transform: `translate(${w - wide + 6} -10)` },
      s("rect", { width: wide, height: 15, rx: 7.5 }), s("text", { x: wide / 2, y: 12, "text-anchor": "middle" }, look.share), s("title", {}, `${look.share} of the time`)));
  }
  if (look.cluster) {
    const sign = look.open ? "M-4 0H4" : "M-4 0H4M0 -4V4";
    made.push(s("g", { class: "irs-toggle", transform: `translate(14 ${look.open ? 13 : middle - 4})` },
      s("rect", { x: -8, y: -8, width: 16, height: 16, rx: 4 }), s("path", { d: sign }), s("title", {}, look.open ? "close" : "open")));
  }
  const text = `×${look.copies}`;
  const wide = look.copies > 1 ? 10 + 7 * text.length : 0;
  if (wide) {
    made.push(" ", s("g", { class: "irs-badge", transform: `translate(${w - wide - 4} 4)` },
      s("rect", { width: wide, height: 15, rx: 7.5 }), s("text", { x: wide / 2, y: 12, "text-anchor": "middle" }, text),
      s("title", {}, box.kind === "repeat" ? `${look.copies} parts, ${box.detail}` : `${look.copies} equal parts; click to select them all`)));
  }
  if (box.writes) {
    made.push(s("path", { class: "irs-pen", transform: `translate(${w - 16 - wide} 7)`, d: "M1 9.5L2 6.5L8 .5L10.5 3L4.5 9L1 9.5Z" }));
  }
  return made;
}

/** The name of a box for those who hear it: first what is written on it. */
function spoken(box: Box, { open, copies, share }: Look): string {
  const label = middleCut(box.label, MOST_LABEL);
  const seen = [label, open ? "" : shortened(box.detail, MOST_DETAIL), share, copies > 1 ? `×${copies}` : ""].filter((part) => part).join(" ");
  const parts = [seen, label === box.label ? "" : box.label, share ? `${share} of the time` : "", open ? box.detail : "", box.kind === "op" ? "" : box.kind, box.writes ? "writes in place" : "", copies > 1 ? (box.kind === "repeat" ? `${copies} parts` : `one of ${copies} equal`) : ""];
  return parts.filter((part) => part).join(", ");
}

const ARROW = 4;

/** The path of an edge: smooth between rows, straight through them, with an arrow head; two stubs for an edge with no route. */
export function edgePath(edge: DrawnEdge): string {
  const { points, leaves, enters } = edge;
  if (!points) {
    return `M${leaves[0]} ${leaves[1]}v9m-3 0h6M${enters[0]} ${enters[1] - 12}m-3 0h6m-3 0V${enters[1]}${head(enters, 1)}`;
  }
  const [beforeX, beforeY, lastX, lastY] = points.slice(-4);
  let path = `M${points[0]} ${points[1]}`;
  for (let k = 2; k < points.length; k += 2) {
    const [x0, y0, x1, y1] = [points[k - 2], points[k - 1], points[k], points[k + 1]];
    path += x0 === x1 ? `V${y1}` : y0 === y1 ? `H${x1}` : curve(x0, y0, x1, y1);
  }
  if (beforeY === lastY && beforeX !== lastX) return `${path}${sideways(lastX, lastY, lastX > beforeX ? 1 : -1)}`;
  return path + head([lastX, lastY], lastY >= beforeY ? 1 : -1);
}

function sideways(x: number, y: number, right: number): string {
  return [-0.75, 0.75].map((side) => `M${x - ARROW * right} ${y + ARROW * side}L${x} ${y}`).join("");
}

/** A curve straight from one box to another, for an edge of the selection that no level draws. */
export function directPath(x0: number, y0: number, x1: number, y1: number): string {
  return `M${x0} ${y0}${curve(x0, y0, x1, y1)}${head([x1, y1], 1)}`;
}

function curve(x0: number, y0: number, x1: number, y1: number): string {
  const bend = Math.max(Math.min(Math.abs(y1 - y0) / 2, 120), 10) * (y1 >= y0 ? 1 : -1);
  return `C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
}

function head([x, y]: readonly [number, number] | number[], down: number): string {
  return [-0.75, 0.75].map((side) => `M${x + ARROW * side} ${y - ARROW * down}L${x} ${y}`).join(""); // dashes begin anew, and spare the head
}
