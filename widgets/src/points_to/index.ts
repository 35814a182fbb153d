// Who may be where: names in the lanes of their memories, in the order of time. Python has placed everything.

import type { Context } from "../lib/model/context";
import { h, s } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { PointsToArrow, PointsToBox, PointsToView } from "../lib/model/schema";
import { note, problem } from "../inspector/words";
import { nearby, squeezed } from "./nearby";

const BOX = 24;
const SMALL = 6.7;
const PEN = "M1 9.5L2 6.5L8 .5L10.5 3L4.5 9L1 9.5Z";

/** The picture of the whole program, or of the memory of one or two records; null if neither Python nor the page has it. */
export async function memoryOf({ view, supply, steps, records }: Context, ids: readonly number[]): Promise<PointsToView | null> {
  if (supply) return supply.pointsTo(ids, steps && steps.at !== steps.last ? steps.at : undefined);
  const values = ids.flatMap((id) => (records.isValue(id) ? [id] : records.valuesOf(id).slice(0, 1)));
  const whole = view.points_to;
  return whole && values.every((value) => whole.boxes.some((box) => box.record === value)) ? nearby(whole, values) : null;
}

/** The picture with its columns as near to each other as their names allow. */
function narrowed(view: PointsToView): PointsToView {
  const columns = [...new Set(view.bands.map(({ x }) => x))].sort((a, b) => a - b);
  const of = (x: number) => columns.findLastIndex((column) => column - COLUMN <= x);
  const right = columns.map((x) => x + COLUMN);
  const left = columns.map((x) => x - COLUMN);
  const reach = (from: number, to: number) => {
    const k = Math.max(0, of(from));
    right[k] = Math.max(right[k], to);
  };
  for (const box of view.boxes) reach(box.x, box.x + box.width);
  for (const { kind, points, label, x } of view.arrows) {
    reach(x, x + SMALL * label.length + (kind === "is" ? 24 : 0));
    for (const [at] of kind === "is" ? points : []) {
      const k = Math.max(0, columns.findIndex((column) => column >= at));
      left[k] = Math.min(left[k], at);
    }
  }
  const parts = columns.flatMap((_, k) => [[left[k] - 4, true], [right[k] + COLUMN, k + 1 === columns.length || right[k] + COLUMN >= left[k + 1] - 4]] as const);
  return moved(view, squeezed(parts));
}

/** The picture of two cones with little between them. */
function closer(view: PointsToView): PointsToView {
  const [left, right] = [...view.cones].sort((a, b) => a.x - b.x);
  const gap = right ? Math.max(0, right.x - left.x - left.width - COLUMN) : 0;
  return moved(view, (x) => (right && x >= right.x ? x - gap : x));
}

function moved(view: PointsToView, across: (x: number) => number): PointsToView {
  return {
    ...view, cones: view.cones.map((cone) => ({ ...cone, x: across(cone.x) })), boxes: view.boxes.map((box) => ({ ...box, x: across(box.x) })), bands: view.bands.map((band) => ({ ...band, x: across(band.x) })),
    arrows: view.arrows.map((arrow) => ({ ...arrow, x: across(arrow.x), points: arrow.points.map(([x, y]) => [across(x), y]) })),
  };
}

/** From the middle of a column to the edge of its names. */
const COLUMN = 14;

/** Draws the picture, with the lines of the program in its margin or, in a narrow pane beside them, without. */
export function memoryPicture(context: Context, whole: PointsToView, margin: boolean): SVGSVGElement {
  const view = margin ? whole : whole.cones.length ? closer(whole) : narrowed(whole);
  const left = margin ? 0 : Math.min(...view.boxes.map((box) => box.x), ...view.cones.map((cone) => cone.x), ...view.arrows.flatMap(({ points }) => points.map(([x]) => x))) - 12;
  const right = margin ? view.width : Math.max(...view.boxes.map((box) => box.x + box.width), ...view.cones.map(({ x, width }) => x + width - 26), ...view.arrows.map(({ x, label }) => x + SMALL * label.length)) + 30;
  const step = (x: number, y: number, number: number) => s("g", { class: "irs-way-step" }, s("circle", { cx: x, cy: y - 4, r: 8 }), s("text", { x, y, "text-anchor": "middle" }, String(number)));
  const lines = view.lines.map((line) => s("g", { class: "irs-lane-line", onclick: line.node ? () => context.selection.pick(line.node) : null },
    ...line.steps.map((number, k) => step(16 + 18 * k, line.y + 4, number)),
    s("text", { x: 50, y: line.y + 4, "text-anchor": "end" }, String(line.number)), s("text", { x: 60, y: line.y + 4 }, line.text)));
  return oneStop(s("svg", { class: "irs-points-to", ...(margin ? { width: right - left, height: view.height } : { style: `width:clamp(${0.83 * (right - left)}px,100%,${right - left}px)` }), viewBox: `${left} 0 ${right - left} ${view.height}`, role: "group", "aria-label": view.title },
    ...view.cones.map(({ label, x, y, width, height }, k) => s("g", { class: `irs-cone${k + 1}` }, s("rect", { x, y, width, height, rx: 9 }), s("text", { x: x + 9, y: y + 15 }, label))),
    ...view.bands.map(({ x, top, bottom }) => s("rect", { class: "irs-lane", x: x - 3, y: top, width: 6, height: Math.max(0, bottom - top), rx: 3 })),
    ...(margin ? lines : []), ...view.arrows.map(arrow), ...view.boxes.map((box) => name(context, box)),
    ...view.arrows.map(({ label, x, y }) => s("text", { class: "irs-lane-op", x, y }, label)),
    ...view.arrows.flatMap((each) => (each.step && each.kind === "is" ? [step(each.x + SMALL * each.label.length + 12, each.y, each.step)] : []))));
}

function arrow({ kind, points, step }: PointsToArrow): SVGElement {
  if (!points.length) return s("g", {});
  const [end, before] = [points[points.length - 1], points[points.length - 2]];
  const head = kind !== "is" ? "" : before[1] === end[1] ? "m-5-3l5 3-5 3" : before[1] < end[1] ? "m-3-5l3 5 3-5" : "m-3 5l3-5 3 5";
  const path = s("path", { d: `M${points.map((point) => point.join(" ")).join("L")}${head}` });
  const dot = kind === "is" ? [] : [s("circle", { cx: end[0], cy: end[1], r: 4.5 })];
  return s("g", { class: `irs-lane-arrow irs-lane-${kind}${step ? " on-path" : ""}` }, path, ...dot);
}

function name(context: Context, { label, kind, record, x, y, width, writes, subject }: PointsToBox): SVGElement {
  const pick = (event: MouseEvent | KeyboardEvent) => context.selection.pick(record, event.shiftKey);
  return s("g", {
    class: `irs-element irs-element-${kind}${subject ? " subject" : ""}${writes ? " writes" : ""} pickable`, transform: `translate(${x} ${y})`, "data-record": record,
    role: "button", "aria-label": `${label}${writes ? ", written here" : ""}`, onclick: pick, onkeydown: (event: KeyboardEvent) => event.key === "Enter" && pick(event),
  }, s("rect", { width, height: BOX, rx: kind === "name" ? 4 : BOX / 2 }), s("text", { x: 9, y: 16 }, label), writes ? s("path", { class: "irs-pen", transform: `translate(${width - 15} 7)`, d: PEN }) : s("g", {}));
}

const MOST_PICKED = 2;

/** The whole program while nothing is selected, else the memory of the selection: of a pair, the path on which they may share it. */
export function pointsToPane(context: Context): HTMLElement {
  const { selection, steps, signal } = context;
  const element = h("div", { class: "irs-points-pane" });
  let asked = "-";
  const show = () => {
    const ids = selection.ids.filter((id) => id > 0).slice(0, MOST_PICKED);
    const wanted = `${ids.join(" ")}|${steps?.at ?? ""}`;
    if (wanted === asked) return;
    asked = wanted;
    memoryOf(context, ids).then((found) => found ?? memoryOf(context, [])).then((view) => {
      if (signal.aborted || asked !== wanted) return;
      element.replaceChildren(...(view ? drawn(context, view) : [note("this page does not include it; a notebook with a kernel draws it")]));
    }, (error: unknown) => asked === wanted && element.replaceChildren(problem(error)));
  };
  selection.subscribe((moved) => moved && element.isConnected && show());
  steps?.subscribe(() => element.isConnected && show());
  new ResizeObserver(show).observe(element); // shown again after the selection moved elsewhere
  show();
  return element;
}

function drawn(context: Context, view: PointsToView): HTMLElement[] {
  const all = context.selection.ids.length ? h("button", { class: "irs-plain", onclick: () => context.selection.set([]) }, "whole program") : null;
  return [
    h("div", { class: "irs-points-holder", tabindex: "0" }, memoryPicture(context, view, true)),
    h("div", { class: "irs-points-told" }, all, ...view.told.map((line) => h("p", {}, line)), h("p", { class: "irs-quiet" }, ...view.legend.join(" ").split(" · ").map((part) => h("span", {}, part)))),
  ];
}
