import { expect, test } from "vitest";
import { Hierarchy } from "../src/lib/model/hierarchy";
import { Layouter, type DrawnEdge, type Layout } from "../src/lib/layout/layout";
import { crossingsOf, levelsOf, lift } from "../src/lib/layout/levels";
import type { GraphView } from "../src/lib/model/schema";
import { box, program } from "./programs";

const SIZE = { width: 100, height: 30 };

function layouter(view: GraphView): { hierarchy: Hierarchy; layouter: Layouter } {
  const hierarchy = new Hierarchy(view);
  return { hierarchy, layouter: new Layouter(hierarchy, levelsOf(hierarchy, view.edges), () => SIZE) };
}

function allOpen(hierarchy: Hierarchy): Set<number> {
  return new Set(hierarchy.boxes.keys());
}

function contains(layout: Layout, outer: number, inner: number): boolean {
  const { x, y, w, h } = layout;
  return x[inner] >= x[outer] && y[inner] >= y[outer] && x[inner] + w[inner] <= x[outer] + w[outer] + 1e-6 && y[inner] + h[inner] <= y[outer] + h[outer] + 1e-6;
}

function overlap({ x, y, w, h }: Layout, a: number, b: number): boolean {
  return x[a] < x[b] + w[b] - 1e-6 && x[b] < x[a] + w[a] - 1e-6 && y[a] < y[b] + h[b] - 1e-6 && y[b] < y[a] + h[a] - 1e-6;
}

test("every box lies inside the box around it and apart from its siblings", () => {
  const { hierarchy, layouter: l } = layouter(program(400));
  const layout = l.layout(allOpen(hierarchy));
  for (const b of layout.boxes) {
    if (hierarchy.parent[b] >= 0) expect(contains(layout, hierarchy.parent[b], b)).toBe(true);
    for (const sibling of hierarchy.inside(hierarchy.parent[b])) if (sibling < b) expect(overlap(layout, b, sibling)).toBe(false);
  }
});

test("opening a group keeps rows and order of everything around it", () => {
  const { hierarchy, layouter: l } = layouter(program(300));
  const modules = new Set(hierarchy.roots);
  const before = l.layout(modules);
  const group = hierarchy.children[hierarchy.roots[0]][2];
  const after = l.layout(new Set([...modules, group]));
  const siblings = hierarchy.children[hierarchy.roots[0]];
  for (const a of siblings) {
    for (const b of siblings) {
      const oneColumn = before.x[a] < before.x[b] + before.w[b] && before.x[b] < before.x[a] + before.w[a];
      if (oneColumn && before.y[a] + before.h[a] <= before.y[b]) expect(after.y[a] + after.h[a]).toBeLessThanOrEqual(after.y[b] + 1e-6);
      const sameRow = before.y[a] === before.y[b] && after.y[a] === after.y[b];
      if (sameRow && before.x[a] < before.x[b]) expect(after.x[a]).toBeLessThan(after.x[b]);
    }
  }
});

test("a long chain continues in columns near to the shape of a window, and opening a box keeps the columns", () => {
  const boxes = Array.from({ length: 60 }, (_, k) => box(k + 1, 0, "module", `m${k}`)).flatMap((made, k) => [made, box(1000 + k, made.id, "op", "x"), box(2000 + k, made.id, "op", "y")]);
  const edges = Array.from({ length: 59 }, (_, k) => ({ source: 1000 + k, target: 1001 + k, value: 5000 + k }));
  const { hierarchy, layouter: l } = layouter({ boxes, edges, closed: [] });
  const before = l.layout(new Set());
  expect(before.width / before.height).toBeGreaterThan(0.7);
  expect(before.width / before.height).toBeLessThan(2.5);
  const columnsOf = (layout: typeof before) => hierarchy.roots.map((root, k) => k > 0 && layout.y[root] < layout.y[hierarchy.roots[k - 1]]);
  expect(columnsOf(before).filter(Boolean).length).toBeGreaterThan(2);
  const upwards = ({ points }: DrawnEdge) => [...points!].some((y, k) => k % 2 === 1 && k > 1 && y < points![k - 2] - 1e-6);
  expect(before.edges.filter(upwards).length).toBe(columnsOf(before).filter(Boolean).length); // up between two columns
  expect(columnsOf(l.layout(new Set([hierarchy.roots[7]])))).toEqual(columnsOf(before));
});

test("closing it again gives the same picture back", () => {
  const { hierarchy, layouter: l } = layouter(program(300));
  const closed = new Set<number>();
  const before = l.layout(closed);
  l.layout(allOpen(hierarchy));
  const after = l.layout(closed);
  expect([...after.x]).toEqual([...before.x]);
  expect([...after.y]).toEqual([...before.y]);
});

test("a closed box hides what it holds and keeps its edges, once for each pair", () => {
  const view: GraphView = {
    boxes: [box(-1, 0, "module", "a"), box(1, -1, "op", "x"), box(2, -1, "op", "y"), box(-2, 0, "module", "b"), box(3, -2, "op", "z")],
    edges: [{ source: 1, target: 3, value: 7 }, { source: 2, target: 3, value: 8 }, { source: 1, target: 2, value: 7 }],
    closed: [],
  };
  const { hierarchy, layouter: l } = layouter(view);
  const layout = l.layout(new Set());
  expect(layout.boxes.map((i) => hierarchy.boxes[i].id)).toEqual([-1, -2]);
  expect(layout.edges.map((edge) => edge.values)).toEqual([[7, 8]]);
  expect(l.layout(new Set([0])).edges).toHaveLength(2);
});

test("an edge from a box to one inside it is not drawn", () => {
  const hierarchy = new Hierarchy({ boxes: [box(-1, 0, "module", "a"), box(1, -1, "op", "x")], edges: [], closed: [] });
  expect(lift(hierarchy, 0, 1)).toBeNull();
});

test("a box knows whether it reads or feeds what is outside the box around it", () => {
  const boxes = [box(-1, 0, "module", "a"), box(1, -1, "op", "x"), box(2, -1, "op", "y"), box(-2, 0, "module", "b"), box(3, -2, "op", "z")];
  const edges = [{ source: 1, target: 3, value: 7 }, { source: 1, target: 2, value: 7 }, { source: -1, target: 2, value: 9 }];
  const { reads, feeds, anchored } = crossingsOf(new Hierarchy({ boxes, edges, closed: [] }), edges);
  expect([[...reads], [...feeds]]).toEqual([[0, 0, 1, 0, 1], [0, 1, 0, 0, 0]]);
  expect(anchored).toEqual(reads);
  const crowd = Array.from({ length: 8 }, () => ({ source: 1, target: 3, value: 7 }));
  expect([...crossingsOf(new Hierarchy({ boxes, edges: crowd, closed: [] }), crowd).anchored]).toEqual([0, 0, 0, 0, 0]);
});

test("routed edges end at the boxes' borders and cross no box beside them", () => {
  const { hierarchy, layouter: l } = layouter(program(200));
  const layout = l.layout(allOpen(hierarchy));
  const routed = layout.edges.filter((edge) => edge.points);
  expect(routed.length).toBeGreaterThan(100);
  for (const { from, to, points } of routed) {
    const p = [...points!];
    expect(p[1]).toBeCloseTo(layout.y[from] + layout.h[from]);
    expect(p[p.length - 1]).toBeCloseTo(layout.y[to]);
    const others = hierarchy.inside(hierarchy.parent[from]).filter((box) => box !== from && box !== to);
    for (let k = 2; k < p.length; k += 2) {
      // A curve stays between the heights of its ends: where no box lies between them, the rectangle around it is enough.
      const [left, right] = p[k] === p[k - 2] ? [p[k], p[k]] : [Math.min(p[k], p[k - 2]), Math.max(p[k], p[k - 2])];
      const [top, bottom] = [Math.min(p[k + 1], p[k - 1]), Math.max(p[k + 1], p[k - 1])];
      const crossed = others.filter((box) => {
        const beside = layout.x[box] + layout.w[box] <= left || layout.x[box] >= right;
        return !beside && layout.y[box] < bottom - 1e-6 && layout.y[box] + layout.h[box] > top + 1e-6;
      });
      expect(crossed).toEqual([]);
    }
  }
});

test("the first box of the visible ones stands for a record inside a closed box", () => {
  const { hierarchy } = layouter(program(50));
  const op = hierarchy.boxes.findIndex((b) => b.kind === "op");
  expect(hierarchy.shown(op, new Set())).toBe(hierarchy.roots[0]);
  expect(hierarchy.shown(op, allOpen(hierarchy))).toBe(op);
});

test("time grows linearly: 20,000 ops take at most 12 times as long as 4,000", () => {
  const seconds = (count: number) => {
    const view = program(count);
    const best = [0, 1, 2].map(() => {
      const { hierarchy, layouter: l } = layouter(view);
      const start = performance.now();
      l.layout(allOpen(hierarchy));
      return performance.now() - start;
    });
    return Math.min(...best) / 1000;
  };
  const small = seconds(4000);
  const large = seconds(20000);
  console.info(`layout: 4,000 ops ${small.toFixed(3)} s, 20,000 ops ${large.toFixed(3)} s`);
  expect(large).toBeLessThan(12 * small);
}, 120_000);
