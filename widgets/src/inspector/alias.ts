// The alias tab: the explanation, who writes, what may share memory, and the points-to graph around the value.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import type { AliasDetail, Detail } from "../lib/model/schema";
import { memoryOf, memoryPicture } from "../points_to/index";
import { chips, labelled, more, sentence } from "./words";

const MOST = 60;

export function aliasTab(context: Context, detail: Detail, alias: AliasDetail): Node[] {
  const own = new Set([detail.id, ...context.records.valuesOf(detail.id)]);
  const others = alias.alias_set.filter((record) => !own.has(record));
  const made: Node[] = [sentence(context, alias.summary)];
  if (others.length) made.push(pictureOf(context, [detail.id], "points to"));
  made.push(labelled(`may share memory with ${others.length || "nothing else"}`, limited(context, others)));
  made.push(labelled(alias.writers.length ? `written by ${alias.writers.length}` : "never written in place", limited(context, alias.writers)));
  return made;
}

function limited(context: Context, records: readonly number[]): HTMLElement {
  const all = records.length > 1
    ? h("button", { class: "irs-plain", onclick: () => context.selection.set(records) }, "select all") : null;
  return h("div", {}, chips(context, records.slice(0, MOST)), more(records.length - MOST), all);
}

/** The lanes around some records, once they are there, below their label; the tab Points-to of the tables has the lines of the program
 * beside them. */
export function pictureOf(context: Context, ids: readonly number[], label = ""): HTMLElement {
  const holder = h("div", { class: "irs-points-holder", tabindex: "0" });
  const element = label ? labelled(label, holder) : holder;
  element.hidden = true;
  memoryOf(context, ids).then((view) => {
    if (view) holder.replaceChildren(memoryPicture(context, view, false));
    element.hidden = !view;
  }, () => undefined);
  return element;
}
