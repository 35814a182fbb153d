// What every pane is given: the view, what its ids stand for, the selection, and whom to ask for more.

import type { Answers } from "./answers";
import type { Branching } from "./branches";
import type { Copies } from "./copies";
import type { Heat } from "./heat";
import type { Same } from "./same";
import type { Records, Supply } from "./records";
import type { ExplorerView } from "./schema";
import type { Selection } from "./selection";
import type { Steps } from "./steps";

export interface Context {
  view: ExplorerView;
  records: Records;
  selection: Selection;
  answers: Answers;
  /** What was measured, as colours. */
  heat: Heat;
  /** What is copied and nothing else. */
  copies: Copies;
  /** Which pieces are the same. */
  same: Same;
  /** The state of the program that is shown; null where the view has no history. */
  steps: Steps | null;
  /** The branches of the timeline; null in a page without Python, and where there can be none. */
  branching: Branching | null;
  /** Whom to ask for more of the program; null in a page without Python. */
  supply: Supply | null;
  /** Shows the program after this many steps, which may have to be asked for. */
  goTo(state: number): void;
  /** Puts more of the view in its place and draws the explorer anew, as for steps that came late. */
  remount(part: Partial<ExplorerView>): void;
  /** Aborted when the view is taken away. */
  signal: AbortSignal;
}
