// Where the time goes: the slowest nodes, modules and lines as an icicle, one run, the roofline, groups before and after, and what
// would help. Whatever is clicked is selected in all panes.

import { h } from "../lib/dom/dom";
import { tabs } from "../lib/dom/tabs";
import type { Context } from "../lib/model/context";
import { MEASURE_NAMES, MEASURES, type Measure } from "../lib/model/heat";
import type { ProfileView, TimedWay } from "../lib/model/schema";
import { beforeAfter, helps, slowest } from "./bars";
import { icicle } from "./icicle";
import { roofline } from "./roofline";
import { oneRun } from "./run";

const PICTURES = ["Slowest", "Modules and lines", "One run", "Roofline", "Before and after", "What would help"] as const;
type Picture = (typeof PICTURES)[number];

export function timePane(context: Context): HTMLElement {
  const { profile } = context.heat;
  if (!profile) return h("div", { class: "irs-panel" }, h("p", { class: "irs-quiet" }, "Nothing was measured. e.profile = irs.profile(f, x) shows where the time goes."));
  const panel = h("div", { class: "irs-time-panel", role: "tabpanel" });
  const status = h("div", { class: "irs-said-below", role: "status" });
  let way = profile.ways[profile.ways.length - 1];
  let picture: Picture = "Slowest";
  const made = new Map<string, HTMLElement | SVGElement>();
  const show = () => {
    const key = `${picture} ${way.label}`;
    if (!made.has(key)) made.set(key, drawn(context, profile, way, picture, status));
    panel.replaceChildren(made.get(key)!);
    status.textContent = "";
  };
  const list = tabs<Picture>({ label: "pictures of the profile", look: "irs-tabs", names: PICTURES, panel, onChoose: (name) => {
    if (!name) return;
    picture = name;
    show();
  } });
  const ways = h("select", { "aria-label": "how it ran", onchange: () => {
    way = profile.ways.find(({ label }) => label === ways.value) ?? way;
    show();
  } }, ...[...profile.ways].reverse().map(({ label }) => h("option", { value: label }, label)));
  const measures = h("select", { "aria-label": "what the colours of lines mean", title: "what the colours of lines and boxes mean", onchange: () => context.heat.show(measures.value as Measure) },
    ...MEASURES.map((measure) => h("option", { value: measure }, `lines: ${MEASURE_NAMES[measure]}`)));
  context.heat.subscribe(() => (measures.value = context.heat.measure));
  const head = h("div", { class: "irs-time-head" }, list.element, h("span", { class: "irs-spring" }), profile.ways.length > 1 ? ways : null, measures);
  list.choose("Slowest");
  return h("div", { class: "irs-time-pane" }, ...profile.warnings.map((warning) => h("p", { class: "irs-problem" }, warning)), head, panel, h("div", { class: "irs-time-foot" }, h("span", { class: "irs-quiet", title: profile.caption }, profile.verdict), status));
}

function drawn(context: Context, profile: ProfileView, way: TimedWay, picture: Picture, status: HTMLElement): HTMLElement | SVGElement {
  const none = (text: string) => h("p", { class: "irs-quiet" }, text);
  switch (picture) {
    case "Slowest": return slowest(context, way, status);
    case "Modules and lines": return icicle(context, way, status);
    case "One run": return way.spans.length ? oneRun(context, way, status) : none("no run was recorded");
    case "Roofline": return roofline(context, profile, way, status) ?? none("no node has counted arithmetic, or the limits of the machine are unknown");
    case "Before and after": return beforeAfter(context, profile, status) ?? none("nothing was fused");
    case "What would help": return helps(context, profile, status);
  }
}
