// The one selection, shared by every pane, by the other views of the same notebook and by Python; and the effect of a click on it.

/** Called on a change; `moved` is true if other records are selected, false if only the evidence changed. */
export type Listener = (moved: boolean) => void;

/** The store of the selection outside the page: the hub model of a notebook, or nothing. */
export interface Shared {
  get(): number[];
  set(ids: number[]): void;
  onChange(listener: () => void): void;
}

export class Selection {
  #held: number[];
  #evidence: ReadonlySet<number> = new Set();
  #way: ReadonlyMap<number, readonly number[]> = new Map();
  readonly #listeners = new Set<Listener>();
  /** Receives picks instead of the selection, as in a quiz. */
  taker: ((record: number) => void) | null = null;

  constructor(private readonly shared?: Shared) {
    this.#held = shared?.get() ?? [];
    shared?.onChange(() => this.#hold(shared.get()));
  }

  get ids(): readonly number[] {
    return this.#held;
  }

  /** Records named in the answer shown now: they are lit, not selected. */
  get lit(): ReadonlySet<number> {
    return this.#evidence;
  }

  /** The steps of the answer shown now that each node is, counted from 1. */
  get way(): ReadonlyMap<number, readonly number[]> {
    return this.#way;
  }

  set(ids: readonly number[]): void {
    this.#hold(ids, this.shared);
  }

  /** A click on a record. With `extend` it makes a pair with the first one picked. */
  pick(record: number, extend = false): void {
    if (this.taker) return this.taker(record);
    this.set(picked(this.#held, record, extend));
  }

  light(records: Iterable<number>, way?: ReadonlyMap<number, readonly number[]>): void {
    const next = new Set(records);
    if (!way && next.size === this.#evidence.size && [...next].every((record) => this.#evidence.has(record))) return;
    this.#evidence = next;
    this.#way = way ?? this.#way;
    this.#tell(false);
  }

  subscribe(listener: Listener): void {
    this.#listeners.add(listener);
  }

  /** Notifies listeners of the same selection again, after the page learned where it is. */
  tellAgain(): void {
    this.#tell();
  }

  #hold(ids: readonly number[], shared?: Shared): void {
    if (same(ids, this.#held)) return;
    this.#held = [...ids];
    this.#evidence = new Set();
    this.#way = new Map();
    shared?.set(this.#held);
    this.#tell();
  }

  #tell(moved = true): void {
    for (const listener of this.#listeners) listener(moved);
  }
}

/** The selection after a click: nothing for no record; a pair for an extending click; without it if it was the second. */
export function picked(held: readonly number[], record: number, extend: boolean): number[] {
  if (record === 0) return [];
  if (!extend || held.length === 0) return [record];
  if (held[0] === record) return held.length > 1 ? [record] : [];
  return held[1] === record && held.length === 2 ? [held[0]] : [held[0], record];
}

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, k) => id === b[k]);
}
