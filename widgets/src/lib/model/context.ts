// The context of every pane: the view, what its ids stand for, the selection, and who answers questions.

import type { Answers } from "./answers";
import type { Branching } from "./branches";
import type { Copies } from "./copies";
import type { Heat } from "./heat";
import type { Same } from "./same";
import type { Records, Supply } from "./records";
import type { ExplorerView } from "./schema";
import type { Viewport } from "../layout/viewport";
import type { Selection } from "./selection";
import type { Steps } from "./steps";

/** How the graph was left, by names: in another program, boxes have other ids. */
export interface Arranged {
  /** The boxes with something in them, and whether they are open. */
  open: Map<string, boolean>;
  viewport: Viewport;
  /** A box in sight, and where in the picture it was. */
  anchor: { name: string; x: number; y: number } | null;
  colour: string;
}

export interface Kept {
  graph?: Arranged;
  /** Whether the graph has the effects of writes. */
  effects?: boolean;
  /** The table that is open; "" where all are closed. */
  table?: string;
}

export interface Context {
  view: ExplorerView;
  records: Records;
  selection: Selection;
  answers: Answers;
  /** Measurements as colours. */
  heat: Heat;
  /** The nodes that only copy a tensor. */
  copies: Copies;
  /** Which pieces are equal. */
  same: Same;
  /** The state of the program that is shown; null where the view has no history. */
  steps: Steps | null;
  /** The branches of the timeline; null in a page without Python, and where there can be none. */
  branching: Branching | null;
  /** Provides more of the program; null in a page without Python. */
  supply: Supply | null;
  /** Shows the program after this many steps, which may have to be requested. */
  goTo(state: number): void;
  /** Adds parts to the view and redraws the explorer, as for steps that arrived late. */
  remount(part: Partial<ExplorerView>): void;
  /** The user's arrangement of the panes, which is kept when another program replaces this one. */
  kept: Kept;
  /** Aborted when the view is removed. */
  signal: AbortSignal;
}
