// What an id stands for in each pane: lines of text, boxes of the graph, printed names. Built once per view.

import { Hierarchy } from "./hierarchy";
import type { Box, ExplorerView } from "./schema";
import { definedNames, namesIn } from "./tokens";

export class Records {
  readonly hierarchy: Hierarchy;
  readonly names: Map<string, number>;
  private readonly nameOf = new Map<number, string>();
  private readonly linesOfNode = new Map<number, number[]>();
  private readonly lineOfValue = new Map<number, number>();
  private readonly nodesAt = new Map<string, number[]>();
  private readonly classOf = new Map<number, number>();
  private readonly membersOf = new Map<number, number[]>();

  constructor(readonly view: ExplorerView) {
    this.hierarchy = new Hierarchy(view.graph);
    this.names = new Map(Object.entries(view.text.names));
    for (const [name, value] of this.names) this.nameOf.set(value, name);
    view.text.lines.forEach((line, k) => this.readLine(line, k));
    for (const [node, place] of Object.entries(view.text.locations)) {
      add(this.nodesAt, place.replace(/:\d+$/u, ""), Number(node));
    }
    for (const group of view.classes) {
      this.membersOf.set(group.index, group.members);
      for (const member of group.members) this.classOf.set(member, group.index);
    }
    for (const box of view.graph.boxes) {
      if (box.equivalence_class >= 0 && !this.classOf.has(box.id)) this.classOf.set(box.id, box.equivalence_class);
    }
  }

  private readLine(line: string, k: number): void {
    const node = this.view.text.nodes[k];
    if (node) add(this.linesOfNode, node, k);
    const defined = node ? definedNames(line) : /^\s*(graph|block\d+)?\s*\(?%/u.test(line) ? namesIn(line) : [];
    for (const name of defined) {
      const value = this.names.get(name);
      if (value !== undefined && !this.lineOfValue.has(value)) this.lineOfValue.set(value, k);
    }
  }

  /** The line that best stands for a record, -1 for none. */
  line(record: number): number {
    return this.lines(record)[0] ?? -1;
  }

  /** The lines that print a record: a node's own, a value's definition, for a box all lines of what it holds. */
  lines(record: number): number[] {
    const own = this.linesOfNode.get(record);
    if (own) return own;
    const defined = this.lineOfValue.get(record);
    if (defined !== undefined) return [defined];
    return this.linesInside(record);
  }

  /** The lines of all that a box holds; none for a value. */
  linesInside(record: number): number[] {
    const box = this.hierarchy.find(record);
    if (box < 0 || this.hierarchy.boxes[box].id !== record) return [];
    const inside = this.hierarchy.descendants(box).flatMap((i) => this.linesOfNode.get(this.hierarchy.boxes[i].id) ?? []);
    return inside.sort((a, b) => a - b);
  }

  /** The record a line stands for: its node, or else the first value that it declares; 0 for none. */
  recordAt(line: number): number {
    const node = this.view.text.nodes[line];
    if (node) return node;
    for (const name of namesIn(this.view.text.lines[line] ?? "")) {
      const value = this.names.get(name);
      if (value !== undefined && this.lineOfValue.get(value) === line) return value;
    }
    return 0;
  }

  isValue(record: number): boolean {
    return this.nameOf.has(record);
  }

  /** What to call a record in a sentence: `%name` for a value, the op for a node, the label of any other box. */
  title(record: number): string {
    const name = this.nameOf.get(record);
    if (name !== undefined) return `%${name}`;
    const box = this.hierarchy.find(record);
    if (box >= 0) return this.hierarchy.boxes[box].label;
    const line = this.linesOfNode.get(record)?.[0];
    const text = line === undefined ? "" : this.view.text.lines[line];
    return /\w+::\w+/u.exec(text)?.[0] ?? `#${record}`;
  }

  /** The op of a node with the value it makes, to tell apart nodes of one kind. */
  longTitle(record: number): string {
    const title = this.title(record);
    if (this.isValue(record)) return title;
    const made = this.valuesOf(record).map((value) => this.nameOf.get(value)).find((name) => name !== undefined);
    return made === undefined ? title : `${title} → %${made}`;
  }

  valuesOf(record: number): number[] {
    const box = this.hierarchy.find(record);
    if (box >= 0 && this.hierarchy.boxes[box].id === record) return this.hierarchy.boxes[box].values;
    const line = this.linesOfNode.get(record)?.[0];
    if (line === undefined) return [];
    return definedNames(this.view.text.lines[line]).map((name) => this.names.get(name) ?? 0).filter((value) => value !== 0);
  }

  /** The node that makes a value; 0 for what no node makes. */
  makerOf(record: number): number {
    const line = this.lineOfValue.get(record);
    return line === undefined ? 0 : this.view.text.nodes[line];
  }

  /** The equivalence class of a record and how many members it has; null for none. */
  equals(record: number): { index: number; members: number[] } | null {
    const index = this.classOf.get(record);
    const members = index === undefined ? undefined : this.membersOf.get(index);
    return index === undefined || !members ? null : { index, members };
  }

  /** How many equal parts a box is one of, or stands for. */
  copies(box: Box): number {
    return box.copies ?? this.equals(box.id)?.members.length ?? 0;
  }

  location(record: number): string {
    const node = this.view.text.locations[record];
    if (node !== undefined) return node;
    const line = this.lineOfValue.get(record);
    return line === undefined ? "" : (this.view.text.locations[this.view.text.nodes[line]] ?? "");
  }

  /** Nodes that came from a line of the user's source; lines count from 1. */
  nodesFrom(file: string, line: number): number[] {
    return this.nodesAt.get(`${file}:${line}`) ?? [];
  }
}

function add<K>(lists: Map<K, number[]>, key: K, item: number): void {
  const held = lists.get(key);
  if (held) held.push(item);
  else lists.set(key, [item]);
}
