// The head line: the program in numbers, each of which selects what it counts, and the search.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import type { Count } from "../lib/model/schema";
import { programSwitch } from "./programs";
import { searchBox } from "./searchbox";

/** More numbers than this are too many to read at a glance: the others are in the title's hint. */
const MOST = 5;

/** `switches` are placed beside the search. */
export function headLine(context: Context, switches: HTMLElement): { element: HTMLElement; focusSearch: () => void; refresh: () => void } {
  const { view, selection, records, supply } = context;
  const title = h("h2", {}, view.title);
  const pick = ({ selects, whole }: Count) => {
    if (!whole) selection.set(selects);
    else if (records.isPart && supply) void supply.find("inputs>=0", true).then(({ ids }) => selection.set(ids));
    else selection.set(view.text.nodes.filter((node) => node));
  };
  const made = () => {
    const counts = view.headline.filter(({ value, selects, whole }) => whole || view.only_history || (selects.length && value !== "0")).slice(0, MOST);
    const rest = view.headline.filter((count) => !counts.includes(count));
    const notes = rest.filter(({ value }) => !/\d/u.test(value));
    title.title = [view.title, ...rest.map(({ value, label }) => `${value} ${label}`)].join("\n");
    return [...notes, ...counts].map((count) => {
      const { label, value, selects, hint, whole } = count;
      const words = [h("strong", {}, value), ` ${label}`];
      if (!selects.length && !whole) return h("span", { class: "irs-fact", title: hint || null }, ...words);
      return h("button", { class: "irs-fact", title: hint || `select ${label}`, onclick: () => pick(count) }, ...words);
    });
  };
  const search = searchBox(context);
  const counts = h("div", { class: "irs-counts" }, ...made());
  const waits = view.later?.includes("numbers") ? h("span", { class: "irs-fact irs-quiet" }, "counting…") : null;
  if (waits) counts.append(waits);
  const element = h("div", { class: "irs-head" }, title, programSwitch(context), counts, context.view.only_history ? null : switches, search.element);
  return { element, focusSearch: search.focus, refresh: () => counts.replaceChildren(...made()) };
}
