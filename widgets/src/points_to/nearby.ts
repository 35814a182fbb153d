// The part of a picture of memory that is about some of its names, in a page that has no Python to draw it.

import type { PointsToView } from "../lib/model/schema";

/** From the top of a name to the middle of its row. */
const HALF = 12;
/** From the middle of a row to where the next begins. */
const BELOW = 24;
const ROW = 46;
/** From the left edge of the names of a lane to its band. */
const BAND = 14;
const LEAST_WIDE = 700;

/** The memories of these records, what they may be or hold, and what may be or hold them; the whole picture for no record. */
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
  return {
    ...whole, told: [],
    boxes: kept.boxes.map(({ box }) => ({ ...box, x: across(box.x), y: down(box.y), subject: records.includes(box.record) })),
    arrows: kept.arrows.map(({ arrow }) => {
      const start = arrow.points.length ? arrow.points[0][0] : arrow.x;
      return { ...arrow, points: arrow.points.map(([x, y]) => [across(x), down(y)]), x: arrow.x + across(start) - start, y: down(arrow.y) };
    }),
    lines: whole.lines.filter(({ y }) => rows.has(y)).map((line) => ({ ...line, y: down(line.y) })),
    bands: whole.bands.filter((_, lane) => near.has(lane)).map(({ x, top, bottom }) => ({ x: across(x), top: down(top), bottom: down(bottom) })),
    width: Math.max(LEAST_WIDE, ...kept.boxes.map(({ box }) => across(box.x) + box.width + ROW)),
    height: Math.max(...[...rows].map(down)) + ROW,
  };
}

/** Where a place is once the parts that are not kept are taken out; each begins at its number and ends where the next begins. */
function squeezed(parts: readonly (readonly [number, boolean])[]): (at: number) => number {
  return (at) => at - parts.reduce((gone, [start, kept], k) => (kept || k + 1 === parts.length || at < parts[k + 1][0] ? gone : gone + parts[k + 1][0] - start), 0);
}
