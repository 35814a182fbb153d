// The position of every visible box, for a set of open boxes. Levels are placed from the innermost outwards, since an open
// box is as large as its contents; the rows of a level are computed once and kept.

import type { Hierarchy } from "../model/hierarchy";
import { FEW, GAP_COLUMN, MAX_IN_ROW, arrange, place, type Arrangement, type Columns, type Placement, type Size } from "./layered";
import type { Level } from "./levels";

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface DrawnEdge {
  from: number;
  to: number;
  values: number[];
  /** Corners from the source to the target, straight between two of one x or one y, else a curve; null for an edge too long to route. */
  points: Float64Array | null;
  /** Where it leaves the source and enters the target. */
  leaves: [number, number];
  enters: [number, number];
}

export interface Layout {
  width: number;
  height: number;
  /** Per box; meaningless for boxes that are not visible. */
  x: Float64Array;
  y: Float64Array;
  w: Float64Array;
  h: Float64Array;
  visible: Uint8Array;
  /** The visible boxes, outer before inner, in program order. */
  boxes: number[];
  edges: DrawnEdge[];
}

export const PAD = 12;
export const HEAD = 26;
/** The distances from the rows of edges on their way to another column. */
const LANES = [5, 8, 11];

export class Layouter {
  readonly #arrangements = new Map<number, Arrangement>();
  readonly #columns = new Map<number, Columns>();
  #cut: Columns = {};
  #inRow = MAX_IN_ROW;

  constructor(
    private readonly hierarchy: Hierarchy,
    private readonly levels: Map<number, Level>,
    private readonly sizeOf: (box: number) => Size,
    /** Whether what a box reads from outside keeps it near the top. */
    private readonly anchored?: (box: number) => number,
  ) {}

  /** Cuts long levels to fit a window of this ratio of width to height, or into so many columns while few boxes are shown, and their rows to so
   * many boxes; forgets how they were cut before. */
  shapeTo(shape: number, columns = 1, inRow = MAX_IN_ROW): void {
    this.#cut = { shape, parts: columns };
    this.#columns.clear();
    if (inRow !== this.#inRow) this.#arrangements.clear();
    this.#inRow = inRow;
  }

  layout(open: ReadonlySet<number>): Layout {
    const count = this.hierarchy.boxes.length;
    const boxes = this.hierarchy.descendants(this.hierarchy.roots, (box) => open.has(box));
    const made: Layout = {
      width: 0, height: 0, boxes, edges: [],
      x: new Float64Array(count), y: new Float64Array(count), w: new Float64Array(count), h: new Float64Array(count),
      visible: new Uint8Array(count),
    };
    for (const box of boxes) made.visible[box] = 1;
    const placed = new Map<number, Placement>();
    for (let k = boxes.length - 1; k >= 0; k--) {
      const box = boxes[k];
      const size = open.has(box) && this.levels.has(box) ? this.#placeLevel(box, made, placed) : this.sizeOf(box);
      made.w[box] = Math.max(size.width, this.hierarchy.isCluster(box) && open.has(box) ? this.sizeOf(box).width : 0);
      made.h[box] = size.height;
    }
    const whole = this.#placeLevel(-1, made, placed);
    made.width = whole.width;
    made.height = whole.height;
    this.#settle(-1, made, placed, 0, 0);
    for (const box of boxes) if (placed.has(box)) this.#settle(box, made, placed, made.x[box], made.y[box]);
    return made;
  }

  #isAcross(level: Level, { from, to }: Level["edges"][number]): boolean {
    const isLane = (k: number) => this.hierarchy.boxes[level.members[k]].kind === "lane";
    return isLane(from) && isLane(to);
  }

  #arrangement(around: number, level: Level): Arrangement {
    let known = this.#arrangements.get(around);
    if (!known) {
      const anchored = level.members.map((member) => this.anchored?.(member) ?? 0);
      // The passes of a joint graph stand side by side: what one keeps for the other does not put it below.
      const ends = level.edges.map((edge) => (this.#isAcross(level, edge) ? [edge.from, edge.from] : [edge.from, edge.to]) as readonly [number, number]);
      known = arrange(level.members.length, ends, anchored, this.#inRow);
      this.#arrangements.set(around, known);
    }
    return known;
  }

  /** Places the children of a box relative to it; returns the size that the box needs. */
  #placeLevel(around: number, made: Layout, placed: Map<number, Placement>): Size {
    const level = this.levels.get(around)!;
    const sizes = level.members.map((member) => ({ width: made.w[member], height: made.h[member] }));
    let columns = this.#columns.get(around);
    if (!columns) this.#columns.set(around, (columns = made.boxes.length < FEW ? { parts: around < 0 ? (this.#cut.parts ?? 1) : 1 } : around < 0 ? { shape: this.#cut.shape } : {}));
    const placement = place(this.#arrangement(around, level), sizes, columns);
    placed.set(around, placement);
    const head = around < 0 ? 0 : HEAD;
    return { width: placement.width + 2 * PAD, height: placement.height + 2 * PAD + head };
  }

  /** Turns the places of one level into those of the whole picture, and draws its edges. */
  #settle(around: number, made: Layout, placed: Map<number, Placement>, left: number, top: number): void {
    const level = this.levels.get(around)!;
    const placement = placed.get(around)!;
    const slack = around < 0 ? 0 : (made.w[around] - 2 * PAD - placement.width) / 2;
    const dx = left + PAD + slack;
    const dy = top + PAD + (around < 0 ? 0 : HEAD);
    level.members.forEach((member, k) => {
      made.x[member] = dx + placement.x[k] - made.w[member] / 2;
      made.y[member] = dy + placement.y[k];
    });
    const arrangement = this.#arrangement(around, level);
    const ports = spreadPorts(level, arrangement, placement, made);
    level.edges.forEach((edge, e) => {
      const from = level.members[edge.from];
      const to = level.members[edge.to];
      if (this.#isAcross(level, edge)) {
        const ends = across(made, from, to);
        made.edges.push({ from, to, values: edge.values, points: Float64Array.from(ends), leaves: [ends[0], ends[1]], enters: [ends[2], ends[3]] });
        return;
      }
      const upwards = arrangement.rowOf[edge.from] > arrangement.rowOf[edge.to];
      const leaves: [number, number] = [made.x[from] + ports.leaving[e] * made.w[from], made.y[from] + (upwards ? 0 : made.h[from])];
      const enters: [number, number] = [made.x[to] + ports.entering[e] * made.w[to], made.y[to] + (upwards ? made.h[to] : 0)];
      const points = route(arrangement, placement, e, leaves, enters, dx, dy);
      made.edges.push({ from, to, values: edge.values, points, leaves, enters });
    });
  }
}

/** The way from one of two boxes side by side to the other, at the height of their titles. */
function across({ x, y, w }: Layout, from: number, to: number): [number, number, number, number] {
  const height = Math.max(y[from], y[to]) + HEAD / 2;
  return x[from] < x[to] ? [x[from] + w[from], height, x[to], height] : [x[from], height, x[to] + w[to], height];
}

/** Fractions of the width at which edges leave and enter, so that edges side by side do not cross at the box. */
function spreadPorts(level: Level, arrangement: Arrangement, placement: Placement, made: Layout): { leaving: Float64Array; entering: Float64Array } {
  const count = level.edges.length;
  const leaving = new Float64Array(count).fill(0.5);
  const entering = new Float64Array(count).fill(0.5);
  const away: number[][] = level.members.map(() => []);
  const towards: number[][] = level.members.map(() => []);
  level.edges.forEach((edge, e) => {
    away[edge.from].push(e);
    towards[edge.to].push(e);
  });
  const spread = (edges: number[], near: "first" | "last", fraction: Float64Array, box: number) => {
    if (edges.length < 2) return;
    const goal = (e: number) => {
      const bends = arrangement.routes[e];
      const far = near === "first" ? level.edges[e].to : level.edges[e].from;
      return placement.x[bends ? (near === "first" ? bends[1] : bends[bends.length - 2]) : far];
    };
    const sorted = edges.map((e) => [goal(e), e] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    // Ports keep 14 pixels apart where there is room, around the middle, where the edge that goes straight down is, if one does.
    const step = Math.min(0.7 / (sorted.length - 1), 14 / Math.max(1, made.w[level.members[box]]));
    let middle = (sorted.length - 1) / 2;
    const straight = sorted.flatMap(([x], k) => (Math.abs(x - placement.x[box]) < 7 ? [k] : []));
    if (straight.length === 1 && (Math.abs(straight[0] - middle) + middle) * step < 0.45) middle = straight[0];
    sorted.forEach(([, e], k) => (fraction[e] = 0.5 + (k - middle) * step));
  };
  level.members.forEach((_, k) => {
    spread(away[k], "first", leaving, k);
    spread(towards[k], "last", entering, k);
  });
  return { leaving, entering };
}

/** The corners of an edge: vertical within rows, where its place is free, and a curve only between two rows; to another column below its
 * own, between the columns, and above all rows. */
function route(
  arrangement: Arrangement, placement: Placement, e: number, leaves: [number, number], enters: [number, number], dx: number, dy: number,
): Float64Array | null {
  const vertices = arrangement.routes[e];
  if (!vertices) return null;
  const upwards = arrangement.rowOf[vertices[0]] > arrangement.rowOf[vertices[vertices.length - 1]];
  const chain = upwards ? [...vertices].reverse() : vertices;
  const [start, end] = upwards ? [enters, leaves] : [leaves, enters];
  const { rowTop, rowHeight, columnOf, columnLeft, x } = placement;
  const corners: [number, number][] = [start];
  chain.forEach((vertex, k) => {
    const row = arrangement.rowOf[chain[0]] + k;
    const here = k === 0 ? start[0] : k === chain.length - 1 ? end[0] : dx + x[vertex];
    if (k) {
      if (columnOf[row] !== columnOf[row - 1]) {
        const lane = LANES[Math.floor(here) % LANES.length];
        const foot = dy + rowTop[row - 1] + rowHeight[row - 1] + lane;
        const side = dx + columnLeft[columnOf[row]] - GAP_COLUMN / 2 + 3 * (lane - LANES[1]);
        corners.push([corners[corners.length - 1][0], foot], [side, foot], [side, dy - lane], [here, dy - lane]);
      }
      corners.push([here, dy + rowTop[row]]);
    }
    if (k < chain.length - 1) corners.push([here, dy + rowTop[row] + rowHeight[row]]);
  });
  corners.push(end);
  const apart = corners.filter(([cx, cy], k) => !k || cx !== corners[k - 1][0] || cy !== corners[k - 1][1]);
  return Float64Array.from((upwards ? apart.reverse() : apart).flat());
}
