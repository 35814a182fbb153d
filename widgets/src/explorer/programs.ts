// The switch between programs: as written, and after the passes. Each is a state of the history.

import type { Context } from "../lib/model/context";
import { h, keep, oncePerFrame } from "../lib/dom/dom";

export function programSwitch(context: Context): HTMLElement | null {
  const { view, steps } = context;
  const stops = view.programs ?? [];
  if (stops.length < 2) return null;
  const last = stops[stops.length - 1].state;
  const buttons = stops.map(({ label, state, hint }) => h("button", {
    title: hint, onclick: () => (steps && state === last ? steps.leave() : context.goTo(state)),
  }, label));
  const show = () => {
    const at = steps ? steps.at : last;
    buttons.forEach((button, k) => keep(button, "aria-pressed", String(stops[k].state === at)));
  };
  steps?.subscribe(oncePerFrame(show));
  show();
  return h("div", { class: "irs-programs", role: "group", "aria-label": "which program is shown" },
    ...buttons.flatMap((button, k) => (k ? [h("span", { "aria-hidden": "true" }, "→"), button] : [button])));
}
