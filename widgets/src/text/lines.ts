// What the lines of a text represent, for the IR and for the user's source.

import type { Context } from "../lib/model/context";
import { HEAT_COLOURS, stepOf } from "../lib/model/heat";
import type { GoneLine } from "../lib/model/schema";
import { withoutTypes } from "../lib/model/tokens";
import type { LineLook } from "./states";
import { LineStates } from "./states";

export type Mark = "selected" | "inside" | "lit" | "";

export interface Lines {
  count: number;
  /** Whether they are lines of the user's program. */
  isPython?: boolean;
  text(line: number): string;
  /** Whether the text has types that may be hidden. */
  typed: boolean;
  showTypes: boolean;
  /** Marked lines in order, computed by `mark` for the current selection. */
  marked: [number, Mark][];
  mark(): void;
  markOf(line: number): Mark;
  nameMark(record: number): Mark;
  hint(record: number): string;
  pick(record: number | null, line: number | null, extend: boolean): void;
  /** What to print beside a line: its number in the text. */
  number(line: number): string;
  /** The steps of the path shown now that a line is. */
  way(line: number): readonly number[];
  /** The look of a line at the current step. */
  look(line: number): LineLook;
  /** The class of a line that copies a tensor and does nothing else, or that no kernel of another compiler computes. */
  fate(line: number): string;
  /** The cost of a line, as a colour and in words; null for none. */
  heat(line: number): { colour: string; told: string } | null;
  /** A key of what a line prints: it changes when the line has to be printed again. */
  words(line: number): string;
  /** What to print for a name on a line, and whether its value no longer needs memory. */
  meant(line: number, name: string, nth: number): { record: number | undefined; name: string; kept: boolean };
  /** The line of a node; for a removed node, where it was. */
  lineOf(node: number): number;
  /** The number of lines of nodes that passes removed, and whether they are shown in every state. */
  gone: number;
  showGone: boolean;
  /** Shows the lines of the current state and hides the others; returns whether any line moved. */
  arrange(): boolean;
  /** The line of the text without removed lines that a line is, or is above. */
  anchor(line: number): number;
  fromAnchor(anchor: number): number;
  /** Requests a line that is not loaded yet; returns whether it is loaded. */
  isThere(line: number): boolean;
  /** Moves the selection to the next or previous line that represents a record. */
  step(by: 1 | -1, extend: boolean): void;
}

export function irLines(context: Context): Lines {
  const { view, records, selection, steps } = context;
  const states = new LineStates(context);
  const gone = steps?.view.gone ?? [];
  /** For each visible line: the line of the text, or -1 - k for the k-th removed one. */
  let shown: number[] = [];
  let placeOf: Int32Array = new Int32Array(0);
  const goneAt = new Int32Array(gone.length).fill(-1);
  let showGone = false;
  /** A removed line is shown in the states that have it, and at the step that removes it. */
  const isShown = (line: GoneLine) => showGone || (steps!.active && (steps!.isThere(line) || line.until === steps!.at));
  const wanted = new Uint8Array(gone.length);
  const arrange = () => {
    let isSame = shown.length > 0;
    gone.forEach((line, k) => {
      const now = isShown(line) ? 1 : 0;
      isSame &&= wanted[k] === now;
      wanted[k] = now;
    });
    if (isSame) return false;
    shown = [];
    goneAt.fill(-1);
    placeOf = new Int32Array(view.text.lines.length);
    let next = 0;
    for (let line = 0; line < view.text.lines.length; line++) {
      for (; next < gone.length && gone[next].above <= line; next++) {
        if (!wanted[next]) continue;
        goneAt[next] = shown.length;
        shown.push(-1 - next);
      }
      placeOf[line] = shown.length;
      shown.push(line);
    }
    return true;
  };
  arrange();
  const goneNodes = new Map(gone.map((line, k) => [line.node, k]));
  let marks = new Map<number, Mark>();
  let names = new Map<number, Mark>();
  const earlier = (line: number) => {
    if (!steps || (line >= 0 && !view.text.nodes[line] && line !== view.text.lines.length - 1)) return undefined;
    return steps.earlier(line < 0 ? gone[-1 - line].node : view.text.nodes[line]);
  };
  const printed = (line: number) => {
    const now = line < 0 ? gone[-1 - line].text : records.text(line);
    const old = earlier(line);
    return old ? now.slice(0, now.length - now.trimStart().length) + old.text.trimStart() : now;
  };
  const recordAt = (line: number) => (line < 0 ? 0 : records.recordAt(line));
  const lines: Lines = {
    get count() {
      return shown.length;
    },
    text: (row) => (lines.showTypes ? printed(shown[row]) : withoutTypes(printed(shown[row]))),
    typed: true,
    showTypes: false,
    marked: [],
    mark() {
      marks = new Map();
      names = new Map();
      for (const record of selection.lit) {
        for (const line of records.lines(record)) marks.set(placeOf[line], "lit");
        names.set(record, "lit");
      }
      for (const record of selection.ids) {
        const past = goneNodes.get(record);
        if (past !== undefined && goneAt[past] >= 0) marks.set(goneAt[past], "selected");
        const own = records.lines(record);
        const kind = own.length > 1 && view.text.nodes[own[0]] !== record ? "inside" : "selected";
        for (const line of records.linesInside(record)) if (!marks.has(placeOf[line])) marks.set(placeOf[line], "inside");
        for (const line of own) if (kind === "selected" || !marks.has(placeOf[line])) marks.set(placeOf[line], kind);
        if (records.isValue(record)) names.set(record, "selected");
        else for (const value of records.valuesOf(record)) names.set(value, "inside");
      }
      lines.marked = [...marks].sort((a, b) => a[0] - b[0]);
    },
    markOf: (row) => marks.get(row) ?? "",
    nameMark: (record) => names.get(record) ?? "",
    hint: (record) => records.text(records.line(record)).trim(),
    pick: (record, row, extend) => selection.pick(record ?? (row === null ? 0 : recordAt(shown[row])), extend),
    number: (row) => (shown[row] < 0 ? "" : String(shown[row] + 1)),
    way: (row) => (shown[row] < 0 ? [] : (selection.way.get(view.text.nodes[shown[row]]) ?? [])),
    look: (row) => (shown[row] < 0 ? states.lookGone(gone[-1 - shown[row]]) : states.look(shown[row])),
    fate: (row) => {
      const node = shown[row] >= 0 ? view.text.nodes[shown[row]] : 0;
      return context.copies.has(node) ? "moves" : view.decided?.unrun[node] ? "unrun" : "";
    },
    heat: (row) => (shown[row] < 0 || !view.text.nodes[shown[row]] ? null : heatOf(context, context.heat.of(view.text.nodes[shown[row]]), context.heat.values(view.text.nodes[shown[row]]))),
    words: (row) => `${lines.way(row).join(",")} ${earlier(shown[row])?.until ?? ""} ${shown[row] < 0 ? "" : states.words(shown[row])}`,
    meant(row, name, nth) {
      const old = earlier(shown[row]) ?? gone[-1 - shown[row]];
      if (old) {
        const value = old.values[nth];
        return { record: records.isValue(value) ? value : undefined, name, kept: false };
      }
      const record = records.names.get(name);
      const meant = record === undefined ? undefined : states.meant(shown[row], record);
      if (meant === undefined || meant === record) return { record, name, kept: record !== undefined && states.isKept(record) };
      const former = steps?.view.names[meant];
      return { record: former === undefined ? meant : record, name: former ?? records.title(meant).slice(1), kept: states.isKept(meant) };
    },
    lineOf(node) {
      const line = records.line(node);
      if (line >= 0) return placeOf[line];
      const k = goneNodes.get(node);
      return k === undefined ? -1 : goneAt[k] >= 0 ? goneAt[k] : placeOf[gone[k].above];
    },
    gone: gone.length,
    get showGone() {
      return showGone;
    },
    set showGone(on: boolean) {
      showGone = on;
    },
    arrange,
    anchor: (row) => (shown[row] === undefined ? 0 : shown[row] < 0 ? gone[-1 - shown[row]].above : shown[row]),
    fromAnchor: (anchor) => placeOf[anchor] ?? 0,
    isThere(row) {
      const line = shown[row];
      if (line < 0 || view.text.lines[line] !== undefined) return true;
      records.wantLine(line);
      return false;
    },
    step(by, extend) {
      const last = selection.ids.length ? records.line(selection.ids[selection.ids.length - 1]) : -1;
      const held = last < 0 ? -1 : placeOf[last];
      let row = held < 0 && by < 0 ? lines.count : held;
      do row += by;
      while (row >= 0 && row < lines.count && !recordAt(shown[row]));
      const record = row >= 0 && row < lines.count ? recordAt(shown[row]) : 0;
      if (record) selection.pick(record, extend);
    },
  };
  return lines;
}

function heatOf({ heat }: Context, hot: number | undefined, values: readonly number[] | undefined): { colour: string; told: string } | null {
  const step = stepOf(hot);
  return step === undefined ? null : { colour: step ? HEAT_COLOURS[step] : "transparent", told: heat.told(values) };
}

export function sourceLines(context: Context, file: string): Lines {
  const { view, records, selection } = context;
  const source = view.source?.[file] ?? [];
  const nodesAt = (line: number) => records.nodesFrom(file, line + 1);
  const lineOf = (record: number) => {
    const [, name, line] = /^(.*):(\d+):\d+$/u.exec(records.location(record)) ?? [];
    return name === file ? Number(line) - 1 : -1;
  };
  let marks = new Map<number, Mark>();
  const lines: Lines = {
    count: source.length,
    isPython: true,
    text: (line) => source[line],
    typed: false,
    showTypes: false,
    marked: [],
    mark() {
      marks = new Map();
      const add = (record: number, mark: Mark) => {
        const line = lineOf(record);
        if (line >= 0) marks.set(line, mark);
      };
      for (const record of selection.lit) add(record, "lit");
      for (const record of selection.ids) for (const line of records.linesInside(record)) add(view.text.nodes[line], "inside");
      for (const record of selection.ids) add(record, "selected");
      lines.marked = [...marks].sort((a, b) => a[0] - b[0]);
    },
    markOf: (line) => marks.get(line) ?? "",
    nameMark: () => "",
    hint: () => "",
    number: (line) => String(line + 1),
    way: () => [],
    look: (line) => ({ classes: context.steps?.active && nodesAt(line).some((node) => context.steps?.now.has(node)) ? "t-now" : "", colour: "" }),
    fate: () => "",
    heat: (line) => heatOf(context, context.heat.ofLine(file, line + 1), context.heat.profile?.source_heat?.[file]?.[line + 1]),
    words: () => "",
    meant: (_line, name) => ({ record: undefined, name, kept: false }),
    lineOf,
    gone: 0,
    showGone: false,
    arrange: () => false,
    anchor: (line) => line,
    fromAnchor: (anchor) => anchor,
    isThere: () => true,
    pick: (_record, line) => selection.set(line === null ? [] : nodesAt(line)),
    step(by) {
      let line = lines.marked[0]?.[0] ?? (by > 0 ? -1 : source.length);
      do line += by;
      while (line >= 0 && line < source.length && !nodesAt(line).length);
      if (nodesAt(line).length) selection.set(nodesAt(line));
    },
  };
  return lines;
}
