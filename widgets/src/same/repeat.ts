// The differences between equal modules in one box: a row for each module, a column for each difference.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import type { RepeatView, VaryingView } from "../lib/model/schema";

/** `open` shows the box of one of them in the graph. */
export function repeatTable(context: Context, view: RepeatView, open?: (box: number) => void): HTMLElement {
  const show = (box: number) => (open ? open(box) : context.selection.set([box]));
  const heads = view.varying.map((column) => h("th", { scope: "col", title: `${column.where}: ${KINDS[column.kind] ?? column.kind}` }, column.kind === "chain" ? "from the previous one" : column.name || column.where));
  const rows = view.places.map(({ label, box }, k) => h("tr", {},
    h("th", { scope: "row" }, h("button", { class: "irs-chip", title: `${label}: show it in the graph`, onclick: () => show(box) }, shortLabel(label))),
    ...view.varying.map((column) => valueCell(context, column, column.values[k]))));
  const left = [view.left_out ? `${view.left_out.toLocaleString("en")} more differences` : "", view.places_left_out ? `${view.places_left_out.toLocaleString("en")} more rows` : ""].filter((text) => text);
  return h("div", { class: "irs-repeat" },
    h("p", { class: "irs-sentence" }, `${view.sentence}.`),
    h("div", { class: "irs-holes-holder", tabindex: "0" }, h("table", { class: "irs-holes" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }), ...heads)), h("tbody", {}, ...rows))),
    left.length ? h("p", { class: "irs-quiet" }, left.join("; ")) : null);
}

const KINDS: Record<string, string> = { constant: "constant", type: "type", value: "value it uses", chain: "from the previous one" };

/** The part of the path that distinguishes layers: from the last number on. */
function shortLabel(label: string): string {
  const parts = label.split(".");
  const number = parts.findLastIndex((part) => /^\d+$/u.test(part));
  return number < 0 ? parts[parts.length - 1] : parts.slice(number).join(".");
}

function valueCell(context: Context, column: VaryingView, text: string): HTMLElement {
  const value = text.startsWith("%") ? context.records.names.get(text.slice(1)) : undefined;
  const other = text !== column.values[0] && (column.kind === "constant" || column.kind === "type") ? "other" : null;
  if (value === undefined) return h("td", { class: other }, text);
  const word = column.name && text.length > 14 ? `…${text.slice(-13)}` : text;
  return h("td", {}, h("button", { class: "irs-name", title: text, onclick: (event: MouseEvent) => context.selection.pick(value, event.shiftKey) }, word));
}
