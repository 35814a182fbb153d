// The small map in the corner: the whole picture, and where the window is. It is hidden while the window shows everything, for
// pictures of few boxes, and where it would cover one.

import { h } from "../lib/dom/dom";
import { showsAll, windowOf, type Extent, type Viewport } from "../lib/layout/viewport";
import { paint, type Painted } from "./paint";

const WIDTH = 110;
const HEIGHT = 150;

/** The map takes at most this share of a low window, and is hidden in a still lower one. */
const SHARE = 0.5;
const LOWEST = 140;
const MOST_BOXES = 6000;
/** A picture of so few boxes needs no map. */
const FEW = 60;
/** Its distance from the window's border, and its own border. */
const AROUND = 20;

export class SmallMap {
  readonly element: HTMLElement;
  readonly #canvas = h("canvas");
  readonly #window = h("div", { class: "irs-map-window" });
  #scale = 1;
  #fresh = false;
  #most = HEIGHT;
  #free = false;

  constructor(private readonly goTo: (x: number, y: number) => void) {
    this.element = h("div", { class: "irs-map", "aria-hidden": "true", hidden: true }, this.#canvas, this.#window);
    const go = (event: PointerEvent) => {
      event.stopPropagation();
      if (!(event.buttons & 1)) return;
      const place = this.#canvas.getBoundingClientRect();
      this.goTo((event.clientX - place.left) / this.#scale, (event.clientY - place.top) / this.#scale);
    };
    this.element.addEventListener("pointerdown", go);
    this.element.addEventListener("pointermove", go);
  }

  stale(): void {
    this.#fresh = false;
  }

  /** Moves to a corner where it covers no box, and hides if there is none. Called when the window rests. */
  settle(view: Viewport, frame: Extent, picture: Extent, hidden: (x: number, y: number, width: number, height: number) => number): void {
    if (this.element.matches(":hover")) return; // it is being used
    this.#limitTo(frame);
    this.#scale = Math.min(WIDTH / picture.width, this.#most / picture.height);
    const room = (side: number) => (Math.max(10, side * this.#scale) + AROUND) / view.scale;
    const [width, height, left, top] = [room(picture.width), room(picture.height), view.x, view.y];
    const [right, bottom] = [left + frame.width / view.scale - width, top + frame.height / view.scale - height];
    const corners = [["bottom", "right", right, bottom], ["bottom", "left", left, bottom], ["top", "right", right, top], ["top", "left", left, top]] as const;
    const [row, side] = corners.find(([, , x, y]) => !hidden(x, y, width, height)) ?? ["", ""];
    this.#free = row !== "";
    this.element.className = `irs-map ${row} ${side}`;
  }

  /** Limits the height to what the window has room for. */
  #limitTo(frame: Extent): void {
    const most = Math.min(HEIGHT, frame.height * SHARE);
    if (most === this.#most) return;
    this.#most = most;
    this.#fresh = false;
  }

  draw(view: Viewport, frame: Extent, what: Painted): void {
    const { layout } = what;
    const seen = windowOf(view, frame);
    this.element.hidden = !this.#free || layout.boxes.length <= FEW || showsAll(view, layout, frame) || frame.width < 300 || frame.height < LOWEST;
    if (this.element.hidden) return;
    this.#scale = Math.min(WIDTH / layout.width, this.#most / layout.height);
    const [width, height] = [Math.max(10, layout.width * this.#scale), layout.height * this.#scale];
    if (!this.#fresh) {
      this.#canvas.style.width = `${width}px`;
      this.#canvas.style.height = `${height}px`;
      const every = Math.ceil(layout.boxes.length / MOST_BOXES);
      const shown = every > 1 ? layout.boxes.filter((box, k) => what.open.has(box) || k % every === 0) : layout.boxes;
      paint(this.#canvas, width, height, { x: 0, y: 0, scale: this.#scale }, { ...what, shown });
      this.#fresh = true;
    }
    const style = this.#window.style;
    const [left, top] = [Math.max(0, seen.x * this.#scale), Math.max(0, seen.y * this.#scale)];
    style.left = `${left}px`;
    style.top = `${top}px`;
    style.width = `${Math.max(3, Math.min(width, (seen.x + seen.width) * this.#scale) - left)}px`;
    style.height = `${Math.max(3, Math.min(height, (seen.y + seen.height) * this.#scale) - top)}px`;
  }
}
