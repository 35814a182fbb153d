// The bars of the step bar: the bytes that each step saved, or, if unknown, how many nodes it merged. Drawn once; a step
// only moves the boundary between done and not done.

import { s } from "../lib/dom/dom";
import type { Steps } from "../lib/model/steps";

const MOST_BARS = 320;
const HEIGHT = 100;
const LEAST = 7;

export interface Spark {
  element: SVGSVGElement;
  /** What the bars measure. */
  measures: string;
  show(state: number): void;
}

export function spark(steps: Steps): Spark {
  const { view, last } = steps;
  const isKnown = view.steps.some((step) => step.saved > 0);
  const worth = view.steps.map((step) => (isKnown ? step.saved : step.nodes.length));
  const count = Math.min(last, MOST_BARS);
  const bars = Array.from({ length: count }, (_, k) => {
    const [from, to] = [Math.floor((k * last) / count), Math.max(Math.floor(((k + 1) * last) / count), Math.floor((k * last) / count) + 1)];
    return Math.max(...worth.slice(from, to), 0);
  });
  const most = Math.max(...bars, 1);
  const width = last / Math.max(1, count);
  const gap = count > 120 ? 0 : 0.15 * width;
  const d = bars.map((bar, k) => {
    const height = LEAST + (HEIGHT - LEAST) * Math.sqrt(bar / most); // the square root keeps small savings visible beside large ones
    return `M${k * width + gap} ${HEIGHT}v${-height}h${width - 2 * gap}v${height}z`;
  }).join("");
  const done = s("path", { class: "done", d });
  const element = s("svg", { class: "irs-spark", viewBox: `0 0 ${Math.max(1, last)} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    s("path", { class: "ahead", d }), done);
  return { element, measures: isKnown ? "bytes saved by each step" : "nodes joined by each step", show: (state) => (done.style.clipPath = `inset(0 ${100 - (100 * state) / Math.max(1, last)}% 0 0)`) };
}
