// Which pieces are equal: from Python in a notebook, from the view in a page without a kernel.

import type { SameAnswer, Supply } from "./records";
import type { BesideView, ExplorerView, RepeatView, SameClass, SameStep, SameView } from "./schema";

export class Same {
  readonly #known = new Map<string, Promise<SameAnswer>>();

  constructor(private readonly view: ExplorerView, private readonly supply: Supply | null) {}

  async ladder(): Promise<SameView | null> {
    return this.view.same ?? (await this.#ask({})).same ?? null;
  }

  async step(name: string): Promise<SameStep | null> {
    return this.view.same?.steps[name] ?? (await this.#ask({ step: name })).step ?? null;
  }

  async cls(step: string, place: number): Promise<SameClass | null> {
    return this.view.same?.classes[`${step} ${place}`] ?? (await this.#ask({ step, place })).cls ?? null;
  }

  /** Two members of a class, by their places in it. */
  async beside(step: string, place: number, left: number, right: number): Promise<BesideView | null> {
    const stored = left === 0 && right === 1 ? this.view.same?.classes[`${step} ${place}`]?.beside : undefined;
    return stored ?? (await this.#ask({ step, place, left, right })).beside ?? null;
  }

  /** Any two pieces; null without a kernel. */
  async pair(first: number, second: number): Promise<BesideView | null> {
    return (await this.#ask({ ids: [first, second] })).beside ?? null;
  }

  /** The differences between the modules in a box of equal modules; null if neither the page nor a kernel has them. */
  async repeat(box: number): Promise<RepeatView | null> {
    return this.view.repeats?.[box] ?? (await this.supply?.repeat(box)) ?? null;
  }

  /** Two of these modules; null without a kernel. */
  async repeatBeside(box: number, left: number, right: number): Promise<BesideView | null> {
    return (await this.supply?.repeatBeside(box, left, right)) ?? null;
  }

  get isLive(): boolean {
    return this.supply !== null;
  }

  #ask(question: object): Promise<SameAnswer> {
    if (!this.supply) return Promise.resolve({});
    const key = JSON.stringify(question);
    const answer = this.#known.get(key) ?? this.supply.same(question);
    this.#known.set(key, answer);
    answer.catch(() => this.#known.delete(key));
    return answer;
  }
}
