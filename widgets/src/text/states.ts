// The look of IR lines at a step: which nodes are merged, which do not exist yet or no longer, which values
// need no memory, and what the names inside a group represent before it is complete.

import { namesIn } from "../lib/model/tokens";
import type { Context } from "../lib/model/context";
import { colourOfPart } from "../lib/model/steps";
import type { GoneLine } from "../lib/model/schema";

/** How a row is drawn. */
export interface LineLook {
  classes: string;
  /** The colour of the part into which the line's node is merged; empty for none. */
  colour: string;
}

const PLAIN: LineLook = { classes: "", colour: "" };

export class LineStates {
  /** The group of each of its lines that belong to no node merged by a step: its head lines and its copied constants. */
  readonly #frames = new Map<number, number>();

  constructor(private readonly context: Context) {
    const { records, steps, view } = context;
    if (!steps) return;
    for (const { id } of steps.view.groups) {
      const start = records.line(id);
      this.#frames.set(start, id);
      for (let line = start + 1; line < view.text.lines.length && line > 0; line++) {
        if (!steps.groupOf.has(view.text.nodes[line])) this.#frames.set(line, id);
        if (/^\s*->/u.test(records.text(line))) break;
      }
    }
  }

  look(line: number): LineLook {
    const { steps, view } = this.context;
    if (!steps?.active) return PLAIN;
    const frame = this.#frames.get(line);
    if (frame !== undefined && !steps.isMade(view.text.nodes[line])) return { classes: "t-unmade", colour: "" };
    if (frame !== undefined) return { classes: `t-frame t-${steps.progress(frame)}`, colour: this.#frameColour(frame) };
    const node = view.text.nodes[line];
    if (!node) return PLAIN;
    if (!steps.isMade(node)) return { classes: "t-unmade", colour: "" };
    const now = steps.now.has(node) ? " t-now" : "";
    const part = steps.partOf(node);
    if (part) return { classes: `t-joined${now}`, colour: colourOfPart(part) };
    return { classes: `${steps.groupOf.has(node) ? "t-loose" : ""}${now}`, colour: "" };
  }

  lookGone(line: GoneLine): LineLook {
    const { steps } = this.context;
    const now = steps?.now.has(line.node) ? " t-now" : "";
    return { classes: `t-gone${steps?.isThere(line) ? " t-there" : ""}${now}`, colour: "" };
  }

  /** A frame has the colour of its only part. */
  #frameColour(group: number): string {
    const steps = this.context.steps!;
    if (steps.progress(group) !== "whole") return "";
    const made = steps.view.groups[steps.numberOf(group)!];
    return colourOfPart(steps.partOf(made.nodes[0]));
  }

  /** The value that a name on a line stands for in this state. */
  meant(line: number, value: number): number {
    const { steps, view } = this.context;
    const node = view.text.nodes[line];
    if (!steps?.active || !node || steps.partOf(node) || !steps.groupOf.has(node)) return value;
    return steps.meant(value);
  }

  isKept(value: number): boolean {
    const { steps } = this.context;
    return steps !== null && steps.active && steps.isKept(value);
  }

  /** A key that changes when a line has to be printed again: whether its node is merged, and which of its names need no memory. */
  words(line: number): string {
    const { steps, records, view } = this.context;
    const node = view.text.nodes[line];
    if (!steps?.active || !node || !steps.groupOf.has(node)) return "";
    const kept = namesIn(records.text(line)).map((name) => (steps.isKept(records.names.get(name) ?? 0) ? "k" : "-"));
    return `${steps.partOf(node) ? "in" : "out"}${kept.join("")}`;
  }
}
