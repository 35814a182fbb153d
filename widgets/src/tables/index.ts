// The dock below: remarks, equivalence classes and times, one at a time.

import type { Context } from "../lib/context";
import { freshId, h } from "../lib/dom";
import { stepList } from "../timeline/list";
import { classList } from "./classes";
import { remarkTable } from "./remarks";
import { timingChart } from "./timing";

interface Page {
  name: string;
  count: string;
  make(): HTMLElement;
}

export function dock(context: Context): HTMLElement {
  const { view } = context;
  const pages: Page[] = [
    { name: "Remarks", count: view.remarks.rows.length.toLocaleString("en"), make: () => remarkTable(context) },
    { name: "Classes", count: view.classes.length.toLocaleString("en"), make: () => classList(context) },
  ];
  const { steps } = context;
  if (steps) pages.push({ name: "Steps", count: steps.last.toLocaleString("en"), make: () => stepList(context, steps) });
  const { timing } = view;
  if (timing) pages.push({ name: "Timing", count: "", make: () => timingChart(timing) });
  const panel = h("div", { class: "irs-dock-panel", role: "tabpanel", id: freshId("dock") });
  const made = new Map<string, HTMLElement>();
  let chosen = "";
  const buttons = pages.map(({ name, count }) => h("button", {
    type: "button", role: "tab", id: freshId("tab"), "aria-controls": panel.id, onclick: () => choose(name === chosen ? "" : name),
  }, name, count ? h("span", { class: "irs-count" }, count) : null));
  const choose = (name: string) => {
    chosen = name;
    panel.hidden = name === "";
    pages.forEach((page, k) => {
      buttons[k].setAttribute("aria-selected", String(page.name === name));
      buttons[k].tabIndex = page.name === name || (name === "" && k === 0) ? 0 : -1;
      if (page.name !== name) return;
      panel.setAttribute("aria-labelledby", buttons[k].id);
      if (!made.has(name)) made.set(name, page.make());
      panel.replaceChildren(made.get(name)!);
    });
  };
  const tabs = h("div", { class: "irs-tabs", role: "tablist", "aria-label": "tables", onkeydown: (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const at = pages.findIndex((page) => page.name === chosen);
    const next = (at + by + pages.length) % pages.length;
    choose(pages[next].name);
    buttons[next].focus();
  } }, ...buttons);
  choose(timing ? "Timing" : "Remarks");
  return h("section", { class: "irs-pane irs-dock", "aria-label": "tables" }, tabs, panel);
}
