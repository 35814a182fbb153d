// The branches of the timeline, and the draft of an edited text: both persist when another program replaces the one shown.

import type { BranchDiff, BranchesView, EditTrouble } from "./schema";

/** A change to try; records are given by id, inputs by name. */
export interface Change {
  step?: number;
  policy?: string;
  forbid?: number[][];
  force?: number[][];
  opaque?: number[];
  distinct?: boolean | string[];
  channels_last?: string[];
}

/** Access to the branches in Python. */
export interface Branching {
  now(): BranchesView | null;
  onChange(listener: () => void): void;
  whatIf(change: Change): Promise<unknown>;
  show(index: number): Promise<unknown>;
  measure(): Promise<unknown>;
  diff(first: number, second: number): Promise<BranchDiff>;
  /** The text of the program as written, or the unfinished draft. */
  written(): Promise<string>;
  edit(text: string): Promise<EditTrouble | null>;
  draft: Draft;
  /** Shows another of the programs that a compiler made. */
  program(index: number): Promise<unknown>;
  /** Why the last change failed; empty if none did. */
  problem: string;
}

interface Snapshot {
  text: string;
  start: number;
  end: number;
}

const APART_MS = 600;
/** Limit on undo snapshots; lower for a long text. */
const MOST_KEPT = 200;
const LEAST_KEPT = 20;
const MOST_LETTERS = 20_000_000;

/** A text while it is being edited. */
export class Draft {
  open = false;
  focused = false;
  text = "";
  start = 0;
  end = 0;
  top = 0;
  left = 0;
  trouble: EditTrouble | null = null;
  /** Whether the program shown is that of the text. */
  taken = true;
  /** Shows the error of the text in the current editor: the answer may arrive after another program has replaced this one. */
  tell: () => void = () => undefined;
  #before: Snapshot[] = [];
  #after: Snapshot[] = [];
  #last = 0;
  /** Where the last letter was typed: typing elsewhere starts a new undo step. */
  #written = 0;

  begin(text: string): void {
    Object.assign(this, { open: true, focused: true, text, start: 0, end: 0, top: 0, left: 0, trouble: null, taken: true });
    [this.#before, this.#after, this.#last] = [[], [], 0];
  }

  /** Records an edit; letters typed in quick succession are undone together. */
  write(text: string, start: number, end: number): void {
    const now = Date.now();
    if (now - this.#last > APART_MS || Math.abs(start - this.#written) > 1 || !this.#before.length) this.#before.push({ text: this.text, start: this.start, end: this.end });
    if (this.#before.length > Math.max(LEAST_KEPT, Math.min(MOST_KEPT, MOST_LETTERS / text.length))) this.#before.shift();
    [this.#last, this.#written] = [now, start];
    this.#after = [];
    Object.assign(this, { text, start, end, taken: false });
  }

  undo(): boolean {
    return this.#swap(this.#before, this.#after);
  }

  redo(): boolean {
    return this.#swap(this.#after, this.#before);
  }

  #swap(from: Snapshot[], to: Snapshot[]): boolean {
    const next = from.pop();
    if (!next) return false;
    to.push({ text: this.text, start: this.start, end: this.end });
    this.#last = 0;
    Object.assign(this, next, { taken: false });
    return true;
  }
}
