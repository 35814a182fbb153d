// The dock below: remarks, equivalence classes and times, one at a time. In a notebook it is closed until the user opens it, since
// text and graph need the space more; a page has space for everything.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { tabs } from "../lib/dom/tabs";
import { memoryPane } from "../memory/index";
import { pointsToPane } from "../points_to/index";
import { timePane } from "../profile/index";
import { classesPane } from "../same/index";
import { stepList } from "../timeline/list";
import { recordTable } from "./remarks";
import { timingChart, timingOffer } from "./timing";

interface Page {
  name: string;
  count: string;
  make(): HTMLElement;
}

export function dock(context: Context, roomy = false): HTMLElement {
  const { view, kept } = context;
  const pages: Page[] = [
    { name: "Remarks", count: (view.remarks.total ?? view.remarks.rows.length).toLocaleString("en"), make: () => recordTable(context, view.remarks, "remarks") },
    { name: "Classes", count: view.classes.length.toLocaleString("en"), make: () => classesPane(context) },
  ];
  const { decided } = view;
  if (decided) pages.unshift({ name: "Kernels", count: decided.kernels.rows.length.toLocaleString("en"), make: () => recordTable(context, decided.kernels, "kernels") });
  const { differences } = view;
  if (differences) pages.splice(1, 0, { name: "Differences", count: differences.rows.length.toLocaleString("en"), make: () => recordTable(context, differences, "differences") });
  if (decided?.vanished.rows.length) pages.push({ name: "Vanished", count: decided.vanished.rows.length.toLocaleString("en"), make: () => recordTable(context, decided.vanished, "ops that vanished") });
  const { steps } = context;
  if (steps) pages.push({ name: "Steps", count: steps.last.toLocaleString("en"), make: () => stepList(context, steps) });
  if (view.memory || context.supply) pages.push({ name: "Memory", count: "", make: () => memoryPane(context) });
  if (view.points_to || context.supply) pages.push({ name: "Points-to", count: "", make: () => pointsToPane(context) });
  if (view.profile) pages.push({ name: "Time", count: "", make: () => timePane(context) });
  const { timing } = view;
  if (timing) pages.push({ name: "Timing", count: "", make: () => timingChart(timing) });
  else if (context.supply && view.later?.includes("timing")) pages.push({ name: "Timing", count: "", make: () => timingOffer(context) });
  const panel = h("div", { class: "irs-dock-panel", role: "tabpanel" });
  const page = new Map(pages.map((each) => [each.name, each]));
  const made = new Map<string, HTMLElement>();
  const list = tabs({
    label: "tables", look: "irs-tabs", names: pages.map(({ name }) => name), panel, closes: true,
    say: (name) => [name, ...(page.get(name)!.count ? [h("span", { class: "irs-count" }, page.get(name)!.count)] : [])],
    onChoose: (name) => {
      kept.table = name;
      panel.hidden = name === "";
      if (!name) return;
      if (!made.has(name)) made.set(name, page.get(name)!.make());
      panel.replaceChildren(made.get(name)!);
    },
  });
  const first = kept.table ?? view.opens ?? (timing ? "Timing" : roomy ? "Remarks" : "");
  list.choose(page.has(first) ? first : "");
  return h("section", { class: "irs-pane irs-dock", "aria-label": "tables" }, h("div", { class: "irs-dock-bar" }, list.element), panel);
}
