// Borders between panes that can be dragged, or moved with the arrow keys.

import { h } from "../lib/dom/dom";
import { clamp } from "../lib/layout/viewport";

const LEAST = 8;

/** A border that sets a CSS variable of `around` to a share of its size, in percent, counted from one of its sides. Until somebody moves it,
 * only `${variable}-start` is set, and a style sheet decides. */
export function splitter(around: HTMLElement, variable: string, side: "left" | "right" | "bottom", start: number): HTMLElement {
  const most = 70;
  const shareAt = (x: number, y: number) => {
    const place = around.getBoundingClientRect();
    return 100 * (side === "left" ? (x - place.left) / place.width : side === "right" ? (place.right - x) / place.width : (place.bottom - y) / place.height);
  };
  const { bar, say } = border(side === "bottom", most, ({ clientX, clientY }) => set(shareAt(clientX, clientY)), (by) => {
    const { right, bottom } = bar.getBoundingClientRect();
    set(shareAt(right, bottom) + (side === "left" ? by : -by));
  });
  const set = (next: number) => {
    const share = clamp(next, LEAST, most);
    around.style.setProperty(variable, `${share}%`);
    say(share);
  };
  around.style.setProperty(`${variable}-start`, `${start}%`);
  say(start);
  return bar;
}

/** A border between two panes beside each other; `move` gets the share of both, from 0 to 1, that the left one shall have. */
export function divider(sides: () => readonly [HTMLElement, HTMLElement], move: (share: number) => void): HTMLElement {
  const { bar, say } = border(false, 100 - LEAST, ({ clientX }) => {
    const [left, right] = sides().map((side) => side.getBoundingClientRect());
    set((100 * (clientX - left.left)) / (right.right - left.left));
  }, (by) => {
    const [left, right] = sides().map((side) => side.getBoundingClientRect().width);
    set((100 * left) / (left + right) + by);
  });
  const set = (share: number) => {
    const kept = clamp(share, LEAST, 100 - LEAST);
    say(kept);
    move(kept / 100);
  };
  say(50);
  return bar;
}

/** The element of a border, and what tells its place. Keys move it by some percent, to the right or downwards. */
function border(flat: boolean, most: number, drag: (event: PointerEvent) => void, step: (by: number) => void): { bar: HTMLElement; say(share: number): void } {
  const bar = h("div", {
    class: `irs-splitter ${flat ? "flat" : "upright"}`, role: "separator", tabindex: "0", "aria-orientation": flat ? "horizontal" : "vertical",
    "aria-label": "resize panes", "aria-valuemin": LEAST, "aria-valuemax": most,
  });
  bar.addEventListener("pointerdown", (down) => {
    down.preventDefault();
    bar.setPointerCapture(down.pointerId);
    bar.addEventListener("pointermove", drag);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", drag), { once: true });
  });
  bar.addEventListener("keydown", (event) => {
    const by = event.key === (flat ? "ArrowDown" : "ArrowRight") ? 2 : event.key === (flat ? "ArrowUp" : "ArrowLeft") ? -2 : 0;
    if (!by) return;
    event.preventDefault();
    step(by);
  });
  return { bar, say: (share) => bar.setAttribute("aria-valuenow", share.toFixed(0)) };
}
