// Two pieces side by side: corresponding lines share a row, and their differences are marked.

import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { Context } from "../lib/model/context";
import type { BesideView, Word } from "../lib/model/schema";
import { more } from "../inspector/words";

/** `onHole` receives the hole under the pointer, -1 for none. */
export function besideTable(context: Context, view: BesideView, onHole: (hole: number) => void = () => undefined): HTMLElement {
  const rows = view.lines.map(({ left, right, left_node, right_node }) => h("tr", {},
    side(context, left, left_node, right.length === 0), side(context, right, right_node, left.length === 0)));
  const table = h("table", { class: "irs-beside" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, view.left), h("th", { scope: "col" }, view.right))), h("tbody", {}, ...rows));
  table.addEventListener("pointerover", (event) => {
    const word = (event.target as Element).closest("[data-hole]");
    onHole(word ? Number(word.getAttribute("data-hole")) : -1);
  });
  return oneStop(h("div", { class: "irs-beside-holder" }, h("p", { class: "irs-sentence" }, view.because), table, more(view.left_out, " lines")), true);
}

/** The two lists from which the pieces side by side are chosen, at first the first two. */
export function sidePicks(noun: string, names: readonly string[], onPick?: (left: number, right: number) => void): HTMLElement[] {
  const picks = ["left", "right"].map((side, first) => h("select", {
    "aria-label": `${noun} on the ${side}`, disabled: !onPick, onchange: () => onPick?.(Number(picks[0].value), Number(picks[1].value)),
  }, ...names.map((name, k) => h("option", { value: k, selected: k === first }, name))));
  return picks;
}

function side(context: Context, words: readonly Word[], node: number, alone: boolean): HTMLElement {
  const { records, selection } = context;
  const pieces = words.map(({ text, value, hole }) => {
    const marked = hole >= 0 ? { class: "irs-hole", "data-hole": hole } : {};
    if (!value || !records.isValue(value)) return hole >= 0 ? h("mark", marked, text) : /^\w+::\w/u.test(text) ? h("span", { class: "irs-t-op" }, text) : text;
    return h("button", { ...marked, class: `irs-name ${hole >= 0 ? "irs-hole" : ""}`, onclick: (event: MouseEvent) => {
      event.stopPropagation();
      selection.pick(value, event.shiftKey);
    } }, ...text.split(/(?<=\.)/u).flatMap((part, k) => (k ? [h("wbr"), part] : [part])));
  });
  return h("td", { class: alone ? "alone" : null, onclick: node ? (event: MouseEvent) => selection.pick(node, event.shiftKey) : null }, h("code", {}, ...pieces));
}
