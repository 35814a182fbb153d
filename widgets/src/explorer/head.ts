// The head line: the program in numbers, each of which selects what it counts, and the search.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { programSwitch } from "./programs";
import { searchBox } from "./searchbox";

/** `switches` are placed beside the search. */
export function headLine(context: Context, switches: HTMLElement): { element: HTMLElement; focusSearch: () => void; refresh: () => void } {
  const { view, selection } = context;
  const made = () => view.headline.map(({ label, value, selects, hint }) => {
    const words = [h("strong", {}, value), ` ${label}`];
    if (!selects.length) return h("span", { class: "irs-fact", title: hint || null }, ...words);
    return h("button", { class: "irs-fact", title: hint || `select ${label}`, onclick: () => selection.set(selects) }, ...words);
  });
  const search = searchBox(context);
  const counts = h("div", { class: "irs-counts" }, ...made());
  const waits = view.later?.includes("numbers") ? h("span", { class: "irs-fact irs-quiet" }, "counting…") : null;
  if (waits) counts.append(waits);
  const element = h("div", { class: "irs-head" }, h("h2", {}, view.title), programSwitch(context), counts, context.view.only_history ? null : switches, search.element);
  return { element, focusSearch: search.focus, refresh: () => counts.replaceChildren(...made()) };
}
