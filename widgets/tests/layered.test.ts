import { expect, test } from "vitest";
import { arrange, columnStarts, FEW, GAP_X, MAX_SPAN, place } from "../src/lib/layout/layered";
import { random } from "./programs";

function randomEdges(count: number, seed: number): [number, number][] {
  const next = random(seed);
  return Array.from({ length: Math.floor(count * 1.6) }, (): [number, number] => [Math.floor(next() * count), Math.floor(next() * count)]);
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])("rows follow the edges of a program without cycles (seed %i)", (seed) => {
  const forward = randomEdges(60, seed).filter(([a, b]) => a < b);
  const { rowOf } = arrange(60, forward);
  for (const [a, b] of forward) expect(rowOf[a]).toBeLessThan(rowOf[b]);
});

test.each([1, 2, 3, 4])("no two boxes overlap, cycles and self loops included (seed %i)", (seed) => {
  const next = random(seed);
  const sizes = Array.from({ length: 80 }, () => ({ width: 20 + next() * 200, height: 20 + next() * 300 }));
  const { x, y } = place(arrange(80, randomEdges(80, seed)), sizes);
  for (let a = 0; a < 80; a++) {
    for (let b = 0; b < a; b++) {
      const apartX = Math.abs(x[a] - x[b]) >= (sizes[a].width + sizes[b].width) / 2 + GAP_X - 1e-6;
      const apartY = y[a] + sizes[a].height <= y[b] || y[b] + sizes[b].height <= y[a];
      expect(apartX || apartY).toBe(true);
    }
  }
});

test("a chain stands in one column, in program order", () => {
  const sizes = Array.from({ length: 5 }, () => ({ width: 100, height: 20 }));
  const { x, y } = place(arrange(5, [[0, 1], [1, 2], [2, 3], [3, 4]]), sizes);
  expect(new Set(x).size).toBe(1);
  expect([...y]).toEqual([...y].sort((a, b) => a - b));
});

test("a source sinks to just above its reader instead of standing at the top", () => {
  const { rowOf } = arrange(4, [[0, 1], [1, 2], [3, 2]]);
  expect(rowOf[3]).toBe(rowOf[2] - 1);
});

test("a box that reads from outside stays where its own edges put it", () => {
  const edges: [number, number][] = [[0, 1], [1, 2], [3, 2]];
  expect(arrange(4, edges, [0, 0, 0, 1]).rowOf[3]).toBe(0);
});

test("what reads only what everybody reads stands by its reader, and a branch of a chain does not", () => {
  const chain = Array.from({ length: 10 }, (_, k): [number, number] => [k + 1, k + 2]);
  const slices = Array.from({ length: 10 }, (_, k): [number, number][] => [[0, 20 + k], [20 + k, k + 2]]).flat();
  const { rowOf } = arrange(30, [[0, 1], ...chain, ...slices]);
  for (let k = 0; k < 10; k++) expect(rowOf[20 + k]).toBe(rowOf[k + 2] - 1);
  expect(arrange(5, [[0, 1], [1, 2], [2, 4], [0, 3], [3, 4]]).rowOf[3]).toBe(1);
});

test("a wide row is split, so that a hundred siblings do not make a picture of one line", () => {
  const fan = Array.from({ length: 100 }, (_, k): [number, number] => [0, k + 1]);
  const { rows } = arrange(101, fan);
  expect(Math.max(...rows.map((row) => row.filter((vertex) => vertex <= 100).length))).toBeLessThanOrEqual(12);
});

test("among many boxes an edge over more than MAX_SPAN rows has no route; any other one bends once a row", () => {
  const ends: [number, number][] = [[0, MAX_SPAN], [0, MAX_SPAN + 1]];
  const routesOf = (count: number) => arrange(count, [...Array.from({ length: count - 1 }, (_, k): [number, number] => [k, k + 1]), ...ends]).routes.slice(count - 1);
  expect(routesOf(FEW).map((route) => route?.length)).toEqual([MAX_SPAN + 1, undefined]);
  expect(routesOf(FEW - 1).map((route) => route?.length)).toEqual([MAX_SPAN + 1, MAX_SPAN + 2]);
});

test("a result alone is no column", () => {
  expect([[40, 900, 40], [40, 900, 40, 900, 40], [900, 900]].map((heights) => columnStarts(heights, 100))).toEqual([[0, 1], [0, 2], [0, 1]]);
});
