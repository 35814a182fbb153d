// The costs of records, boxes and lines, as colours from cold to hot. A page with the whole program holds them; a page with a part
// requests them.

import type { Supply } from "./records";
import type { ComparedView, PaintView, ProfileView } from "./schema";
import { bytes as sizeInWords } from "./sizes";

export const MEASURES = ["time", "bytes", "memory", "roof"] as const;
export type Measure = (typeof MEASURES)[number];

/** Their names for the user. */
export const MEASURE_NAMES: Record<Measure, string> = { time: "time", bytes: "bytes", memory: "memory", roof: "share of roof" };

/** From cold to hot. */
export const HEAT_COLOURS = ["#94a3b8", "#eab308", "#f59e0b", "#f97316", "#ef4444", "#b91c1c"];

export class Heat {
  /** The default meaning of colours, for lines and for the pictures of a profile. */
  measure: Measure = "time";
  readonly #known = new Map<number, readonly number[]>();
  readonly #asked = new Set<number>();
  #waiting: number[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #comparing = new Set<() => void>();
  readonly #isWhole: boolean;

  constructor(readonly profile: ProfileView | undefined, private readonly supply: Supply | null, readonly paint?: PaintView | null, public compared: ComparedView | null = null) {
    for (const [id, values] of Object.entries(profile?.heat ?? {})) this.#known.set(Number(id), values);
    this.#isWhole = this.#known.size > 0;
  }

  /** Calls the listener when requested heat has arrived, and when another measure is shown. */
  subscribe(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Calls the listener when the groups shown are compared with others. */
  onCompared(listener: () => void): void {
    this.#comparing.add(listener);
  }

  /** Shows which pairs of ops another grouping has, too. */
  compare(compared: ComparedView): void {
    this.compared = compared;
    for (const listener of this.#comparing) listener();
  }

  show(measure: Measure): void {
    if (measure === this.measure) return;
    this.measure = measure;
    this.#tell();
  }

  /** How hot a record or box is, from 0 to 1; undefined if it has no cost, or was requested just now. */
  of(record: number, measure: Measure = this.measure): number | undefined {
    return this.#rated(this.values(record), measure);
  }

  ofLine(file: string, line: number): number | undefined {
    return this.#rated(this.profile?.source_heat?.[file]?.[line], this.measure);
  }

  /** The index of its colour; undefined for none. */
  step(record: number, measure: Measure = this.measure): number | undefined {
    return stepOf(this.of(record, measure));
  }

  /** The index of the colour of the number that the user gave to a record; undefined for none. */
  paintStep(record: number): number | undefined {
    const value = this.paint?.values[record];
    if (!this.paint || value === undefined) return undefined;
    const range = this.paint.most - this.paint.least;
    return Math.min(HEAT_COLOURS.length - 1, Math.floor(range > 0 ? ((value - this.paint.least) / range) * HEAT_COLOURS.length : 0));
  }

  colour(record: number, measure: Measure = this.measure): string {
    return HEAT_COLOURS[this.step(record, measure) ?? 0];
  }

  /** Its costs in words; empty for none. */
  told(values: readonly number[] | undefined): string {
    if (!values) return "";
    const [time, bytes, alive, roof] = values;
    const parts = [`${percent(time)} of the time`, bytes ? `${sizeInWords(bytes)} moved` : "", alive ? `${sizeInWords(alive)} alive` : "", roof >= 0 ? `${percent(roof)} of the roof` : ""];
    return parts.filter((part) => part).join(", ");
  }

  values(record: number): readonly number[] | undefined {
    const found = this.#known.get(record);
    if (found || this.#isWhole || !this.profile || !this.supply || this.#asked.has(record)) return found;
    this.#asked.add(record);
    if (this.#waiting.push(record) === 1) queueMicrotask(() => this.#ask());
    return undefined;
  }

  #ask(): void {
    const ids = this.#waiting;
    this.#waiting = [];
    this.supply?.heat(ids).then((heat) => {
      for (const [id, values] of Object.entries(heat)) this.#known.set(Number(id), values);
      if (Object.keys(heat).length) this.#tell();
    }, () => ids.forEach((id) => this.#asked.delete(id)));
  }

  #rated(values: readonly number[] | undefined, measure: Measure): number | undefined {
    const place = MEASURES.indexOf(measure);
    const value = values?.[place];
    if (value === undefined || value < 0) return undefined;
    if (measure === "roof") return 1 - value;
    const most = measure === "time" ? 1 : (this.profile?.most?.[place] ?? 0);
    return most > 0 ? Math.min(1, value / most) : 0;
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** The square root keeps small values visible. */
export function stepOf(heat: number | undefined): number | undefined {
  return heat === undefined ? undefined : Math.min(HEAT_COLOURS.length - 1, Math.floor(Math.sqrt(heat) * HEAT_COLOURS.length));
}

export function percent(share: number): string {
  const shown = 100 * share;
  return `${shown >= 9.95 || shown < 0.005 ? shown.toFixed(0) : shown < 0.95 ? shown.toFixed(2) : shown.toFixed(1)} %`;
}
