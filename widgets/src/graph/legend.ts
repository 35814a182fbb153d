// The meaning of the current colours; a click on an entry selects everything of its kind.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import { HEAT_COLOURS, type Measure } from "../lib/model/heat";
import { addTo } from "../lib/model/lists";
import { CATEGORIES, COMPARED, LANE_COLOURS, colourOf, laneOf, measureOf, type Meaning } from "./colours";

const MOST = 12;

interface Entry {
  word: string;
  colour: string;
  ids: number[];
  /** The query that finds them, if the page does not include them all. */
  query?: string;
}

export function legend(context: Context, meaning: Meaning): HTMLElement {
  const measure = measureOf(meaning);
  if (meaning === "compared") return compared(context);
  const entries = measure ? degrees(context, measure) : meaning === "paint" ? painted(context) : meaning === "kind" ? kinds(context) : meaning === "pass" ? passes(context) : classes(context);
  const writes = context.view.graph.boxes.filter((box) => box.writes).map((box) => box.id);
  const asked = context.view.graph.kinds;
  if (writes.length || asked?.includes("in-place")) entries.push({ word: "writes in place", colour: "var(--irs-write)", ids: writes, ...(asked ? { query: "is:write" } : {}) });
  if (context.copies.list.length) entries.push({ word: "copies", colour: "var(--irs-lit)", ids: context.copies.list.map((copy) => copy.id) });
  return chips(context, entries, meaning === "equal" ? h("span", { class: "irs-quiet" }, `grey: in no class${context.records.isPart ? ", or not loaded" : ""}`) : null);
}

function chips(context: Context, entries: readonly Entry[], after: HTMLElement | null = null): HTMLElement {
  const made = entries.map(({ word, colour, ids, query }) => {
    const swatch = h("i", { class: "irs-swatch" });
    swatch.style.setProperty("--c", colour);
    const title = `select all ${ids.length.toLocaleString("en")}`;
    if (query && context.supply) {
      const ask = () => void context.supply?.find(query, true).then((found) => context.selection.set(found.ids));
      return h("button", { title: `select all: ${query}`, onclick: ask }, swatch, word);
    }
    return h("button", { title, onclick: () => context.selection.set(ids) }, swatch, word);
  });
  return oneStop(h("div", { class: "irs-legend", role: "group", "aria-label": "legend" }, ...made, after));
}

/** Whose pairs of ops are whose; a click selects the ops of these pairs. */
function compared(context: Context): HTMLElement {
  const found = context.heat.compared;
  if (!found) return chips(context, []);
  const words = { same: "as in the other", here: `one kernel only in ${found.here}`, there: `one kernel only in ${found.there}`, unmatched: "not compared" } as const;
  const entries = (["same", "here", "there", "unmatched"] as const).filter((kind) => found.counts[kind]).map((kind) => ({
    word: `${words[kind]}: ${found.counts[kind]} ${found.counts[kind] === 1 ? "pair" : "pairs"}`, colour: COMPARED[kind],
    ids: [...new Set(found.pairs.filter((pair) => pair.kind === kind).flatMap(({ producer, consumer }) => [producer, consumer]))],
  }));
  const each = Object.entries(found.kinds).filter(([, kind]) => kind === "both").map(([id]) => Number(id)).filter((id) => id > 0);
  if (each.length) entries.push({ word: "some of each", colour: COMPARED.both, ids: each });
  return chips(context, entries, h("span", { class: "irs-quiet irs-matched", title: found.matched }, found.matched));
}

function kinds({ view }: Context): Entry[] {
  if (view.graph.kinds) {
    return CATEGORIES.filter((word) => view.graph.kinds?.includes(word)).map((word) => ({ word, colour: `var(--irs-cat-${word})`, ids: [], query: `kind:${word}` }));
  }
  const held = new Map<string, number[]>();
  for (const box of view.graph.boxes) {
    if (box.kind === "op") addTo(held, CATEGORIES.includes(box.category) ? box.category : "other", box.id);
  }
  return CATEGORIES.filter((word) => held.has(word)).map((word) => ({ word, colour: `var(--irs-cat-${word})`, ids: held.get(word)! }));
}

function passes({ view }: Context): Entry[] {
  const ids = (lane: string) => view.graph.boxes.filter((box) => laneOf(box) === lane && (box.kind === "op" || box.kind === "group")).map(({ id }) => id);
  return Object.entries(LANE_COLOURS).map(([word, colour]) => ({ word, colour, ids: ids(word) }));
}

/** The colours of a measure with their lower bounds; a click selects their nodes, only among the slowest if the page holds a part. */
function degrees({ view, records, heat }: Context, measure: Measure): Entry[] {
  const nodes = records.isPart ? (heat.profile?.ways.at(-1)?.nodes ?? []).map(({ id }) => id)
    : view.graph.boxes.filter((box) => box.kind === "op" || box.kind === "group").map(({ id }) => id);
  const from = (step: number) => (step / HEAT_COLOURS.length) ** 2;
  const word = (step: number) => {
    if (measure === "roof") return step ? `below ${Math.round(100 * (1 - from(step)))} % of the roof` : "at the roof";
    const part = `${Math.round(100 * from(step))} %`;
    return step ? part : measure === "time" ? "0 % of the time" : measure === "bytes" ? "0 % of the maximum bytes" : "0 % of the maximum alive";
  };
  return HEAT_COLOURS.map((colour, step) => ({ word: word(step), colour, ids: nodes.filter((id) => id && heat.step(id, measure) === step) }));
}

/** The colours of the numbers that the user gave, with their lower bounds. */
function painted({ view, heat }: Context): Entry[] {
  const { paint } = heat;
  if (!paint) return [];
  const nodes = view.graph.boxes.filter((box) => box.kind === "op" || box.kind === "group").map(({ id }) => id);
  const from = (step: number) => (paint.least + ((paint.most - paint.least) * step) / HEAT_COLOURS.length).toPrecision(3);
  const steps = paint.most > paint.least ? HEAT_COLOURS : HEAT_COLOURS.slice(0, 1);
  return steps.map((colour, step) => ({ word: step ? from(step) : `${paint.name} from ${from(0)}`, colour, ids: nodes.filter((id) => heat.paintStep(id) === step) }));
}

function classes({ view, records, heat }: Context): Entry[] {
  const largest = [...view.classes].sort((a, b) => b.members.length - a.members.length).slice(0, MOST);
  return largest.map(({ label, members }) => {
    const box = records.hierarchy.boxes[records.hierarchy.find(members[0])];
    return { word: `${label} ×${members.length}`, colour: box ? colourOf(box, "equal", heat) : "var(--irs-cat-other)", ids: members };
  });
}
