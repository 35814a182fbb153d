// The program at a step of its history. The view describes the last state; `Steps` knows, for any state, which nodes
// are merged, with which others, and what does not exist yet. Moving between states costs time in proportion to the changes.

import { addTo } from "./lists";
import type { AliasDetail, EarlierLine, GoneLine, StepView, TimelineView } from "./schema";

/** The store of the step outside the page: the hub model of a notebook, or nothing. */
export interface SharedStep {
  get(): number;
  set(step: number): void;
  onChange(listener: () => void): void;
}

export type Progress = "future" | "partial" | "whole";

/** A node that changed parts at a step. Part 0 means none: the node is on its own. */
interface Move {
  node: number;
  from: number;
  to: number;
}

const NONE: ReadonlySet<number> = new Set();

export class Steps {
  readonly last: number;
  readonly groupOf = new Map<number, number>();
  /** For a value that represents another one inside a group: the group, and the value represented. */
  readonly #insideOf = new Map<number, number>();
  readonly #outside = new Map<number, number>();
  /** Bytes saved by all steps up to each state. */
  readonly savedBy: Float64Array;
  #state: number;
  #touched = false;
  readonly #numbers = new Map<number, number>();
  readonly #part = new Map<number, number>();
  private readonly moves: Move[][] = [];
  /** The number of parts of each group, by group number: now, and in the last state. */
  readonly #parts: Int32Array;
  readonly #inTheEnd: Int32Array;
  /** By how much each step reduces the number of parts of its group. */
  readonly #joins: Int32Array;
  readonly #listeners = new Set<() => void>();
  readonly #goneNodes: ReadonlyMap<number, GoneLine>;
  readonly #earlierLines = new Map<number, EarlierLine[]>();
  #nowAt = -1;
  #nowHeld: ReadonlySet<number> = NONE;

  constructor(
    readonly view: TimelineView,
    private readonly shared?: SharedStep,
  ) {
    this.last = view.steps.length;
    this.#state = this.last;
    this.savedBy = new Float64Array(this.last + 1);
    this.#joins = new Int32Array(this.last);
    for (const line of view.earlier) addTo(this.#earlierLines, line.node, line);
    this.#goneNodes = new Map(view.gone.map((line) => [line.node, line]));
    this.#parts = Int32Array.from(view.groups, (group) => group.nodes.length);
    view.groups.forEach((group, k) => {
      this.#numbers.set(group.id, k);
      for (const node of group.nodes) this.groupOf.set(node, group.id);
      group.inside.forEach((value, i) => {
        this.#insideOf.set(value, group.id);
        this.#outside.set(value, group.outside[i]);
      });
    });
    const members = new Map<number, number[]>();
    view.steps.forEach((step, k) => {
      this.savedBy[k + 1] = this.savedBy[k] + step.saved;
      this.moves.push(step.group ? this.#join(step, k, members) : []);
    });
    this.#inTheEnd = this.#parts.slice();
    if (shared) {
      this.#adopt(shared.get());
      shared.onChange(() => this.#adopt(shared.get()));
    }
  }

  /** Merges the parts of a step's nodes into the largest one; the nodes of the others change parts. */
  #join(step: StepView, k: number, members: Map<number, number[]>): Move[] {
    const moves: Move[] = [];
    const held = [...new Set(step.nodes.map((node) => this.#part.get(node) ?? -node))];
    const size = (part: number) => members.get(part)?.length ?? 1;
    const largest = held.reduce((most, part) => (size(part) > size(most) ? part : most));
    const to = largest > 0 ? largest : k + 1;
    const all = members.get(to) ?? [];
    for (const part of held) {
      if (part === to) continue;
      for (const node of part > 0 ? members.get(part)! : [-part]) {
        moves.push({ node, from: Math.max(0, part), to });
        this.#part.set(node, to);
        all.push(node);
      }
      members.delete(part);
    }
    members.set(to, all);
    this.#joins[k] = held.length - 1;
    this.#parts[this.#numbers.get(step.group)!] -= held.length - 1;
    return moves;
  }

  get at(): number {
    return this.#state;
  }

  /** The step that led to this state; null for the program as it was loaded. */
  get step(): StepView | null {
    return this.view.steps[this.#state - 1] ?? null;
  }

  /** Whether steps are shown: after the user has moved, or if the state is not the last one. */
  get active(): boolean {
    return this.#touched || this.#state !== this.last;
  }

  /** The nodes that the step is about; none while no steps are shown. */
  get now(): ReadonlySet<number> {
    if (!this.active) return NONE;
    if (this.#nowAt !== this.#state) {
      this.#nowAt = this.#state;
      this.#nowHeld = new Set(this.step?.nodes);
    }
    return this.#nowHeld;
  }

  /** What became of a removed node; undefined for a node that exists in the last state. */
  goneLine(node: number): GoneLine | undefined {
    return this.#goneNodes.get(node);
  }

  go(state: number): void {
    const wanted = Math.max(0, Math.min(this.last, Math.round(state)));
    this.#touched = true;
    this.#move(wanted);
    this.shared?.set(wanted);
    for (const listener of this.#listeners) listener();
  }

  /** Shows the last state, and no steps. */
  leave(): void {
    this.go(this.last);
    this.#touched = false;
    this.tellAgain();
  }

  subscribe(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Notifies listeners of the same step again, after the page learned where its nodes are. */
  tellAgain(): void {
    for (const listener of this.#listeners) listener();
  }

  #adopt(state: number): void {
    const wanted = Math.max(0, Math.min(this.last, state));
    if (wanted === this.#state) return;
    this.#move(wanted);
    for (const listener of this.#listeners) listener();
  }

  #move(wanted: number): void {
    for (; this.#state < wanted; this.#state++) {
      for (const { node, to } of this.moves[this.#state]) this.#part.set(node, to);
      this.#count(this.#state, -1);
    }
    for (; this.#state > wanted; this.#state--) {
      for (const { node, from } of this.moves[this.#state - 1]) this.#part.set(node, from);
      this.#count(this.#state - 1, 1);
    }
  }

  #count(step: number, by: 1 | -1): void {
    const { group } = this.view.steps[step];
    if (group) this.#parts[this.#numbers.get(group)!] += by * this.#joins[step];
  }

  /** The part into which a node is merged, 0 while it is on its own. A part is identified by the step that began it. */
  partOf(node: number): number {
    return this.#part.get(node) ?? 0;
  }

  /** The number of a group in program order, undefined for a group that no step made. */
  numberOf(group: number): number | undefined {
    return this.#numbers.get(group);
  }

  /** The progress of a group. */
  progress(group: number): Progress {
    const k = this.#numbers.get(group)!;
    if (this.#parts[k] === this.#inTheEnd[k]) return "whole";
    return this.#parts[k] === this.view.groups[k].nodes.length ? "future" : "partial";
  }

  /** The current number of parts of a group, single nodes included. */
  partsOf(group: number): number {
    return this.#parts[this.#numbers.get(group)!];
  }

  sizeOf(group: number): number {
    return this.view.groups[this.#numbers.get(group)!].nodes.length;
  }

  isMade(node: number): boolean {
    return (this.view.since[node] ?? 0) <= this.#state;
  }

  isThere(line: GoneLine): boolean {
    return line.since <= this.#state && this.#state < line.until;
  }

  /** The line of a node in this state, if a later pass rewrote it; node 0 is the return line of the program. */
  earlier(node: number): EarlierLine | undefined {
    return this.active ? this.#earlierLines.get(node)?.find((line) => this.#state < line.until) : undefined;
  }

  /** The alias detail of a value in this state, if a later pass changed it and the view stores it. */
  earlierAlias(value: number): AliasDetail | undefined {
    return this.view.earlier_aliases?.find((told) => told.value === value && this.#state < told.until)?.alias;
  }

  /** Whether a value no longer needs memory, because only the part that produces it uses it. */
  isKept(value: number): boolean {
    const since = this.view.kept[value];
    return since !== undefined && since <= this.#state;
  }

  /** The value to name in this state: for one inside a group that is not begun yet, the value it represents. */
  valueIn(value: number): number {
    const group = this.#insideOf.get(value);
    return group !== undefined && this.progress(group) === "future" ? this.meant(value) : value;
  }

  /** The value that a name inside a group represents while the node that uses it is on its own. */
  meant(value: number): number {
    return this.#outside.get(value) ?? value;
  }
}

/** A part's colour: neighbours in number are far apart in hue. */
export function colourOfPart(part: number): string {
  return `hsl(${Math.round((part * 137.508) % 360)} 62% 48%)`;
}
