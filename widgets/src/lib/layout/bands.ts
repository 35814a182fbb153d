// Which of many rectangles a window may show: rectangles by the horizontal bands they cross.

import { addTo } from "../model/lists";
import type { Rectangle } from "./layout";

const BAND = 512;

export class Bands {
  readonly #bands = new Map<number, number[]>();
  readonly #seen: Int32Array;
  #turn = 0;

  /** Rectangles as left, top, right, bottom, four numbers each. */
  constructor(private readonly bounds: Float64Array) {
    const count = bounds.length / 4;
    this.#seen = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      const last = Math.floor(bounds[4 * i + 3] / BAND);
      for (let band = Math.floor(bounds[4 * i + 1] / BAND); band <= last; band++) {
        addTo(this.#bands, band, i);
      }
    }
  }

  /** The rectangles that touch a window, in their order. */
  within(window: Rectangle): number[] {
    const turn = ++this.#turn;
    const found: number[] = [];
    const right = window.x + window.width;
    const bottom = window.y + window.height;
    const last = Math.floor(bottom / BAND);
    for (let band = Math.floor(window.y / BAND); band <= last; band++) {
      for (const i of this.#bands.get(band) ?? []) {
        if (this.#seen[i] === turn) continue;
        this.#seen[i] = turn;
        const at = 4 * i;
        const outside = this.bounds[at] > right || this.bounds[at + 2] < window.x;
        if (!outside && this.bounds[at + 1] <= bottom && this.bounds[at + 3] >= window.y) found.push(i);
      }
    }
    return found.sort((a, b) => a - b);
  }
}
