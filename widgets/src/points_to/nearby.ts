// The part of a picture of memory that is about some of its names, in a page that has no Python to draw it.

import { HALF, wayIn } from "../lib/model/pairs";
import type { PointsToView } from "../lib/model/schema";

/** From the middle of a row to where the next begins. */
const BELOW = 24;
const ROW = 46;
/** From the left edge of the names of a lane to its band. */
const BAND = 14;
const LEAST_WIDE = 700;

/** The legend's word for each kind of name or line. */
const KINDS: Record<string, string> = { location: "green:", outside: "amber:", is: "arrow:", may: "dashed:", holds: "dotted:", writes: "red:" };

/** The memories of these records, what they may be or hold, and what may be or hold them, with the steps on which two meet; the whole picture
 * for no record. */
export function nearby(whole: PointsToView, records: readonly number[]): PointsToView {
  if (!records.length) return whole;
  const laneAt = (x: number, y: number) => whole.bands.findIndex((band) => Math.abs(band.x - x) < 1 && band.top <= y && y <= band.bottom);
  const boxes = whole.boxes.map((box) => ({ box, row: box.y + HALF, lane: laneAt(box.x + BAND, box.y + HALF) }));
  const laneOf = new Map(boxes.map(({ row, lane }) => [row, lane]));
  const arrows = whole.arrows.map((arrow) => {
    const { kind, points, x, y } = arrow;
    const [goal, row] = kind === "is" ? [x, whole.lines.find((line) => line.y > y)!.y] : points[points.length - 1];
    return { arrow, row, lanes: [laneOf.get(row) ?? -1, kind === "is" ? -1 : laneAt(goal, row)].filter((lane) => lane >= 0) };
  });
  const near = new Set(boxes.filter(({ box }) => records.includes(box.record)).map(({ lane }) => lane));
  const isNear = ({ lanes }: { lanes: number[] }) => lanes.some((lane) => near.has(lane));
  for (let before = 0; before < near.size;) {
    before = near.size;
    for (const { lanes } of arrows.filter(isNear)) for (const lane of lanes) near.add(lane);
  }
  const kept = { boxes: boxes.filter(({ lane }) => near.has(lane)), arrows: arrows.filter(isNear) };
  const rows = new Set([...kept.boxes, ...kept.arrows].map(({ row }) => row));
  const down = squeezed(whole.lines.map(({ y }) => [y + BELOW - ROW, rows.has(y)]));
  const columns = new Map<number, [number, boolean]>();
  whole.bands.forEach(({ x }, lane) => {
    const mine = arrows.filter(({ arrow, lanes }) => arrow.kind === "is" && lanes[0] === lane).flatMap(({ arrow }) => arrow.points.map((point) => point[0]));
    const [left, isKept] = columns.get(x) ?? [x - BAND, false];
    columns.set(x, [Math.min(left, ...mine), isKept || near.has(lane)]);
  });
  const across = squeezed([...columns.values()].sort(([a], [b]) => a - b));
  const steps = records.length === 2 ? wayIn(whole, records[0], records[1]) : [];
  const stepAt = new Map(steps.map(({ record }, k) => [kept.boxes.find(({ box }) => box.record === record)?.row, k + 1]));
  const shown = [...kept.boxes.map(({ box }) => box.kind), ...kept.arrows.filter(({ arrow }) => arrow.points.length).map(({ arrow }) => arrow.kind), ...(kept.boxes.some(({ box }) => box.writes) ? ["writes"] : [])];
  return {
    ...whole, steps, told: steps.map(({ words }, k) => `${k + 1}  ${words}`),
    legend: [whole.legend.join(" ").split(" · ").filter((part) => shown.some((kind) => part.startsWith(KINDS[kind]))).join(" · ")],
    boxes: kept.boxes.map(({ box }) => ({ ...box, x: across(box.x), y: down(box.y), subject: records.includes(box.record) })),
    arrows: kept.arrows.map(({ arrow, row }) => {
      const start = arrow.points.length ? arrow.points[0][0] : arrow.x;
      return { ...arrow, step: arrow.kind === "is" ? (stepAt.get(row) ?? 0) : 0, points: arrow.points.map(([x, y]) => [across(x), down(y)]), x: arrow.x + across(start) - start, y: down(arrow.y) };
    }),
    lines: whole.lines.filter(({ y }) => rows.has(y)).map((line) => ({ ...line, y: down(line.y), steps: stepAt.has(line.y) ? [stepAt.get(line.y)!] : [] })),
    bands: whole.bands.filter((_, lane) => near.has(lane)).map(({ x, top, bottom }) => ({ x: across(x), top: down(top), bottom: down(bottom) })),
    width: Math.max(LEAST_WIDE, ...kept.boxes.map(({ box }) => across(box.x) + box.width + ROW)),
    height: Math.max(...[...rows].map(down)) + ROW,
  };
}

/** Where a place is once the parts that are not kept are taken out; each begins at its number and ends where the next begins. */
export function squeezed(parts: readonly (readonly [number, boolean])[]): (at: number) => number {
  return (at) => at - parts.reduce((gone, [start, kept], k) => (kept || k + 1 === parts.length || at < parts[k + 1][0] ? gone : gone + parts[k + 1][0] - start), 0);
}
