// Sentences and names in the inspector. Every printed name in them is a button that selects its value.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import { tokens } from "../lib/model/tokens";

export function note(text: string): HTMLElement {
  return h("p", { class: "irs-quiet" }, text);
}

/** A sentence with its `%names` linked. */
export function sentence(context: Context, text: string): HTMLElement {
  return oneStop(h("p", { class: "irs-sentence" }, ...linked(context, text)));
}

/** A line of IR in colour, its names linked. */
export function codeLine(context: Context, text: string): HTMLElement {
  return oneStop(h("code", { class: "irs-code" }, ...linked(context, text, true)));
}

function linked(context: Context, text: string, coloured = false): (Node | string)[] {
  const { records, selection } = context;
  return tokens(text).map(({ kind, text: piece }) => {
    const record = kind === "value" ? records.names.get(piece.slice(1)) : undefined;
    if (record === undefined) return coloured && kind !== "plain" ? h("span", { class: `irs-t-${kind}` }, piece) : piece;
    return h("button", {
      class: "irs-name", title: `select ${piece}; with Shift, ask about the pair`,
      onclick: (event: MouseEvent) => selection.pick(record, event.shiftKey),
    }, piece);
  });
}

/** Records as buttons: a click selects, Shift asks about the pair. */
export function chips(context: Context, records: readonly number[]): HTMLElement {
  const made = records.map((record) => h("button", {
    class: context.records.isValue(record) ? "irs-chip value" : "irs-chip",
    onclick: (event: MouseEvent) => context.selection.pick(record, event.shiftKey),
  }, context.records.longTitle(record)));
  return oneStop(h("div", { class: "irs-chips" }, ...made));
}

export function labelled(label: string, content: Node): HTMLElement {
  return h("div", { class: "irs-labelled" }, h("h4", {}, label), content);
}

/** What is left out of a list, counted; null for nothing. */
export function more(count: number, of = ""): HTMLElement | null {
  return count > 0 ? note(`and ${count.toLocaleString("en")} more${of}`) : null;
}

export const ASKING = "asking Python… it answers when no cell is running";

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** An error message in the place of the answer. */
export function problem(error: unknown): HTMLElement {
  return h("pre", { class: "irs-problem", role: "alert" }, messageOf(error));
}
