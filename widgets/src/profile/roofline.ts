// The roofline: operations per second over operations per byte, a mark for each node, sized by its time, below the limits of the
// machine. A rectangle drawn with the pointer selects the marks in it.

import { s } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { percent } from "../lib/model/heat";
import type { ProfileView, TimedWay } from "../lib/model/schema";
import { pickable } from "./items";

/** As wide and low as a table below the panes, so that letters keep their size there. */
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [640, 200, 58, 168, 12];
const DRAG = 4;
const [MOST_NAMED, LETTER] = [6, 6.6];

export function roofline(context: Context, { bandwidth, peak }: ProfileView, way: TimedWay, status: HTMLElement): SVGElement | null {
  const marks = [...way.marks].sort((a, b) => b.share - a.share);
  if (!marks.length || !bandwidth || !peak) return null;
  const ridge = peak / bandwidth;
  const lows = marks.map((mark) => mark.intensity).concat(ridge).map(Math.log10);
  const highs = marks.map((mark) => mark.gflops).concat(peak).map(Math.log10);
  const [x0, x1] = [Math.min(...lows) - 0.4, Math.max(...lows) + 0.6];
  const [y0, y1] = [Math.min(...highs) - 0.4, Math.max(...highs) + 0.3];
  const x = (intensity: number) => LEFT + ((WIDTH - LEFT - 10) * (Math.log10(intensity) - x0)) / (x1 - x0);
  const y = (gflops: number) => BOTTOM - (BOTTOM - TOP) * Math.max(0, Math.min(1, (Math.log10(gflops) - y0) / (y1 - y0)));
  const left = Math.max(10 ** x0, 10 ** y0 / bandwidth);
  const roof = s("path", { class: "irs-roof", d: `M${x(left)} ${y(left * bandwidth)}L${x(ridge)} ${y(peak)}H${WIDTH - 10}` });
  const slope = (Math.atan2(y(peak) - y(left * bandwidth), x(ridge) - x(left)) * 180) / Math.PI; // the label runs along the line
  const dots = marks.map((mark) => s("circle", { class: "irs-mark", cx: x(mark.intensity).toFixed(1), cy: y(mark.gflops).toFixed(1), r: (3.5 + 10 * Math.sqrt(mark.share)).toFixed(1) }));
  const brush = s("rect", { class: "irs-brush", visibility: "hidden" });
  const picture = s("svg", { class: "irs-roofline", viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
    ...powers(x0, x1).flatMap((power) => grid(`M${x(10 ** power)} ${TOP}V${BOTTOM}`, x(10 ** power), BOTTOM + 14, "middle", power)),
    ...powers(y0, y1).flatMap((power) => grid(`M${LEFT} ${y(10 ** power)}H${WIDTH - 10}`, LEFT - 5, y(10 ** power) + 4, "end", power)),
    s("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, "operations per byte"),
    s("text", { x: 12, y: (TOP + BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + BOTTOM) / 2})` }, "GFLOP/s"),
    s("text", { x: WIDTH - 12, y: y(peak) - 5, "text-anchor": "end" }, `arithmetic ${peak.toFixed(0)} GFLOP/s`),
    s("text", { x: 12, y: -6, transform: `translate(${x(left)} ${y(left * bandwidth)}) rotate(${slope})` }, `copy ${bandwidth.toFixed(0)} GB/s`), roof, ...dots, ...named(marks.map((mark) => ({ label: mark.label, x: x(mark.intensity), y: y(mark.gflops) }))), brush);
  const items = marks.map((mark, k) => {
    const allowed = Math.min(peak, mark.intensity * bandwidth);
    return {
      ids: mark.id ? [mark.id] : [], element: dots[k],
      told: `${mark.label}: ${mark.gflops.toPrecision(3)} GFLOP/s, ${percent(mark.gflops / allowed)} of the ${mark.intensity < ridge ? "memory" : "arithmetic"} bound at ${mark.intensity.toPrecision(2)} operations per byte; ${percent(mark.share)} of the time`,
    };
  });
  pickable(context, picture, `roofline, ${way.label}`, items, status);
  brushing(context, picture, brush, (x0, y0, x1, y1) => {
    const inside = (mark: (typeof marks)[number]) => x(mark.intensity) >= x0 && x(mark.intensity) <= x1 && y(mark.gflops) >= y0 && y(mark.gflops) <= y1;
    context.selection.set(marks.filter((mark) => mark.id && inside(mark)).map((mark) => mark.id));
  });
  return picture;
}

/** The names of the marks that take most, as far as they do not cover each other. */
function named(marks: readonly { label: string; x: number; y: number }[]): SVGElement[] {
  const placed: { label: string; from: number; y: number }[] = [];
  for (const { label, x, y } of marks) {
    const wide = LETTER * label.length;
    const from = x + 12 + wide > WIDTH ? x - 14 - wide : x + 12;
    const isFree = placed.every((other) => Math.abs(other.y - y) > 12 || other.from + LETTER * other.label.length < from || from + wide < other.from);
    if (placed.length < MOST_NAMED && isFree) placed.push({ label, from, y });
  }
  return placed.map(({ label, from, y }) => s("text", { x: from, y: y + 4 }, label));
}

function powers(low: number, high: number): number[] {
  return Array.from({ length: Math.max(0, Math.floor(high) - Math.ceil(low) + 1) }, (_, k) => Math.ceil(low) + k);
}

function grid(d: string, x: number, y: number, anchor: string, power: number): SVGElement[] {
  return [s("path", { class: "irs-grid-line", d }), s("text", { x, y, "text-anchor": anchor }, String(Number((10 ** power).toPrecision(1))))];
}

function brushing(context: Context, picture: SVGSVGElement, brush: SVGRectElement, done: (x0: number, y0: number, x1: number, y1: number) => void): void {
  const at = (event: PointerEvent): [number, number] => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM()!.inverse());
    return [point.x, point.y];
  };
  picture.addEventListener("pointerdown", (down) => {
    if (down.button !== 0) return;
    const [fromX, fromY] = at(down);
    const drag = new AbortController();
    const span = (event: PointerEvent): [number, number, number, number] => {
      const [toX, toY] = at(event);
      return [Math.min(fromX, toX), Math.min(fromY, toY), Math.max(fromX, toX), Math.max(fromY, toY)];
    };
    picture.addEventListener("pointermove", (event) => {
      if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < DRAG) return;
      const [left, top, right, bottom] = span(event);
      for (const [name, value] of Object.entries({ x: left, y: top, width: right - left, height: bottom - top, visibility: "visible" })) brush.setAttribute(name, String(value));
    }, { signal: drag.signal });
    const end = (event: PointerEvent) => {
      drag.abort();
      if (brush.getAttribute("visibility") === "visible" && event.type === "pointerup") done(...span(event));
      brush.setAttribute("visibility", "hidden");
    };
    for (const name of ["pointerup", "pointerleave", "pointercancel"] as const) picture.addEventListener(name, end, { signal: drag.signal });
  }, { signal: context.signal });
}
