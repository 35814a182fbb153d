// All steps of the history below each other; a click goes to one.

import type { Context } from "../lib/model/context";
import { dataNumber, freshId, h, oncePerFrame } from "../lib/dom/dom";
import { Scroller } from "../lib/dom/scroller";
import type { Steps } from "../lib/model/steps";
import { bytes } from "../lib/model/sizes";

const ROW = 22;

export function stepList({ signal }: Context, steps: Steps): HTMLElement {
  const id = freshId("steps");
  const classOf = (index: number) => `irs-step ${index + 1 > steps.at ? "ahead" : ""} ${index + 1 === steps.at && steps.active ? "selected" : ""}`;
  const row = (index: number) => {
    const { did, rule, because, saved, group } = steps.view.steps[index];
    const isHere = index + 1 === steps.at && steps.active;
    return h("div", { class: classOf(index), role: "option", id: `${id}-${index}`, "data-step": index + 1, title: `${rule}: ${because || did}`, "aria-selected": isHere ? "true" : "false" },
      h("span", { class: "irs-number" }, (index + 1).toLocaleString("en")), h("span", { class: "irs-did" }, group ? did : `${rule}: ${did}`), h("span", { class: "irs-number" }, saved ? bytes(saved) : ""));
  };
  const scroller = new Scroller(ROW, row, signal, { role: "listbox", "aria-label": "steps" });
  const { element } = scroller;
  const follow = () => {
    for (const [index, shown] of scroller.rows()) {
      const classes = classOf(index);
      if (shown.className === classes) continue;
      shown.className = classes;
      shown.setAttribute("aria-selected", String(classes.includes("selected")));
    }
    if (steps.at) element.setAttribute("aria-activedescendant", `${id}-${steps.at - 1}`);
    else element.removeAttribute("aria-activedescendant");
    scroller.reveal(steps.at - 1);
  };
  element.addEventListener("click", (event) => {
    const step = dataNumber(event.target, "step");
    if (step !== null) steps.go(step);
  }, { signal });
  element.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    steps.go(steps.at + by);
  }, { signal });
  steps.subscribe(oncePerFrame(follow));
  scroller.reset(steps.last);
  return h("div", { class: "irs-step-list" }, element);
}
