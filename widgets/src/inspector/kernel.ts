// The kernel tab: the generated source; a line selects the node that it came from.

import type { Context } from "../lib/context";
import { h } from "../lib/dom";
import type { KernelDetail } from "../lib/schema";
import { tokens } from "../lib/tokens";
import { note } from "./words";

export function kernelTab(context: Context, kernel: KernelDetail): Node[] {
  const shared = kernel.shared_by > 1 ? `, run by ${kernel.shared_by} groups` : "";
  const source = kernel.source || (context.records.view.kernels?.[kernel.name] ?? "");
  const lines = source.split("\n").map((line, k) => {
    const node = kernel.line_nodes[k] ?? 0;
    const pieces = tokens(line).map(({ kind, text }) => (kind === "plain" ? text : h("span", { class: `irs-t-${kind}` }, text)));
    const code = h("code", {}, ...pieces);
    const number = h("span", { class: "irs-number", "aria-hidden": "true" }, String(k + 1));
    if (!node) return h("div", { class: "irs-line" }, number, code);
    const pick = (event: MouseEvent | KeyboardEvent) => context.selection.pick(node, event.shiftKey);
    return h("div", {
      class: `irs-line linked ${context.selection.lit.has(node) ? "lit" : ""}`, role: "button", tabindex: "0", "data-node": node,
      title: context.records.longTitle(node), onclick: pick, onpointerenter: () => context.selection.light([node]),
      onkeydown: (event: KeyboardEvent) => event.key === "Enter" && pick(event),
    }, number, code);
  });
  return [
    h("p", { class: "irs-sentence" }, h("strong", {}, kernel.name), ` · ${kernel.language}${shared}`),
    source ? h("div", { class: "irs-source", onpointerleave: () => context.selection.light([]) }, ...lines) : note("no source text"),
  ];
}
