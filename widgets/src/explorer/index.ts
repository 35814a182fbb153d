// All panes in one element, and the keys that work in each of them.

import { GraphPane } from "../graph/index";
import { inspectorPane } from "../inspector/index";
import { kernelPane } from "../inspector/kernel_pane";
import { Answers, type Ask, type AskKernel } from "../lib/model/answers";
import { branchStrip } from "../branches/strip";
import { decidedStrip } from "../branches/decided";
import { whatIfMenu } from "../branches/menu";
import type { Branching } from "../lib/model/branches";
import type { Context, Kept } from "../lib/model/context";
import { Copies } from "../lib/model/copies";
import { Heat } from "../lib/model/heat";
import { h, keepFocus } from "../lib/dom/dom";
import { Same } from "../lib/model/same";
import { Records, type Supply } from "../lib/model/records";
import type { ExplorerView, PaneName, VIEW_VERSION } from "../lib/model/schema";
import { Selection, type Shared } from "../lib/model/selection";
import { Steps, type SharedStep } from "../lib/model/steps";
import { dock } from "../tables/index";
import { quizCard, type Answering } from "../quiz/index";
import { storyBar, type StoryBar, type Telling } from "../story/index";
import { textPane } from "../text/index";
import { memoryPane } from "../memory/index";
import { pointsToPane } from "../points_to/index";
import { timePane } from "../profile/index";
import { classesPane } from "../same/index";
import { stepBar } from "../timeline/index";
import { headLine } from "./head";
import { Panels } from "./panels";
import { splitter } from "./splitters";

const READS: VIEW_VERSION = 1;


/** The surroundings of an explorer: who shares its selection, and who answers its questions. A page without Python has neither. */
export interface Host {
  shared?: Shared;
  sharedStep?: SharedStep;
  ask?: Ask;
  askKernel?: AskKernel;
  supply?: Supply;
  branching?: Branching;
  /** Subscribes to parts that are added to the view later. */
  onPart?: (listener: (part: Partial<ExplorerView>) => void) => void;
  /** The one pane to show. */
  only?: PaneName;
  /** The quiz question to show beside the text and the graph. */
  asked?: Answering;
  /** The story to play, and who edits it; a page has one in its view. */
  telling?: Telling;
  /** The arrangement of the panes for the previous program. */
  kept?: Kept;
  /** Whether the explorer fills the page. */
  page?: boolean;
  signal?: AbortSignal;
}

/** Draws an explorer into an element; returns the function that removes it. */
export function mount(element: HTMLElement, view: ExplorerView, host: Host = {}): () => void {
  if (view.version !== READS) {
    element.append(h("p", { role: "alert" }, `this view has version ${view.version}, but the front end reads version ${READS}: reload the page, or install matching versions of irscope`));
    return () => element.replaceChildren();
  }
  const firstText = view.text;
  const life = new AbortController();
  host.signal?.addEventListener("abort", () => life.abort());
  const records = new Records(view, host.supply);
  const steps = view.timeline ? new Steps(view.timeline, host.sharedStep) : null;
  const selection = new Selection(host.shared);
  const context: Context = {
    view, records, steps, selection, answers: new Answers(records, host.ask, steps, host.askKernel), heat: new Heat(view.profile ?? undefined, host.supply ?? null, view.paint, view.compared), same: new Same(view, host.supply ?? null), copies: new Copies(view), signal: life.signal, supply: host.supply ?? null, kept: (host.kept ??= {}),
    branching: host.asked || host.telling || !host.branching?.now() ? null : host.branching,
    goTo: (state) => {
      if (steps) return steps.go(state);
      void host.supply?.part("timeline").then((part) => {
        if (life.signal.aborted) return;
        host.sharedStep?.set(state);
        context.remount(part);
      });
    },
    remount: (part) => {
      const { text, graph } = whole;
      if (part.opens) context.kept.table = part.opens;
      keepFocus(element, () => {
        again();
        if (part.paint && context.kept.graph) context.kept.graph.colour = "paint";
        else if (part.profile && context.kept.graph) context.kept.graph.colour = "time";
        again = mount(element, { ...view, ...part, text, graph, later: (view.later ?? []).filter((name) => !(name in part)) }, host);
      });
    },
  };
  const whole = { text: { ...firstText }, graph: { ...view.graph, boxes: [...view.graph.boxes], edges: [...view.graph.edges] } };
  if (records.isPart) {
    const look = () => void records.know(selection.ids).then((learned) => learned && !life.signal.aborted && selection.tellAgain());
    selection.subscribe((moved) => moved && look());
    look();
    if (steps) followSteps(context, steps);
  }
  const kind = [
    "irs", host.only ? `irs-only irs-only-${host.only}` : host.page ? "irs-page" : "", view.only_history ? "irs-history" : "", steps || view.later?.includes("timeline") ? "irs-stepped" : "",
  ];
  const root = h("div", { class: kind.filter(Boolean).join(" "), role: "region", "aria-label": `irscope explorer: ${view.title}` });
  const openMenu = whatIfMenu(root, context);
  const focusSearch = host.asked ? fillWithQuestion(root, context, host.asked) : host.only ? fillWithOne(root, context, host.only) : fillWithAll(root, context, openMenu, host.telling ?? (view.story && { story: view.story }));
  const listener: HTMLElement = host.page ? document.body : root; // the explorer owns the whole page, whatever has the focus
  listener.addEventListener("keydown", (event) => keys(event, context, focusSearch, openMenu), { signal: life.signal });
  element.append(root);
  host.onPart?.((part) => !life.signal.aborted && context.remount(part));
  let again = () => {
    life.abort();
    root.remove();
  };
  return () => again();
}

/** Upper limits on nodes whose places are requested: of a step, and of each of the steps before and after it. */
const MOST_FOLLOWED = 200;
const NEAR = 24;
const STEPS_AROUND = 60;

/** How long a step has to stay before the text around the next ones is requested. */
const RESTS_MS = 150;

/** Asks where the nodes of a step and of the steps around it are, one question at a time; at rest, asks for their lines too.
 * The next step then finds them loaded, and Lab, which shows each question as a busy kernel, has nothing to draw. */
function followSteps({ records, signal }: Context, steps: Steps): void {
  let asking = false;
  let resting: ReturnType<typeof setTimeout> | undefined;
  const around = () => steps.view.steps.slice(Math.max(0, steps.at - STEPS_AROUND), steps.at + STEPS_AROUND).flatMap(({ nodes }) => nodes.slice(0, NEAR));
  const outwards = () => Array.from({ length: 2 * STEPS_AROUND }, (_, k) => steps.view.steps[steps.at - 1 + (k % 2 ? (k + 1) / 2 : -k / 2)]);
  const readAhead = () => void records.know(around()).catch(() => false).then(() => {
    if (!signal.aborted) records.wantAround(outwards().map((step) => (step ? records.line(step.nodes[0]) : -1)).filter((line) => line >= 0));
  });
  const rest = () => {
    clearTimeout(resting);
    resting = setTimeout(readAhead, RESTS_MS);
  };
  steps.subscribe(() => {
    rest();
    if (asking) return;
    asking = true;
    records.know([...steps.now].slice(0, MOST_FOLLOWED), around).then((learned) => {
      asking = false;
      if (learned && !signal.aborted) steps.tellAgain();
    }, () => (asking = false));
  });
  signal.addEventListener("abort", () => clearTimeout(resting));
  rest();
}

/** Returns the action of the search key. */
function fillWithAll(root: HTMLElement, context: Context, openMenu: () => void, telling?: Telling): () => void {
  const panels = new Panels(root, {
    source: () => (Object.keys(context.view.source ?? {}).length ? textPane(context, true) : null), kernel: () => kernelPane(context),
  }, (name) => (name === "time" || name === "classes" || name === "memory" || name === "points-to" ? h("section", { class: "irs-pane irs-other", "aria-label": name }, paneOf(context, name)) : null));
  const head = headLine(context, panels.switches);
  const graph = graphPane(context);
  const main = h("div", { class: "irs-main" });
  main.append(textPane(context), graph.element, inspectorPane(context, (record) => graph.show(record)));
  const bar = telling && storyBar(context, panels, graph, telling);
  root.append(head.element, ...(bar ? [bar.element] : []), main);
  root.classList.toggle("irs-told", bar !== undefined);
  paneKeys(root, panels, bar, context.signal);
  const strip = branchStrip(context, openMenu);
  const steps = context.steps ? stepBar(context, context.steps) : context.view.later?.includes("timeline") ? stepOffer(context) : strip && h("div", { class: "irs-step-offer" });
  const decided = decidedStrip(context);
  if (steps && decided) steps.prepend(decided);
  if (steps) root.append(steps);
  if (steps && strip) steps.append(strip);
  if (strip) root.classList.add("irs-stepped");
  panels.arrange();
  if (context.view.only_history) return head.focusSearch;
  const roomy = root.classList.contains("irs-page") && !telling;
  let tables = dock(context, roomy);
  root.append(splitter(root, "--irs-dock", "bottom", context.view.decided ? 28 : context.view.opens ? 33 : roomy ? 22 : 32), tables);
  panels.arrange();
  void later(context, () => {
    head.refresh();
    const next = dock(context, roomy);
    tables.replaceWith(next);
    tables = next;
    panels.arrange();
    graph.recolour();
  });
  return head.focusSearch;
}

/** Handles `z`, which widens the pane that has the focus, `c`, which shows source, IR and kernel in columns, and `n` and `p` of a story,
 * wherever the focus is, except in a field. */
function paneKeys(root: HTMLElement, panels: Panels, bar: StoryBar | undefined, signal: AbortSignal): void {
  const listener = root.classList.contains("irs-page") ? document.body : root;
  listener.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    if (event.key === "z") panels.widen(event.target as Element);
    else if (event.key === "c") panels.columns();
    else if (bar?.key(event.key)) event.preventDefault();
  }, { signal });
}

function isTyping({ target }: Event): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}

const AFTER_FIRST_PICTURE_MS = 60;

const LATER = ["search", "numbers", "remarks"];
const UNSEEN = ["questions"];

/** After the first picture, asks for the parts that need a look at every group, lets Python prepare for questions, and asks for the
 * copies; one after the other, so that Python can answer other questions in between. */
async function later(context: Context, changed: () => void): Promise<void> {
  const { view, supply, records, copies, signal } = context;
  if (!supply) return;
  await new Promise((go) => setTimeout(go, AFTER_FIRST_PICTURE_MS));
  const load = async (wanted: string[]): Promise<boolean> => {
    const names = wanted.filter((name) => view.later?.includes(name));
    for (const name of names) {
      if (signal.aborted) return false;
      const part = await supply.part(name).catch(() => ({}));
      Object.assign(view, part);
      if ("classes" in part) records.learnClasses();
    }
    view.later = (view.later ?? []).filter((name) => !names.includes(name));
    return names.length > 0 && !signal.aborted;
  };
  if (await load(LATER)) changed();
  await load(UNSEEN);
  if (signal.aborted) return;
  if (view.later?.includes("copies")) await copies.load(supply).catch(() => undefined);
}

/** Takes the place of the step bar until the steps are requested. */
function stepOffer(context: Context): HTMLElement {
  const button = h("button", { class: "irs-switch", onclick: () => {
    button.disabled = true;
    button.textContent = "asking Python for the steps…";
    context.supply?.part("timeline").then((part) => !context.signal.aborted && context.remount(part), (error: unknown) => {
      button.disabled = false;
      button.textContent = `the steps could not be loaded: ${String(error)}`;
    });
  } }, "show what the passes did, step by step");
  return h("div", { class: "irs-step-offer" }, button);
}

function fillWithOne(root: HTMLElement, context: Context, name: PaneName): () => void {
  root.append(paneOf(context, name));
  return () => undefined;
}

function paneOf(context: Context, name: PaneName): HTMLElement {
  const makers: Record<PaneName, () => HTMLElement> = {
    text: () => textPane(context), graph: () => graphPane(context).element, inspector: () => inspectorPane(context), tables: () => dock(context, true), time: () => timePane(context), classes: () => classesPane(context), memory: () => memoryPane(context), "points-to": () => pointsToPane(context),
    timeline: () => (context.steps ? stepBar(context, context.steps) : h("p", { class: "irs-quiet" }, "no pass changed this program")),
  };
  return makers[name]();
}

/** Shows text, graph and the card with the question. */
function fillWithQuestion(root: HTMLElement, context: Context, asked: Answering): () => void {
  const graph = graphPane(context);
  const main = h("div", { class: "irs-main" });
  main.append(textPane(context), splitter(main, "--irs-left", "left", 24), graph.element, splitter(main, "--irs-right", "right", 30), quizCard(context, asked));
  graph.reveal([asked.card.subject, ...asked.card.options.map(({ record }) => record)].filter((record) => record));
  root.classList.add("irs-asking");
  root.append(main);
  return () => undefined;
}

function graphPane(context: Context): GraphPane {
  const graph = new GraphPane(context);
  onThemeChange(() => graph.recolour(), context.signal);
  return graph;
}

function onThemeChange(changed: () => void, signal: AbortSignal): void {
  const themes = new MutationObserver(changed);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "class"] });
  signal.addEventListener("abort", () => themes.disconnect());
  globalThis.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
}

/** Handles keys and stops their propagation: the notebook would take them for commands on its cells. */
function keys(event: KeyboardEvent, { selection, steps }: Context, focusSearch: () => void, openMenu: () => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter")) return;
  event.stopPropagation();
  const typing = isTyping(event);
  if (event.key === "/" && (!typing || event.target instanceof HTMLSelectElement)) {
    event.preventDefault();
    focusSearch();
  } else if (event.key === "w" && !typing) {
    event.preventDefault();
    openMenu();
  } else if (event.key === "Escape") {
    if (!selection.ids.length && steps?.active) steps.leave();
    selection.set([]);
  } else if (steps && !typing && (event.key === "," || event.key === ".")) {
    steps.go(steps.at + (event.key === "." ? 1 : -1));
  }
}
