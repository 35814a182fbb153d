// What the lines of a text stand for: of the IR, and of the user's source.

import type { Context } from "../lib/context";
import { withoutTypes } from "../lib/tokens";

export type Mark = "selected" | "inside" | "lit" | "";

export interface Lines {
  count: number;
  text(line: number): string;
  /** Whether the text has types that may be hidden. */
  typed: boolean;
  showTypes: boolean;
  /** Marked lines in order, worked out by `mark` for the selection of the moment. */
  marked: [number, Mark][];
  mark(): void;
  markOf(line: number): Mark;
  recordOf(name: string): number | undefined;
  nameMark(record: number): Mark;
  hint(record: number): string;
  pick(record: number | null, line: number | null, extend: boolean): void;
  /** Moves the selection to the next or previous line that stands for something. */
  step(by: 1 | -1, extend: boolean): void;
}

export function irLines({ view, records, selection }: Context): Lines {
  let marks = new Map<number, Mark>();
  let names = new Map<number, Mark>();
  const lines: Lines = {
    count: view.text.lines.length,
    text: (line) => (lines.showTypes ? view.text.lines[line] : withoutTypes(view.text.lines[line])),
    typed: true,
    showTypes: false,
    marked: [],
    mark() {
      marks = new Map();
      names = new Map();
      for (const record of selection.lit) {
        for (const line of records.lines(record)) marks.set(line, "lit");
        names.set(record, "lit");
      }
      for (const record of selection.ids) {
        const own = records.lines(record);
        const kind = own.length > 1 && view.text.nodes[own[0]] !== record ? "inside" : "selected";
        for (const line of records.linesInside(record)) if (!marks.has(line)) marks.set(line, "inside");
        for (const line of own) if (kind === "selected" || !marks.has(line)) marks.set(line, kind);
        if (records.isValue(record)) names.set(record, "selected");
        else for (const value of records.valuesOf(record)) names.set(value, "inside");
      }
      lines.marked = [...marks].sort((a, b) => a[0] - b[0]);
    },
    markOf: (line) => marks.get(line) ?? "",
    recordOf: (name) => records.names.get(name),
    nameMark: (record) => names.get(record) ?? "",
    hint: (record) => view.text.lines[records.line(record)]?.trim() ?? "",
    pick: (record, line, extend) => selection.pick(record ?? (line === null ? 0 : records.recordAt(line)), extend),
    step(by, extend) {
      const held = selection.ids.length ? records.line(selection.ids[selection.ids.length - 1]) : -1;
      let line = held < 0 && by < 0 ? lines.count : held;
      do line += by;
      while (line >= 0 && line < lines.count && !records.recordAt(line));
      const record = line >= 0 && line < lines.count ? records.recordAt(line) : 0;
      if (record) selection.pick(record, extend);
    },
  };
  return lines;
}

export function sourceLines({ view, records, selection }: Context, file: string): Lines {
  const source = view.source?.[file] ?? [];
  let marks = new Map<number, Mark>();
  const lines: Lines = {
    count: source.length,
    text: (line) => source[line],
    typed: false,
    showTypes: false,
    marked: [],
    mark() {
      marks = new Map();
      const add = (record: number, mark: Mark) => {
        const [, name, line] = /^(.*):(\d+):\d+$/u.exec(records.location(record)) ?? [];
        if (name === file) marks.set(Number(line) - 1, mark);
      };
      for (const record of selection.lit) add(record, "lit");
      for (const record of selection.ids) add(record, "selected");
      lines.marked = [...marks].sort((a, b) => a[0] - b[0]);
    },
    markOf: (line) => marks.get(line) ?? "",
    recordOf: () => undefined,
    nameMark: () => "",
    hint: () => "",
    pick: (_record, line) => selection.set(line === null ? [] : records.nodesFrom(file, line + 1)),
    step(by) {
      let line = lines.marked[0]?.[0] ?? (by > 0 ? -1 : source.length);
      do line += by;
      while (line >= 0 && line < source.length && !records.nodesFrom(file, line + 1).length);
      const nodes = records.nodesFrom(file, line + 1);
      if (nodes.length) selection.set(nodes);
    },
  };
  return lines;
}
