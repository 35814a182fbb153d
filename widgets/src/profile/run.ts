// One run from start to end: the ops in each lane, and below them the live memory. + and − zoom, and so does the
// wheel with Ctrl.

import { h, s } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { HEAT_COLOURS, stepOf } from "../lib/model/heat";
import type { TimedWay } from "../lib/model/schema";
import { bytes } from "../lib/model/sizes";
import { milliseconds } from "../tables/timing";
import { pickable } from "./items";

const LANE = 24;
const CURVE = 64;
const MOST_ZOOM = 400;
const LANES = ["host", "kernels"];
const laneName = (lane: string) => (lane === "stream" ? "GPU stream" : lane);

export function oneRun(context: Context, way: TimedWay, status: HTMLElement): HTMLElement {
  const { spans, memory } = way;
  const end = Math.max(0, ...spans.map((span) => span.start + span.duration)) || way.ms || 1; // this run's own time: the median is over other runs
  const longest = Math.max(1e-9, ...spans.map((span) => span.duration));
  const used = new Set(spans.map((span) => span.lane));
  const lanes = [...LANES.filter((lane) => used.has(lane)), ...[...used].filter((lane) => !LANES.includes(lane)).sort()];
  const elements = spans.map((span) => {
    const element = h("div", { class: "irs-span" }, span.duration / end > 0.02 ? span.label.replace(/^\w+::/u, "") : "");
    element.style.left = `${(100 * span.start) / end}%`;
    element.style.width = `max(1px, ${(100 * span.duration) / end}%)`;
    element.style.top = `${lanes.indexOf(span.lane) * LANE}px`;
    element.style.setProperty("--c", HEAT_COLOURS[stepOf(span.duration / longest) ?? 0]);
    return element;
  });
  const most = Math.max(0, ...memory.map(([, alive]) => alive));
  const track = h("div", { class: "irs-run-track" }, ...elements);
  track.style.height = `${lanes.length * LANE}px`;
  const wide = h("div", { class: "irs-run-wide" }, track, most ? curve(memory, end, most) : null, axis(end));
  const scroller = h("div", { class: "irs-run-scroller" }, wide);
  const names = h("div", { class: "irs-run-lanes", "aria-hidden": "true" }, ...lanes.map((lane) => h("div", {}, laneName(lane))),
    most ? h("div", { class: "irs-run-memory" }, "memory", h("span", {}, bytes(most))) : null);
  let scale = 1;
  const zoom = (factor: number, at = scroller.clientWidth / 2) => {
    const place = (scroller.scrollLeft + at) / scale;
    scale = Math.max(1, Math.min(MOST_ZOOM, scale * factor));
    wide.style.width = `${100 * scale}%`;
    scroller.scrollLeft = place * scale - at;
    elements.forEach((element, k) => {
      element.textContent = (spans[k].duration / end) * scale > 0.02 ? spans[k].label.replace(/^\w+::/u, "") : "";
    });
  };
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - scroller.getBoundingClientRect().left);
  }, { signal: context.signal, passive: false });
  track.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else return;
    event.preventDefault();
  }, { signal: context.signal });
  const then = (at: number) => {
    const alive = aliveAt(memory, at);
    return alive === undefined ? "" : `, then ${bytes(alive)} alive`;
  };
  const items = spans.map((span, k) => ({
    ids: span.id ? [span.id] : [], element: elements[k],
    told: `${span.label} in ${laneName(span.lane)}: ${milliseconds(span.duration)}, from ${milliseconds(span.start)}${then(span.start + span.duration)}`,
  }));
  pickable(context, track, `one run, ${way.label}`, items, status);
  return h("div", { class: "irs-run" }, names, scroller);
}

/** The live bytes at a time of the run, by binary search in the sorted curve. */
function aliveAt(memory: readonly number[][], at: number): number | undefined {
  let low = 0;
  let high = memory.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (memory[middle][0] <= at + 1e-6) low = middle + 1;
    else high = middle;
  }
  return low ? memory[low - 1][1] : undefined;
}

function curve(memory: readonly number[][], end: number, most: number): SVGElement {
  const y = (alive: number) => CURVE * (1 - alive / most);
  let path = `M0 ${CURVE}`;
  let last = 0;
  for (const [at, alive] of memory) {
    const x = (1000 * Math.min(at, end)) / end;
    path += `L${x.toFixed(2)} ${y(last).toFixed(1)}V${y(alive).toFixed(1)}`;
    last = alive;
  }
  return s("svg", { class: "irs-run-curve", viewBox: `0 0 1000 ${CURVE}`, preserveAspectRatio: "none", role: "img", "aria-label": `live memory, at most ${bytes(most)}` },
    s("title", {}, `live memory, at most ${bytes(most)}`), s("path", { d: `${path}L1000 ${y(last).toFixed(1)}V${CURVE}Z` }));
}

function axis(end: number): HTMLElement {
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const tick = h("span", {}, part ? milliseconds(part * end) : "0");
    tick.style.left = `${100 * part}%`;
    return tick;
  });
  return h("div", { class: "irs-run-axis", "aria-hidden": "true" }, ...ticks);
}
