// What differs between modules that stand in one box because they are alike: a row for each thing, a column for each of them.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import type { RepeatView, VaryingView } from "../lib/model/schema";

/** `open` shows the box of one of them in the graph. */
export function repeatTable(context: Context, view: RepeatView, open?: (box: number) => void): HTMLElement {
  const show = (box: number) => (open ? open(box) : context.selection.set([box]));
  const heads = view.places.map(({ label, box }) => h("th", { scope: "col" }, h("button", { type: "button", class: "irs-chip", title: `${label}: show it in the graph`, onclick: () => show(box) }, shortLabel(label))));
  const rows = view.varying.map((row) => h("tr", {}, h("th", { scope: "row", title: row.where }, row.name || row.where), h("td", {}, KINDS[row.kind] ?? row.kind), ...row.values.map((value) => valueCell(context, row, value))));
  const left = [view.left_out ? `${view.left_out.toLocaleString("en")} more things differ` : "", view.places_left_out ? `${view.places_left_out.toLocaleString("en")} more are alike` : ""].filter((text) => text);
  return h("div", { class: "irs-repeat" },
    h("p", { class: "irs-sentence" }, `${view.sentence}.`),
    h("div", { class: "irs-holes-holder", tabindex: "0" }, h("table", { class: "irs-holes" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "what differs"), h("th", { scope: "col" }, ""), ...heads)), h("tbody", {}, ...rows))),
    left.length ? h("p", { class: "irs-quiet" }, left.join("; ")) : null);
}

const KINDS: Record<string, string> = { constant: "constant", type: "type", value: "value it uses", chain: "from the one before" };

/** What tells layers apart: the last parts of their paths, from the first number on. */
function shortLabel(label: string): string {
  const parts = label.split(".");
  const number = parts.findLastIndex((part) => /^\d+$/u.test(part));
  return number < 0 ? parts[parts.length - 1] : parts.slice(number).join(".");
}

function valueCell(context: Context, row: VaryingView, text: string): HTMLElement {
  const value = text.startsWith("%") ? context.records.names.get(text.slice(1)) : undefined;
  const other = text !== row.values[0] && (row.kind === "constant" || row.kind === "type") ? "other" : null;
  if (value === undefined) return h("td", { class: other }, text);
  const word = row.name && text.length > 14 ? `…${text.slice(-13)}` : text;
  return h("td", {}, h("button", { type: "button", class: "irs-name", title: text, onclick: (event: MouseEvent) => context.selection.pick(value, event.shiftKey) }, word));
}
