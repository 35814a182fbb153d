// The parts of a picture that represent records: a click or an arrow key selects them, and the selection marks them.

import { freshId } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";

export interface Item {
  /** The records it selects; empty if they are not in the program shown. */
  ids: readonly number[];
  element: HTMLElement | SVGElement;
  /** The text for a screen reader, also shown below the picture. */
  told: string;
}

/** The item that a key leads to from another one; the same one if there is none. */
export type Next = (at: number, key: string) => number;

/** Arrow keys along a list. */
const inOrder = (count: number): Next => (at, key) => {
  const by = key === "ArrowRight" || key === "ArrowDown" ? 1 : key === "ArrowLeft" || key === "ArrowUp" ? -1 : 0;
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return by ? Math.max(0, Math.min(count - 1, at + by)) : at;
};

/** Makes the items of a picture selectable, and marks the selected ones; without `next`, arrow keys lead along them. */
export function pickable(context: Context, holder: HTMLElement | SVGElement, label: string, items: readonly Item[], status: HTMLElement, next: Next = inOrder(items.length)): void {
  const { selection, signal } = context;
  let at = -1;
  const numbers = new Map<Element, number>();
  holder.setAttribute("role", "listbox");
  holder.setAttribute("aria-label", label);
  holder.setAttribute("tabindex", "0");
  items.forEach(({ element, told }, k) => {
    numbers.set(element, k);
    element.id = freshId("item");
    element.setAttribute("role", "option");
    element.setAttribute(element.textContent?.trim() ? "aria-description" : "aria-label", told); // the accessible name must include the visible text
    element.classList.add("irs-item");
  });
  const numberOf = (event: Event) => {
    const element = (event.target as Element).closest(".irs-item");
    return element ? (numbers.get(element) ?? -1) : -1;
  };
  const go = (to: number, extend = false) => {
    at = to;
    holder.setAttribute("aria-activedescendant", items[at].element.id);
    status.textContent = items[at].told;
    const { ids } = items[at];
    if (ids.length === 1) selection.pick(ids[0], extend);
    else selection.set(ids);
    mark();
    items[at].element.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const mark = () => {
    const chosen = new Set(selection.ids);
    items.forEach(({ ids, element }, k) => {
      const held = chosen.size ? ids.filter((id) => chosen.has(id)).length : 0;
      const whole = held > 0 && held === ids.length;
      element.classList.toggle("selected", whole);
      element.classList.toggle("holding", held > 0 && !whole);
      element.classList.toggle("current", k === at);
      element.setAttribute("aria-selected", String(whole));
    });
  };
  holder.addEventListener("click", (event) => {
    const k = numberOf(event);
    if (k >= 0) go(k, (event as MouseEvent).shiftKey);
  }, { signal });
  holder.addEventListener("pointerover", (event) => {
    const k = numberOf(event);
    status.textContent = items[k >= 0 ? k : at]?.told ?? "";
  }, { signal });
  holder.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey } = event as KeyboardEvent;
    if (ctrlKey || metaKey || altKey || !/^(Arrow|Home$|End$)/u.test(key) || !items.length) return;
    event.preventDefault();
    const to = at < 0 ? Math.max(0, items.findIndex(({ element }) => element.classList.contains("selected"))) : next(at, key);
    go(to);
  }, { signal });
  selection.subscribe((moved) => moved && mark());
  mark();
}
