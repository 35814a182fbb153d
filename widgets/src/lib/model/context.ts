// What every pane is given: the view, what its ids stand for, the selection, and whom to ask for more.

import type { Answers } from "./answers";
import type { Records } from "./records";
import type { ExplorerView } from "./schema";
import type { Selection } from "./selection";
import type { Steps } from "./steps";

export interface Context {
  view: ExplorerView;
  records: Records;
  selection: Selection;
  answers: Answers;
  /** The state of the program that is shown; null where the view has no history. */
  steps: Steps | null;
  /** Aborted when the view is taken away. */
  signal: AbortSignal;
}
