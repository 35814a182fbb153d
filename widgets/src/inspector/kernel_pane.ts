// The kernel beside source and IR: that of what is selected, and until something with a kernel is, that of the hottest or first group.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { KernelTab } from "./kernel";
import { note, problem } from "./words";

/** The most selected records that are asked about: a line of source may have made many. */
const MOST_ASKED = 12;

export function kernelPane(context: Context): HTMLElement {
  const { answers, records, selection } = context;
  const tab = new KernelTab(context);
  const of = h("span", { class: "irs-quiet", role: "status" });
  const panel = h("div", { class: "irs-panel", role: "region", "aria-label": "text of the kernel", tabindex: "0" }, note("Select an op of a fusion group: its kernel stands here."));
  let turn = 0;
  let shown = "";
  const show = async () => {
    const now = ++turn;
    const wanted = selection.ids.length ? selection.ids.filter((id) => id > 0).slice(0, MOST_ASKED) : shown ? [] : firstGroup(context);
    for (const record of wanted) {
      const { id, kernel } = await answers.detail(record);
      if (now !== turn || context.signal.aborted) return;
      if (!kernel) continue;
      of.textContent = records.title(id);
      if (kernel.name === shown) return;
      shown = kernel.name;
      panel.replaceChildren(...tab.show(id, kernel));
      return;
    }
    of.textContent = wanted.length ? `${records.title(wanted[0])} has none: a library runs it` : of.textContent;
  };
  const follow = () => void show().catch((error: unknown) => panel.replaceChildren(problem(error)));
  selection.subscribe((moved) => moved && follow());
  follow();
  return h("section", { class: "irs-pane irs-kernel-pane", "aria-label": "kernel" }, h("div", { class: "irs-bar" }, h("span", { class: "irs-title" }, "Kernel"), of, h("span", { class: "irs-spring" })), panel);
}

function firstGroup({ heat, records }: Context): number[] {
  const groups = records.hierarchy.boxes.filter(({ kind }) => kind === "group").map(({ id }) => id);
  const hottest = heat.profile ? groups.reduce((best, id) => ((heat.of(id, "time") ?? 0) > (heat.of(best, "time") ?? 0) ? id : best), groups[0]) : groups[0];
  return hottest === undefined ? [] : [hottest];
}
