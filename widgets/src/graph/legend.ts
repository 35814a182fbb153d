// What the colours of the moment stand for; a click on an entry selects everything of its kind.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { CATEGORIES, colourOf, type Meaning } from "./colours";

const MOST = 12;

interface Entry {
  word: string;
  colour: string;
  ids: number[];
}

export function legend(context: Context, meaning: Meaning): HTMLElement {
  const entries = meaning === "kind" ? kinds(context) : classes(context);
  const writes = context.view.graph.boxes.filter((box) => box.writes).map((box) => box.id);
  if (writes.length) entries.push({ word: "writes in place", colour: "var(--irs-write)", ids: writes });
  const chips = entries.map(({ word, colour, ids }) => {
    const swatch = h("i", { class: "irs-swatch" });
    swatch.style.setProperty("--c", colour);
    const title = `select all ${ids.length.toLocaleString("en")}`;
    return h("button", { type: "button", title, onclick: () => context.selection.set(ids) }, swatch, word);
  });
  return h("div", { class: "irs-legend", role: "group", "aria-label": "legend" }, ...chips);
}

function kinds({ view }: Context): Entry[] {
  const held = new Map<string, number[]>();
  for (const box of view.graph.boxes) {
    if (box.kind !== "op") continue;
    const word = CATEGORIES.includes(box.category) ? box.category : "other";
    const ids = held.get(word);
    if (ids) ids.push(box.id);
    else held.set(word, [box.id]);
  }
  return CATEGORIES.filter((word) => held.has(word)).map((word) => ({ word, colour: `var(--irs-cat-${word})`, ids: held.get(word)! }));
}

function classes({ view, records }: Context): Entry[] {
  const largest = [...view.classes].sort((a, b) => b.members.length - a.members.length).slice(0, MOST);
  return largest.map(({ label, members }) => {
    const box = records.hierarchy.boxes[records.hierarchy.find(members[0])];
    return { word: `${label} ×${members.length}`, colour: box ? colourOf(box, "equal") : "var(--irs-cat-other)", ids: members };
  });
}
