// A list of any length of which only the visible rows are in the document. All rows have the same height.

import { h, oncePerFrame } from "./dom";

const SPARE = 6;
/** How long a list that was scrolled to a row has only its visible rows: moving from step to step needs no more. */
const SPARE_AFTER_MS = 150;
const MOST_PUT_OFF = 30;

export class Scroller {
  readonly element: HTMLElement;
  readonly #body: HTMLElement;
  readonly #mounted = new Map<number, HTMLElement>();
  #count = 0;
  /** Scroll position and height, read from the document only when they change, since reading costs a layout. */
  #top = 0;
  #height = 0;
  /** How often a drawing was postponed: while Lab loads a theme, everything has no size and is at the top for a frame. */
  #putOff = 0;
  #spare = SPARE;
  #resting: ReturnType<typeof setTimeout> | undefined;
  /** The row to show at the top, and the row to make visible, once the list has a size. */
  #start = -1;
  #awaited = -1;

  constructor(
    private readonly rowHeight: number,
    private readonly makeRow: (index: number) => HTMLElement,
    signal: AbortSignal,
    attributes: Record<string, string> = {},
  ) {
    this.#body = h("div", { class: "irs-rows", role: "presentation" });
    this.element = h("div", { class: "irs-scroller", tabindex: "0", ...attributes }, this.#body);
    const draw = oncePerFrame(() => this.#draw());
    this.element.addEventListener("scroll", () => {
      this.#top = this.element.scrollTop;
      draw();
    }, { signal, passive: true });
    const sizes = new ResizeObserver(() => {
      this.#height = this.element.clientHeight;
      this.#top = this.element.scrollTop;
      draw();
    });
    sizes.observe(this.element);
    signal.addEventListener("abort", () => {
      sizes.disconnect();
      clearTimeout(this.#resting);
    });
  }

  /** Recreates the list with this many rows, scrolled to `from` if given, then to the first of the `wanted` if none of them is visible. */
  reset(count: number, from?: number, wanted: readonly number[] = []): void {
    this.#count = count;
    this.#body.style.height = `${count * this.rowHeight}px`;
    if (from !== undefined) this.#scrollTo(from);
    this.#revealOne(wanted);
    this.redraw();
  }

  /** The rows that are in the document. */
  rows(): Iterable<[number, HTMLElement]> {
    return this.#mounted;
  }

  get top(): number {
    return this.#top;
  }

  /** The first visible row. */
  get topRow(): number {
    return Math.floor(this.#top / this.rowHeight);
  }

  #scrollTo(top: number): void {
    this.#top = Math.max(0, Math.min(top, this.#count * this.rowHeight - this.#size()));
    this.element.scrollTop = this.#top;
  }

  #size(): number {
    return (this.#height ||= this.element.clientHeight);
  }

  /** Recreates the visible rows. */
  redraw(): void {
    for (const row of this.#mounted.values()) row.remove();
    this.#mounted.clear();
    this.#draw();
  }

  row(index: number): HTMLElement | undefined {
    return this.#mounted.get(index);
  }

  isInSight(index: number): boolean {
    const top = index * this.rowHeight;
    return top >= this.#top && top + this.rowHeight <= this.#top + this.#size();
  }

  /** Shows a row at the top, as soon as there is room. */
  startAt(index: number): void {
    this.#start = index;
    if (this.#size()) this.#applyStart();
  }

  #applyStart(): void {
    if (this.#start < 0) return;
    this.#scrollTo(this.#start * this.rowHeight);
    this.#start = -1;
  }

  /** Scrolls to the first of some rows as soon as there is room, and back to its left end; does nothing if one is visible already. */
  reveal(...wanted: readonly number[]): void {
    if (this.#revealOne(wanted.filter((index) => index >= 0))) this.#draw();
  }

  #revealOne(wanted: readonly number[]): boolean {
    if (!wanted.length) return false;
    const first = wanted.reduce((a, b) => Math.min(a, b));
    if (!this.#size()) this.#awaited = first;
    else if (!wanted.some((index) => this.isInSight(index))) {
      this.element.scrollLeft = 0;
      this.#scrollTo(first * this.rowHeight - this.#size() / 2);
      this.#spare = 0;
      clearTimeout(this.#resting);
      this.#resting = setTimeout(() => {
        this.#spare = SPARE;
        this.#draw();
      }, SPARE_AFTER_MS);
      return true;
    }
    return false;
  }

  #draw(): void {
    const height = this.#size();
    if (height === 0) {
      if (this.#putOff++ < MOST_PUT_OFF) requestAnimationFrame(() => this.#draw());
      return;
    }
    this.#putOff = 0;
    this.#applyStart();
    if (this.#awaited >= 0) {
      const index = this.#awaited;
      this.#awaited = -1;
      if (!this.isInSight(index)) this.#scrollTo(index * this.rowHeight - height / 2);
    }
    const first = Math.max(0, Math.floor(this.#top / this.rowHeight) - this.#spare);
    const last = Math.min(this.#count, Math.ceil((this.#top + height) / this.rowHeight) + this.#spare);
    for (const [index, row] of this.#mounted) {
      if (index < first || index >= last) {
        row.remove();
        this.#mounted.delete(index);
      }
    }
    for (let index = first; index < last; index++) {
      if (this.#mounted.has(index)) continue;
      const row = this.makeRow(index);
      row.style.top = `${index * this.rowHeight}px`;
      row.style.height = `${this.rowHeight}px`;
      this.#mounted.set(index, row);
      this.#body.append(row);
    }
  }
}
