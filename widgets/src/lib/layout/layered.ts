// The layered layout of one level: the row of each box, its order in the row, and its coordinates. Every step is a fixed number
// of linear passes. `arrange` depends only on the edges, so opening a box moves its neighbours aside but never
// changes rows or order; `place` then computes coordinates for the current sizes.
//
// Rows: edges against program order that close a cycle are reversed, then longest path from the top, then boxes sink
// towards their users where that makes edges shorter: those that read nothing, that have more users than operands, or
// that read only values with MANY users. Order: sweeps of barycentres with program order as
// the tie-break. An edge over up to MAX_SPAN rows bends through one free place in each row between; among many boxes a longer one, and
// from those with MANY users one over more than a row, takes no part in ordering and has no route (it is drawn as two stubs).

import { MANY } from "./levels";

export interface Size {
  width: number;
  height: number;
}

export interface Arrangement {
  /** Vertices by row, left to right: boxes below `count`, bends from `count` on. */
  rows: number[][];
  count: number;
  rowOf: Int32Array;
  up: number[][];
  down: number[][];
  /** Vertices of each edge from source to target; null for one that is too long or joins a box to itself. */
  routes: (number[] | null)[];
}

export interface Placement {
  /** Centre of each vertex. */
  x: Float64Array;
  /** Top of each vertex. */
  y: Float64Array;
  rowTop: Float64Array;
  rowHeight: Float64Array;
  /** The column of each row, and the left edge of each column. */
  columnOf: Int32Array;
  columnLeft: number[];
  width: number;
  height: number;
}

export const MAX_SPAN = 6;
/** Of fewer boxes all edges have a route, but for those of a value with MANY users that pass a row, and they are cut only into as many columns as are
 * asked for. */
export const FEW = 40;
export const MAX_IN_ROW = 12;
const SWEEPS = 4;
const ALIGNMENTS = 6;
/** Two edges on their way through a row are GAP_X and this apart. */
const BEND_WIDTH = -4;
export const GAP_X = 18;
export const GAP_Y = 24;
export const GAP_COLUMN = 40;
/** Drawings of less than this height stay in one column. */
const LEAST_CUT = 560;
/** A last column less tall than this is none: a result alone. */
const LOW = 80;
/** The default ratio of width to height that a long drawing is cut into. */
const SHAPE = 1.25;

type Pair = readonly [number, number];

/** `anchored` vertices read something from outside, so they are not sources even if they have no incoming edge; no row has more boxes than `inRow`. */
export function arrange(count: number, edges: readonly Pair[], anchored?: ArrayLike<number>, inRow = MAX_IN_ROW): Arrangement {
  const turned = turnCycles(count, edges);
  const rowOf = splitWideRows(rank(count, turned, anchored), inRow);
  const rows: number[][] = [];
  for (let vertex = 0; vertex < count; vertex++) (rows[rowOf[vertex]] ??= []).push(vertex);
  for (let row = 0; row < rows.length; row++) rows[row] ??= [];
  const up: number[][] = Array.from({ length: count }, () => []);
  const down: number[][] = Array.from({ length: count }, () => []);
  const users = new Int32Array(count);
  for (const [from] of edges) users[from]++;
  const routes = turned.map(([from, to], e) => {
    const span = rowOf[to] - rowOf[from];
    if (from === to || span > (users[edges[e][0]] >= MANY ? 1 : count >= FEW ? MAX_SPAN : Infinity)) return null;
    const route = [from];
    for (let row = rowOf[from] + 1; row < rowOf[to]; row++) {
      const bend = up.push([]) - 1;
      down.push([]);
      rows[row].push(bend);
      route.push(bend);
    }
    route.push(to);
    for (let k = 1; k < route.length; k++) {
      down[route[k - 1]].push(route[k]);
      up[route[k]].push(route[k - 1]);
    }
    return edges[e][0] === from ? route : route.reverse();
  });
  sweep(rows, up, down);
  return { rows, count, rowOf, up, down, routes };
}

/** The same edges with those that close a cycle reversed; found depth first in program order. */
function turnCycles(count: number, edges: readonly Pair[]): Pair[] {
  const leaving: number[][] = Array.from({ length: count }, () => []);
  edges.forEach(([from], e) => leaving[from].push(e));
  const state = new Uint8Array(count); // 0 not seen, 1 on the path, 2 left
  const next = new Int32Array(count);
  const back = new Set<number>();
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    const path = [root];
    state[root] = 1;
    while (path.length) {
      const at = path[path.length - 1];
      if (next[at] === leaving[at].length) {
        state[at] = 2;
        path.pop();
        continue;
      }
      const e = leaving[at][next[at]++];
      const to = edges[e][1];
      if (state[to] === 1) back.add(e);
      else if (state[to] === 0) {
        state[to] = 1;
        path.push(to);
      }
    }
  }
  return edges.map(([from, to], e): Pair => (back.has(e) ? [to, from] : [from, to]));
}

/** The row of each vertex: below all its producers, and as low as its users allow where that shortens its edges. */
function rank(count: number, edges: readonly Pair[], anchored?: ArrayLike<number>): Int32Array {
  const readers: number[][] = Array.from({ length: count }, () => []);
  const reads = new Int32Array(count);
  const fewest = new Int32Array(count).fill(MANY); // the fewest users that any of its producers has
  for (const [from, to] of edges) {
    if (from === to) continue;
    readers[from].push(to);
    reads[to]++;
  }
  const row = new Int32Array(count);
  const waits = reads.slice();
  const order: number[] = [];
  for (let vertex = 0; vertex < count; vertex++) if (!waits[vertex]) order.push(vertex);
  for (let k = 0; k < order.length; k++) {
    for (const reader of readers[order[k]]) {
      row[reader] = Math.max(row[reader], row[order[k]] + 1);
      if (--waits[reader] === 0) order.push(reader);
    }
  }
  for (const [from, to] of edges) fewest[to] = Math.min(fewest[to], readers[from].length);
  for (let k = order.length - 1; k >= 0; k--) {
    const vertex = order[k];
    if (!readers[vertex].length || anchored?.[vertex]) continue;
    const sinks = reads[vertex] === 0 || reads[vertex] < readers[vertex].length || fewest[vertex] >= MANY;
    if (!sinks) continue;
    let lowest = Infinity;
    for (const reader of readers[vertex]) lowest = Math.min(lowest, row[reader] - 1);
    row[vertex] = lowest;
  }
  return row;
}

/** Splits rows of more than `most` boxes, in program order, and drops empty rows. */
function splitWideRows(row: Int32Array, most: number): Int32Array {
  const held: number[] = [];
  for (const r of row) held[r] = (held[r] ?? 0) + 1;
  const starts: number[] = [];
  let next = 0;
  for (let r = 0; r < held.length; r++) {
    starts[r] = next;
    next += Math.ceil((held[r] ?? 0) / most);
  }
  const taken = new Int32Array(held.length);
  return row.map((r) => starts[r] + Math.floor(taken[r]++ / Math.ceil(held[r] / Math.ceil(held[r] / most))));
}

function sweep(rows: number[][], up: number[][], down: number[][]): void {
  const position = new Float64Array(up.length);
  const key = new Float64Array(up.length);
  const settle = (row: number[]) => row.forEach((vertex, k) => (position[vertex] = k));
  rows.forEach(settle);
  const order = (row: number[], neighbours: number[][]) => {
    if (row.length < 2) return;
    for (const vertex of row) key[vertex] = mean(neighbours[vertex], position) ?? position[vertex];
    row.sort((a, b) => key[a] - key[b] || position[a] - position[b]);
    settle(row);
  };
  for (let turn = 0; turn < SWEEPS; turn++) {
    for (const row of rows) order(row, up);
    for (let r = rows.length - 1; r >= 0; r--) order(rows[r], down);
  }
}

function mean(vertices: readonly number[], of: Float64Array): number | null {
  if (!vertices.length) return null;
  let sum = 0;
  for (const vertex of vertices) sum += of[vertex];
  return sum / vertices.length;
}

/** The rows that begin the columns of a level, computed when it is first placed and kept, so that no box changes columns. */
export interface Columns {
  starts?: number[];
  /** The ratio of width to height that it is cut into. */
  shape?: number | undefined;
  /** The number of columns, in place of that. */
  parts?: number;
}

/** Coordinates for boxes of these sizes; with `columns`, a drawing much taller than wide continues at the top of another column. */
export function place(arrangement: Arrangement, sizes: readonly Size[], columns?: Columns): Placement {
  const { rows, count, up, down } = arrangement;
  const width = (vertex: number) => (vertex < count ? sizes[vertex].width : BEND_WIDTH);
  const x = new Float64Array(up.length);
  for (const row of rows) {
    let left = 0;
    for (const vertex of row) {
      x[vertex] = left + width(vertex) / 2;
      left += width(vertex) + GAP_X;
    }
  }
  for (let turn = 0; turn < ALIGNMENTS; turn++) {
    const downwards = turn % 2 === 0;
    for (let k = 0; k < rows.length; k++) {
      align(downwards ? rows[k] : rows[rows.length - 1 - k], downwards ? up : down, x, width, count);
    }
  }
  const [left, right] = sidesOf(rows, x, width);
  for (let vertex = 0; vertex < x.length; vertex++) x[vertex] -= left;
  const stacked = { x, ...stack(arrangement, sizes), width: Math.max(0, right - left), columnOf: new Int32Array(rows.length), columnLeft: [0] };
  if (columns) intoColumns(stacked, rows, width, (columns.starts ??= columns.parts ? evenStarts(stacked.rowHeight, columns.parts) : columnStarts(stacked.rowHeight, stacked.width, columns.shape)));
  return stacked;
}

/** The first row of each column; a single column if the drawing is not much taller than wide. */
export function columnStarts(heights: ArrayLike<number>, width: number, shape = SHAPE): number[] {
  let whole = -GAP_Y;
  for (let row = 0; row < heights.length; row++) whole += heights[row] + GAP_Y;
  if (whole < LEAST_CUT || whole < 2 * width) return [0];
  return evenStarts(heights, Math.max(1, Math.round(Math.sqrt((shape * whole) / (width + GAP_COLUMN)))), whole);
}

/** The first row of each of so many columns, the highest of which is as low as can be; no column is lower than the `whole` in equal parts. */
function evenStarts(heights: ArrayLike<number>, parts: number, whole = 0): number[] {
  let starts = [0];
  for (let wanted = parts > 1 ? whole / parts - GAP_Y : Infinity; (starts = startsBelow(heights, wanted)).length > parts; ) wanted += GAP_Y;
  const low = Array.from(heights).slice(starts[starts.length - 1]).reduce((sum, height) => sum + height, 0);
  if (starts.length > 1 && low < LOW) starts.pop();
  return starts;
}

function startsBelow(heights: ArrayLike<number>, wanted: number): number[] {
  const starts = [0];
  let height = 0;
  for (let row = 0; row < heights.length; row++) {
    if (height && height + heights[row] > wanted + GAP_Y) {
      starts.push(row);
      height = 0;
    }
    height += heights[row] + GAP_Y;
  }
  return starts;
}

function intoColumns(placement: Placement, rows: readonly number[][], width: (vertex: number) => number, starts: readonly number[]): void {
  const { x, y, rowTop, rowHeight, columnOf, columnLeft } = placement;
  if (starts.length < 2) return;
  let edge = 0;
  let lowest = 0;
  starts.forEach((first, column) => {
    const end = starts[column + 1] ?? rows.length;
    const [left, right] = sidesOf(rows.slice(first, end), x, width);
    const top = rowTop[first];
    columnLeft[column] = edge;
    for (let row = first; row < end; row++) {
      columnOf[row] = column;
      rowTop[row] -= top;
      lowest = Math.max(lowest, rowTop[row] + rowHeight[row]);
      for (const vertex of rows[row]) {
        x[vertex] += edge - left;
        y[vertex] -= top;
      }
    }
    edge += right - left + GAP_COLUMN;
  });
  placement.width = edge - GAP_COLUMN;
  placement.height = lowest;
}

/** The left and the right end of some rows. */
function sidesOf(rows: readonly number[][], x: Float64Array, width: (vertex: number) => number): [number, number] {
  let [left, right] = [Infinity, -Infinity];
  for (const vertex of rows.flat()) {
    left = Math.min(left, x[vertex] - width(vertex) / 2);
    right = Math.max(right, x[vertex] + width(vertex) / 2);
  }
  return [left, right];
}

/** Moves each vertex of a row towards the mean of its neighbours, or of those that are boxes, if one is, and then the bends between boxes, halfway between what pushing from left and from right allows. */
function align(row: number[], neighbours: number[][], x: Float64Array, width: (vertex: number) => number, count: number): void {
  const boxes = (all: number[]) => (all.some((vertex) => vertex < count) ? all.filter((vertex) => vertex < count) : all);
  const wanted = row.map((vertex) => mean(boxes(neighbours[vertex]), x) ?? x[vertex]);
  let least = 0; // from the first to each: they are apart if what is beyond does not fall
  const at = row.map((vertex, k) => (least += k ? (width(row[k - 1]) + width(vertex)) / 2 + GAP_X : 0));
  const beyond = wanted.map((want, k) => want - at[k]);
  const own = [-Infinity, ...rising(beyond.filter((_, k) => row[k] < count)), Infinity];
  let met = 0;
  const between = beyond.map((by, k) => (row[k] < count ? own[++met] : Math.min(Math.max(by, own[met]), own[met + 1])));
  rising(between).forEach((by, k) => (x[row[k]] = by + at[k]));
}

/** Numbers that do not fall, halfway between what pushing from left and from right gives. */
function rising(wanted: readonly number[]): number[] {
  let most = -Infinity;
  let least = Infinity;
  const low = wanted.map((each) => (most = Math.max(most, each)));
  return wanted.reduceRight<number[]>((made, each, k) => ((made[k] = ((least = Math.min(least, each)) + low[k]) / 2), made), []);
}

function stack(arrangement: Arrangement, sizes: readonly Size[]): Pick<Placement, "y" | "rowTop" | "rowHeight" | "height"> {
  const { rows, count, up } = arrangement;
  const y = new Float64Array(up.length);
  const rowTop = new Float64Array(rows.length);
  const rowHeight = new Float64Array(rows.length);
  let top = 0;
  rows.forEach((row, r) => {
    let height = 0;
    for (const vertex of row) if (vertex < count) height = Math.max(height, sizes[vertex].height);
    // A small box beside a large open one stays near the top, where its edges come in.
    for (const vertex of row) y[vertex] = top + (vertex < count ? Math.min((height - sizes[vertex].height) / 2, GAP_Y) : 0);
    rowTop[r] = top;
    rowHeight[r] = height;
    top += height + GAP_Y;
  });
  return { y, rowTop, rowHeight, height: Math.max(0, top - GAP_Y) };
}
