// The position of every visible box, for a set of open boxes. Levels are placed from the innermost outwards, since an open
// box is as large as its contents; the rows of a level are computed once and kept.

import type { Hierarchy } from "../model/hierarchy";
import { GAP_COLUMN, arrange, place, type Arrangement, type Columns, type Placement, type Size } from "./layered";
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
  /** Points from the source's bottom to the target's top; null for an edge that is too long to route. */
  points: Float64Array | null;
  /** Whether it leads to another column, and so runs through the space between columns in straight lines. */
  around?: boolean;
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
const FOOT = 7;

export class Layouter {
  readonly #arrangements = new Map<number, Arrangement>();
  readonly #columns = new Map<number, Columns>();
  #shape: number | undefined;

  constructor(
    private readonly hierarchy: Hierarchy,
    private readonly levels: Map<number, Level>,
    private readonly sizeOf: (box: number) => Size,
    /** Whether what a box reads from outside keeps it near the top. */
    private readonly anchored?: (box: number) => number,
  ) {}

  /** Cuts long levels to fit a window of this ratio of width to height; forgets how they were cut before. */
  shapeTo(shape: number): void {
    this.#shape = shape;
    this.#columns.clear();
  }

  layout(open: ReadonlySet<number>): Layout {
    const count = this.hierarchy.boxes.length;
    const boxes = this.#visibleBoxes(open);
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

  #visibleBoxes(open: ReadonlySet<number>): number[] {
    const shown: number[] = [];
    const waiting = [...this.hierarchy.roots].reverse();
    while (waiting.length) {
      const box = waiting.pop()!;
      shown.push(box);
      if (!open.has(box)) continue;
      const inside = this.hierarchy.children[box];
      for (let k = inside.length - 1; k >= 0; k--) waiting.push(inside[k]);
    }
    return shown;
  }

  #arrangement(around: number, level: Level): Arrangement {
    let known = this.#arrangements.get(around);
    if (!known) {
      const anchored = level.members.map((member) => this.anchored?.(member) ?? 0);
      known = arrange(level.members.length, level.edges.map((edge) => [edge.from, edge.to] as const), anchored);
      this.#arrangements.set(around, known);
    }
    return known;
  }

  /** Places the children of a box relative to it; returns the size that the box needs. */
  #placeLevel(around: number, made: Layout, placed: Map<number, Placement>): Size {
    const level = this.levels.get(around)!;
    const sizes = level.members.map((member) => ({ width: made.w[member], height: made.h[member] }));
    let columns = this.#columns.get(around);
    if (!columns) this.#columns.set(around, (columns = around < 0 && this.#shape ? { shape: this.#shape } : {}));
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
      const upwards = arrangement.rowOf[edge.from] > arrangement.rowOf[edge.to];
      const leaves: [number, number] = [made.x[from] + ports.leaving[e] * made.w[from], made.y[from] + (upwards ? 0 : made.h[from])];
      const enters: [number, number] = [made.x[to] + ports.entering[e] * made.w[to], made.y[to] + (upwards ? made.h[to] : 0)];
      const points = route(arrangement, placement, e, leaves, enters, dx, dy);
      const columns = [edge.from, edge.to].map((vertex) => placement.columnOf[arrangement.rowOf[vertex]]);
      if (points && columns[0] !== columns[1]) {
        const further = { foot: dy + placement.height + FOOT, side: dx + placement.columnLeft[columns[1]] - GAP_COLUMN / 2, head: dy - FOOT };
        made.edges.push({ from, to, values: edge.values, points: detour(leaves, enters, further), leaves, enters, around: true });
        return;
      }
      made.edges.push({ from, to, values: edge.values, points, leaves, enters });
    });
  }
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
    // Ports keep 14 pixels apart where there is room, around the middle.
    const step = Math.min(0.7 / (sorted.length - 1), 14 / Math.max(1, made.w[box]));
    sorted.forEach(([, e], k) => (fraction[e] = 0.5 + (k - (sorted.length - 1) / 2) * step));
  };
  level.members.forEach((member, k) => {
    spread(away[k], "first", leaving, member);
    spread(towards[k], "last", entering, member);
  });
  return { leaving, entering };
}

/** The path from the bottom of one column to the top of another, around the boxes in both. */
function detour([x0, y0]: readonly [number, number], [x1, y1]: readonly [number, number], by: { foot: number; side: number; head: number }): Float64Array {
  return Float64Array.from([x0, y0, x0, by.foot, by.side, by.foot, by.side, by.head, x1, by.head, x1, y1]);
}

function route(
  arrangement: Arrangement, placement: Placement, e: number, leaves: [number, number], enters: [number, number], dx: number, dy: number,
): Float64Array | null {
  const vertices = arrangement.routes[e];
  if (!vertices) return null;
  const upwards = leaves[1] > enters[1];
  const points: number[] = [...leaves];
  const rowOfBend = (k: number) => arrangement.rowOf[vertices[0]] + (upwards ? -k : k);
  for (let k = 1; k < vertices.length - 1; k++) {
    const row = rowOfBend(k);
    const x = dx + placement.x[vertices[k]];
    const top = dy + placement.rowTop[row];
    const bottom = top + placement.rowHeight[row];
    // Two points: a bend passes its row straight, however tall the boxes beside it are.
    points.push(x, upwards ? bottom : top, x, upwards ? top : bottom);
  }
  points.push(...enters);
  return Float64Array.from(points);
}
