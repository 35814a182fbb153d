// The points-to graph around one value as a small layered picture: what may point where, and what contains what.

import type { Context } from "../lib/model/context";
import { s } from "../lib/dom/dom";
import { arrange, place } from "../lib/layout/layered";
import type { PointsToView } from "../lib/model/schema";
import { directPath, shortened } from "../graph/shapes";

const HEIGHT = 24;
const CHAR = 6.7;
const MOST_LABEL = 18;
const EDGE = 6;

export function pointsTo(context: Context, subject: number, view: PointsToView): SVGSVGElement {
  const sizes = view.labels.map((label) => ({ width: Math.min(label.length, MOST_LABEL) * CHAR + 20, height: HEIGHT }));
  const pairs = [...view.edges, ...view.contains].map(([from, to]) => [from, to] as const);
  const placed = place(arrange(view.labels.length, pairs), sizes);
  const width = placed.width + 2 * EDGE;
  const height = placed.height + 2 * EDGE;
  const centre = (i: number) => placed.x[i] + EDGE;
  const top = (i: number) => placed.y[i] + EDGE;
  const line = (name: string) => ([from, to]: number[]) => {
    const below = top(to) > top(from);
    const d = directPath(centre(from), top(from) + (below ? HEIGHT : 0), centre(to), top(to) + (below ? 0 : HEIGHT));
    return s("path", { class: name, d });
  };
  const box = (label: string, i: number) => {
    const record = view.records[i];
    const pick = (event: MouseEvent | KeyboardEvent) => context.selection.pick(record, event.shiftKey);
    return s("g", {
      class: `irs-element irs-element-${view.kinds[i]} ${record !== 0 && record === subject ? "subject" : ""} ${record ? "pickable" : ""}`,
      transform: `translate(${centre(i) - sizes[i].width / 2} ${top(i)})`,
      tabindex: record ? "0" : null, role: record ? "button" : null, "aria-label": `${view.kinds[i]} ${label}`, "data-record": record || null,
      onclick: record ? pick : null, onkeydown: record ? (event: KeyboardEvent) => event.key === "Enter" && pick(event) : null,
    }, s("title", {}, `${view.kinds[i]} ${label}`),
    s("rect", { width: sizes[i].width, height: HEIGHT, rx: view.kinds[i] === "location" || view.kinds[i] === "wildcard" ? HEIGHT / 2 : 4 }),
    s("text", { x: sizes[i].width / 2, y: HEIGHT / 2 + 4, "text-anchor": "middle" }, shortened(label, MOST_LABEL)));
  };
  return s("svg", {
    class: "irs-points-to", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "points-to graph",
  }, ...view.edges.map(line("irs-points")), ...view.contains.map(line("irs-contains")), ...view.labels.map(box));
}
