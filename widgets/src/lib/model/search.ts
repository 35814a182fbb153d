// The occurrences of a typed word: names, ops and labels, best matches first.

import type { Records } from "./records";
import { withoutTypes } from "./tokens";

export interface Match {
  record: number;
  title: string;
  line: string;
}

export interface Matches {
  shown: Match[];
  /** Every record that matches, in program order. */
  all: number[];
}

export function search(records: Records, query: string, limit = 40): Matches {
  const wanted = query.trim().toLowerCase();
  if (!wanted) return { shown: [], all: [] };
  const exact = records.names.get(query.trim().replace(/^%/u, "")) ?? records.view.decided?.buffers[query.trim()];
  const found = new Set<number>(exact === undefined ? [] : [exact]);
  const all = new Set<number>();
  records.view.text.lines.forEach((line, k) => {
    if (!line.toLowerCase().includes(wanted)) return;
    const record = records.recordAt(k);
    if (record) all.add(record);
  });
  for (const box of records.hierarchy.boxes) {
    if (box.label.toLowerCase().includes(wanted)) all.add(box.id);
  }
  for (const record of all) found.add(record);
  const shown = [...found].slice(0, limit).map((record) => {
    const line = records.line(record);
    return { record, title: records.longTitle(record), line: line < 0 ? "" : withoutTypes(records.text(line)).trim() };
  });
  return { shown, all: [...all] };
}
