// What the colours of the moment stand for; a click on an entry selects everything of its kind.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { CATEGORIES, colourOf, HEAT, type Meaning } from "./colours";

const MOST = 12;

interface Entry {
  word: string;
  colour: string;
  ids: number[];
  /** What to ask for them, where the page does not hold all. */
  query?: string;
}

export function legend(context: Context, meaning: Meaning): HTMLElement {
  const entries = meaning === "kind" ? kinds(context) : meaning === "time" ? times(context) : classes(context);
  const writes = context.view.graph.boxes.filter((box) => box.writes).map((box) => box.id);
  const asked = context.view.graph.kinds;
  if (writes.length || asked?.includes("in-place")) entries.push({ word: "writes in place", colour: "var(--irs-write)", ids: writes, ...(asked ? { query: "is:write" } : {}) });
  const chips = entries.map(({ word, colour, ids, query }) => {
    const swatch = h("i", { class: "irs-swatch" });
    swatch.style.setProperty("--c", colour);
    const title = `select all ${ids.length.toLocaleString("en")}`;
    if (query && context.supply) {
      const ask = () => void context.supply?.find(query).then((found) => context.selection.set(found.ids));
      return h("button", { type: "button", title: `select all: ${query}`, onclick: ask }, swatch, word);
    }
    return h("button", { type: "button", title, onclick: () => context.selection.set(ids) }, swatch, word);
  });
  return h("div", { class: "irs-legend", role: "group", "aria-label": "legend" }, ...chips);
}

function kinds({ view }: Context): Entry[] {
  if (view.graph.kinds) {
    return CATEGORIES.filter((word) => view.graph.kinds?.includes(word)).map((word) => ({ word, colour: `var(--irs-cat-${word})`, ids: [], query: `kind:${word}` }));
  }
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

function times({ view }: Context): Entry[] {
  const ops = view.graph.boxes.filter((box) => box.share !== undefined && (box.kind === "op" || box.kind === "group"));
  return HEAT.map((colour, step) => ({
    word: `${Math.round(100 * (step / HEAT.length) ** 2)} %`, colour,
    ids: ops.filter((box) => colourOf(box, "time") === colour).map((box) => box.id),
  }));
}

function classes({ view, records }: Context): Entry[] {
  const largest = [...view.classes].sort((a, b) => b.members.length - a.members.length).slice(0, MOST);
  return largest.map(({ label, members }) => {
    const box = records.hierarchy.boxes[records.hierarchy.find(members[0])];
    return { word: `${label} ×${members.length}`, colour: box ? colourOf(box, "equal") : "var(--irs-cat-other)", ids: members };
  });
}
