// Pointer, wheel and keys on the graph, as selection, viewport and open boxes.

import { dataNumber } from "../lib/dom/dom";
import type { Layout } from "../lib/layout/layout";
import type { Viewport } from "../lib/layout/viewport";
import type { Context } from "../lib/model/context";
import type { Picture } from "./picture";

const DRAG = 4;

/** The part of the pane that the listeners need. */
export interface Stage {
  readonly context: Context;
  readonly picture: Picture;
  readonly open: ReadonlySet<number>;
  readonly layout: Layout;
  readonly viewport: Viewport;
  toggle(box: number): void;
  look(viewport: Viewport): void;
  zoom(factor: number, px?: number, py?: number): void;
  fit(): void;
}

export function listen(pane: Stage, signal: AbortSignal): void {
  const { svg } = pane.picture;
  svg.addEventListener("wheel", (event) => wheel(pane, event), { signal, passive: false });
  svg.addEventListener("pointerdown", (event) => pointerDown(pane, event), { signal });
  svg.addEventListener("dblclick", (event) => {
    const box = boxUnder(pane, event);
    if (box < 0 || (event.target as Element).closest(".irs-toggle, .irs-badge")) return;
    document.getSelection()?.removeAllRanges();
    event.preventDefault();
    pane.toggle(box);
  }, { signal });
  svg.addEventListener("keydown", (event) => key(pane, event), { signal });
}

/** The wheel zooms once the graph has the focus, or with Ctrl; before that it scrolls the page. */
function wheel(pane: Stage, event: WheelEvent): void {
  const { svg } = pane.picture;
  if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg && !svg.closest(".irs-page")) return;
  event.preventDefault();
  const place = svg.getBoundingClientRect();
  if (event.shiftKey) {
    pane.look({ ...pane.viewport, x: pane.viewport.x + (event.deltaY + event.deltaX) / pane.viewport.scale });
    return;
  }
  const step = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
  pane.zoom(Math.exp(-Math.max(-120, Math.min(120, step)) / 400), event.clientX - place.left, event.clientY - place.top);
}

function pointerDown(pane: Stage, down: PointerEvent): void {
  if (down.button !== 0) return;
  const { svg } = pane.picture;
  const start = { ...pane.viewport };
  const drag = new AbortController();
  let moved = false;
  svg.addEventListener("pointermove", (event) => {
    const [dx, dy] = [event.clientX - down.clientX, event.clientY - down.clientY];
    if (!moved && Math.hypot(dx, dy) < DRAG) return;
    if (!moved) svg.setPointerCapture(down.pointerId);
    moved = true;
    svg.classList.add("dragging");
    pane.look({ ...start, x: start.x - dx / start.scale, y: start.y - dy / start.scale });
  }, { signal: drag.signal });
  const end = (event: PointerEvent) => {
    drag.abort();
    svg.classList.remove("dragging");
    if (!moved && event.type === "pointerup") click(pane, down);
  };
  svg.addEventListener("pointerup", end, { signal: drag.signal });
  svg.addEventListener("pointercancel", end, { signal: drag.signal });
}

function click(pane: Stage, event: PointerEvent): void {
  const { records, selection } = pane.context;
  const box = boxUnder(pane, event);
  if (box < 0) return selection.set([]);
  const target = event.target as Element;
  if (target.closest(".irs-toggle")) return pane.toggle(box);
  const drawn = records.hierarchy.boxes[box];
  const record = drawn.kind === "output" ? drawn.values[0] : drawn.id;
  const equals = records.equals(record);
  if (target.closest(".irs-badge") && equals) return selection.set(equals.members);
  selection.pick(record, event.shiftKey);
}

function boxUnder(pane: Stage, event: MouseEvent): number {
  const marked = dataNumber(event.target, "box");
  if (marked !== null) return marked;
  // The target of the first click of two may have been redrawn, and a canvas has no elements.
  const place = pane.picture.svg.getBoundingClientRect();
  const { x, y, scale } = pane.viewport;
  return pane.picture.boxAt(x + (event.clientX - place.left) / scale, y + (event.clientY - place.top) / scale);
}

function key(pane: Stage, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { records, selection } = pane.context;
  const { hierarchy } = records;
  const last = selection.ids[selection.ids.length - 1];
  const found = last === undefined ? -1 : hierarchy.find(last);
  const at = found < 0 ? -1 : hierarchy.shown(found, pane.open);
  const order = pane.layout.boxes;
  const go = (box: number | undefined) => box !== undefined && selection.pick(hierarchy.boxes[box].id, event.shiftKey);
  const place = () => (at < 0 ? -1 : order.indexOf(at));
  const isOpen = at >= 0 && pane.open.has(at) && hierarchy.isCluster(at);
  const actions: Record<string, () => unknown> = {
    ArrowDown: () => go(order[place() + 1]),
    ArrowUp: () => go(at < 0 ? order[order.length - 1] : order[place() - 1]),
    ArrowRight: () => (isOpen ? go(hierarchy.children[at][0]) : at >= 0 && pane.toggle(at)),
    ArrowLeft: () => (isOpen ? pane.toggle(at) : at >= 0 && hierarchy.parent[at] >= 0 && go(hierarchy.parent[at])),
    Home: () => go(order[0]),
    End: () => go(order[order.length - 1]),
    Enter: () => at >= 0 && pane.toggle(at),
    " ": () => at >= 0 && pane.toggle(at),
    "+": () => pane.zoom(1.4),
    "=": () => pane.zoom(1.4),
    "-": () => pane.zoom(1 / 1.4),
    f: () => pane.fit(),
  };
  const action = actions[event.key];
  if (!action || (event.shiftKey && event.key === "Enter")) return;
  event.preventDefault();
  action();
}
