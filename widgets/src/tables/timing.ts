// The times side by side: a bar to the median, a whisker from the lowest to the highest, and what each run had to compile.

import { h, s } from "../lib/dom";
import type { Measured, TimingView } from "../lib/schema";

export function timingChart(timing: TimingView): HTMLElement {
  const longest = Math.max(...timing.bars.map((bar) => bar.high), 1e-9);
  const slowest = timing.bars.reduce((most, bar) => Math.max(most, bar.median), 0);
  const heads = ["", "time", "median", "against the slowest", "kernels", "compile", "error", ""].map((word, k) => h("th", { scope: "col", class: k > 1 ? "number" : null }, word));
  const rows = timing.bars.map((bar) => h("tr", {},
    h("th", { scope: "row" }, bar.label),
    h("td", { class: "irs-time" }, barElement(bar, longest)),
    h("td", { class: "number" }, milliseconds(bar.median)),
    h("td", { class: "number" }, bar.median > 0 && bar.median < slowest ? `${(slowest / bar.median).toFixed(2)}× faster` : ""),
    h("td", { class: "number" }, bar.kernels ? String(bar.kernels) : "–"),
    h("td", { class: "number" }, bar.compile > 0 ? milliseconds(bar.compile) : "–"),
    h("td", { class: "number" }, bar.error === null ? "–" : bar.error === 0 ? "0" : bar.error.toExponential(1)),
    h("td", { class: "irs-quiet" }, bar.note)));
  return h("div", { class: "irs-timing" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)), h("p", { class: "irs-quiet" }, timing.caption));
}

function barElement(bar: Measured, longest: number): SVGSVGElement {
  const part = (time: number) => `${(100 * time) / longest}%`;
  const words = `${bar.label}: median ${milliseconds(bar.median)}, from ${milliseconds(bar.low)} to ${milliseconds(bar.high)}`;
  return s("svg", { class: "irs-time-bar", width: "100%", height: 18, role: "img", "aria-label": words }, s("title", {}, words),
    s("rect", { y: 2, width: part(bar.median), height: 14, rx: 2 }),
    s("line", { x1: part(bar.low), x2: part(bar.high), y1: 9, y2: 9 }),
    s("line", { x1: part(bar.low), x2: part(bar.low), y1: 5, y2: 13 }), s("line", { x1: part(bar.high), x2: part(bar.high), y1: 5, y2: 13 }));
}

export function milliseconds(time: number): string {
  if (time < 1) return `${(time * 1000).toPrecision(3)} µs`;
  return time < 1000 ? `${time.toPrecision(3)} ms` : `${(time / 1000).toPrecision(3)} s`;
}
