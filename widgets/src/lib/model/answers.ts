// Answers about one record or a pair: from Python in a notebook, from the view's details in a page without a kernel.

import { pairFromDetails } from "./pairs";
import type { Records } from "./records";
import type { AliasDetail, Detail, KernelDetail, KernelText, PairDetail } from "./schema";
import type { Steps } from "./steps";

/** Asks about one record or a pair; about one in a state of the history if one is given. */
export type Ask = (ids: number[], state?: number) => Promise<Detail | PairDetail>;

/** Asks for the kernel of a node in a language. */
export type AskKernel = (id: number, language: string) => Promise<KernelText>;

/** Limit on the records of an answer whose names are requested. */
const MOST_NAMED = 200;

export class Answers {
  readonly #details = new Map<number, Promise<Detail>>();
  readonly #states = new Map<string, Promise<AliasDetail | null>>();
  readonly #pairs = new Map<string, Promise<PairDetail>>();
  readonly #kernels = new Map<string, Promise<KernelText | null>>();

  constructor(
    private readonly records: Records,
    private readonly ask: Ask | undefined,
    private readonly steps: Steps | null = null,
    private readonly askKernel?: AskKernel,
  ) {}

  get isLive(): boolean {
    return this.ask !== undefined;
  }

  /** Whether a question about this record can be answered. */
  knows(record: number): boolean {
    return this.isLive || this.#stored(record) !== undefined;
  }

  detail(record: number): Promise<Detail> {
    return remembered(this.#details, record, async () => {
      const stored = this.#stored(record);
      if (stored || !this.ask) return stored ?? bare(this.records, record);
      const detail = (await this.ask([record])) as Detail;
      await this.records.know([...(detail.alias?.alias_set ?? []), ...(detail.alias?.writers ?? [])].slice(0, MOST_NAMED));
      return detail;
    });
  }

  /** What may share memory with a record in the state shown. A page reports the last state, in terms of the values that exist now. */
  async alias(record: number): Promise<AliasDetail | null> {
    const { steps } = this;
    if (!steps || steps.at === steps.last) return (await this.detail(record)).alias;
    const state = steps.at;
    if (this.ask) return remembered(this.#states, `${record} ${state}`, async () => ((await this.ask!([record], state)) as Detail).alias);
    const value = steps.valueIn(this.records.isValue(record) ? record : (this.records.valuesOf(record)[0] ?? record));
    const earlier = steps.earlierAlias(value) ?? this.#stored(record)?.alias;
    return earlier ? { ...this.#filled(earlier), alias_set: meantIn(steps, this.#filled(earlier).alias_set) } : null;
  }

  pair(first: number, second: number): Promise<PairDetail> {
    const { steps } = this;
    const state = steps && steps.at !== steps.last ? steps.at : undefined;
    return remembered(this.#pairs, `${first} ${second} ${state ?? ""}`, async () => {
      if (this.ask) {
        const pair = (await this.ask([first, second], state)) as PairDetail;
        await this.records.know([pair.alias, pair.fusion, pair.same].flatMap((verdict) => verdict?.witness ?? []).slice(0, MOST_NAMED));
        return pair;
      }
      const known = await Promise.all([first, second].map(async (record) => ({ detail: await this.detail(record), alias: await this.alias(record) })));
      return pairFromDetails(this.records, known[0], known[1]);
    });
  }

  /** The kernel of a record in a language; null if there is no kernel to ask and the page does not include it. */
  kernel(record: number, kernel: KernelDetail, language: string): Promise<KernelText | null> {
    const { askKernel, records } = this;
    const stored = () => records.view.kernel_texts?.[kernel.name]?.find((text) => text.language === language) ?? null;
    if (!askKernel) return Promise.resolve(stored());
    return remembered(this.#kernels, `${this.#groupOf(record)} ${language}`, () => askKernel(record, language));
  }

  /** The fusion group around a record or its producer, or the record itself. */
  #groupOf(record: number): number {
    return this.records.hierarchy.groupAround(this.records.makerOf(record) || record) || record;
  }

  /** A stored detail with what it shares with others filled in. */
  #stored(record: number): Detail | undefined {
    const { view } = this.records;
    const found = view.details[record];
    if (!found) return undefined;
    const kernel = found.kernel ?? view.details[this.#groupOf(record)]?.kernel ?? null; // stored once, for the group
    return { ...found, kernel, alias: found.alias && this.#filled(found.alias), text: found.text || bare(this.records, record).text };
  }

  #filled(alias: AliasDetail): AliasDetail {
    const sets = this.records.view.alias_sets ?? [];
    const withSet = alias.shared_set === undefined ? alias : { ...alias, alias_set: sets[alias.shared_set] ?? [] };
    return withSet.shared_writers === undefined ? withSet : { ...withSet, writers: sets[withSet.shared_writers] ?? [] };
  }
}

/** Values under their names in the state shown, without repeats. */
function meantIn(steps: Steps, values: readonly number[]): number[] {
  return [...new Set(values.map((value) => steps.valueIn(value)))];
}

/** A failed answer is forgotten, so that asking again asks again. */
function remembered<K, V>(known: Map<K, Promise<V>>, key: K, find: () => Promise<V>): Promise<V> {
  const found = known.get(key) ?? find();
  known.set(key, found);
  found.catch(() => known.delete(key));
  return found;
}

/** The detail of a record that the view alone provides. */
export function bare(records: Records, record: number): Detail {
  const line = records.line(record);
  return {
    id: record, kind: records.isValue(record) ? "value" : "node", title: records.longTitle(record),
    text: line < 0 ? "" : records.text(line).trim(), location: records.location(record), scope: "",
    alias: null, fusion: "", same: "", kernel: null, time: "",
  };
}
