import { expect, test } from "vitest";
import type { PointsToView } from "../src/lib/model/schema";
import { nearby } from "../src/points_to/nearby";

// %x and its name %u, %y and its view %v in a column that %z takes over, and %r, which may be %x or %z; as Python places them
const NAMES: [string, number][] = [["%x", 166], ["%y", 320], ["%v", 320], ["%u", 166], ["%z", 320], ["%r", 473]];
const row = (k: number) => 48 + 46 * k;
const WHOLE: PointsToView = {
  title: "", width: 700, height: 320, steps: [], cones: [], told: [], legend: [],
  boxes: NAMES.map(([label, x], k) => ({ label, kind: "name", record: k, x, y: row(k) - 12, width: 33, writes: false, subject: false })),
  lines: NAMES.map(([label], k) => ({ number: k + 1, text: label, y: row(k), steps: [], node: 0 })),
  bands: [{ x: 180, top: row(0), bottom: row(5) + 24 }, { x: 334, top: row(1), bottom: row(2) + 24 }, { x: 334, top: row(4), bottom: row(5) + 24 }, { x: 487, top: row(5), bottom: row(5) }],
  arrows: [
    { kind: "is", label: "alias", points: [[334, 106], [334, 128]], x: 342, y: 121, step: 0 },
    { kind: "is", label: "relu_", points: [[180, 60], [180, 174]], x: 188, y: 167, step: 0 },
    ...[180, 334].map((x) => ({ kind: "may" as const, label: "", points: [[473, 278], [x, 278]], x: 467, y: 273, step: 0 })),
  ],
};

test("of a saved picture of memory, what is asked about is kept without gaps", () => {
  expect(nearby(WHOLE, [])).toBe(WHOLE);
  const alone = nearby(WHOLE, [2]);
  expect(alone.boxes.map(({ label, x, y, subject }) => [label, x, y, subject])).toEqual([["%y", 166, 36, false], ["%v", 166, 82, true]]);
  expect(alone.arrows.map(({ points, y }) => [points, y])).toEqual([[[[180, 60], [180, 82]], 75]]);
  expect(alone.bands).toEqual([{ x: 180, top: 48, bottom: 118 }]);
  const pair = nearby({ ...WHOLE, legend: ["green: a memory begins · arrow: is it, or a view of it · dashed: may be"] }, [3, 0]);
  expect(pair.told).toEqual(["1  %u is %x, or a view of it (relu_)"]);
  expect([pair.lines.map(({ steps }) => steps), pair.arrows.map(({ step }) => step)]).toEqual([[[], [1], [], []], [1, 0, 0]]);
  const [legend] = nearby({ ...WHOLE, legend: ["arrow: is it, or a view of it · dashed: may be"] }, [2]).legend;
  expect(legend).toBe("arrow: is it, or a view of it"); // no line of it is dashed
  const joined = nearby(WHOLE, [0]);
  expect(joined.boxes.map(({ label, x, y }) => [label, x, y])).toEqual([["%x", 166, 36], ["%u", 166, 82], ["%z", 320, 128], ["%r", 473, 174]]);
  expect(joined.arrows.filter(({ kind }) => kind === "may").map(({ points }) => points)).toEqual([[[473, 186], [180, 186]], [[473, 186], [334, 186]]]);
  expect([joined.height, joined.lines.map(({ y }) => y)]).toEqual([232, [48, 94, 140, 186]]);
});
