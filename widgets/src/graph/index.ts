// The graph pane: the open boxes, the window on the picture, and the actions of toolbar, legend and small map.

import type { Arranged, Context } from "../lib/model/context";
import { h, oncePerFrame } from "../lib/dom/dom";
import { FEW, MAX_IN_ROW } from "../lib/layout/layered";
import { Layouter, type Layout, type Rectangle } from "../lib/layout/layout";
import { crossingsOf, drawnEdges, levelOf, levelsOf, type Level } from "../lib/layout/levels";
import { LEGIBLE, READABLE, clamp, firstLook, fit, fitsAcross, nudge, reveal, showsAll, windowOf, zoomAt, type Extent, type Viewport } from "../lib/layout/viewport";
import { MEASURE_NAMES, MEASURES } from "../lib/model/heat";
import type { Edge } from "../lib/model/schema";
import { measureOf, type Meaning } from "./colours";
import { listen } from "./interact";
import { legend } from "./legend";
import { SmallMap } from "./map";
import { EdgeIndex, type Marks } from "./marks";
import { Picture } from "./picture";
import { sizeOf } from "./shapes";
import { boxOf } from "./states";

/** A step about more boxes than this is all over the graph: the window does not move to it. */
const MOST_FOLLOWED = 24;

/** Limit on the boxes shown after "open all" for a program that is only partly in the page. */
const MOST_OPENED = 3000;

/** More effects than this are drawn only on demand. */
const FEW_EFFECTS = 40;

/** Boxes whose contents are requested at once. */
const AT_ONCE = 100;

/** A first look of fewer boxes says too little: rather a part of a picture of more. */
const FEWEST = 5;
/** Fewer than these say nothing, even if no more are in sight at once. */
const LEAST = 3;
/** In how many columns few boxes stand, and the most boxes of a row. */
type Way = readonly [columns: number, inRow: number];
const WAYS: readonly Way[] = [[1, MAX_IN_ROW], [2, MAX_IN_ROW], [3, MAX_IN_ROW], [1, 6], [1, 4], [1, 3], [1, 2], [2, 3], [2, 2]];
/** A lower window, in pixels, is scrolled rather than filled with closed boxes. */
const LOW = 300;
/** How much taller than usual, in pixels, an explorer may be where a first look needs it, and what of the screen is left for what is around. */
const MOST_TALLER = 240;
const AROUND = 150;
/** A window of this many times the pixels has room for more; where a first look was cut, of fewer. */
const MUCH = 1.25;
const SOME = 1.08;
/** How long a window rests before the small map looks for a free corner. */
const RESTS_MS = 150;

export class GraphPane {
  readonly element: HTMLElement;
  readonly picture: Picture;
  readonly open: Set<number>;
  #openFirst: ReadonlySet<number>;
  readonly #openGiven: ReadonlySet<number>;
  /** The last first look and its room in pixels: until the user moves it, a larger window shows more. */
  #looked: { viewport: Viewport; room: number } | undefined;
  layout: Layout;
  viewport: Viewport = { x: 0, y: 0, scale: 1 };
  #frame: Extent = { width: 0, height: 0 };
  #layouter: Layouter;
  #levels: Map<number, Level>;
  /** How few boxes stand. */
  #way = WAYS[0];
  /** Whether edges lead from writes to the readers of that memory. */
  #effects: boolean;
  readonly #edges: EdgeIndex;
  #marks: Marks;
  readonly #map: SmallMap;
  readonly #stage: HTMLElement;
  readonly #meanings = h("select", { "aria-label": "what colour means", title: "what colour means" });
  readonly #said = h("span", { class: "irs-quiet", role: "status" });
  readonly #before: Arranged | undefined;
  readonly #legendHolder = h("div", { class: "irs-legend-holder" });
  readonly #redraw = oncePerFrame(() => this.#draw());
  #resting: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly context: Context) {
    const { records, view } = context;
    const { hierarchy } = records;
    const closed = new Set(view.graph.closed);
    this.open = new Set(hierarchy.boxes.flatMap((box, i) => (hierarchy.isCluster(i) && !closed.has(box.id) ? [i] : [])));
    this.#openFirst = this.#openGiven = new Set(this.open);
    this.#before = context.kept.graph;
    const lacking = this.#openAsBefore();
    this.#effects = context.kept.effects ?? view.graph.edges.filter((edge) => !edge.value).length <= FEW_EFFECTS;
    [this.#levels, this.#layouter] = this.#levelled();
    this.layout = this.#layouter.layout(this.open);
    this.#edges = new EdgeIndex(context);
    this.#marks = this.#edges.marks(this.layout, this.open);
    this.picture = new Picture(context);
    this.picture.grown(this.#drawnEdges());
    this.#map = new SmallMap((x, y) => this.#centre(x, y));
    this.#stage = h("div", { class: "irs-stage" }, this.picture.canvas, this.picture.svg, this.#map.element);
    this.element = h("section", { class: "irs-pane irs-graph", "aria-label": "graph" }, this.#toolbar(), this.#stage, this.#legendHolder);
    this.picture.setLayout(this.layout, this.open);
    this.picture.setMarks(this.#marks);
    const colour = this.#before?.colour;
    this.#setMeaning([...this.#meanings.options].some(({ value }) => value === colour) ? (colour as Meaning) : context.view.profile ? "time" : context.heat.paint ? "paint" : "kind");
    context.heat.onCompared(() => {
      this.#offerComparison();
      this.#setMeaning("compared");
    });
    if (lacking.length) void this.#openMore(lacking);
    context.signal.addEventListener("abort", () => this.#frame.width && (context.kept.graph = this.#arranged()));
    context.copies.subscribe(oncePerFrame(() => {
      this.#paintCopies();
      this.recolour();
    }));
    context.heat.subscribe(oncePerFrame(() => this.#setMeaning(measureOf(this.picture.meaning) ? context.heat.measure : this.picture.meaning)));
    listen(this, context.signal);
    context.selection.subscribe((moved) => (moved ? this.#follow() : this.#mark()));
    context.steps?.subscribe(oncePerFrame(() => this.#followStep()));
    this.#watchSize();
  }

  /** Requests the missing contents of boxes, given by their ids, outermost first. */
  async #load(ids: readonly number[]): Promise<void> {
    const { records } = this.context;
    const loaded = await records.fetchLevels(ids);
    for (const level of loaded) {
      const around = records.hierarchy.find(level.around);
      this.#levels.set(around, levelOf(records.hierarchy, around, drawnEdges(level.edges, this.#effects)));
    }
    if (!loaded.length) return;
    this.#edges.grown();
    this.#paintCopies();
    this.picture.grown(this.#drawnEdges());
  }

  /** Gives view ops that copy the colour of those that work on memory: of a large program, the page learns them late. */
  #paintCopies(): void {
    const { copies, records: { hierarchy } } = this.context;
    for (const box of hierarchy.boxes) if (copies.has(box.id)) box.category = "memory";
  }

  #drawnEdges(): readonly Edge[] {
    return drawnEdges(this.context.view.graph.edges, this.#effects);
  }

  #levelled(): [Map<number, Level>, Layouter] {
    const { hierarchy } = this.context.records;
    const edges = this.#drawnEdges();
    const levels = levelsOf(hierarchy, edges);
    const size = (i: number) => {
      const box = hierarchy.boxes[i];
      return sizeOf(box, hierarchy.isCluster(i), this.context.records.copies(box));
    };
    const { anchored } = crossingsOf(hierarchy, edges);
    const layouter = new Layouter(hierarchy, levels, size, (box) => anchored[box] ?? (hierarchy.boxes[box].crosses ?? 0) & 1);
    if (this.#frame.width) layouter.shapeTo(this.#shape(), ...this.#way);
    return [levels, layouter];
  }

  #showEffects(on: boolean): void {
    this.#effects = this.context.kept.effects = on;
    [this.#levels, this.#layouter] = this.#levelled();
    this.picture.grown(this.#drawnEdges());
    this.picture.clear();
    this.#relayout(-1);
  }

  /** Opens or closes a box and keeps its corner where it is in the window. */
  toggle(box: number): void {
    const { hierarchy } = this.context.records;
    if (!hierarchy.isCluster(box)) return;
    if (hierarchy.lacks(box)) {
      void this.#load([hierarchy.boxes[box].id]).then(() => hierarchy.lacks(box) || this.toggle(box));
      return;
    }
    if (!this.open.delete(box)) this.open.add(box);
    this.#relayout(box);
    this.look(nudge(this.viewport, this.#frame, this.#rectangle(this.open.has(box) ? hierarchy.children[box][0] : box)));
    this.#settleMap();
  }

  closeAll(): void {
    this.#said.textContent = "";
    this.#openOnly([]);
  }

  /** Opens all boxes; for a program that is only partly in the page, outer ones first, up to a limit. */
  async openAll(): Promise<void> {
    const { records: { hierarchy }, signal } = this.context;
    const lacking = () => hierarchy.boxes.flatMap((box, i) => (hierarchy.lacks(i) ? [box.id] : []));
    let left = lacking();
    while (left.length && hierarchy.boxes.length < MOST_OPENED) {
      await this.#load(left.slice(0, AT_ONCE));
      const before = left[0];
      left = lacking();
      if (signal.aborted || left[0] === before) break; // no one answers
    }
    if (signal.aborted) return;
    this.#openOnly(hierarchy.boxes.flatMap((box, i) => (hierarchy.children[i].length ? [box.id] : [])));
    this.#said.textContent = left.length ? `${hierarchy.boxes.length.toLocaleString("en")} boxes: ${left.length.toLocaleString("en")} of them stay closed: too many to show at once` : "";
  }

  /** The current arrangement of the graph, for the program that may replace this one. */
  #arranged(): Arranged {
    const { hierarchy } = this.context.records;
    const names = hierarchy.names();
    const { boxes, x, y } = this.layout;
    const inSight = windowOf(this.viewport, this.#frame);
    const box = boxes.find((each) => !this.open.has(each) && x[each] >= inSight.x && y[each] >= inSight.y) ?? -1;
    return {
      open: new Map(names.flatMap((name, i) => (hierarchy.isCluster(i) ? [[name, this.open.has(i)]] : []))),
      viewport: this.viewport, anchor: box < 0 ? null : { name: names[box], x: x[box], y: y[box] }, colour: this.picture.meaning,
    };
  }

  /** Opens and closes boxes as they were in the previous program; returns the ids of those whose contents have to be requested. */
  #openAsBefore(): number[] {
    const { hierarchy } = this.context.records;
    const before = this.#before;
    if (!before) return [];
    const lacking: number[] = [];
    hierarchy.names().forEach((name, i) => {
      const open = before.open.get(name);
      if (open && hierarchy.lacks(i)) lacking.push(hierarchy.boxes[i].id);
      else if (open) this.open.add(i);
      else if (open === false) this.open.delete(i);
    });
    return lacking;
  }

  async #openMore(lacking: number[]): Promise<void> {
    let first = 0;
    while (lacking.length && lacking[0] !== first) {
      first = lacking[0];
      await this.#load(lacking.slice(0, AT_ONCE));
      lacking = this.#openAsBefore();
    }
    this.#relayout(-1);
    if (this.#frame.width) this.look(this.#lookAsBefore());
  }

  /** The previous window, found by the box that was in its corner; the first look if that box no longer exists. */
  #lookAsBefore(): Viewport {
    const { viewport, anchor } = this.#before!;
    const box = anchor ? this.context.records.hierarchy.names().indexOf(anchor.name) : -1;
    if (!anchor || !this.layout.boxes.includes(box)) return this.#start();
    return { scale: viewport.scale, x: viewport.x + this.layout.x[box] - anchor.x, y: viewport.y + this.layout.y[box] - anchor.y };
  }

  /** The open boxes by id, and the meaning of colours, as a story stores them. `open` is null if the user opened or closed nothing. */
  kept(): { open: number[] | null; colour: string } {
    const { boxes } = this.context.records.hierarchy;
    return { open: this.#isRearranged() ? [...this.open].map((box) => boxes[box].id) : null, colour: this.picture.meaning };
  }

  #isRearranged(): boolean {
    return this.open.size !== this.#openFirst.size || [...this.open].some((box) => !this.#openFirst.has(box));
  }

  /** Restores a stored arrangement; null opens the boxes that were open at first. */
  restore(open: readonly number[] | null, colour: string): void {
    const { hierarchy } = this.context.records;
    const lacking = (open ?? []).filter((id) => hierarchy.find(id) < 0 || hierarchy.lacks(hierarchy.find(id)));
    if (lacking.length) void this.#load(lacking).then(() => this.#openOnly(open));
    else this.#openOnly(open);
    if ([...this.#meanings.options].some((option) => option.value === colour)) this.#setMeaning(colour as Meaning);
  }

  #openOnly(open: readonly number[] | null): void {
    const { hierarchy } = this.context.records;
    const wanted = open ? open.map((id) => hierarchy.find(id)).filter((box) => box >= 0 && hierarchy.isCluster(box) && !hierarchy.lacks(box)) : [...this.#openFirst];
    if (wanted.length === this.open.size && wanted.every((box) => this.open.has(box))) return;
    this.open.clear();
    for (const box of wanted) this.open.add(box);
    this.#cutToFit();
    this.#relayout(-1);
    this.look(this.#start());
    this.#settleMap();
  }

  /** Cuts few boxes into the columns and rows in which they are largest, rather fewer columns if all can be read. */
  #cutToFit(): void {
    const scales: number[] = [];
    for (const way of WAYS) {
      this.#layouter.shapeTo(this.#shape(), ...way);
      const made = this.#layouter.layout(this.open);
      if (made.boxes.length >= FEW) return;
      scales.push(Math.min(READABLE, fit(made, this.#frame).scale));
    }
    this.#way = WAYS[scales.indexOf(Math.max(...scales))];
    this.#layouter.shapeTo(this.#shape(), ...this.#way);
  }

  /** Opens the closed boxes around a record and brings it into the window. */
  show(record: number): void {
    const { hierarchy } = this.context.records;
    const path = hierarchy.path(record).slice(0, -1);
    if (!hierarchy.holds(record) && path.some((id) => hierarchy.lacks(hierarchy.find(id)))) {
      void this.#load(path).then(() => hierarchy.holds(record) && this.show(record));
      return;
    }
    const box = hierarchy.find(record);
    if (box < 0) return;
    for (let around = hierarchy.parent[box]; around >= 0; around = hierarchy.parent[around]) this.open.add(around);
    this.#relayout(-1);
    const legible = { ...this.viewport, scale: Math.max(this.viewport.scale, READABLE) };
    const seen = this.viewport.scale >= LEGIBLE ? this.viewport : { ...legible, x: Infinity };
    const place = this.#rectangle(box);
    this.look(nudge(reveal(seen, this.#frame, place), this.#frame, place));
  }

  /** Opens the closed boxes around the first records, and brings one of them into the window. */
  reveal(records: readonly number[]): void {
    const { hierarchy } = this.context.records;
    const wanted = records.slice(0, MOST_FOLLOWED);
    const paths = wanted.filter((record) => !hierarchy.holds(record)).flatMap((record) => hierarchy.path(record).slice(0, -1));
    const lacking = [...new Set(paths)].filter((id) => hierarchy.find(id) < 0 || hierarchy.lacks(hierarchy.find(id)));
    if (lacking.length) void this.#load(lacking).then(() => this.#revealLoaded(wanted));
    else this.#revealLoaded(wanted);
  }

  #revealLoaded(records: readonly number[]): void {
    const { hierarchy } = this.context.records;
    const closed = new Set<number>();
    for (const record of records) {
      const box = hierarchy.find(record);
      for (let around = box < 0 ? -1 : hierarchy.parent[box]; around >= 0; around = hierarchy.parent[around]) if (!this.open.has(around)) closed.add(around);
    }
    if (!closed.size) return;
    for (const box of closed) this.open.add(box);
    this.#relayout(-1);
    if (!this.#frame.width) return;
    this.look(this.#start());
    this.#follow();
    this.#settleMap();
  }

  /** Repaints what uses colours of the theme, as style sheets do not reach a canvas, and those of classes that have arrived. */
  recolour(): void {
    this.#setMeaning(this.picture.meaning);
  }

  look(viewport: Viewport): void {
    this.viewport = viewport;
    this.#redraw();
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => {
      this.#settleMap();
      this.#redraw();
    }, RESTS_MS);
  }

  zoom(factor: number, px = this.#frame.width / 2, py = this.#frame.height / 2): void {
    this.look(zoomAt(this.viewport, factor, px, py));
  }

  fit(): void {
    this.look(fit(this.layout, this.#frame));
    this.#settleMap();
  }

  /** The first look: if not everything is shown, then the most that can be with the program's first op; its inputs are above the centre of
   * the graph. Of a joint graph, both passes. */
  #start(layout = this.layout): Viewport {
    const { boxes } = this.context.records.hierarchy;
    if (layout.boxes.some((box) => boxes[box].kind === "lane")) return firstLook(layout, this.#frame, layout.width / 2);
    const first = layout.boxes.find((box) => boxes[box].kind !== "input" && !this.open.has(box)) ?? layout.boxes[0];
    const middle = first === undefined ? 0 : layout.x[first] + layout.w[first] / 2;
    const looks = [middle, layout.width, 0].map((x) => firstLook(layout, this.#frame, x));
    const counts = looks.map((look) => (first === undefined || this.#shows(look, layout, first) ? this.#inSight(look, layout) : 0));
    return looks[counts.indexOf(Math.max(...counts))];
  }

  /** Whether the whole box is in the window. */
  #shows(look: Viewport, layout: Layout, box: number): boolean {
    const seen = windowOf(look, this.#frame);
    const { x, y, w, h: high } = layout;
    return x[box] >= seen.x && y[box] >= seen.y && x[box] + w[box] <= seen.x + seen.width && y[box] + high[box] <= seen.y + seen.height;
  }

  /** How many boxes are in the window as a whole. */
  #inSight(look: Viewport, layout: Layout): number {
    return layout.boxes.reduce((count, box) => count + Number(this.#shows(look, layout, box)), 0);
  }

  /** Closes boxes until the first look shows the whole, groups and then modules from the inside out, those around the hottest op only if
   * that is not enough; and opens those again for which there is room, of one name all or none. */
  #closeToFit(): void {
    const { heat, records: { hierarchy } } = this.context;
    const frame = { width: this.#frame.width, height: Math.max(this.#frame.height, LOW) };
    const heats = this.layout.boxes.map((box) => (this.open.has(box) ? 0 : (heat.of(hierarchy.boxes[box].id, "time") ?? 0)));
    const held = new Set<number>();
    for (let box = heat.profile ? this.layout.boxes[heats.indexOf(Math.max(...heats))] : -1; box >= 0; box = hierarchy.parent[box]) held.add(box);
    const kind = (box: number) => hierarchy.boxes[box].kind;
    const turn = (box: number) => (held.has(box) ? -1 / hierarchy.depth[box] : kind(box) === "group" ? Infinity : hierarchy.depth[box]);
    const lanes = [...this.open].filter((box) => kind(box) === "lane").sort((a, b) => b - a);
    const all = [...this.open].filter((box) => kind(box) !== "lane").sort((a, b) => turn(b) - turn(a) || b - a);
    const open = (boxes: readonly number[]) => boxes.forEach((box) => this.open.add(box));
    const shut = (boxes: readonly number[]) => boxes.forEach((box) => this.open.delete(box));
    const known = new Map<string, Layout>();
    const tried = (way: Way): Layout => {
      const key = [...way, ...[...this.open].sort((a, b) => a - b)].join(" ");
      this.#layouter.shapeTo(this.#shape(), ...(this.#way = way));
      if (!known.has(key)) known.set(key, this.#layouter.layout(this.open));
      return known.get(key)!;
    };
    const fits = (way: Way) => fit(tried(way), frame).scale >= READABLE;
    const closeTo = (way: Way, closable: readonly number[], fewest: number): boolean => {
      open([...lanes, ...all]);
      const closed: number[] = [];
      const close = (boxes: readonly number[]): boolean => {
        shut(boxes);
        const says = tried(way).boxes.filter((box) => kind(box) !== "input" && kind(box) !== "output").length >= fewest;
        if (says) closed.push(...boxes);
        else open(boxes);
        return says;
      };
      for (let at = 0; at < closable.length && !fits(way); ) {
        const next = closable.slice(at).filter((box) => turn(box) === turn(closable[at]));
        at += next.length;
        if (!close(next)) for (const box of next) if (!fits(way)) close([box]);
      }
      if (!fits(way)) return false;
      for (let box = closed.pop(); box !== undefined; box = closed.pop()) {
        const same = [box, ...closed.filter((other) => hierarchy.boxes[other].label === hierarchy.boxes[box!].label)];
        for (const each of same.slice(1)) closed.splice(closed.indexOf(each), 1);
        open(same);
        if (!fits(way)) shut(same);
      }
      return true;
    };
    type Limit = readonly [closable: readonly number[], fewest: number];
    const some = (limits: readonly Limit[]) => limits.some(([closable, fewest]) => WAYS.some((way) => closeTo(way, closable, fewest)));
    const says: Limit[] = [[all.filter((box) => !held.has(box)), FEWEST], [all, FEWEST]];
    const low = frame.height;
    const taller = clamp(globalThis.innerHeight - AROUND - low, 0, MOST_TALLER);
    const grown = () => (frame.height = Math.max(low, this.#heighten(taller)));
    // One box, ×12, rather than five of the twelve; one pass rather than parts of both.
    if (some(says) || (grown() && some([...says, [all, LEAST], [all, 1], [[...all, ...lanes.slice(0, 1)], LEAST], [[...all, ...lanes], LEAST]]))) {
      if (frame.height > low) this.#heighten(taller - frame.height + Math.max(low, Math.ceil(tried(this.#way).height * READABLE)));
    } else {
      closeTo(WAYS[0], all, FEWEST);
      const narrow = WAYS.filter((way) => fitsAcross(tried(way), frame)); // what is cut on one side only is better
      const inSight = (way: Way) => this.#inSight(this.#start(tried(way)), tried(way));
      tried((narrow.length ? narrow : WAYS).reduce((best, way) => (inSight(way) > inSight(best) ? way : best)));
    }
    this.#frame = { width: this.#frame.width, height: this.#stage.clientHeight };
    this.#layouter.shapeTo(this.#shape(), ...this.#way); // the way of what is open now, not of what was tried last
    this.#relayout(-1);
    this.#openFirst = new Set(this.open);
  }

  /** Makes the explorer so much taller than usual, if nobody has set its height; returns the height of the window on the graph. */
  #heighten(by: number): number {
    this.element.closest<HTMLElement>(".irs")?.style.setProperty("--irs-taller", `${by}px`);
    return this.#stage.clientHeight;
  }

  /** Closes boxes until the first look shows the whole, and takes it. */
  #lookFirst(): void {
    this.open.clear();
    for (const box of this.#openGiven) this.open.add(box);
    this.#openWhereFew();
    this.#closeToFit();
    this.viewport = this.#start();
    this.#looked = { viewport: this.viewport, room: this.#frame.width * this.#frame.height };
    const { ids, lit } = this.context.selection;
    if (ids.length || lit.size) this.#follow();
  }

  /** Whether the window became much larger, or small again, since a first look that nobody has moved. */
  #hasNewRoom(whole: boolean): boolean {
    if (this.viewport !== this.#looked?.viewport || this.#isRearranged()) return false;
    const grown = (this.#frame.width * this.#frame.height) / this.#looked.room;
    return grown > (whole ? MUCH : SOME) || (grown > 0 && grown < 1 / MUCH && this.#frame.height >= LOW);
  }

  /** Opens boxes from the first on while there are fewer than say something, and all of them are in sight. */
  #openWhereFew(): void {
    const { hierarchy } = this.context.records;
    const kind = (box: number) => hierarchy.boxes[box].kind;
    this.#layouter.shapeTo(this.#shape());
    for (;;) {
      const { boxes } = this.#layouter.layout(this.open);
      const closed = boxes.find((box) => hierarchy.isCluster(box) && !this.open.has(box) && !hierarchy.lacks(box));
      const ops = boxes.filter((box) => kind(box) !== "input" && kind(box) !== "output" && !this.open.has(box)).length;
      if (closed === undefined || ops >= FEWEST) return;
      this.open.add(closed);
      if (fit(this.#layouter.layout(this.open), this.#frame).scale >= READABLE || ops < LEAST) continue;
      this.open.delete(closed);
      return;
    }
  }

  /** The ratio of width to height of the window. */
  #shape(): number {
    return clamp(this.#frame.width / Math.max(1, this.#frame.height), 0.5, 3);
  }

  #rectangle(box: number): Rectangle {
    const { x, y, w, h: high } = this.layout;
    return { x: x[box], y: y[box], width: w[box], height: high[box] };
  }

  #relayout(anchor: number): void {
    const before = anchor < 0 ? null : [this.layout.x[anchor], this.layout.y[anchor]];
    this.layout = this.#layouter.layout(this.open);
    if (before) {
      this.viewport.x += this.layout.x[anchor] - before[0];
      this.viewport.y += this.layout.y[anchor] - before[1];
    }
    this.picture.setLayout(this.layout, this.open);
    this.#mark();
  }

  #mark(): void {
    this.#marks = this.#edges.marks(this.layout, this.open);
    this.picture.setMarks(this.#marks);
    this.#map.stale();
    this.#redraw();
  }

  /** Marks the selection, and moves to it if none of it is in the window. */
  #follow(): void {
    this.#mark();
    const goals = this.#goals();
    if (goals.length && !this.#sees(goals) && this.#frame.width) this.viewport = reveal(this.viewport, this.#frame, goals[0]);
  }

  /** Where the selection is drawn, or else what is lit. */
  #goals(): Rectangle[] {
    const { selected, holding, lit } = this.#marks;
    return [...selected, ...holding, ...(selected.size ? [] : lit)].map((box) => this.#rectangle(box));
  }

  #sees(goals: readonly Rectangle[]): boolean {
    return goals.some((goal) => reveal(this.viewport, this.#frame, goal) === this.viewport);
  }

  /** Shows the state of the step, and moves to its nodes if none of them is in the window. */
  #followStep(): void {
    const { hierarchy } = this.context.records;
    const found = [...(this.context.steps?.now ?? [])].map((node) => boxOf(this.context, node)).filter((box) => box >= 0);
    const goals = found.map((box) => this.#rectangle(hierarchy.shown(box, this.open)));
    if (goals.length && goals.length <= MOST_FOLLOWED && !this.#sees(goals) && this.#frame.width) this.viewport = reveal(this.viewport, this.#frame, goals[0]);
    this.#draw();
  }

  /** Moves the small map to its corner after the picture or the window changed. */
  #settleMap(): void {
    if (this.#frame.width) this.#map.settle(this.viewport, this.#frame, this.layout, (x, y, width, height) => this.picture.countIn(x, y, width, height));
  }

  #centre(x: number, y: number): void {
    const { scale } = this.viewport;
    this.look({ scale, x: x - this.#frame.width / scale / 2, y: y - this.#frame.height / scale / 2 });
  }

  #setMeaning(meaning: Meaning): void {
    const measure = measureOf(meaning);
    if (measure) this.context.heat.show(measure);
    this.#meanings.value = meaning;
    this.element.classList.toggle("irs-heated", measure !== null);
    this.picture.meaning = meaning;
    this.picture.clear();
    this.#legendHolder.replaceChildren(legend(this.context, meaning));
    this.#map.stale();
    this.#redraw();
  }

  #offerComparison(): void {
    const { compared } = this.context.heat;
    const option = this.#meanings.querySelector<HTMLOptionElement>("option[value=compared]") ?? h("option", { value: "compared" });
    option.textContent = `colour: beside ${compared?.there}`;
    if (compared) this.#meanings.append(option);
  }

  #draw(): void {
    this.picture.draw(this.viewport, this.#frame);
    this.#map.draw(this.viewport, this.#frame, {
      boxes: this.context.records.hierarchy.boxes, layout: this.layout, open: this.open, meaning: this.picture.meaning, heat: this.context.heat,
      shown: this.layout.boxes, selected: this.#marks.selected,
    });
  }

  #watchSize(): void {
    const sizes = new ResizeObserver(() => {
      const { width } = this.#frame;
      const followed = this.#sees(this.#goals());
      const whole = width > 0 && showsAll(this.viewport, this.layout, this.#frame);
      this.#frame = { width: this.#stage.clientWidth, height: this.#stage.clientHeight };
      const all = fit(this.layout, this.#frame);
      const untouched = this.viewport === this.#looked?.viewport && !this.#isRearranged();
      if (this.#hasNewRoom(whole) || (untouched && whole && all.scale < READABLE && this.#frame.height >= LOW)) {
        this.#lookFirst();
      } else if (whole && all.scale >= Math.min(READABLE, this.viewport.scale)) { // a graph that was visible as a whole stays so, as large as possible
        if (this.#looked?.viewport === this.viewport) this.#looked.viewport = all;
        this.viewport = all;
      } else if (width && this.#frame.width) { // a pane beside it appeared or disappeared: keep the centre, and the selection visible
        this.viewport.x += (width - this.#frame.width) / this.viewport.scale / 2;
        if (followed) this.#follow();
      } else if (this.#frame.width) {
        if (this.#before) {
          this.#layouter.shapeTo(this.#shape());
          this.#relayout(-1);
          this.viewport = this.#lookAsBefore();
        } else if (this.context.selection.ids.length && this.#isRearranged()) { // a step of a story opened it while it was hidden
          this.#cutToFit();
          this.#relayout(-1);
          this.viewport = this.#start();
          this.#follow();
        } else this.#lookFirst();
      }
      this.#settleMap();
      this.#redraw();
    });
    sizes.observe(this.#stage);
    this.context.signal.addEventListener("abort", () => sizes.disconnect());
  }

  #toolbar(): HTMLElement {
    const button = (label: string, title: string, action: () => void, short: string | null = null) =>
      h("button", { title, "aria-label": /\w/u.test(label) ? null : title, "data-short": short, onclick: action }, label);
    const meanings = this.#meanings;
    const hasGroups = this.context.records.isPart || this.context.view.graph.boxes.some(({ equivalence_class }) => equivalence_class >= 0);
    meanings.addEventListener("change", () => this.#setMeaning(meanings.value as Meaning));
    meanings.append(h("option", { value: "kind" }, "colour: kind"), h("option", { value: "equal", disabled: !hasGroups }, hasGroups ? "colour: class" : "colour: class (there are no fusion groups)"));
    if (this.context.view.graph.boxes.some(({ kind }) => kind === "lane")) meanings.append(h("option", { value: "pass" }, "colour: pass"));
    if (this.context.heat.profile) meanings.append(...MEASURES.map((measure) => h("option", { value: measure }, `colour: ${MEASURE_NAMES[measure]}`)));
    if (this.context.heat.paint) meanings.append(h("option", { value: "paint" }, `colour: ${this.context.heat.paint.name}`));
    this.#offerComparison();
    const effects = h("button", { class: "irs-switch", title: "dashed edges from each write to the readers of that memory", "aria-pressed": String(this.#effects), onclick: () => {
      this.#showEffects(!this.#effects);
      effects.setAttribute("aria-pressed", String(this.#effects));
    } }, "effects");
    effects.hidden = !this.context.view.graph.edges.some((edge) => !edge.value);
    return h("div", { class: "irs-bar", role: "toolbar", "aria-label": "graph" },
      h("span", { class: "irs-title" }, "Graph"),
      button("fit", "show the whole graph (f)", () => this.fit()), button("−", "zoom out", () => this.zoom(1 / 1.4)), button("+", "zoom in", () => this.zoom(1.4)),
      button("open all", "open all boxes", () => void this.openAll(), "⊞"), button("close all", "close all boxes", () => this.closeAll(), "⊟"), effects, this.#said,
      h("span", { class: "irs-spring" }), meanings);
  }
}
