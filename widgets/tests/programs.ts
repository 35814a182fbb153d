// Seeded random programs for the tests: ops in groups of 4 to 16, groups in modules of 8 to 24, 1.5 edges an op.

import type { Box, Edge, GraphView } from "../src/lib/model/schema";

export function random(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function box(id: number, parent: number, kind: Box["kind"], label: string): Box {
  return { id, parent, kind, label, detail: "", category: "pointwise", values: [id + 1_000_000], writes: false, equivalence_class: -1, size: 1 };
}

export function program(count: number, seed = 1): GraphView {
  const next = random(seed + count);
  const boxes: Box[] = [];
  const ops: number[] = [];
  let module = 0;
  let groupsLeft = 0;
  let group = 0;
  let opsLeft = 0;
  let id = 0;
  while (ops.length < count) {
    if (opsLeft === 0) {
      if (groupsLeft === 0) {
        boxes.push(box((module = -++id), 0, "module", `stage${id}`));
        groupsLeft = 8 + Math.floor(next() * 17);
      }
      boxes.push(box((group = ++id), module, "group", `group${id}`));
      groupsLeft--;
      opsLeft = 4 + Math.floor(next() * 13);
    }
    opsLeft--;
    boxes.push(box(++id, group, "op", `aten::op${Math.floor(next() * 40)}`));
    ops.push(id);
  }
  return { boxes, edges: edgesOf(ops, next), closed: [] };
}

function edgesOf(ops: number[], next: () => number): Edge[] {
  const edges: Edge[] = [];
  const add = (from: number, to: number) => {
    if (from >= 0 && from < to) edges.push({ source: ops[from], target: ops[to], value: ops[from] + 1_000_000 });
  };
  for (let i = 1; i < ops.length; i++) add(i - 1 - Math.floor(next() ** 3 * Math.min(i, 12)), i);
  while (edges.length < 1.5 * ops.length - 1 && ops.length > 2) {
    const i = 1 + Math.floor(next() * (ops.length - 1));
    add(i - 1 - Math.floor(next() * Math.min(i, next() < 0.05 ? 400 : 30)), i);
  }
  return edges;
}
