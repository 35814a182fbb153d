// The differences between two branches: lines side by side, with signs and words beside the colours. New and changed nodes can be
// selected, which marks them in text and graph.

import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { Context } from "../lib/model/context";
import type { BranchDiff } from "../lib/model/schema";
import { more } from "../inspector/words";

const SIGNS = { changed: "~", new: "+", gone: "−" } as const;

export function diffTable({ selection, records }: Context, diff: BranchDiff, close: () => void): HTMLElement {
  const counts = Object.entries(diff.counts).map(([kind, count]) => `${count.toLocaleString("en")} ${kind}`).join(" · ");
  const here = diff.lines.map((line) => line.node).filter((id) => id > 0);
  const rows = diff.lines.map((line) => {
    const id = line.node || line.old;
    const known = records.hierarchy.find(id) >= 0;
    const act = known ? h("button", { title: "select it", onclick: () => selection.set([id]) }, SIGNS[line.kind]) : SIGNS[line.kind];
    return h("tr", { class: `irs-diff-${line.kind}` }, h("td", { title: line.kind }, act), h("td", {}, h("code", {}, line.before)), h("td", {}, h("code", {}, line.after), line.how ? h("span", { class: "irs-quiet" }, ` ${line.how}`) : ""));
  });
  return h("div", { onkeydown: (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  } },
    h("div", { class: "irs-branch-bar" }, h("span", {}, counts), h("span", { class: "irs-quiet" }, `matched by ${diff.matched_by}`), h("span", { class: "irs-spring" }),
      here.length ? h("button", { class: "irs-switch", onclick: () => selection.set(here) }, `select the ${here.length} new and changed nodes`) : null,
      h("button", { class: "irs-switch", title: "close the differences (Escape)", onclick: close }, "close")),
    diff.lines.length ? oneStop(h("table", {}, h("thead", {}, h("tr", {}, h("th", { "aria-label": "kind" }), h("th", {}, "before"), h("th", {}, "now"))), h("tbody", {}, ...rows))) : h("p", { class: "irs-quiet" }, "no differences"),
    h("p", { class: "irs-quiet" }, `kernels: ${diff.compared.matched}`),
    more(diff.left_out, ": irs.diff(e.branches[0], e.branches[1]) lists all"));
}
