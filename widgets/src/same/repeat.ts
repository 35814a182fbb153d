// The differences between equal modules in one box: a row for each module, a column for each difference.

import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { Context } from "../lib/model/context";
import type { BesideView, RepeatView, VaryingView } from "../lib/model/schema";
import { shortNumbers } from "../lib/model/sizes";
import { besideTable, sidePicks } from "./beside";

/** `open` shows the box of one of them in the graph; `beside` asks for two of them side by side. */
export function repeatTable(context: Context, view: RepeatView, open?: (box: number) => void, beside?: (left: number, right: number) => Promise<BesideView | null>): HTMLElement {
  const show = (box: number) => (open ? open(box) : context.selection.set([box]));
  const columns = view.varying.filter((column) => !column.own).map((column) => ({ ...column, shown: shortNumbers(column.values) }));
  const own = view.varying.filter((column) => column.own).map((column) => column.name);
  const heads = columns.map((column) => h("th", { scope: "col", title: `${column.where}: ${KINDS[column.kind] ?? column.kind}` }, column.kind === "chain" ? "from the previous one" : column.name || column.where));
  const rows = view.places.map(({ label, short, box }, k) => h("tr", {},
    h("th", { scope: "row" }, h("button", { class: "irs-chip", title: `${label}: show it in the graph`, onclick: () => show(box) }, short)),
    ...columns.map((column) => valueCell(context, column, column.values[k], column.shown[k]))));
  const left = [view.left_out ? `${view.left_out.toLocaleString("en")} more differences` : "", view.places_left_out ? `${view.places_left_out.toLocaleString("en")} more rows` : ""].filter((text) => text);
  return h("div", { class: "irs-repeat" },
    h("p", { class: "irs-sentence" }, `${view.sentence}.`),
    own.length ? h("p", { class: "irs-quiet" }, `each has its own ${own.join(", ")}`) : null,
    view.beside ? sides(context, view, view.beside, beside) : null,
    oneStop(h("div", { class: "irs-holes-holder" }, h("table", { class: "irs-holes" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }), ...heads)), h("tbody", {}, ...rows)))),
    left.length ? h("p", { class: "irs-quiet" }, left.join("; ")) : null);
}

/** Two of them side by side: in a narrow pane only the lines that differ. */
function sides(context: Context, view: RepeatView, first: BesideView, ask?: (left: number, right: number) => Promise<BesideView | null>): HTMLElement {
  const holder = h("div", { class: "irs-sides" }, besideTable(context, first));
  const picks = sidePicks("part", view.places.map(({ short }) => short), ask && ((left, right) => void ask(left, right).then(
    (found) => found && holder.replaceChildren(besideTable(context, found)), () => undefined)));
  return h("div", { class: "irs-sides" }, h("h4", { class: "irs-sides-head" }, "side by side ", ...picks), holder);
}

const KINDS: Record<string, string> = { constant: "constant", type: "type", value: "value it uses", chain: "from the previous one" };

function valueCell(context: Context, column: VaryingView, text: string, shown: string): HTMLElement {
  const value = text.startsWith("%") ? context.records.names.get(text.slice(1)) : undefined;
  const other = text !== column.values[0] && (column.kind === "constant" || column.kind === "type") ? "other" : null;
  if (value === undefined) return h("td", { class: other, title: text }, shown);
  return h("td", {}, h("button", { class: "irs-name", title: text, onclick: (event: MouseEvent) => context.selection.pick(value, event.shiftKey) }, text));
}
