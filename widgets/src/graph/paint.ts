// The picture as plain coloured rectangles on a canvas: for the small map, and for a window that shows too many boxes for
// elements of their own.

import type { Layout } from "../lib/layout/layout";
import type { Viewport } from "../lib/layout/viewport";
import { colourOf, paintOf, type Meaning } from "./colours";
import type { Heat } from "../lib/model/heat";
import type { Box } from "../lib/model/schema";

export interface Painted {
  boxes: Box[];
  layout: Layout;
  open: ReadonlySet<number>;
  meaning: Meaning;
  heat: Heat;
  /** Box positions to draw, outer before inner. */
  shown: readonly number[];
  selected: ReadonlySet<number>;
  /** A colour that overrides the usual meaning of colours; empty for none. */
  tint?: (box: number) => string;
}

export function paint(canvas: HTMLCanvasElement, width: number, height: number, view: Viewport, what: Painted): void {
  const dense = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const styles = getComputedStyle(canvas);
  const variable = (name: string) => paintOf(`var(${name})`, styles);
  const scale = view.scale * dense;
  pen.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  pen.lineWidth = 1 / view.scale;
  const least = 1.2 / view.scale;
  const frame = variable("--irs-frame");
  const line = variable("--irs-line");
  const chosen = variable("--irs-select");
  const colours = new Map<string, string>();
  for (const box of what.shown) {
    const { x, y, w, h } = what.layout;
    const open = what.open.has(box);
    const name = what.tint?.(box) || colourOf(what.boxes[box], what.meaning, what.heat);
    let colour = colours.get(name);
    if (colour === undefined) colours.set(name, (colour = paintOf(name, styles)));
    if (open) {
      pen.fillStyle = frame;
      pen.fillRect(x[box], y[box], w[box], h[box]);
      pen.strokeStyle = line;
      pen.strokeRect(x[box], y[box], w[box], h[box]);
    } else {
      pen.fillStyle = what.boxes[box].writes ? variable("--irs-write") : colour;
      pen.fillRect(x[box], y[box], Math.max(w[box], least), Math.max(h[box], least));
    }
  }
  pen.strokeStyle = chosen;
  pen.fillStyle = chosen;
  pen.lineWidth = 2.5 / view.scale;
  const dot = 4 / view.scale;
  for (const box of what.selected) {
    const { x, y, w, h } = what.layout;
    if (w[box] < dot || h[box] < dot) pen.fillRect(x[box] - dot / 2, y[box] - dot / 2, w[box] + dot, h[box] + dot);
    else pen.strokeRect(x[box], y[box], w[box], h[box]);
  }
}
