// The current meaning of colours: the kind of op, the equivalence class of a box, the pass of a joint graph, its cost, or which of two groupings has its pairs.

import type { Hierarchy } from "../lib/model/hierarchy";
import { HEAT_COLOURS, MEASURES, type Heat, type Measure } from "../lib/model/heat";
import type { Box, ComparedKind } from "../lib/model/schema";

export type Meaning = "kind" | "equal" | "pass" | "paint" | "compared" | Measure;

/** The measure that a meaning shows; null for the other meanings. */
export function measureOf(meaning: Meaning): Measure | null {
  return MEASURES.find((measure) => measure === meaning) ?? null;
}

export const CATEGORIES = [
  "convolution", "matmul", "normalization", "reduction", "pointwise", "view", "memory", "random", "container", "scalar", "control", "other",
];

/** Of pairs of ops: in one kernel of both groupings or of neither, of one, of the other, some of each, not to be compared. */
export const COMPARED: Record<ComparedKind, string> = {
  same: "var(--irs-same)", here: "var(--irs-here)", there: "var(--irs-there)", both: "var(--irs-each)", unmatched: "var(--irs-cat-other)",
};

/** The passes of a joint graph. */
export const LANE_COLOURS: Record<string, string> = { forward: "var(--irs-cat-pointwise)", backward: "var(--irs-cat-reduction)" };

/** The pass that a box is in, or is; empty in other programs. */
export function laneOf(box: Box): string {
  return box.kind === "lane" ? box.label : (box.lane ?? "");
}

const classColour = (index: number) => `hsl(${(index * 137.508) % 360} 55% 52%)`;

/** The colours of the equivalence classes in a closed box, the largest first, each with its share of the parts in it that are in any. */
export function classShares(hierarchy: Hierarchy, box: number): [colour: string, share: number][] {
  const held = new Map<number, number>();
  const inside = hierarchy.descendants(hierarchy.children[box]).map((inner) => hierarchy.boxes[inner].equivalence_class).filter((index) => index >= 0);
  for (const index of inside) held.set(index, (held.get(index) ?? 0) + 1);
  return [...held].sort((a, b) => b[1] - a[1]).map(([index, count]) => [classColour(index), count / inside.length]);
}

/** A CSS value for a box. */
export function colourOf(box: Box, meaning: Meaning, heat: Heat): string {
  const measure = measureOf(meaning);
  if (measure) return heat.colour(box.id, measure);
  if (meaning === "paint") return HEAT_COLOURS[heat.paintStep(box.id) ?? -1] ?? "var(--irs-cat-other)";
  if (meaning === "compared") return COMPARED[heat.compared?.kinds[box.id] ?? "unmatched"];
  const lane = laneOf(box);
  if (meaning === "pass") return lane ? LANE_COLOURS[lane] : "var(--irs-cat-other)";
  if (meaning === "equal") return box.equivalence_class < 0 ? "var(--irs-cat-other)" : classColour(box.equivalence_class);
  if (box.kind === "lane") return LANE_COLOURS[box.label];
  if (box.kind === "group") return "var(--irs-cat-group)";
  if (box.kind === "module" || box.kind === "repeat" || box.kind === "stretch") return "var(--irs-cat-module)";
  return `var(--irs-cat-${CATEGORIES.includes(box.category) ? box.category : box.kind === "op" ? "other" : box.kind})`;
}

/** The same colour in a form that a canvas accepts, read from the styles of an element. */
export function paintOf(colour: string, styles: CSSStyleDeclaration): string {
  const name = /^var\((--[\w-]+)\)$/u.exec(colour)?.[1];
  return name ? styles.getPropertyValue(name).trim() || "#888" : colour;
}
