// Which part of a large picture a window shows: x and y of the picture at the window's corner, and the scale.

import type { Rectangle } from "./layout";

export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

export interface Extent {
  width: number;
  height: number;
}

export const MIN_SCALE = 0.01;
export const MAX_SCALE = 3;
/** Below this scale the smallest letters have less than 9 pixels: a first look then shows only a part of the picture. */
export const READABLE = 0.784;
/** The empty border of a picture. */
const EDGE = 12;
/** Below this scale text cannot be read. */
export const LEGIBLE = 0.5;

export function windowOf(view: Viewport, frame: Extent): Rectangle {
  return { x: view.x, y: view.y, width: frame.width / view.scale, height: frame.height / view.scale };
}

/** Zooms by a factor and keeps the picture's point under (px, py) of the window where it is. */
export function zoomAt(view: Viewport, factor: number, px: number, py: number): Viewport {
  const scale = clamp(view.scale * factor, Math.min(view.scale, MIN_SCALE), MAX_SCALE);
  return { scale, x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale };
}

/** The whole picture, centred, never larger than life; in its border run edges to other columns. */
export function fit(picture: Extent, frame: Extent): Viewport {
  const scale = Math.min(frame.width / picture.width, frame.height / picture.height, 1);
  return { scale, x: (picture.width - frame.width / scale) / 2, y: (picture.height - frame.height / scale) / 2 };
}

/** Whether the picture can be read with nothing of it cut at the sides. */
export function fitsAcross(picture: Extent, frame: Extent): boolean {
  return picture.width * READABLE <= frame.width;
}

/** Whether nothing of the picture is outside the window. */
export function showsAll(view: Viewport, picture: Extent, frame: Extent): boolean {
  const seen = windowOf(view, frame);
  return seen.x <= EDGE && seen.y <= EDGE && seen.x + seen.width >= picture.width - EDGE && seen.y + seen.height >= picture.height - EDGE;
}

/** The whole picture if its text is then readable; otherwise its upper part around x, where the program starts. */
export function firstLook(picture: Extent, frame: Extent, x: number): Viewport {
  const all = fit(picture, frame);
  if (all.scale >= READABLE) return all;
  const width = frame.width / READABLE;
  return { scale: READABLE, x: fitsAcross(picture, frame) ? (picture.width - width) / 2 : clamp(x - width / 2, -12, picture.width + 12 - width), y: -8 / READABLE };
}

/** The same view if it shows at least half of the rectangle's width, or one moved to show it in the middle. */
export function reveal(view: Viewport, frame: Extent, target: Rectangle): Viewport {
  const seen = windowOf(view, frame);
  const across = Math.min(target.x + target.width, seen.x + seen.width) - Math.max(target.x, seen.x);
  const inX = across > 0 && across >= Math.min(target.width, seen.width) / 2;
  const topSeen = target.y >= seen.y && target.y < seen.y + seen.height * 0.95;
  if (inX && topSeen) return view;
  const scale = Math.max(view.scale, READABLE);
  const width = frame.width / scale;
  const height = frame.height / scale;
  const x = target.x + Math.min(target.width, width) / 2 - width / 2;
  return { scale, x, y: target.height > height ? target.y - 20 : target.y + target.height / 2 - height / 2 };
}

/** The same view, moved as little as needed to show the whole rectangle. */
export function nudge(view: Viewport, frame: Extent, target: Rectangle): Viewport {
  const seen = windowOf(view, frame);
  const margin = 12 / view.scale;
  const shift = (low: number, high: number, from: number, to: number) =>
    low < from + margin ? low - from - margin : high > to - margin ? Math.min(low - from - margin, high - to + margin) : 0;
  const dx = shift(target.x, target.x + target.width, seen.x, seen.x + seen.width);
  const dy = shift(target.y, target.y + target.height, seen.y, seen.y + seen.height);
  return dx || dy ? { scale: view.scale, x: view.x + dx, y: view.y + dy } : view;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
