import { expect, test } from "vitest";
import type { TimelineView } from "../src/lib/model/schema";
import { Steps } from "../src/lib/model/steps";
import { random } from "./programs";

/** A history of random merges: groups of random sizes, their nodes joined in random order. */
function history(groups: number, seed: number): TimelineView {
  const next = random(seed);
  const made = Array.from({ length: groups }, (_, g) => {
    const size = 2 + Math.floor(next() * 9);
    return { id: 10_000 + g, nodes: Array.from({ length: size }, (_, k) => 100 * (g + 1) + k), inside: [7 * (g + 1)], outside: [g] };
  });
  const merges = made.flatMap((group) => {
    const parts = group.nodes.map((node) => [node]);
    const found: [number, number[]][] = [];
    while (parts.length > 1) {
      const [a] = parts.splice(Math.floor(next() * parts.length), 1);
      const b = parts[Math.floor(next() * parts.length)];
      found.push([group.id, [a[Math.floor(next() * a.length)], b[Math.floor(next() * b.length)]]]);
      b.push(...a);
    }
    return found;
  });
  const steps = merges.map(([group, nodes]) => ({ did: "", because: "", rule: "", nodes, saved: Math.floor(next() * 100), group }));
  return { passes: [{ name: "fuse", first: 0, steps: steps.length }], steps, groups: made, since: { 10_000: 1 }, gone: [], earlier: [], names: {}, kept: { 5: 3 } };
}

/** The parts of a state, recomputed from all merges up to it. */
function parts(view: TimelineView, state: number): Map<number, number> {
  const top = new Map<number, number>();
  const find = (node: number): number => (top.has(node) && top.get(node) !== node ? find(top.get(node)!) : node);
  for (const { nodes } of view.steps.slice(0, state)) {
    const [a, b] = nodes.map(find);
    top.set(a, b);
    top.set(b, b);
  }
  return new Map([...top.keys()].map((node) => [node, find(node)]));
}

test("going to any state, from any other, shows the merges up to it", () => {
  const view = history(12, 3);
  const steps = new Steps(view);
  const next = random(5);
  for (let turn = 0; turn < 60; turn++) {
    const state = Math.floor(next() * (view.steps.length + 1));
    steps.go(state);
    const expected = parts(view, state);
    const seen = new Map<number, Set<number>>();
    for (const { nodes, id } of view.groups) {
      for (const node of nodes) {
        expect(steps.partOf(node) > 0).toBe(expected.has(node));
        if (expected.has(node)) seen.set(steps.partOf(node), (seen.get(steps.partOf(node)) ?? new Set()).add(expected.get(node)!));
      }
      const apart = new Set(nodes.map((node) => expected.get(node) ?? -node)).size;
      expect(steps.partsOf(id)).toBe(apart);
      expect(steps.progress(id)).toBe(apart === 1 ? "whole" : apart === nodes.length ? "future" : "partial");
    }
    for (const tops of seen.values()) expect(tops.size).toBe(1);
    expect(seen.size).toBe(new Set(expected.values()).size);
  }
});

test("a step costs what it changed: each node changes parts at most log2 of its group's size times", () => {
  const steps = new Steps(history(40, 8)) as unknown as { moves: { node: number }[][]; sizeOf(group: number): number; groupOf: Map<number, number> };
  const times = new Map<number, number>();
  for (const { node } of steps.moves.flat()) times.set(node, (times.get(node) ?? 0) + 1);
  for (const [node, count] of times) expect(count).toBeLessThanOrEqual(1 + Math.log2(steps.sizeOf(steps.groupOf.get(node)!)));
});

test("the last state is no travelling until somebody moves; states outside are the nearest ones", () => {
  const steps = new Steps(history(3, 1));
  expect([steps.at, steps.active, steps.now.size]).toEqual([steps.last, false, 0]);
  steps.go(steps.last + 10);
  expect([steps.at, steps.active]).toEqual([steps.last, true]);
  steps.go(-4);
  expect([steps.at, steps.step]).toEqual([0, null]);
});

test("the shared step moves this one and is moved by it", () => {
  let held = 2;
  let changed = () => undefined as void;
  const steps = new Steps(history(3, 2), { get: () => held, set: (step) => (held = step), onChange: (listener) => (changed = listener) });
  const seen: number[] = [];
  steps.subscribe(() => seen.push(steps.at));
  expect([steps.at, steps.active]).toEqual([2, true]);
  held = 4;
  changed();
  steps.go(5);
  changed();
  expect([seen, held]).toEqual([[4, 5], 5]);
});

test("values inside a group that has not begun are told by what they stand for, and kept ones from their state on", () => {
  const view = history(1, 4);
  const steps = new Steps(view);
  steps.go(0);
  expect([steps.valueIn(7), steps.valueIn(8), steps.isMade(10_000), steps.isKept(5)]).toEqual([0, 8, false, view.kept[5] === 0]);
  steps.go(1);
  expect([steps.valueIn(7), steps.isMade(10_000)]).toEqual([7, true]);
  steps.go(3);
  expect(steps.isKept(5)).toBe(steps.at >= 3);
});

test("savings add up", () => {
  const view = history(5, 6);
  const steps = new Steps(view);
  expect(steps.savedBy[steps.last]).toBe(view.steps.reduce((sum, step) => sum + step.saved, 0));
  expect(steps.savedBy[0]).toBe(0);
});
