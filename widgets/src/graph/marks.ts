// The marks that the selection puts on the picture: which boxes are selected, lit, or contain something selected, and which edges
// belong to the selection.

import type { Context } from "../lib/model/context";
import type { DrawnEdge, Layout } from "../lib/layout/layout";
import { addTo } from "../lib/model/lists";
import { directPath, edgePath } from "./shapes";

const MOST_OWN_EDGES = 300;
const MOST_WITH_EDGES = 40;

export interface Marks {
  selected: Set<number>;
  lit: Set<number>;
  /** Closed boxes around something selected. */
  holding: Set<number>;
  /** Paths of the edges that belong to the selection. */
  paths: string[];
}

export class EdgeIndex {
  readonly #touching = new Map<number, number[]>();
  #taken = 0;
  readonly #routed = new WeakMap<Layout, Map<string, DrawnEdge>>();

  constructor(private readonly context: Context) {
    this.grown();
  }

  /** Indexes the edges that were added since the last call. */
  grown(): void {
    const { hierarchy } = this.context.records;
    const { edges } = this.context.view.graph;
    for (; this.#taken < edges.length; this.#taken++) {
      const edge = edges[this.#taken];
      for (const end of [edge.source, edge.target]) {
        addTo(this.#touching, hierarchy.find(end), this.#taken);
      }
    }
  }

  marks(layout: Layout, open: ReadonlySet<number>): Marks {
    const { records, selection } = this.context;
    const { hierarchy } = records;
    const marks: Marks = { selected: new Set(), lit: new Set(), holding: new Set(), paths: [] };
    const add = (wanted: number, to: Set<number>) => {
      const record = hierarchy.find(wanted) < 0 ? records.declarerOf(wanted) : wanted; // a block parameter has no box of its own
      const box = hierarchy.find(record);
      if (box < 0) return;
      const shown = hierarchy.shown(box, open);
      if (shown === box && hierarchy.holds(record)) to.add(box);
      else marks.holding.add(shown);
      const maker = hierarchy.boxes[box].kind === "output" ? records.makerOf(record) : 0;
      if (maker) add(maker, to); // a result is what its op computes
    };
    for (const record of selection.lit) add(record, marks.lit);
    for (const record of selection.ids) add(record, marks.selected);
    if (selection.ids.length <= MOST_WITH_EDGES) this.#draw(marks, layout, open);
    return marks;
  }

  #draw(marks: Marks, layout: Layout, open: ReadonlySet<number>): void {
    const { view, records, selection } = this.context;
    const { hierarchy } = records;
    const routed = this.#routes(layout);
    const drawn = new Set<string>();
    for (const record of selection.ids) {
      const box = hierarchy.find(record);
      if (box < 0) continue;
      const isValue = records.isValue(record) && hierarchy.boxes[box].id !== record;
      for (const e of this.#own(box)) {
        const edge = view.graph.edges[e];
        if (isValue && edge.value !== record) continue;
        const from = hierarchy.shown(hierarchy.find(edge.source), open);
        const to = hierarchy.shown(hierarchy.find(edge.target), open);
        const key = `${from} ${to}`;
        if (from === to || drawn.has(key) || drawn.size >= MOST_OWN_EDGES) continue;
        drawn.add(key);
        const { x, y, w, h } = layout;
        if (!(x[from] + x[to] < Infinity)) continue; // a box added after this layout was computed: the next picture has it
        const route = routed.get(key) ?? routed.get(hierarchy.apart(from, to).join(" ")); // the passes of a joint graph
        if (!edge.value && !route) continue; // effects are not shown
        marks.paths.push(route ? edgePath(route) : directPath(x[from] + w[from] / 2, y[from] + h[from], x[to] + w[to] / 2, y[to]));
      }
    }
  }

  #routes(layout: Layout): Map<string, DrawnEdge> {
    let routes = this.#routed.get(layout);
    if (!routes) {
      routes = new Map(layout.edges.flatMap((edge) => (edge.points ? [[`${edge.from} ${edge.to}`, edge] as const] : [])));
      this.#routed.set(layout, routes);
    }
    return routes;
  }

  /** Edges that end at the box or cross its border. */
  #own(box: number): number[] {
    const { hierarchy } = this.context.records;
    const around = hierarchy.descendants([box]);
    const inside = new Set(around);
    const found = around.flatMap((inner) => this.#touching.get(inner) ?? []);
    if (around.length === 1) return found;
    const { edges } = this.context.view.graph;
    return found.filter((e) => !(inside.has(hierarchy.find(edges[e].source)) && inside.has(hierarchy.find(edges[e].target))));
  }
}
