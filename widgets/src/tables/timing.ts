// The times side by side: a bar to the median, a whisker over the middle half of the turns, and what each run had to compile.

import type { Context } from "../lib/model/context";
import { h, s } from "../lib/dom/dom";
import { problem } from "../inspector/words";
import type { Measured, TimingView } from "../lib/model/schema";

/** Before a measurement: what it takes, and the button that starts it. */
export function timingOffer(context: Context): HTMLElement {
  const element = h("div", { class: "irs-timing irs-offer" });
  const hint = h("p", { class: "irs-quiet" }, "Compiles the program and runs it op by op and fused, alternately, on the given arguments. Takes some seconds, during which Python is busy.");
  const button = h("button", { class: "irs-switch", onclick: () => {
    button.disabled = true;
    button.textContent = "measuring…";
    context.supply?.part("timing").then(({ timing }) => {
      if (!timing) return;
      context.view.timing = timing;
      element.replaceWith(timingChart(timing));
    }, (error: unknown) => {
      button.disabled = false;
      button.textContent = "measure";
      element.append(problem(error));
    });
  } }, "measure");
  element.append(button, hint);
  return element;
}

export function timingChart(timing: TimingView): HTMLElement {
  const slowest = timing.bars.reduce((most, bar) => Math.max(most, bar.median), 0);
  // the whisker of one disturbed run must not squeeze all bars: it is cut at the edge and has no end mark there
  const longest = Math.max(Math.min(Math.max(...timing.bars.map((bar) => bar.high)), 3 * slowest), 1e-9);
  const heads = ["", "time", "median", "kernels", "compile", "error", ""].map((word, k) => (word ? h("th", { scope: "col", class: k > 1 ? "number" : null }, word) : h("td", {})));
  const rows = timing.bars.map((bar) => h("tr", {},
    h("th", { scope: "row" }, bar.label),
    h("td", { class: "irs-time" }, barElement(bar, longest)),
    h("td", { class: "number" }, milliseconds(bar.median)),
    h("td", { class: "number" }, bar.kernels ? String(bar.kernels) : "–"),
    h("td", { class: "number" }, bar.compile > 0 ? milliseconds(bar.compile) : "–"),
    h("td", { class: "number" }, bar.error),
    h("td", { class: "irs-quiet" }, bar.note)));
  return h("div", { class: "irs-timing", tabindex: "0", role: "region", "aria-label": "timing" }, ...timing.warnings.map((warning) => h("p", { class: "irs-problem" }, warning)), h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)), h("p", { class: "irs-quiet" }, timing.caption));
}

/** A bar to the median with a whisker over the middle half. */
export function barElement(bar: Pick<Measured, "label" | "median" | "low" | "high">, longest: number): SVGSVGElement {
  const part = (time: number) => `${(100 * time) / longest}%`;
  const words = `${bar.label}: median ${milliseconds(bar.median)}, quartiles from ${milliseconds(bar.low)} to ${milliseconds(bar.high)}`;
  return s("svg", { class: "irs-time-bar", width: "100%", height: 18, role: "img", "aria-label": words }, s("title", {}, words),
    s("rect", { y: 2, width: part(bar.median), height: 14, rx: 2 }),
    s("line", { x1: part(Math.min(bar.low, longest)), x2: part(Math.min(bar.high, longest)), y1: 9, y2: 9 }),
    ...[bar.low, bar.high].filter((time) => time <= longest).map((time) => s("line", { x1: part(time), x2: part(time), y1: 5, y2: 13 })));
}

export function milliseconds(time: number): string {
  if (time && time < 0.0009995) return `${(time * 1e6).toPrecision(3)} ns`;
  if (time < 0.9995) return `${(time * 1000).toPrecision(3)} µs`; // 999.5 would be 1.00e+3
  return time < 999.5 ? `${time.toPrecision(3)} ms` : `${(time / 1000).toPrecision(3)} s`;
}
