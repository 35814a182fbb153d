// Borders between panes that can be dragged, or moved with the arrow keys.

import { h } from "../lib/dom/dom";
import { clamp } from "../lib/layout/viewport";

/** A border that sets a CSS variable of `around` to a share of its size, in percent, counted from one of its sides. */
export function splitter(around: HTMLElement, variable: string, side: "left" | "right" | "bottom", start: number): HTMLElement {
  let share = start;
  const upright = side !== "bottom";
  const bar = h("div", {
    class: `irs-splitter ${upright ? "upright" : "flat"}`, role: "separator", tabindex: "0", "aria-orientation": upright ? "vertical" : "horizontal",
    "aria-label": "resize panes", "aria-valuemin": 8, "aria-valuemax": 70, "aria-valuenow": start,
  });
  const set = (next: number) => {
    share = clamp(next, 8, 70);
    around.style.setProperty(variable, `${share}%`);
    bar.setAttribute("aria-valuenow", share.toFixed(0));
  };
  bar.addEventListener("pointerdown", (down) => {
    down.preventDefault();
    bar.setPointerCapture(down.pointerId);
    const move = (event: PointerEvent) => {
      const place = around.getBoundingClientRect();
      if (side === "left") set((100 * (event.clientX - place.left)) / place.width);
      else if (side === "right") set((100 * (place.right - event.clientX)) / place.width);
      else set((100 * (place.bottom - event.clientY)) / place.height);
    };
    bar.addEventListener("pointermove", move);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", move), { once: true });
  });
  bar.addEventListener("keydown", (event) => {
    const [grow, shrink] = side === "left" ? ["ArrowRight", "ArrowLeft"] : side === "right" ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    if (event.key !== grow && event.key !== shrink) return;
    event.preventDefault();
    set(share + (event.key === grow ? 2 : -2));
  });
  set(start);
  return bar;
}
