// The memory plan: each allocation as a rectangle of addresses over time, the peak marked, and below it the bytes needed at each
// moment. With steps it is the plan of the state shown.

import { h, s } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import type { MemoryView, OwnMemoryView } from "../lib/model/schema";
import { bytes } from "../lib/model/sizes";
import { ASKING, note, problem } from "../inspector/words";
import { pickable } from "../profile/items";
import { recordTable } from "../tables/remarks";

const RESTING_MS = 300;

export function memoryPane(context: Context): HTMLElement {
  const { steps, supply, signal, view } = context;
  const element = h("div", { class: "irs-memory" });
  const show = (memory: MemoryView | undefined, when: string, own?: OwnMemoryView) => {
    if (signal.aborted) return;
    element.classList.toggle("irs-memory-beside", !!(memory && own));
    element.replaceChildren(...(memory ? drawn(context, memory, when, own) : [note("this page includes no memory plan; a notebook with a kernel computes one")]));
  };
  const failed = (error: unknown) => element.replaceChildren(problem(error));
  const final = () => {
    if (view.memory || !supply) return show(view.memory, "", view.own_memory);
    element.replaceChildren(note(ASKING));
    supply.part("memory").then((part) => show(part.memory, "", part.own_memory), failed);
  };
  let resting: ReturnType<typeof setTimeout> | undefined;
  steps?.subscribe(() => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      const { at, last } = steps;
      if (!element.isConnected) return;
      if (at === last || !supply) final();
      else supply.memory(at).then((memory) => steps.at === at && show(memory, `at step ${at}: `), failed);
    }, RESTING_MS);
  });
  signal.addEventListener("abort", () => clearTimeout(resting));
  final();
  return element;
}

function drawn(context: Context, memory: MemoryView, when: string, own?: OwnMemoryView): HTMLElement[] {
  const most = highest(memory, own);
  const status = h("div", { class: "irs-said-below", role: "status" });
  const high = Math.max(1, ...memory.sections.map((section) => section.low + section.bytes), ...memory.bars.map((bar) => bar.low + bar.bytes));
  const moments = Math.max(1, memory.moments);
  const x = (moment: number) => `${(100 * moment) / moments}%`;
  const bars = memory.bars.map((bar) => {
    const element = h("div", { class: `irs-memory-bar ${bar.at_peak ? "peak" : ""} ${bar.start * 3 > moments * 2 ? "late" : ""}`, "aria-label": bar.label || bar.title }, h("span", {}, bar.label));
    element.style.left = x(bar.start);
    element.style.width = `max(2px, ${(100 * (bar.end - bar.start + 1)) / moments}%)`;
    element.style.bottom = `${(100 * bar.low) / high}%`;
    element.style.height = `max(2px, ${(100 * bar.bytes) / high}%)`;
    element.style.setProperty("--c", `var(--irs-cat-${bar.category}, var(--irs-cat-other))`);
    return element;
  });
  const peak = h("i", { class: `irs-memory-peak${memory.peak_moment * 3 > moments * 2 ? " late" : ""}`, "data-told": `peak ${bytes(memory.peak)}` });
  peak.style.left = x(memory.peak_moment + 0.5);
  const field = h("div", { class: "irs-memory-field" }, ...bars);
  const sections = memory.sections.map((section) => {
    const label = h("div", { class: "irs-memory-section", title: `${section.label}: ${bytes(section.bytes)}` }, h("span", {}, `${section.label} ${bytes(section.bytes)}`));
    label.style.bottom = `${(100 * section.low) / high}%`;
    label.style.height = `${(100 * section.bytes) / high}%`;
    return label;
  });
  pickable(context, field, "memory plan: addresses over time", memory.bars.map((bar, k) => ({ ids: bar.id ? [bar.id] : [], element: bars[k], told: bar.title })), status);
  return [
    h("div", { class: "irs-memory-picture" }, h("div", { class: "irs-memory-sections", "aria-hidden": "true" }, ...sections), h("div", { class: "irs-memory-plot" }, field, peak),
      h("div", { class: "irs-memory-axis" }, "needed"), curve(memory, moments, most), ...(own ? ownCurve(own, most) : [])),
    h("div", { class: "irs-time-foot" }, h("span", { class: "irs-quiet", title: memory.caption }, `${when}${memory.caption}`), status),
    ...(own ? ownWords(context, own) : []),
  ];
}

/** The most bytes of any curve: all have one scale. */
function highest({ needed, allocated }: MemoryView, own?: OwnMemoryView): number {
  return Math.max(1, own?.peak ?? 0, ...needed.map(([, size]) => size), ...allocated.map(([, size]) => size));
}

/** What the other compiler's program holds while each of its kernels runs, from its first to its last. */
function ownCurve(own: OwnMemoryView, most: number): (HTMLElement | SVGElement)[] {
  const count = Math.max(1, own.moments.length);
  let d = "M0 40";
  for (const [moment, size] of own.curve) d += `H${((1000 * moment) / count).toFixed(1)}V${(40 * (1 - size / most)).toFixed(1)}`;
  const peak = h("i", { class: `irs-memory-peak${own.peak_moment * 2 + 1 > count ? " late" : ""}`, "data-told": `peak ${bytes(own.peak)}` });
  peak.style.left = `${(100 * (own.peak_moment + 0.5)) / count}%`;
  return [
    h("div", { class: "irs-memory-axis", title: own.told }, own.compiler),
    h("div", { class: "irs-memory-own" }, s("svg", { class: "irs-run-curve", viewBox: "0 0 1000 40", preserveAspectRatio: "none", role: "img", "aria-label": own.told },
      s("title", {}, own.told), s("path", { d: `${d}H1000V40Z` })), peak),
  ];
}

/** In words, and its allocations as a table. */
function ownWords(context: Context, { told, allocations }: OwnMemoryView): HTMLElement[] {
  const sentence = h("p", { class: "irs-quiet irs-memory-told", title: told }, told);
  if (!allocations.rows.length) return [sentence];
  const held = h("div", { class: "irs-memory-table" });
  const details = h("details", { ontoggle: () => held.childElementCount || held.append(recordTable(context, allocations, "allocations")) },
    h("summary", {}, `${allocations.rows.length.toLocaleString("en")} allocations`), held);
  return [sentence, details];
}

/** The bytes needed and the bytes allocated at each moment. */
function curve(memory: MemoryView, moments: number, most: number): SVGElement {
  const path = (changes: readonly number[][]) => {
    let d = "M0 40";
    for (const [moment, size] of changes) d += `H${((1000 * moment) / moments).toFixed(1)}V${(40 * (1 - size / most)).toFixed(1)}`;
    return `${d}H1000V40Z`;
  };
  const label = `at most ${bytes(memory.lower_bound)} are live at once, the plan uses ${bytes(memory.peak)}`;
  return s("svg", { class: "irs-run-curve irs-memory-curve", viewBox: "0 0 1000 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("title", {}, label), s("path", { class: "allocated", d: path(memory.allocated) }), s("path", { d: path(memory.needed) }));
}
