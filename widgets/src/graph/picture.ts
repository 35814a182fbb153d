// The drawing of one layout in one window: only what the window shows is in the document; a window that shows too much is
// painted on a canvas instead.

import { Bands } from "../lib/layout/bands";
import type { Context } from "../lib/model/context";
import { freshId, h, keep, s } from "../lib/dom/dom";
import type { Layout } from "../lib/layout/layout";
import { crossingsOf, type Crossings } from "../lib/layout/levels";
import { LEGIBLE, windowOf, type Extent, type Viewport } from "../lib/layout/viewport";
import type { ComparedKind, Edge } from "../lib/model/schema";
import { COMPARED, classShares, colourOf, type Meaning } from "./colours";
import type { Marks } from "./marks";
import { paint } from "./paint";
import { boxElement, edgePath, place } from "./shapes";
import { BoxStates, dress, type Marked } from "./states";

const MOST_ELEMENTS = 1200;
const MARGIN = 60;

export class Picture {
  readonly svg: SVGSVGElement;
  readonly canvas = h("canvas", { class: "irs-canvas", "aria-hidden": "true" });
  readonly #world = s("g", { role: "presentation" });
  readonly #frames = s("g", { role: "presentation" });
  readonly #lines = s("g", { role: "presentation", class: "irs-edges" });
  readonly #faces = s("g", { role: "presentation" });
  readonly #own = s("g", { role: "presentation", class: "irs-own" });
  readonly #states: BoxStates;
  readonly #mountedBoxes = new Map<number, SVGGElement>();
  readonly #mountedEdges = new Map<number, SVGElement>();
  readonly #shapes = new WeakMap<Element, string>();
  /** How many frames were created so far. */
  #made = 0;
  readonly #idBase = freshId("box");
  #layout!: Layout;
  #open: ReadonlySet<number> = new Set();
  #marks: Marks = { selected: new Set(), lit: new Set(), holding: new Set(), paths: [] };
  #boxBands!: Bands;
  #edgeBands!: Bands;
  meaning: Meaning = "kind";
  /** The pairs of ops that only one of two groupings has in one kernel, by the boxes in sight. */
  #pairs: Map<string, ComparedKind> | null = null;
  /** Whether boxes are too small for text. */
  #far = false;
  #crossings: Crossings;

  constructor(private readonly context: Context) {
    this.#states = new BoxStates(context);
    this.#crossings = crossingsOf(context.records.hierarchy, context.view.graph.edges);
    this.#world.append(this.#frames, this.#lines, this.#own, this.#faces); // edges pass behind the text of boxes
    this.svg = s("svg", { class: "irs-svg", role: "tree", tabindex: "0", "aria-label": "graph", "aria-multiselectable": "true" }, this.#world);
  }

  /** Called with all edges when requested boxes have arrived, or others are drawn. */
  grown(edges: readonly Edge[]): void {
    this.#crossings = crossingsOf(this.context.records.hierarchy, edges);
  }

  setLayout(layout: Layout, open: ReadonlySet<number>): void {
    this.#layout = layout;
    this.#open = open;
    const { x, y, w, h: high } = layout;
    this.#boxBands = new Bands(Float64Array.from(layout.boxes.flatMap((b) => [x[b], y[b], x[b] + w[b], y[b] + high[b]])));
    this.#edgeBands = new Bands(Float64Array.from(layout.edges.flatMap(({ points, leaves, enters }) => {
      const [x0, y0, x1, y1] = extent(points ?? [...leaves, ...enters]);
      return [x0 - 4, y0, x1 + 4, y1];
    })));
    // A box that looks the same is moved, not recreated: the second click of a double click must hit the same element.
    for (const [index, element] of this.#mountedBoxes) {
      if (layout.visible[index] && this.#shapes.get(element) === this.#shape(index)) place(element, layout, index);
      else this.#drop(this.#mountedBoxes, index);
    }
    for (const edge of [...this.#mountedEdges.keys()]) this.#drop(this.#mountedEdges, edge);
    this.#pairs = null;
  }

  /** Sets the marks of a selection; the next drawing shows them on the mounted boxes. */
  setMarks(marks: Marks): void {
    this.#marks = marks;
    this.#own.replaceChildren(...marks.paths.map((d) => s("path", { d })));
    const first = [...this.#marks.selected][0];
    if (first === undefined) this.svg.removeAttribute("aria-activedescendant");
    else this.svg.setAttribute("aria-activedescendant", this.#idOf(first));
  }

  /** Makes the next drawing recreate everything. */
  clear(): void {
    for (const index of [...this.#mountedBoxes.keys()]) this.#drop(this.#mountedBoxes, index);
    for (const edge of [...this.#mountedEdges.keys()]) this.#drop(this.#mountedEdges, edge);
    this.#pairs = null;
  }

  #drop(mounted: Map<number, Element>, index: number): void {
    mounted.get(index)?.remove();
    mounted.delete(index);
  }

  draw(view: Viewport, frame: Extent): void {
    if (!frame.width || !frame.height) return;
    const seen = windowOf(view, frame);
    const near = { x: seen.x - MARGIN, y: seen.y - MARGIN, width: seen.width + 2 * MARGIN, height: seen.height + 2 * MARGIN };
    keep(this.#world, "transform", `translate(${-view.x * view.scale} ${-view.y * view.scale}) scale(${view.scale})`);
    const far = view.scale < LEGIBLE * 0.7;
    if (far !== this.#far) {
      this.#far = far;
      this.clear();
    }
    const boxes = this.#boxBands.within(near).map((k) => this.#layout.boxes[k]);
    const edges = this.#edgeBands.within(near);
    const crowded = boxes.length > MOST_ELEMENTS;
    if (this.canvas.hidden === crowded) this.canvas.hidden = !crowded;
    this.#states.begin(this.#open);
    if (crowded) {
      paint(this.canvas, frame.width, frame.height, view, {
        boxes: this.context.records.hierarchy.boxes, layout: this.#layout, open: this.#open, meaning: this.meaning, heat: this.context.heat, shown: boxes,
        selected: new Set([...this.#marks.selected, ...this.#marks.holding, ...this.#states.now]), tint: (box) => this.#states.tint(box),
      });
    }
    for (const [index, element] of this.#mountedBoxes) dress(element, this.#states.look(index, this.#open), this.#marksOf(index), this.#layout.w[index]);
    for (const [index, element] of this.#mountedEdges) this.#dressEdge(index, element);
    const before = this.#made;
    this.#mount(this.#mountedBoxes, crowded ? [] : boxes, (box) => this.#makeBox(box));
    if (this.#made !== before) for (const box of boxes) if (this.#isFrame(box)) this.#frames.append(this.#mountedBoxes.get(box)!); // outer before inner
    this.#mount(this.#mountedEdges, crowded || edges.length > 2 * MOST_ELEMENTS ? [] : edges, (edge) => this.#makeEdge(edge));
  }

  /** The number of leaf boxes in a part of the picture. */
  countIn(x: number, y: number, width: number, height: number): number {
    return this.#boxBands.within({ x, y, width, height }).filter((k) => !this.#isFrame(this.#layout.boxes[k])).length;
  }

  /** The innermost box under a point of the picture, -1 for none. */
  boxAt(x: number, y: number): number {
    const under = this.#boxBands.within({ x, y, width: 0, height: 0 });
    return under.length ? this.#layout.boxes[under[under.length - 1]] : -1;
  }

  #mount<E extends Element>(mounted: Map<number, E>, wanted: number[], make: (index: number) => E): void {
    const keep = new Set(wanted);
    for (const index of [...mounted.keys()]) if (!keep.has(index)) this.#drop(mounted, index);
    for (const index of wanted) if (!mounted.has(index)) mounted.set(index, make(index));
  }

  #idOf(box: number): string {
    return `${this.#idBase}-${box}`;
  }

  #isFrame(index: number): boolean {
    return this.#open.has(index) && this.context.records.hierarchy.isCluster(index);
  }

  #marksOf(index: number): Marked {
    const { selected, lit, holding } = this.#marks;
    return { selected: selected.has(index), lit: lit.has(index), holding: holding.has(index) };
  }

  /** Everything that the element of a box depends on, except its place, its marks, and what recreates all elements. */
  #shape(index: number): string {
    const { records } = this.context;
    const { reads, feeds } = this.#crossings;
    return [this.#layout.w[index], this.#layout.h[index], this.#isFrame(index), records.copies(records.hierarchy.boxes[index]), reads[index], feeds[index]].join(" ");
  }

  #makeBox(index: number): SVGGElement {
    const { records } = this.context;
    const box = records.hierarchy.boxes[index];
    const open = this.#isFrame(index);
    const element = boxElement(box, this.#layout, index, {
      open, cluster: records.hierarchy.isCluster(index), copies: records.copies(box),
      colour: colourOf(box, this.meaning, this.context.heat), depth: records.hierarchy.depth[index], id: this.#idOf(index), words: !this.#far,
      reads: this.#crossings.reads[index] === 1, feeds: this.#crossings.feeds[index] === 1, moves: this.context.copies.has(box.id), unrun: this.context.view.decided?.unrun[box.id] ?? "",
      share: this.#share(box.id), classes: this.meaning === "equal" && !open && box.equivalence_class < 0 ? classShares(records.hierarchy, index) : [],
    });
    this.#shapes.set(element, this.#shape(index));
    dress(element, this.#states.look(index, this.#open), this.#marksOf(index), this.#layout.w[index]);
    (open ? this.#frames : this.#faces).append(element);
    if (open) this.#made++;
    return element;
  }

  /** The share of the time from one in a hundred on. */
  #share(record: number): string {
    const time = this.meaning === "time" ? this.context.heat.values(record)?.[0] : undefined;
    return time !== undefined && time >= 0.01 ? `${(100 * time).toFixed(0)} %` : "";
  }

  #makeEdge(index: number): SVGElement {
    const edge = this.#layout.edges[index];
    const { boxes } = this.context.records.hierarchy;
    const path = s("path", { d: edgePath(edge), class: `${edge.points ? "" : "irs-stub"}${edge.values.some((value) => value) ? "" : " irs-effect"}`, "data-from": boxes[edge.from].id, "data-to": boxes[edge.to].id });
    if (edge.values.length > 1) path.style.strokeWidth = String(Math.min(3, 1.1 + 0.4 * Math.log2(edge.values.length)));
    const compared = this.meaning === "compared" ? this.#pairKind(edge.from, edge.to) : null;
    if (compared) {
      path.classList.add("irs-compared");
      path.style.setProperty("--p", COMPARED[compared]);
    }
    this.#dressEdge(index, path);
    this.#lines.append(path);
    return path;
  }

  /** What an edge between two boxes in sight stands for, if groupings differ in it. */
  #pairKind(from: number, to: number): ComparedKind | null {
    if (!this.#pairs) {
      this.#pairs = new Map();
      const { hierarchy } = this.context.records;
      for (const { producer, consumer, kind } of this.context.heat.compared?.pairs ?? []) {
        const ends = [producer, consumer].map((id) => hierarchy.find(id));
        if (Math.min(...ends) < 0 || (kind !== "here" && kind !== "there")) continue;
        const key = hierarchy.apart(...(ends.map((box) => hierarchy.shown(box, this.#open)) as [number, number])).join(" ");
        this.#pairs.set(key, (this.#pairs.get(key) ?? kind) === kind ? kind : "both");
      }
    }
    return this.#pairs.get(`${from} ${to}`) ?? null;
  }

  /** Gives an edge inside one part the part's colour: its value needs no memory. */
  #dressEdge(index: number, path: SVGElement): void {
    const edge = this.#layout.edges[index];
    const colour = this.#states.edge(edge.from, edge.to);
    if (path.style.getPropertyValue("--g") === colour) return;
    path.style.setProperty("--g", colour || null);
    path.classList.toggle("t-inside", colour !== "");
  }
}

/** The smallest rectangle around some points: left, top, right, bottom. */
function extent(points: ArrayLike<number>): [number, number, number, number] {
  let [left, top, right, bottom] = [points[0], points[1], points[0], points[1]];
  for (let k = 2; k < points.length; k += 2) {
    left = Math.min(left, points[k]);
    right = Math.max(right, points[k]);
    top = Math.min(top, points[k + 1]);
    bottom = Math.max(bottom, points[k + 1]);
  }
  return [left, top, right, bottom];
}
