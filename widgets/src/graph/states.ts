// The look of boxes at a step: merged parts in their colours, incomplete groups, nodes that do not exist yet.
// Only marks on boxes change between steps; positions do not.

import { s } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { colourOfPart } from "../lib/model/steps";

export interface BoxLook {
  classes: string;
  colour: string;
  badge: string;
}

const PLAIN: BoxLook = { classes: "", colour: "", badge: "" };
const PLAIN_STAMP = "|||";

export class BoxStates {
  /** The boxes that show the nodes of the step. */
  now: ReadonlySet<number> = new Set();

  constructor(private readonly context: Context) {}

  /** Called before looks are computed, when the step or the open boxes may have changed. */
  begin(open: ReadonlySet<number>): void {
    const { records, steps } = this.context;
    this.now = new Set([...(steps?.now ?? [])].map((node) => boxOf(this.context, node)).filter((box) => box >= 0).map((box) => records.hierarchy.shown(box, open)));
  }

  look(index: number, open: ReadonlySet<number>): BoxLook {
    const { records, steps } = this.context;
    if (!steps?.active) return PLAIN;
    const { id, kind } = records.hierarchy.boxes[index];
    const now = this.now.has(index) ? "t-now" : "";
    const number = steps.numberOf(id);
    if (number !== undefined) {
      const progress = steps.progress(id);
      const isOpen = open.has(index);
      const left = progress === "future" ? ", not begun" : progress === "partial" ? `: still ${steps.partsOf(id)} parts` : "";
      const label = `group ${number}${left}`;
      const badge = isOpen ? label : progress === "whole" ? "" : `${steps.sizeOf(id) - steps.partsOf(id)}/${steps.sizeOf(id) - 1}`;
      return { classes: `t-group t-${progress} ${now}`, colour: progress === "whole" ? this.tint(index) : "", badge };
    }
    if (!steps.isMade(id)) return { classes: `t-unmade ${now}`, colour: "", badge: "" };
    const part = kind === "op" ? steps.partOf(id) : 0;
    if (!part) return { classes: steps.groupOf.has(id) ? `t-loose ${now}` : now, colour: "", badge: "" };
    return { classes: `t-joined ${now}`, colour: colourOfPart(part), badge: String(steps.numberOf(steps.groupOf.get(id)!)) };
  }

  /** The colour of a box's part; empty for none. */
  tint(index: number): string {
    const { records, steps } = this.context;
    if (!steps?.active) return "";
    const { id } = records.hierarchy.boxes[index];
    const number = steps.numberOf(id);
    const node = number === undefined ? id : steps.view.groups[number].nodes[0];
    const part = number === undefined || steps.progress(id) === "whole" ? steps.partOf(node) : 0;
    return part ? colourOfPart(part) : "";
  }

  edge(from: number, to: number): string {
    const { records, steps } = this.context;
    if (!steps?.active) return "";
    const [a, b] = [from, to].map((box) => steps.partOf(records.hierarchy.boxes[box].id));
    return a && a === b ? colourOfPart(a) : "";
  }
}

/** The box that shows a node; for a removed node, the box of the value that replaced it. */
export function boxOf({ records, steps }: Context, node: number): number {
  const box = records.hierarchy.find(node);
  if (box >= 0) return box;
  const became = steps?.goneLine(node)?.became ?? 0;
  const shows = became ? records.hierarchy.find(became) : -1;
  // A node that joins a group later is shown by its own box, not by the frame around it.
  return shows >= 0 && steps?.numberOf(records.hierarchy.boxes[shows].id) !== undefined ? -1 : shows;
}

/** The marks that the selection puts on a box; `holding` means that it contains something selected. */
export interface Marked {
  selected: boolean;
  lit: boolean;
  holding: boolean;
}

const dressed = new WeakMap<SVGGElement, { base: string; stamp: string; badge: SVGElement | null }>();

/** Updates a box to the current step and selection with as few changes as possible. */
export function dress(element: SVGGElement, look: BoxLook, marked: Marked, width: number): void {
  let known = dressed.get(element);
  if (!known) dressed.set(element, (known = { base: element.getAttribute("class") ?? "", stamp: PLAIN_STAMP, badge: null }));
  const marks = `${marked.selected ? "selected " : ""}${marked.lit ? "lit " : ""}${marked.holding ? "holding" : ""}`;
  const stamp = `${marks}|${look.classes}|${look.colour}|${look.badge}`;
  if (stamp === known.stamp) return;
  known.stamp = stamp;
  element.setAttribute("class", `${known.base} ${marks} ${look.classes}`);
  element.setAttribute("aria-selected", String(marked.selected));
  element.style.setProperty("--g", look.colour || null);
  if ((known.badge?.textContent ?? "") === look.badge) return;
  known.badge?.remove();
  known.badge = look.badge ? badgeElement(look.badge, width) : null;
  if (known.badge) element.append(known.badge);
}

function badgeElement(text: string, width: number): SVGElement {
  const wide = 9 + 5.8 * text.length;
  return s("g", { class: "irs-part", transform: `translate(${width - wide + 5} -7)` },
    s("rect", { width: wide, height: 14, rx: 7 }), s("text", { x: wide / 2, y: 10.5, "text-anchor": "middle" }, text));
}
