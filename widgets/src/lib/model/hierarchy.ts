// Which box stands inside which, and which box stands for a record. Boxes go by their position in the view's list; -1 is the top.

import type { Box, GraphView } from "./schema";

export class Hierarchy {
  readonly boxes: Box[];
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  readonly children: number[][];
  readonly roots: number[] = [];
  private readonly positions = new Map<number, number>();
  private readonly makers = new Map<number, number>();

  constructor(view: GraphView) {
    this.boxes = view.boxes;
    const count = view.boxes.length;
    this.parent = new Int32Array(count).fill(-1);
    this.depth = new Int32Array(count);
    this.children = Array.from({ length: count }, () => []);
    view.boxes.forEach((box, i) => {
      const around = this.positions.get(box.parent);
      if (around === undefined) this.roots.push(i);
      else {
        this.parent[i] = around;
        this.depth[i] = this.depth[around] + 1;
        this.children[around].push(i);
      }
      this.positions.set(box.id, i);
      // The innermost maker of a value wins: it comes after the boxes around it.
      for (const value of box.values) this.makers.set(value, i);
    });
  }

  /** The box that stands for a record: its own, or the one that makes the value; -1 when there is none. */
  find(record: number): number {
    return this.positions.get(record) ?? this.makers.get(record) ?? -1;
  }

  inside(around: number): number[] {
    return around < 0 ? this.roots : this.children[around];
  }

  isCluster(box: number): boolean {
    return this.children[box].length > 0;
  }

  /** The box and all boxes in it, in program order. */
  descendants(box: number): number[] {
    const found: number[] = [];
    const waiting = [box];
    while (waiting.length) {
      const next = waiting.pop()!;
      found.push(next);
      for (let k = this.children[next].length - 1; k >= 0; k--) waiting.push(this.children[next][k]);
    }
    return found;
  }

  /** The innermost box around or at this one that a picture with these boxes open shows. */
  shown(box: number, open: ReadonlySet<number>): number {
    let seen = box;
    for (let around = box; around >= 0; around = this.parent[around]) {
      if (around !== box && !open.has(around)) seen = around;
    }
    return seen;
  }
}
