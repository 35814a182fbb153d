import { expect, test } from "vitest";
import { Bands } from "../src/lib/layout/bands";
import { Draft } from "../src/lib/model/branches";
import { Records, type Supply } from "../src/lib/model/records";
import type { ExplorerView } from "../src/lib/model/schema";
import { search } from "../src/lib/model/search";
import { picked, Selection } from "../src/lib/model/selection";
import { bytes } from "../src/lib/model/sizes";
import { definedNames, tokens, withoutTypes } from "../src/lib/model/tokens";
import { firstLook, fit, nudge, reveal, showsAll, windowOf, zoomAt } from "../src/lib/layout/viewport";
import { milliseconds } from "../src/tables/timing";
import { box, random } from "./programs";

const LINES = [
  "graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu),",
  "      %conv.weight : Tensor):",
  '  %3 : str = prim::Constant[value="a%b # \\"c"]()  # m.py:3:4',
  "  %a.1 : Tensor, %b : Tensor = aten::chunk(%x, %3)",
  "  %c : Tensor = aten::add_(%a.1, %b)  # m.py:4:8",
  "  return (%c)",
];

function view(): ExplorerView {
  const boxes = [box(101, 0, "input", "%x"), box(-1, 0, "module", "m"), box(11, -1, "op", "aten::chunk"), box(12, -1, "op", "aten::add_")];
  boxes[0].values = [1];
  boxes[2].values = [4, 5];
  boxes[3].values = [6];
  return {
    version: 1, title: "t", headline: [], remarks: { columns: [], rows: [], selects: [] }, timing: null, details: {},
    text: { lines: LINES, nodes: [0, 0, 10, 11, 12, 0], names: { x: 1, "conv.weight": 2, "3": 3, "a.1": 4, b: 5, c: 6 }, locations: { 10: "m.py:3:4", 12: "m.py:4:8" } },
    graph: { boxes, edges: [], closed: [] },
    classes: [{ index: 0, label: "class 0", members: [11, 12] }],
  };
}

test("sizes have the digits of byte_count in Python", () => {
  const sizes = [0, 800, 12250, 12350, 12750, 65536, 98304, 999499, 999500, -1500000, 1048576, 2.5e15];
  expect(sizes.map(bytes)).toEqual(["0 B", "800 B", "12.2 kB", "12.3 kB", "12.8 kB", "65.5 kB", "98.3 kB", "999 kB", "1 MB", "-1.5 MB", "1.05 MB", "2,500 TB"]);
});

test("the pieces of a line are the line", () => {
  for (const line of [...LINES, "", "%", "%% : ::", "__global__ void k(float* x) { x[0] = 1.5e-3f; } // done"]) {
    expect(tokens(line).map((token) => token.text).join("")).toBe(line);
  }
});

test("names, ops, strings and comments are told apart", () => {
  const kinds = tokens(LINES[2]).filter((token) => token.kind !== "plain").map(({ kind, text }) => [kind, text]);
  expect(kinds).toEqual([
    ["value", "%3"], ["type", "str"], ["op", "prim::Constant"], ["string", '"a%b # \\"c"'], ["comment", "# m.py:3:4"],
  ]);
  expect(tokens("y = x // 2  # half", true).map(({ kind, text }) => [kind, text]).slice(-2)).toEqual([["plain", "  "], ["comment", "# half"]]);
  expect(tokens("%a.1, %b").filter((token) => token.kind === "value").map((token) => token.text)).toEqual(["%a.1", "%b"]);
});

test("a line defines the names before its equals sign only", () => {
  expect(definedNames(LINES[3])).toEqual(["a.1", "b"]);
  expect(definedNames(LINES[5])).toEqual([]);
});

test("types of declared values can be left out, and nothing else goes", () => {
  expect(LINES.slice(0, 5).map(withoutTypes)).toEqual([
    "graph(%x,",
    "      %conv.weight):",
    '  %3 = prim::Constant[value="a%b # \\"c"]()  # m.py:3:4',
    "  %a.1, %b = aten::chunk(%x, %3)",
    "  %c = aten::add_(%a.1, %b)  # m.py:4:8",
  ]);
  expect(withoutTypes("  block0(%i : int, %d : Dict(str, Tensor[])):")).toBe("  block0(%i, %d):");
});

test("records know their lines, boxes, names and source", () => {
  const records = new Records(view());
  expect(records.lines(11)).toEqual([3]);
  expect(records.line(5)).toBe(3);
  expect(records.line(1)).toBe(0);
  expect(records.line(2)).toBe(1);
  expect(records.lines(-1)).toEqual([3, 4]);
  expect(records.recordAt(1)).toBe(2);
  expect(records.recordAt(5)).toBe(0);
  expect(records.title(4)).toBe("%a.1");
  expect(records.title(12)).toBe("aten::add_");
  expect(records.longTitle(12)).toBe("aten::add_ → %c");
  expect(records.title(10)).toBe("prim::Constant");
  expect(records.nodesFrom("m.py", 4)).toEqual([12]);
  expect(records.location(6)).toBe("m.py:4:8");
  expect(records.equals(11)?.members).toEqual([11, 12]);
  expect(records.equals(10)).toBeNull();
  expect(records.hierarchy.boxes[records.hierarchy.find(5)].id).toBe(11);
});

test("a click selects, a second with Shift makes a pair, an unknown one clears", () => {
  expect(picked([], 5, false)).toEqual([5]);
  expect(picked([5], 6, false)).toEqual([6]);
  expect(picked([5], 6, true)).toEqual([5, 6]);
  expect(picked([5, 6], 7, true)).toEqual([5, 7]);
  expect(picked([5, 6], 6, true)).toEqual([5]);
  expect(picked([5], 5, true)).toEqual([]);
  expect(picked([], 5, true)).toEqual([5]);
  expect(picked([5, 6], 0, false)).toEqual([]);
});

test("a selection tells its listeners and its shared model once, and not for the same ids", () => {
  const sent: number[][] = [];
  let fire = () => {};
  let held: number[] = [];
  const selection = new Selection({ get: () => held, set: (ids) => void sent.push((held = ids)), onChange: (listener) => (fire = listener) });
  let told = 0;
  selection.subscribe(() => told++);
  selection.pick(3);
  fire();
  selection.pick(3);
  expect([sent, told]).toEqual([[[3]], 1]);
  held = [4, 5];
  fire();
  expect([selection.ids, told, sent.length]).toEqual([[4, 5], 2, 1]);
});

test("evidence is lit until the selection changes", () => {
  const selection = new Selection();
  selection.set([1, 2]);
  const moves: boolean[] = [];
  selection.subscribe((moved) => moves.push(moved));
  selection.light([8, 9]);
  selection.light([9, 8]);
  expect([...selection.lit]).toEqual([8, 9]);
  selection.set([3]);
  expect(moves).toEqual([false, true]);
  expect(selection.lit.size).toBe(0);
});

test("lines that are not there are asked for once: more of them where one reads on, and those around steps ahead", () => {
  const asked: [number, number][] = [];
  const lines = (first: number, count: number) => {
    asked.push([first, count]);
    return new Promise<never>(() => undefined);
  };
  const whole = view();
  const records = new Records({ ...whole, text: { ...whole.text, total: 10_000 } }, { lines } as unknown as Supply);
  records.wantLine(2500);
  records.wantLine(2400);
  expect(asked).toEqual([[2400, 240]]);
  records.wantLine(2650); // on to the next page
  records.wantLine(2390); // and back to the one before
  records.wantLine(5000); // and to somewhere else
  expect(asked.slice(1)).toEqual([[2640, 720], [1680, 720], [4800, 240]]);
  records.wantAround([3000, 9990, 5050, 8000]);
  expect(asked.slice(4)).toEqual([[5040, 240], [7920, 240], [9840, 240]]);
  records.wantAround([0, 10_000, -1]);
  expect(asked.slice(7)).toEqual([[0, 240]]);
});

test("a draft goes back to what was written in it, not to another text, and keeps fewer of long ones", () => {
  const draft = new Draft();
  draft.begin("one");
  draft.write("one!", 4, 4);
  draft.begin("two");
  expect(draft.undo()).toBe(false);
  draft.write("two?", 4, 4);
  expect(draft.undo() && draft.text).toBe("two");
  expect(draft.redo() && draft.text).toBe("two?");
  const back = (letters: number) => {
    draft.begin("x".repeat(letters));
    for (let k = 0; k < 300; k++) draft.write(`${"x".repeat(letters)}${k}`, 10 * k, 10 * k); // each in another place
    let steps = 0;
    while (draft.undo()) steps++;
    return steps;
  };
  expect([back(10), back(200_000), back(5_000_000)]).toEqual([200, 99, 20]);
}, 20_000);

test("search finds exact names first, then lines and labels in program order", () => {
  const records = new Records(view());
  expect(search(records, "%c").shown[0].record).toBe(6);
  expect(search(records, "aten::").all).toEqual([11, 12]);
  expect(search(records, "no such thing").all).toEqual([]);
  expect(search(records, "  ").all).toEqual([]);
});

test("bands give exactly the rectangles that a window touches", () => {
  const next = random(3);
  const bounds = Float64Array.from(Array.from({ length: 300 }, () => {
    const x = next() * 4000 - 1000;
    const y = next() * 9000 - 1000;
    return [x, y, x + next() * 500, y + next() ** 4 * 6000];
  }).flat());
  const bands = new Bands(bounds);
  for (let k = 0; k < 50; k++) {
    const w = { x: next() * 4000 - 1000, y: next() * 9000 - 1000, width: next() * 900, height: next() * 900 };
    const touching = [...Array(300).keys()].filter((i) =>
      bounds[4 * i] <= w.x + w.width && bounds[4 * i + 2] >= w.x && bounds[4 * i + 1] <= w.y + w.height && bounds[4 * i + 3] >= w.y);
    expect(bands.within(w)).toEqual(touching);
  }
});

test("zooming keeps the point under the pointer", () => {
  const before = { x: 100, y: 50, scale: 1 };
  const after = zoomAt(before, 2, 30, 40);
  expect([after.x + 30 / after.scale, after.y + 40 / after.scale]).toEqual([130, 90]);
});

test("nudge moves as little as it must to show a rectangle", () => {
  const frame = { width: 400, height: 300 };
  const view = { x: 0, y: 0, scale: 1 };
  expect(nudge(view, frame, { x: 100, y: 100, width: 50, height: 20 })).toBe(view);
  expect(nudge(view, frame, { x: 500, y: 100, width: 50, height: 20 })).toEqual({ x: 162, y: 0, scale: 1 });
  expect(nudge(view, frame, { x: 20, y: -90, width: 50, height: 20 })).toEqual({ x: 0, y: -102, scale: 1 });
  expect(nudge(view, frame, { x: 500, y: 0, width: 5000, height: 20 }).x).toBe(488);
});

test("fit shows everything; the first look is readable; reveal moves only when it must", () => {
  const frame = { width: 400, height: 300 };
  const tall = { width: 300, height: 9000 };
  const seen = windowOf(fit(tall, frame), frame);
  expect([seen.y, seen.y + seen.height]).toEqual([0, 9000]); // with its border, in which edges run
  expect(13 * firstLook(tall, frame, 0).scale).toBeGreaterThanOrEqual(10); // pixels of a letter
  expect(13 * firstLook({ width: 300, height: 400 }, frame, 0).scale).toBeGreaterThanOrEqual(9); // all of it, with letters a little smaller
  expect([showsAll(fit(tall, frame), tall, frame), showsAll(firstLook(tall, frame, 0), tall, frame)]).toEqual([true, false]);
  const wide = windowOf(firstLook({ width: 9000, height: 9000 }, frame, 4000), frame);
  expect(wide.x + wide.width / 2).toBeCloseTo(4000);
  const view = { x: 0, y: 0, scale: 1 };
  expect(reveal(view, frame, { x: 10, y: 10, width: 50, height: 20 })).toBe(view);
  expect(reveal(view, frame, { x: 10, y: 2000, width: 50, height: 20 }).y).toBeCloseTo(1860);
});

test("a time has three figures and no exponent, also just below the next unit", () => {
  expect([0.0123, 0.9994, 0.9996, 12.345, 999.4, 999.7].map(milliseconds)).toEqual(["12.3 µs", "999 µs", "1.00 ms", "12.3 ms", "999 ms", "1.00 s"]);
});
