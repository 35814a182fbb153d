// Bars: the slowest nodes with their shares of copy bandwidth and peak, and fusion groups before and after.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { HEAT_COLOURS, percent, stepOf } from "../lib/model/heat";
import type { ProfileView, TimedWay } from "../lib/model/schema";
import { bytes } from "../lib/model/sizes";
import { barElement, milliseconds } from "../tables/timing";
import { pickable } from "./items";

const MOST_ROWS = 200;
const WHISKER = 1.3;

export function slowest(context: Context, way: TimedWay, status: HTMLElement): HTMLElement {
  const nodes = way.nodes.slice(0, MOST_ROWS);
  const longest = WHISKER * Math.max(1e-9, ...nodes.map((node) => node.ms));
  const cell = (text: string, name = "number") => h("span", { class: `irs-cell ${name}` }, text);
  const part = (share: number | null) => (share === null ? "" : percent(share));
  const rows = nodes.map((node) => {
    const bar = barElement({ label: node.label, median: node.ms, low: node.low, high: node.high }, longest);
    bar.style.setProperty("--c", HEAT_COLOURS[stepOf(node.share) ?? 0]);
    return h("div", { class: "irs-row irs-slow" }, cell(`${node.label} = ${node.op.replace(/^\w+::/u, "")}`, "record"), place(node.line),
      h("span", { class: "irs-cell" }, bar), cell(milliseconds(node.ms)), cell(percent(node.share)), cell(bytes(1e6 * node.megabytes)), cell(part(node.of_copy)), cell(part(node.of_peak)));
  });
  const heads = ["node", "line", "median and quartiles", "", "share", "moved", "of copy", "of peak"].map((word, k) => cell(word, k > 2 ? "number" : ""));
  const list = h("div", { class: "irs-rows-list" }, ...rows);
  const items = nodes.map((node, k) => ({
    ids: node.id ? [node.id] : [], element: rows[k],
    told: `${node.label} = ${node.op}: ${milliseconds(node.ms)}, quartiles from ${milliseconds(node.low)} to ${milliseconds(node.high)}, ${percent(node.share)} of the time`,
  }));
  pickable(context, list, `the slowest nodes, ${way.label}`, items, status);
  return h("div", { class: "irs-bars" }, h("div", { class: "irs-row irs-slow irs-slow-head", "aria-hidden": "true" }, ...heads), list);
}

/** A line of a file; a narrow column cuts the name, never the number. */
function place(line: string): HTMLElement {
  const [, file, number] = /([^\\/]*?)(:\d+)?$/u.exec(line)!;
  return h("span", { class: "irs-cell irs-quiet irs-place" }, h("span", {}, file), number ?? "");
}

export function beforeAfter(context: Context, profile: ProfileView, status: HTMLElement): HTMLElement | null {
  if (!profile.groups.length) return null;
  const longest = Math.max(1e-9, ...profile.groups.flatMap((group) => [group.before, group.after]));
  const bar = (name: string, time: number) => {
    const fill = h("i", { class: name });
    fill.style.width = `${(100 * time) / longest}%`;
    return h("span", { class: "irs-pair-bar" }, fill, h("span", {}, milliseconds(time)));
  };
  const rows = profile.groups.map((group) => h("div", { class: `irs-row irs-pair ${group.verdict.replace(" ", "-")}` },
    h("span", { class: "irs-cell record" }, group.label), h("span", { class: "irs-pair-bars" }, bar("before", group.before), bar("after", group.after)),
    h("span", { class: "irs-cell" }, group.verdict === "faster" && group.after ? `${times(group.before / group.after)}× as fast` : group.verdict)));
  const list = h("div", { class: "irs-rows-list" }, ...rows);
  const items = profile.groups.map((group, k) => ({
    ids: [group.id], element: rows[k], told: `${group.label}: its ops one by one ${milliseconds(group.before)}, as one kernel ${milliseconds(group.after)}: ${group.verdict}`,
  }));
  pickable(context, list, "fusion groups, before and after", items, status);
  return h("div", { class: "irs-bars" }, list);
}

function times(ratio: number): string {
  return ratio < 9.95 ? ratio.toFixed(1) : Math.round(ratio).toLocaleString("en");
}

export function helps(context: Context, profile: ProfileView, status: HTMLElement): HTMLElement {
  if (!profile.helps.length) return h("p", { class: "irs-quiet" }, "no advice for this program");
  const rows = profile.helps.map((help, k) => h("div", { class: "irs-row irs-help" }, h("span", { class: "irs-cell number" }, String(k)), h("span", {}, help.text)));
  const list = h("div", { class: "irs-rows-list" }, ...rows);
  const items = profile.helps.map((help, k) => ({ ids: help.selects, element: rows[k], told: `p.try_(${k}) applies it and measures` }));
  pickable(context, list, "what would help", items, status);
  return list;
}
