// Modules, lines and ops, each as wide as its time. A double click, or Enter, zooms into a box; Backspace zooms out.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { HEAT_COLOURS, percent, stepOf } from "../lib/model/heat";
import type { IcicleBox, TimedWay } from "../lib/model/schema";
import { milliseconds } from "../tables/timing";
import { pickable, type Next } from "./items";

const ROW = 21;
const LEAST_WORDS = 0.012;

export function icicle(context: Context, way: TimedWay, status: HTMLElement): HTMLElement {
  const boxes = [...way.icicle].sort((a, b) => a.start - b.start || a.depth - b.depth);
  const deepest = Math.max(0, ...boxes.map((box) => box.depth));
  const hottest = Math.max(1e-9, ...boxes.filter((box) => box.depth === deepest || box.depth > 1).map((box) => box.share));
  const elements = boxes.map((box) => {
    const element = h("div", { class: "irs-icicle-box" });
    element.style.top = `${box.depth * ROW}px`;
    element.style.setProperty("--c", box.depth ? HEAT_COLOURS[stepOf(Math.min(1, box.share / hottest)) ?? 0] : "var(--irs-fg2)");
    return element;
  });
  const holder = h("div", { class: "irs-icicle" }, ...elements);
  holder.style.height = `${(deepest + 1) * ROW}px`;
  let zoomed: IcicleBox | null = null;
  const arrange = () => {
    const [from, wide] = zoomed ? [zoomed.start, zoomed.share] : [0, 1];
    boxes.forEach((box, k) => {
      const element = elements[k];
      const [left, right] = [Math.max(0, (box.start - from) / wide), Math.min(1, (box.start + box.share - from) / wide)];
      element.hidden = right - left < 1e-4;
      element.style.left = `${100 * left}%`;
      element.style.width = `${100 * (right - left)}%`;
      element.textContent = right - left > LEAST_WORDS ? box.label : "";
    });
  };
  const into = (element: Element | null) => {
    const box = boxes[elements.indexOf(element as HTMLDivElement)];
    if (!box) return;
    zoomed = box === zoomed || !box.depth ? null : box;
    arrange();
  };
  holder.addEventListener("dblclick", (event) => into((event.target as Element).closest(".irs-icicle-box")), { signal: context.signal });
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Enter") into(holder.querySelector(".current"));
    else if (event.key === "Backspace") {
      zoomed = null;
      arrange();
    } else return;
    event.preventDefault();
  }, { signal: context.signal });
  arrange();
  const items = boxes.map((box, k) => ({
    ids: box.selects, element: elements[k], told: `${box.label}: ${milliseconds(box.share * way.ms)}, ${percent(box.share)}`,
  }));
  pickable(context, holder, `modules, lines and ops of ${way.label} by time`, items, status, along(boxes));
  return holder;
}

/** Left and right: neighbours of the same depth; up: the box around; down: the first box inside. */
function along(boxes: readonly IcicleBox[]): Next {
  const end = (box: IcicleBox) => box.start + box.share;
  return (at, key) => {
    const here = boxes[at];
    const found = boxes.flatMap((box, k) => {
      if (key === "ArrowDown") return box.depth === here.depth + 1 && box.start >= here.start - 1e-9 && end(box) <= end(here) + 1e-9 ? [k] : [];
      if (key === "ArrowUp") return box.depth === here.depth - 1 && box.start <= here.start + 1e-9 && end(box) >= end(here) - 1e-9 ? [k] : [];
      return box.depth === here.depth ? [k] : [];
    });
    if (key === "ArrowDown" || key === "ArrowUp") return found[0] ?? at;
    if (key === "Home") return found[0];
    if (key === "End") return found[found.length - 1];
    return found[found.indexOf(at) + (key === "ArrowRight" ? 1 : -1)] ?? at;
  };
}
