// The explorer as a widget of a notebook: the selection goes through the hub model, questions go to Python as messages.
// A pane in a cell of its own has the explorer's model behind it, and so the same view, selection and answers.

import { mount } from "./explorer/index";
import { keepFocus } from "./lib/dom/dom";
import type { PaneName } from "./lib/model/schema";
import type { Ask, AskKernel } from "./lib/model/answers";
import { Draft, type Branching } from "./lib/model/branches";
import type { Kept } from "./lib/model/context";
import type { SameAnswer, Supply } from "./lib/model/records";
import type { Answering } from "./quiz/index";
import type { Telling } from "./story/index";
import type { CardView, Detail, ExplorerView, PairDetail, StoryView } from "./lib/model/schema";

/** The part of an anywidget model that is used here. */
interface Model {
  get(name: "selection"): number[];
  get(name: "step"): number;
  get(name: "view" | "measured"): DataView | string;
  get(name: "branches_view"): DataView | string | undefined;
  get(name: "hub"): string;
  get(name: "explorer"): string | undefined;
  get(name: "card" | "story"): DataView | string | undefined;
  get(name: "pane"): PaneName;
  set(name: "selection", value: number[]): void;
  set(name: "step", value: number): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, listener: (content: never) => void): void;
  off(event: string, listener: (content: never) => void): void;
}

interface Rendered {
  model: Model;
  el: HTMLElement;
  signal?: AbortSignal;
  host: { getModel(reference: string): Promise<Model> };
}

/** An answer of Python has its question's token, and a field for what was asked for. */
interface Reply extends SameAnswer {
  kind: string;
  token: string;
  /** That of an error. */
  message: string;
  detail?: Detail;
  pair?: PairDetail;
  [asked: string]: unknown;
}

export async function render(rendered: Rendered): Promise<() => void> {
  const { model } = rendered;
  if (!model.get("explorer")) return renderViews(rendered);
  if (model.get("story") !== undefined) return renderStory(rendered);
  return model.get("card") !== undefined ? renderQuiz(rendered) : renderViews(rendered);
}

async function renderViews({ model: shown, el, signal, host }: Rendered, around?: { asked: Answering } | { telling: Telling }): Promise<() => void> {
  const explorer = shown.get("explorer");
  const model = explorer ? await host.getModel(explorer) : shown;
  const hub = await host.getModel(model.get("hub"));
  el.classList.add("irs-holder");
  if (!explorer || around) el.classList.add("irs-live");
  const life = new AbortController();
  const draft = new Draft();
  const { edit } = asker(model, listener(life.signal), draft).branching; // its answer arrives after another program is drawn
  const stays = { draft, edit, kept: {} };
  let leave = drawViews(shown, model, hub, el, stays, around);
  const renewed = () => {
    const left = arrangement(el);
    el.style.minHeight = `${el.offsetHeight}px`; // keeps the page from jumping while the element is empty
    keepFocus(el, () => {
      leave();
      leave = drawViews(shown, model, hub, el, stays, around, left);
    });
    el.style.minHeight = "";
  };
  listener(life.signal)(model, "change:view", renewed);
  const end = () => {
    life.abort();
    leave();
    leave = () => undefined;
  };
  signal?.addEventListener("abort", end);
  return end;
}

/** The user's arrangement of the panes, kept when another program replaces this one. */
interface Arrangement {
  root: string;
  main: string;
  opens: string;
}

function arrangement(el: HTMLElement): Arrangement {
  const styleOf = (where: string) => el.querySelector<HTMLElement>(where)?.style.cssText ?? "";
  const opens = el.querySelector(".irs-dock [role=tab][aria-selected=true]")?.firstChild?.textContent ?? "";
  return { root: styleOf(".irs"), main: styleOf(".irs-main"), opens };
}

type Listen = (on: Model, event: string, heard: (content: never) => void) => void;

/** Listens to models until the signal. */
function listener(signal: AbortSignal): Listen {
  return (on, event, heard) => {
    on.on(event, heard);
    signal.addEventListener("abort", () => on.off(event, heard));
  };
}

/** The views of a model's current program. */
function drawViews(shown: Model, model: Model, hub: Model, el: HTMLElement, { draft, edit, kept }: { draft: Draft; edit: Branching["edit"]; kept: Kept }, around?: { asked: Answering } | { telling: Telling }, left?: Arrangement): () => void {
  const closing = new AbortController();
  const listen = listener(closing.signal);
  const shared = {
    get: () => hub.get("selection"),
    set: (ids: number[]) => {
      hub.set("selection", ids);
      tell(hub);
    },
    onChange: (listener: () => void) => listen(hub, "change:selection", listener),
  };
  const tellStep = seldom(() => tell(hub));
  const sharedStep = {
    get: () => hub.get("step"),
    set: (step: number) => {
      hub.set("step", step);
      tellStep();
    },
    onChange: (listener: () => void) => listen(hub, "change:step", listener),
  };
  const view = parsed<ExplorerView>(model.get("view"))!;
  const measured = () => parsed<Partial<ExplorerView>>(model.get("measured"));
  Object.assign(view, measured() ?? {});
  const onPart = (listener: (part: Partial<ExplorerView>) => void) => listen(model, "change:measured", () => listener(measured() ?? ({ profile: undefined, opens: undefined } as object)));
  const panes = around ?? (shown === model ? {} : { only: shown.get("pane") });
  if (left?.opens) view.opens = left.opens;
  const asked = asker(model, listen, draft);
  asked.branching.edit = edit;
  const unmount = mount(el, view, { shared, sharedStep, ...asked, onPart, signal: closing.signal, kept, ...panes });
  if (left) {
    el.querySelector<HTMLElement>(".irs")!.style.cssText = left.root;
    for (const main of el.querySelectorAll<HTMLElement>(".irs-main")) main.style.cssText = left.main;
  }
  return () => {
    unmount();
    closing.abort();
  };
}

/** JSON of a model; null for none. */
function parsed<T>(data: DataView | string | undefined): T | null {
  const text = data && typeof data !== "string" ? new TextDecoder().decode(data) : data;
  return text ? (JSON.parse(text) as T) : null;
}

/** A story: the explorer with a bar; Python stores the story. */
async function renderStory(rendered: Rendered): Promise<() => void> {
  const { model } = rendered;
  const storyNow = () => parsed<StoryView>(model.get("story"))!;
  const closing = new AbortController();
  const listen = listener(closing.signal);
  const telling: Telling = {
    get story() {
      return storyNow();
    },
    change: (message) => model.send(message),
    onStory: (changed, failed) => {
      listen(model, "change:story", () => changed(storyNow()));
      listen(model, "msg:custom", (reply: Reply) => reply.kind === "error" && failed(reply.message));
    },
  };
  const unmount = await renderViews(rendered, { telling });
  return () => {
    closing.abort();
    unmount();
  };
}

/** A quiz: one question after the other, each with the views of its program beside its card. */
async function renderQuiz(rendered: Rendered): Promise<() => void> {
  const { model, el } = rendered;
  const cardNow = () => parsed<CardView>(model.get("card"))!;
  let shown = "";
  let unmount = () => undefined as void;
  let changed: (card: CardView) => void = () => undefined;
  let failed: (message: string) => void = () => undefined;
  const show = async () => {
    const explorer = model.get("explorer")!;
    if (explorer === shown) return changed(cardNow());
    shown = explorer;
    const asked: Answering = {
      card: cardNow(),
      answer: (picks) => model.send({ kind: "answer", picks }),
      go: (number) => model.send({ kind: "go", number }),
      onCard: (told, wrong) => [changed, failed] = [told, wrong],
    };
    const first = unmount;
    const hadFocus = el.contains(document.activeElement);
    const next = await renderViews(rendered, { asked });
    first();
    unmount = next;
    if (hadFocus) el.querySelector<HTMLElement>(".irs-option input, .irs-judgement")?.focus(); // the button that had it was removed
  };
  const closing = new AbortController();
  const listen = listener(closing.signal);
  listen(model, "change:card", () => void show());
  listen(model, "msg:custom", (reply: Reply) => reply.kind === "error" && failed(reply.message));
  await show();
  el.classList.add("irs-live");
  return () => {
    closing.abort();
    unmount();
  };
}

const REST_MS = 150;
const LONGEST_MS = 1000;

/** Debounces an action, with one call a second under continuous triggers: Lab lays out its toolbar at each message. */
function seldom(action: () => void): () => void {
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let since = 0;
  return () => {
    if (waiting === undefined) since = performance.now();
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      waiting = undefined;
      action();
    }, Math.max(0, Math.min(REST_MS, since + LONGEST_MS - performance.now())));
  };
}

/** Notifies Python of a change; without a kernel this has no effect, and the views keep working. */
function tell(hub: Model): void {
  try {
    hub.save_changes();
  } catch {
    // reported at the next question
  }
}

const GONE = "Python does not answer: the kernel that made this view was restarted or ended. Run the cell again to reconnect.";

/** Questions have ids, since answers may come late or never, and go to every view of the model. */
function asker(model: Model, listen: Listen, draft: Draft): { ask: Ask; askKernel: AskKernel; supply: Supply; branching: Branching } {
  const waiting = new Map<string, { resolve: (reply: Reply) => void; reject: (error: Error) => void }>();
  const asker = Math.random().toString(36).slice(2);
  let asked = 0;
  listen(model, "msg:custom", (message: Reply, [long]: (DataView | undefined)[] = []) => {
    const reply = parsed<Reply>(long) ?? message;
    const question = waiting.get(reply.token);
    if (!question) return;
    waiting.delete(reply.token);
    if (reply.kind === "error") question.reject(new Error(reply.message));
    else question.resolve(reply);
  });
  const send = (question: object): Promise<Reply> => new Promise((resolve, reject) => {
    const token = `${asker}-${++asked}`;
    waiting.set(token, { resolve, reject });
    try {
      model.send({ ...question, token });
    } catch {
      waiting.delete(token);
      reject(new Error(GONE));
    }
  });
  /** One field of the answer. */
  const answer = async <T>(field: string, question: object): Promise<T> => (await send(question))[field] as T;
  const branching: Branching = {
    draft, problem: "",
    now: () => parsed(model.get("branches_view")),
    onChange: (listener) => listen(model, "change:branches_view", listener),
    whatIf: (change) => send({ kind: "what_if", change }),
    show: (index) => send({ kind: "branch", index }),
    program: (index) => send({ kind: "program", index }),
    measure: () => send({ kind: "measure_branches" }),
    diff: (first, second) => answer("diff", { kind: "branch_diff", first, second }),
    written: () => answer("text", { kind: "written" }),
    edit: (text) => answer("trouble", { kind: "edit", text }),
  };
  return {
    branching,
    ask: async (ids, state) => {
      const reply = await send({ kind: "inspect", ids, state: state ?? null });
      return (reply.detail ?? reply.pair)!;
    },
    askKernel: (id, language) => answer("kernel", { kind: "kernel", id, language }),
    supply: {
      lines: (first, count) => answer("text", { kind: "lines", first, count }),
      levels: (boxes) => answer("levels", { kind: "levels", boxes }),
      places: (ids) => answer("places", { kind: "places", ids }),
      repeat: (box) => answer("repeat", { kind: "repeat", box }),
      repeatBeside: (box, left, right) => answer("beside", { kind: "repeat_beside", box, left, right }),
      find: (query, all) => answer("found", { kind: "find", query, all }),
      examples: () => answer("examples", { kind: "examples" }),
      heat: (ids) => answer("heat", { kind: "heat", ids }),
      layout: (id) => answer("layout", { kind: "layout", id }),
      assumed: (id, layout) => answer("assumed", { kind: "assumed", id, layout }),
      memory: (state) => answer("memory", { kind: "memory", state }),
      pointsTo: (ids, state) => answer("points_to", { kind: "points_to", ids, state: state ?? null }),
      same: (question) => send({ kind: "same", ...question }),
      part: (name) => answer("part", { kind: "part", name }),
    },
  };
}
