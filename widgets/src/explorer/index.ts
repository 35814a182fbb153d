// All panes in one element, and the keys that work in each of them.

import { GraphPane } from "../graph/index";
import { inspectorPane } from "../inspector/index";
import { Answers, type Ask, type AskKernel } from "../lib/model/answers";
import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { Records } from "../lib/model/records";
import type { ExplorerView, PaneName, VIEW_VERSION } from "../lib/model/schema";
import { Selection, type Shared } from "../lib/model/selection";
import { Steps, type SharedStep } from "../lib/model/steps";
import { dock } from "../tables/index";
import { textPane } from "../text/index";
import { stepBar } from "../timeline/index";
import { headLine } from "./head";
import { splitter } from "./splitters";

const READS: VIEW_VERSION = 1;


/** Where the explorer lives: what else shares its selection, and whom it may ask. A page without Python leaves both out. */
export interface Host {
  shared?: Shared;
  sharedStep?: SharedStep;
  ask?: Ask;
  askKernel?: AskKernel;
  /** The one pane to show. */
  only?: PaneName;
  /** Whether the explorer fills the page. */
  page?: boolean;
  signal?: AbortSignal;
}

/** Draws an explorer into an element; gives the function that takes it away again. */
export function mount(element: HTMLElement, view: ExplorerView, host: Host = {}): () => void {
  if (view.version !== READS) {
    element.append(h("p", { role: "alert" }, `this view has version ${view.version}, and the front end reads version ${READS}: reload the page, or install one version of irscope`));
    return () => element.replaceChildren();
  }
  const gone = new AbortController();
  host.signal?.addEventListener("abort", () => gone.abort());
  const records = new Records(view);
  const steps = view.timeline ? new Steps(view.timeline, host.sharedStep) : null;
  const context: Context = {
    view, records, steps, selection: new Selection(host.shared), answers: new Answers(records, host.ask, steps, host.askKernel), signal: gone.signal,
  };
  const kind = [
    "irs", host.only ? `irs-only irs-only-${host.only}` : host.page ? "irs-page" : "", view.only_history ? "irs-history" : "", steps ? "irs-stepped" : "",
  ];
  const root = h("div", { class: kind.filter(Boolean).join(" "), role: "region", "aria-label": `irscope explorer: ${view.title}` });
  const focusSearch = host.only ? fillWithOne(root, context, host.only) : fillWithAll(root, context);
  const listener: HTMLElement = host.page ? document.body : root; // a page is the explorer's own, whatever has the focus
  listener.addEventListener("keydown", (event) => keys(event, context, focusSearch), { signal: gone.signal });
  element.append(root);
  return () => {
    gone.abort();
    root.remove();
  };
}

/** Gives what the search key does. */
function fillWithAll(root: HTMLElement, context: Context): () => void {
  const head = headLine(context);
  const graph = graphPane(context);
  const main = h("div", { class: "irs-main" });
  main.append(
    textPane(context), splitter(main, "--irs-left", "left", 30), graph.element,
    splitter(main, "--irs-right", "right", 27), inspectorPane(context, (record) => graph.show(record)),
  );
  root.append(head.element, main);
  if (context.steps) root.append(stepBar(context, context.steps));
  if (!context.view.only_history) root.append(splitter(root, "--irs-dock", "bottom", 22), dock(context));
  return head.focusSearch;
}

function fillWithOne(root: HTMLElement, context: Context, name: PaneName): () => void {
  const makers: Record<PaneName, () => HTMLElement> = {
    text: () => textPane(context), graph: () => graphPane(context).element, inspector: () => inspectorPane(context), tables: () => dock(context),
    timeline: () => (context.steps ? stepBar(context, context.steps) : h("p", { class: "irs-quiet" }, "no pass did anything to this program")),
  };
  root.append(makers[name]());
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

/** Keys stay inside: the notebook would take them for commands on its cells. */
function keys(event: KeyboardEvent, { selection, steps }: Context, focusSearch: () => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter")) return;
  event.stopPropagation();
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    focusSearch();
  } else if (event.key === "Escape") {
    selection.set([]);
  } else if (steps && !typing && (event.key === "," || event.key === ".")) {
    steps.go(steps.at + (event.key === "." ? 1 : -1));
  }
}
