// Which box is inside which, and which box represents a record. Boxes are identified by their position in the view's list; -1 is the top.

import type { Box, GraphView } from "./schema";

const COUNTED = ["group", "block", "stretch"];

export class Hierarchy {
  readonly boxes: Box[] = [];
  readonly parent: number[] = [];
  readonly depth: number[] = [];
  readonly children: number[][] = [];
  readonly roots: number[] = [];
  readonly #positions = new Map<number, number>();
  readonly #makers = new Map<number, number>();
  /** For records that are not loaded: the boxes around them by id, the outermost first. */
  readonly #paths = new Map<number, readonly number[]>();

  constructor(view: GraphView) {
    this.add(view.boxes);
  }

  /** Adds boxes, each after the one around it; existing ones are kept. */
  add(boxes: readonly Box[]): void {
    for (const box of boxes) {
      if (this.#positions.has(box.id)) continue;
      const i = this.boxes.push(box) - 1;
      const around = this.#positions.get(box.parent) ?? -1;
      this.parent.push(around);
      this.depth.push(around < 0 ? 0 : this.depth[around] + 1);
      this.children.push([]);
      (around < 0 ? this.roots : this.children[around]).push(i);
      this.#positions.set(box.id, i);
      // The innermost producer of a value wins: it comes after the boxes around it.
      for (const value of box.values) this.#makers.set(value, i);
    }
  }

  /** Names of the boxes, by position, that identify them in the next program too: the path of labels from the outermost box, with equal
   * siblings numbered. Groups, blocks and stretches are only numbered: their labels describe their contents, which an edit changes. */
  names(): string[] {
    const made: string[] = [];
    const seen = new Map<string, number>();
    this.boxes.forEach(({ kind, label }, i) => {
      const name = `${made[this.parent[i]] ?? ""}\n${COUNTED.includes(kind) ? kind : label}`;
      const nth = (seen.get(name) ?? 0) + 1;
      seen.set(name, nth);
      made.push(`${name}\t${nth}`);
    });
    return made;
  }

  /** Stores the path of a record inside boxes that are not loaded. */
  put(record: number, path: readonly number[]): void {
    this.#paths.set(record, path);
  }

  path(record: number): readonly number[] {
    return this.#paths.get(record) ?? [];
  }

  /** The box that represents a record: its own, the producer of the value, or the innermost loaded one around it; -1 if there is none. */
  find(record: number): number {
    const path = this.#paths.get(record);
    const found = this.#positions.get(record) ?? (path?.length ? this.#positions.get(path[path.length - 1]) : undefined) ?? this.#makers.get(record);
    if (found !== undefined || !path) return found ?? -1;
    for (let k = path.length - 1; k >= 0; k--) {
      const around = this.#positions.get(path[k]);
      if (around !== undefined) return around;
    }
    return -1;
  }

  /** Whether the box of a record itself is loaded, and not only one around it. */
  holds(record: number): boolean {
    const path = this.#paths.get(record);
    return this.#positions.has(record) || (path?.length ? this.#positions.has(path[path.length - 1]) : this.#makers.has(record));
  }

  /** Whether the contents of a box have to be requested. */
  lacks(box: number): boolean {
    return this.boxes[box].holds === true && this.children[box].length === 0;
  }

  inside(around: number): number[] {
    return around < 0 ? this.roots : this.children[around];
  }

  isCluster(box: number): boolean {
    return this.children[box].length > 0 || this.boxes[box].holds === true;
  }

  /** Boxes and all boxes in those of them that are `entered`, in program order. */
  descendants(boxes: readonly number[], entered: (box: number) => boolean = () => true): number[] {
    const found: number[] = [];
    const waiting = [...boxes].reverse();
    while (waiting.length) {
      const next = waiting.pop()!;
      found.push(next);
      if (!entered(next)) continue;
      for (let k = this.children[next].length - 1; k >= 0; k--) waiting.push(this.children[next][k]);
    }
    return found;
  }

  /** The boxes around two that lie beside each other in one box: an edge between the two is drawn between these. One box twice if one of
   * the two contains the other. */
  apart(one: number, other: number): [number, number] {
    const { parent, depth } = this;
    for (; depth[one] > depth[other]; one = parent[one]);
    for (; depth[other] > depth[one]; other = parent[other]);
    for (; parent[one] !== parent[other]; other = parent[other]) one = parent[one];
    return [one, other];
  }

  /** The fusion group that is a record or contains it; 0 for none. */
  groupAround(record: number): number {
    let box = this.find(record);
    while (box >= 0 && this.boxes[box].kind !== "group") box = this.parent[box];
    return box < 0 ? 0 : this.boxes[box].id;
  }

  /** This box, or the innermost box around it, that is visible with these boxes open. */
  shown(box: number, open: ReadonlySet<number>): number {
    let seen = box;
    for (let around = box; around >= 0; around = this.parent[around]) {
      if (around !== box && !open.has(around)) seen = around;
    }
    return seen;
  }
}
