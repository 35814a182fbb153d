// One class in full: the savings and costs of merging it, its holes in each member, and two members side by side.

import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { Context } from "../lib/model/context";
import type { CostView, SameCard, SameClass } from "../lib/model/schema";
import { bytes, shortNumbers } from "../lib/model/sizes";
import { milliseconds } from "../tables/timing";
import { note, problem } from "../inspector/words";
import { besideTable, sidePicks } from "./beside";

const MOST_MEMBERS = 60;

export function classDetail(context: Context, step: string, place: number, card: SameCard, cls: SameClass): HTMLElement {
  const holes = holeTable(context, cls);
  const light = (hole: number) => holes.querySelectorAll("[data-hole]").forEach((cell) => cell.classList.toggle("lit", cell.getAttribute("data-hole") === String(hole)));
  const sides = h("div", { class: "irs-sides" }, cls.beside ? besideTable(context, cls.beside, light) : null);
  const picks = sidePicks("piece", card.members, (left, right) => void context.same.beside(step, place, left, right).then(
    (view) => sides.replaceChildren(view ? besideTable(context, view, left === 0 ? light : undefined) : note("this page includes only the first two; a notebook with a kernel shows any two")),
    (error: unknown) => sides.replaceChildren(problem(error))));
  const members = card.members.slice(0, MOST_MEMBERS).map((name, k) => h("button", { class: "irs-chip", disabled: !card.selects[k].length, onclick: () => context.selection.set(card.selects[k]) }, name));
  return h("div", { class: "irs-same-detail" },
    h("h4", {}, card.count > 1 ? `${card.count} pieces that are equal at step '${step}'` : `one piece, equal to no other at step '${step}'`),
    oneStop(h("div", { class: "irs-chips" }, ...members)),
    cls.cost ? costLine(step, cls.cost) : null, cls.advice ? h("p", { class: "irs-quiet" }, cls.advice) : null,
    cls.holes.length ? h("h4", {}, "holes") : null, cls.holes.length ? holes : null,
    cls.beside ? h("h4", { class: "irs-sides-head" }, "side by side ", ...picks) : null, sides);
}

function costLine(step: string, cost: CostView): HTMLElement {
  const saves = `One body instead of ${cost.bodies + 1} saves ${cost.ops.toLocaleString("en")} ops, ${bytes(cost.bytes)} of text and about ${milliseconds(1000 * cost.seconds)} of compile time.`;
  const takes = cost.parameters ? `It needs ${cost.parameters} more parameter${cost.parameters > 1 ? "s" : ""}` : "It needs no further parameter";
  const lost = cost.lost.length ? ` and gives up ${cost.lost.join("; ")}: at most ${(100 * cost.slowdown).toFixed(1)} % slower, by estimate.` : " and nothing is lost.";
  return h("p", { class: "irs-sentence" }, saves, " ", takes, lost, " ", h("code", { class: "irs-quiet" }, `d.apply("${step}")`), " applies it.");
}

/** A row for each member, a column for each hole that varies; what is equal everywhere is said below. */
function holeTable(context: Context, cls: SameClass): HTMLElement {
  const varying = cls.holes.flatMap((hole, k) => (hole.varies ? [{ hole, k, shown: shortNumbers(hole.values) }] : []));
  const heads = varying.map(({ hole, k }) => h("th", {
    scope: "col", class: "varies", "data-hole": k, title: `${hole.kind}: ${hole.told}`,
  }, hole.node ? h("button", { class: "irs-name", onclick: () => context.selection.set([hole.node]) }, hole.place) : hole.place, h("span", { class: "irs-quiet" }, ` ${hole.told}`)));
  const rows = cls.members.map((name, m) => h("tr", {}, h("th", { scope: "row" }, name), ...varying.map(({ hole, k, shown }) =>
    h("td", { class: m && hole.values[m] !== hole.values[0] ? "other" : null, "data-hole": k, title: hole.values[m] }, shown[m] ?? ""))));
  const equal = cls.holes.filter((hole) => !hole.varies).map((hole) => `${hole.place} ${shortNumbers(hole.values.slice(0, 1))[0] ?? ""}`);
  const more = cls.holes_left_out ? `, and ${cls.holes_left_out.toLocaleString("en")} more holes` : "";
  return oneStop(h("div", { class: "irs-holes-holder" },
    varying.length ? h("table", { class: "irs-holes" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "member"), ...heads)), h("tbody", {}, ...rows)) : null,
    equal.length || more ? h("p", { class: "irs-quiet" }, `${equal.length ? `equal everywhere: ${equal.join(", ")}` : ""}${more}`) : null), true);
}
