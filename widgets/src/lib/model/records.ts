// What an id stands for in each pane: lines of text, boxes of the graph, printed names. Built once per view.

import { Hierarchy } from "./hierarchy";
import type { AssumedLayout, BesideView, Box, ExplorerView, Found, LayoutView, Level, MemoryView, Place, PointsToView, RepeatView, SameClass, SameStep, SameView, TextView } from "./schema";
import { addTo } from "./lists";
import { definedNames, namesIn } from "./tokens";

/** The number of lines in a page of text. */
const PAGE = 240;
/** Limits on pages: in one answer of Python, requested while the user scrolls on, and requested ahead of the user. */
const MOST_PAGES = 8;
const READ_ON = 3;
const READ_AHEAD = 24;
/** Lines above and below one that may be visible with it. */
const NEAR_LINES = 40;
const MOST_PLACES = 3000;

/** An answer about equal pieces; only the requested field is set. */
export interface SameAnswer {
  same?: SameView;
  step?: SameStep;
  cls?: SameClass;
  beside?: BesideView;
}

/** The requests available to a page that holds only a part of a program. */
export interface Supply {
  lines(first: number, count: number): Promise<TextView>;
  levels(boxes: readonly number[]): Promise<Level[]>;
  places(ids: readonly number[]): Promise<Place[]>;
  /** The first results of a query, or all of them. */
  find(query: string, all?: boolean): Promise<Found>;
  /** Queries that find something in this program, and what they find. */
  examples(): Promise<[string, string][]>;
  /** The costs of records and boxes. */
  heat(ids: readonly number[]): Promise<Record<number, number[]>>;
  /** The layout of a tensor. */
  layout(value: number): Promise<LayoutView>;
  /** The effect of another layout of an argument. */
  assumed(value: number, layout: string): Promise<AssumedLayout>;
  /** The memory plan of a state of the history. */
  memory(state: number): Promise<MemoryView>;
  /** Who may be where: in the whole program, or around one or two records. */
  pointsTo(ids: readonly number[], state?: number): Promise<PointsToView>;
  /** The differences between the modules in a box of equal modules. */
  repeat(box: number): Promise<RepeatView>;
  /** Two of these modules side by side. */
  repeatBeside(box: number, left: number, right: number): Promise<BesideView>;
  /** Which pieces are equal. */
  same(question: object): Promise<SameAnswer>;
  part(name: string): Promise<Partial<ExplorerView>>;
}

export class Records {
  readonly hierarchy: Hierarchy;
  readonly names: Map<string, number>;
  readonly #nameOf = new Map<number, string>();
  readonly #linesOfNode = new Map<number, number[]>();
  readonly #lineOfValue = new Map<number, number>();
  readonly #nodesAt = new Map<string, number[]>();
  readonly #classOf = new Map<number, number>();
  readonly #membersOf = new Map<number, number[]>();
  /** For a record that is not loaded: its line, its title, the values it produces. */
  readonly #places = new Map<number, Place>();
  readonly #textListeners = new Set<() => void>();

  constructor(readonly view: ExplorerView, private readonly supply?: Supply) {
    this.hierarchy = new Hierarchy(view.graph);
    this.names = new Map();
    const page = { ...view.text };
    if (page.total !== undefined) view.text = { ...page, lines: new Array<string>(page.total), nodes: new Array<number>(page.total).fill(0), names: {}, locations: {} };
    this.#learnText(page);
    this.learnClasses();
  }

  /** Whether the page holds only a part of the program, and requests the rest. */
  get isPart(): boolean {
    return this.view.text.total !== undefined;
  }

  /** A line of the text; empty until it is loaded. */
  text(line: number): string {
    return this.view.text.lines[line] ?? "";
  }

  #learnText(page: ExplorerView["text"]): void {
    const { text } = this.view;
    const first = page.first ?? 0;
    for (const [name, value] of Object.entries(page.names)) {
      this.names.set(name, value);
      this.#nameOf.set(value, name);
    }
    page.lines.forEach((line, k) => {
      text.lines[first + k] = line;
      text.nodes[first + k] = page.nodes[k];
    });
    page.lines.forEach((line, k) => this.#readLine(line, first + k));
    for (const [node, path] of Object.entries(page.paths ?? {})) {
      for (const record of [Number(node), ...this.valuesOf(Number(node))]) this.hierarchy.put(record, path);
    }
    for (const [node, place] of Object.entries(page.locations)) {
      text.locations[Number(node)] = place;
      const at = place.replace(/:\d+$/u, "");
      if (!this.#nodesAt.get(at)?.includes(Number(node))) addTo(this.#nodesAt, at, Number(node));
    }
  }

  /** Indexes the classes of the view, which may arrive after the rest of it. */
  learnClasses(): void {
    const { view } = this;
    for (const group of view.classes) {
      this.#membersOf.set(group.index, group.members);
      for (const member of group.members) this.#classOf.set(member, group.index);
    }
    for (const box of this.hierarchy.boxes) {
      const known = this.#classOf.get(box.id);
      if (known !== undefined) box.equivalence_class = known;
      else if (box.equivalence_class >= 0) this.#classOf.set(box.id, box.equivalence_class);
    }
  }

  /** Calls the listener when requested lines have arrived. */
  onText(listener: () => void): void {
    this.#textListeners.add(listener);
  }

  readonly #wanted = new Set<number>();

  /** Requests the page of a missing line; when the user scrolls from one page into the next, requests several at once. */
  wantLine(line: number): void {
    const page = Math.floor(line / PAGE);
    if (this.#wanted.has(page)) return;
    const fromAbove = this.#wanted.has(page - 1);
    const goesOn = fromAbove !== this.#wanted.has(page + 1);
    const run = [page];
    while (goesOn && run.length < READ_ON && this.#lacksPage(run[run.length - 1] + (fromAbove ? 1 : -1))) run.push(run[run.length - 1] + (fromAbove ? 1 : -1));
    this.#askPages(run);
  }

  /** Requests the pages around some lines, the nearest first, before they are visible. */
  wantAround(lines: Iterable<number>): void {
    const pages = new Set<number>();
    for (const line of lines) {
      for (const near of [line - NEAR_LINES, line + NEAR_LINES]) if (this.#lacksPage(Math.floor(near / PAGE))) pages.add(Math.floor(near / PAGE));
      if (pages.size >= READ_AHEAD) break;
    }
    let run: number[] = [];
    for (const page of [...pages].sort((a, b) => a - b)) {
      if (run.length && (page !== run[run.length - 1] + 1 || run.length === MOST_PAGES)) {
        this.#askPages(run);
        run = [];
      }
      run.push(page);
    }
    this.#askPages(run);
  }

  #lacksPage(page: number): boolean {
    return page >= 0 && page * PAGE < (this.view.text.total ?? 0) && !this.#wanted.has(page);
  }

  /** Requests consecutive pages in one question. */
  #askPages(pages: readonly number[]): void {
    if (!this.supply || !pages.length) return;
    for (const page of pages) this.#wanted.add(page);
    this.supply.lines(Math.min(...pages) * PAGE, pages.length * PAGE).then((text) => {
      this.#learnText(text);
      for (const listener of this.#textListeners) listener();
    }, () => pages.forEach((page) => this.#wanted.delete(page)));
  }

  /** Records whose places were already requested: each is asked about once. */
  readonly #nowhere = new Set<number>();

  #lacking(records: Iterable<number>): number[] {
    return [...new Set(records)].filter((record) => !this.#places.has(record) && !this.#nowhere.has(record) && this.#isElsewhere(record));
  }

  /** Whether the place of a record is not known yet. */
  #isElsewhere(record: number): boolean {
    return (!this.hierarchy.holds(record) && !this.hierarchy.path(record).length) || this.line(record) < 0;
  }

  /** Requests the places of records that are not loaded, and of others that may be needed next; returns whether any arrived. */
  async know(records: Iterable<number>, next: () => Iterable<number> = () => []): Promise<boolean> {
    const lacking = this.#lacking(records);
    if (!this.supply || !lacking.length) return false;
    const unknown = this.#lacking([...lacking, ...next()]).slice(0, MOST_PLACES);
    const places = await this.supply.places(unknown);
    for (const record of unknown) this.#nowhere.add(record);
    for (const place of places) {
      this.#places.set(place.id, place);
      this.hierarchy.put(place.id, place.path);
      if (place.title.startsWith("%")) this.#nameOf.set(place.id, place.title.slice(1));
    }
    return places.length > 0;
  }

  /** Requests the direct contents of boxes; the new edges are added to those of the view. */
  async fetchLevels(ids: readonly number[]): Promise<Level[]> {
    const lacking = ids.filter((id) => {
      const box = this.hierarchy.find(id);
      return box < 0 || this.hierarchy.boxes[box].id !== id || this.hierarchy.lacks(box);
    });
    if (!this.supply || !lacking.length) return [];
    const levels = await this.supply.levels(lacking);
    for (const level of levels) {
      this.hierarchy.add(level.boxes);
      this.view.graph.edges.push(...level.edges);
    }
    this.learnClasses();
    return levels;
  }

  #readLine(line: string, k: number): void {
    const node = this.view.text.nodes[k];
    if (node && !this.#linesOfNode.get(node)?.includes(k)) addTo(this.#linesOfNode, node, k);
    const defined = node ? definedNames(line) : /^\s*(graph|block\d+)?\s*\(?%/u.test(line) ? namesIn(line) : [];
    for (const name of defined) {
      const value = this.names.get(name);
      if (value !== undefined && !this.#lineOfValue.has(value)) this.#lineOfValue.set(value, k);
    }
  }

  /** The line that best represents a record, -1 for none. */
  line(record: number): number {
    return this.lines(record)[0] ?? -1;
  }

  /** The lines that print a record: a node's own, a value's definition, for a box all lines of its contents. */
  lines(record: number): number[] {
    const own = this.#linesOfNode.get(record);
    if (own) return own;
    const defined = this.#lineOfValue.get(record);
    if (defined !== undefined) return [defined];
    const place = this.#places.get(record);
    if (place) return place.line < 0 ? [] : [place.line];
    return this.linesInside(record);
  }

  /** The lines of everything in a box; none for a value. */
  linesInside(record: number): number[] {
    const box = this.hierarchy.find(record);
    if (box < 0 || this.hierarchy.boxes[box].id !== record) return [];
    const inside = this.hierarchy.descendants([box]).flatMap((i) => this.#linesOfNode.get(this.hierarchy.boxes[i].id) ?? []);
    return inside.sort((a, b) => a - b);
  }

  /** The record that a line represents: its node, or else the first value that it declares; 0 for none. */
  recordAt(line: number): number {
    const node = this.view.text.nodes[line];
    if (node) return node;
    for (const name of namesIn(this.view.text.lines[line] ?? "")) {
      const value = this.names.get(name);
      if (value !== undefined && this.#lineOfValue.get(value) === line) return value;
    }
    return 0;
  }

  isValue(record: number): boolean {
    return this.#nameOf.has(record);
  }

  /** The name of a record in a sentence: `%name` for a value, the op for a node, the label of any other box. */
  title(record: number): string {
    const name = this.#nameOf.get(record);
    if (name !== undefined) return `%${name}`;
    const place = this.#places.get(record);
    if (place) return place.title;
    const box = this.hierarchy.find(record);
    if (box >= 0 && this.hierarchy.holds(record)) return this.hierarchy.boxes[box].label;
    const line = this.#linesOfNode.get(record)?.[0];
    const text = line === undefined ? "" : this.text(line);
    return /\w+::\w+/u.exec(text)?.[0] ?? `#${record}`;
  }

  /** The op of a node with the value it produces, to distinguish nodes of one kind. */
  longTitle(record: number): string {
    const title = this.title(record);
    if (this.isValue(record)) return title;
    const made = this.valuesOf(record).map((value) => this.#nameOf.get(value)).find((name) => name !== undefined);
    return made === undefined ? title : `${title} → %${made}`;
  }

  valuesOf(record: number): number[] {
    const box = this.hierarchy.find(record);
    if (box >= 0 && this.hierarchy.boxes[box].id === record) return this.hierarchy.boxes[box].values;
    const place = this.#places.get(record);
    if (place) return place.values;
    const line = this.#linesOfNode.get(record)?.[0];
    if (line === undefined) return [];
    return definedNames(this.text(line)).map((name) => this.names.get(name) ?? 0).filter((value) => value !== 0);
  }

  /** The producer of a value; 0 if it has none. */
  makerOf(record: number): number {
    const line = this.#lineOfValue.get(record);
    return line === undefined ? 0 : this.view.text.nodes[line];
  }

  /** The node whose block has the value as a parameter, by the indentation of the text; 0 for none. */
  declarerOf(value: number): number {
    const line = this.#lineOfValue.get(value) ?? 0;
    const indentation = (k: number) => this.text(k).search(/\S/u);
    for (let k = line - 1; k >= 0; k--) if (this.view.text.nodes[k] && indentation(k) < indentation(line)) return this.view.text.nodes[k];
    return 0;
  }

  /** The equivalence class of a record and how many members it has; null for none. */
  equals(record: number): { index: number; members: number[] } | null {
    const index = this.#classOf.get(record);
    const members = index === undefined ? undefined : this.#membersOf.get(index);
    return index === undefined || !members ? null : { index, members };
  }

  /** The number of equal parts to which a box belongs, or which it represents. */
  copies(box: Box): number {
    return box.copies ?? this.equals(box.id)?.members.length ?? 0;
  }

  location(record: number): string {
    const node = this.view.text.locations[record];
    if (node !== undefined) return node;
    const line = this.#lineOfValue.get(record);
    return line === undefined ? "" : (this.view.text.locations[this.view.text.nodes[line]] ?? "");
  }

  /** Nodes that came from a line of the user's source; lines count from 1. */
  nodesFrom(file: string, line: number): number[] {
    return this.#nodesAt.get(`${file}:${line}`) ?? [];
  }
}
