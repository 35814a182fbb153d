// The nodes that copy a tensor and do nothing else, highlighted in graph and text. A live page requests them after its first
// picture.

import type { Supply } from "./records";
import type { CopyView, ExplorerView } from "./schema";

export class Copies {
  list: readonly CopyView[];
  #nodes: ReadonlySet<number>;
  readonly #listeners = new Set<() => void>();

  constructor(view: ExplorerView) {
    this.list = view.copies ?? [];
    this.#nodes = new Set(this.list.map((copy) => copy.id));
  }

  has(node: number): boolean {
    return this.#nodes.has(node);
  }

  /** Calls the listener when requested copies have arrived. */
  subscribe(listener: () => void): void {
    this.#listeners.add(listener);
  }

  async load(supply: Supply): Promise<void> {
    const { copies } = await supply.part("copies");
    if (!copies?.length) return;
    this.list = copies;
    this.#nodes = new Set(copies.map((copy) => copy.id));
    for (const listener of this.#listeners) listener();
  }
}
