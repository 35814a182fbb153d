// The equivalence classes, largest first, and the IR of the one that stands for the rest.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { Scroller } from "../lib/dom/scroller";
import type { ClassView } from "../lib/model/schema";
import { codeLine, note } from "../inspector/words";

const ROW = 24;
const MOST_LINES = 400;

export function classList(context: Context): HTMLElement {
  const { view, selection, signal } = context;
  if (!view.classes.length) return h("div", { class: "irs-panel" }, note("no two parts were found equal"));
  const classes = [...view.classes].sort((a, b) => b.members.length - a.members.length || a.index - b.index);
  const most = classes[0].members.length;
  const text = h("div", { class: "irs-class-text" });
  const current = () => {
    const held = new Set(selection.ids);
    return classes.findIndex((group) => held.size > 0 && group.members.some((member) => held.has(member)));
  };
  const scroller = new Scroller(ROW, (k) => row(classes[k], k === current(), most, () => selection.set(classes[k].members)), signal, {
    role: "listbox", "aria-label": "equivalence classes",
  });
  scroller.element.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const next = classes[current() + by];
    if (!by || !next) return;
    event.preventDefault();
    selection.set(next.members);
    scroller.reveal(classes.indexOf(next));
  }, { signal });
  const refresh = () => {
    scroller.redraw();
    const group = classes[Math.max(0, current())];
    const lines = group.text.slice(0, MOST_LINES).map((line) => h("div", { class: "irs-line" }, codeLine(context, line)));
    text.replaceChildren(h("p", { class: "irs-quiet" }, `${group.label}: the one that stands for ${group.members.length}`), ...lines);
  };
  selection.subscribe(refresh);
  scroller.reset(classes.length);
  refresh();
  return h("div", { class: "irs-classes" }, scroller.element, text);
}

function row(group: ClassView, selected: boolean, most: number, pick: () => void): HTMLElement {
  const bar = h("i", { class: "irs-bar-fill" });
  bar.style.width = `${(100 * group.members.length) / most}%`;
  return h("div", { role: "option", class: `irs-row irs-class ${selected ? "selected" : ""}`, "aria-selected": String(selected), onclick: pick, "data-class": group.index },
    h("span", { class: "irs-cell" }, group.label), h("span", { class: "irs-measure" }, bar), h("span", { class: "irs-cell number" }, `×${group.members.length}`));
}
