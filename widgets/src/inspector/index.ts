// The inspector: the selection, and what is known about it. One record shows its details, two the answers about the pair,
// more a list. What the view itself holds is shown at once; the rest follows when it is answered.

import { whatIfButton } from "../branches/menu";
import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import { tabs } from "../lib/dom/tabs";
import { bare } from "../lib/model/answers";
import type { AliasDetail, Detail } from "../lib/model/schema";
import { repeatTable } from "../same/repeat";
import { stepList } from "../timeline/list";
import { aliasTab } from "./alias";
import { KernelTab } from "./kernel";
import { layoutTab } from "./layout";
import { pairAnswers } from "./pair";
import { ASKING, chips, codeLine, labelled, more, note, problem, sentence } from "./words";

const TABS = ["Alias", "Layout", "Fusion", "Same", "Kernel"] as const;
type Tab = (typeof TABS)[number];
/** A history on its own has only alias information. */
const tabsOf = ({ view }: Context): readonly Tab[] => (view.only_history ? TABS.slice(0, 1) : TABS);
const QUIET_MS = 300;
const RESTING_MS = 150;
const MOST_LISTED = 200;

type Reveal = (record: number) => void;

/** Whether an id is that of a box for a module, repeated layers, or a stretch, and so of no node or value of the program. */
const isHolder = (record: number) => record < 0;

function holder(context: Context, head: HTMLElement, body: HTMLElement, record: number, reveal: Reveal | undefined, still: () => boolean): void {
  const { hierarchy } = context.records;
  const box = hierarchy.boxes[hierarchy.find(record)];
  const show = reveal && box ? h("button", { onclick: () => reveal(record) }, "show in graph") : null;
  head.replaceChildren(h("div", { class: "irs-subject-title" }, h("h3", {}, box?.label ?? "a box of the graph"), show));
  if (box?.kind !== "repeat") {
    body.replaceChildren(h("div", { class: "irs-panel" }, note(`${box?.detail ?? ""}. Select something inside it to ask about memory, fusion and kernels.`)));
    return;
  }
  const panel = h("div", { class: "irs-panel" }, note(`${box.copies} parts, matched node by node: ${box.detail}.`));
  body.replaceChildren(panel);
  const open = (inner: number) => {
    context.selection.set([inner]);
    reveal?.(inner);
  };
  context.same.repeat(record).then(
    (view) => still() && panel.append(view ? repeatTable(context, view, open, context.same.isLive ? (left, right) => context.same.repeatBeside(record, left, right) : undefined) : note("this page does not include how they differ; a notebook with a kernel shows it")),
    (error: unknown) => still() && panel.append(problem(error)));
}

export function inspectorPane(context: Context, reveal?: Reveal): HTMLElement {
  const { selection, steps } = context;
  const head = h("div", { class: "irs-subject", "aria-live": "polite" });
  const body = h("div", { class: "irs-inspector-body" });
  const list = steps && context.view.only_history ? stepList(context, steps) : null;
  const element = h("section", { class: "irs-pane irs-inspector", "aria-label": "inspector", tabindex: "-1" }, h("div", { class: "irs-bar" }, h("span", { class: "irs-title" }, "Inspector")), head, body);
  const kernels = new KernelTab(context);
  let tab: Tab = "Alias";
  let shown = "";
  /** Asks again about aliases, for the current step. */
  let restate: () => unknown = () => undefined;
  const show = () => {
    const wanted = selection.ids.join(" ");
    if (wanted === shown) return; // only the evidence changed
    shown = wanted;
    const still = () => shown === wanted;
    const held = element.contains(document.activeElement);
    if (selection.ids.length === 0) empty(context, head, body, list);
    else if (selection.ids.length === 1 && isHolder(selection.ids[0])) holder(context, head, body, selection.ids[0], reveal, still);
    else if (selection.ids.length === 1) one(selection.ids[0], still);
    else if (selection.ids.length === 2 && !selection.ids.some(isHolder)) pairAnswers(context, head, body, still);
    else many(context, head, body);
    if (held && !element.contains(document.activeElement)) element.focus({ preventScroll: true }); // not the page: there keys mean other things
  };
  const one = (record: number, still: () => boolean) => {
    subject(context, head, bare(context.records, record), reveal);
    restate = () => undefined;
    const shown = tabbed(tabsOf(context), tab, (next) => (tab = next));
    body.replaceChildren(shown.element);
    const slow = setTimeout(() => still() && shown.fill(() => [note(context.answers.isLive ? ASKING : "")]), QUIET_MS);
    context.answers.detail(record).then(
      (detail) => {
        clearTimeout(slow);
        if (!still()) return;
        subject(context, head, detail, reveal);
        const fill = (alias: AliasDetail | null) => shown.fill((name) => tabContent(context, kernels, { ...detail, alias }, name));
        if (!steps?.active) fill(detail.alias);
        restate = () => context.answers.alias(record).then((alias) => still() && fill(alias), (error: unknown) => still() && shown.fill(() => [problem(error)]));
        if (steps?.active) void restate();
      },
      (error: unknown) => {
        clearTimeout(slow);
        if (still()) shown.fill(() => [problem(error)]);
      },
    );
  };
  selection.subscribe(show);
  let resting: ReturnType<typeof setTimeout> | undefined;
  steps?.subscribe(() => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      if (selection.ids.length === 1) void restate();
      else if (selection.ids.length === 2 && context.answers.isLive) {
        shown = "-"; // whether they may alias depends on the state
        show();
      }
    }, RESTING_MS);
  });
  context.signal.addEventListener("abort", () => clearTimeout(resting));
  shown = "-";
  show();
  return element;
}

function empty(context: Context, head: HTMLElement, body: HTMLElement, list: HTMLElement | null): void {
  const key = (name: string) => h("kbd", {}, name);
  head.replaceChildren();
  if (list) return body.replaceChildren(list, h("div", { class: "irs-hints" },
    h("p", {}, key("←"), key("→"), " on the bar below or ", key(","), key("."), " anywhere step back and forth. Click a name, a line or a box: its aliases follow the steps.")));
  body.replaceChildren(h("div", { class: "irs-hints" },
    h("p", {}, "Click a name, a line, a box or a row to select it in every pane", context.answers.isLive ? " and in Python." : "."),
    h("p", {}, key("Shift"), " + click a second one to ask about the pair: may they alias, why are they not fused, are they the same."),
    h("p", {}, key("/"), " searches, ", key("↑"), key("↓"), " walk the program, ", key("→"), key("←"), " open and close boxes, ", key("Esc"), " clears the selection, then leaves the steps."),
    h("p", {}, key("Tab"), " goes to the next list, the arrow keys through it; ", key("z"), " widens the pane you are in, ", key("c"), " shows source, IR and kernel in columns."),
    context.steps ? h("p", {}, key(","), key("."), " step back and forth in the history; every pane shows what a step merges.") : null,
    context.answers.isLive ? null : h("p", { class: "irs-quiet" }, "This page has no kernel: it shows stored answers.")));
}

function many(context: Context, head: HTMLElement, body: HTMLElement): void {
  const { ids } = context.selection;
  head.replaceChildren(h("h3", {}, `${ids.length.toLocaleString("en")} selected`));
  body.replaceChildren(h("div", { class: "irs-panel" }, chips(context, ids.slice(0, MOST_LISTED)), more(ids.length - MOST_LISTED)));
}

function subject(context: Context, head: HTMLElement, detail: Detail, reveal: Reveal | undefined): void {
  const { records } = context;
  const show = reveal && records.hierarchy.find(detail.id) >= 0
    ? h("button", { title: "open the boxes around it", onclick: () => reveal(detail.id) }, "show in graph") : null;
  const facts = [detail.scope, detail.location, detail.time].filter((fact) => fact);
  const short = (fact: string) => fact.replace(/^.*[\\/](?=[^\\/]+[\\/][^\\/]+$)/u, "…/");
  head.replaceChildren(
    h("div", { class: "irs-subject-title" }, h("h3", {}, detail.title), show),
    detail.text ? codeLine(context, detail.text) : "",
    facts.length ? h("div", { class: "irs-facts" }, ...facts.map((fact) => h("span", { title: fact }, short(fact)))) : "",
  );
}

interface Tabbed {
  element: HTMLElement;
  fill(content: (tab: Tab) => Node[]): void;
}

function tabbed(names: readonly Tab[], current: Tab, remember: (tab: Tab) => void): Tabbed {
  const panel = h("div", { class: "irs-panel", role: "tabpanel", tabindex: "0" });
  let chosen = current;
  let content: (tab: Tab) => Node[] = () => [];
  const list = tabs({
    label: "details", look: "irs-tabs", names, panel,
    onChoose: (name) => {
      if (!name) return;
      chosen = name;
      remember(name);
      panel.replaceChildren(...content(name));
    },
  });
  list.choose(current);
  const fill = (next: (tab: Tab) => Node[]) => {
    content = next;
    panel.replaceChildren(...content(chosen));
  };
  return { element: h("div", { class: "irs-tabbed" }, list.element, panel), fill };
}

/** The neighbours of a group, each with the reason why it is not in the group. */
function neighbours(context: Context, detail: Detail): Node[] {
  const side = (feeds: boolean, label: string) => {
    const rows = (detail.neighbours ?? []).filter((near) => near.feeds === feeds).map((near) => h("div", { class: "irs-neighbour" }, chips(context, [near.id]), sentence(context, `not in the group, because ${near.because}`), whatIfButton(context, "what if it joined?", { force: [[detail.id, near.id]] })));
    return rows.length ? [labelled(label, oneStop(h("div", {}, ...rows)))] : [];
  };
  return [...side(true, "producers"), ...side(false, "users")];
}

/** The effect of the step on the memory of a value. */
function stateNote({ records, steps }: Context, detail: Detail): Node[] {
  if (!steps?.active) return [];
  const values = detail.kind === "value" ? [detail.id] : records.valuesOf(detail.id);
  const kept = values.some((value) => steps.isKept(value));
  const reason = kept ? "only its group uses it now, so it needs no memory of its own" : "";
  const when = `at step ${steps.at}`;
  return [note(reason ? `${when}: ${reason}` : when)];
}

/** For something that a pass removed: a button to the program that still has it. */
function goneNote(context: Context, detail: Detail): Node[] {
  const state = detail.gone_after;
  if (state === undefined || (context.steps && context.steps.at <= state)) return [];
  return [sentence(context, detail.fusion), h("button", { onclick: () => context.goTo(state) }, "show that program")];
}

function tabContent(context: Context, kernels: KernelTab, detail: Detail, tab: Tab): Node[] {
  const { answers, records, selection } = context;
  selection.light(tab === "Alias" && detail.alias ? detail.alias.alias_set.filter((record) => record !== detail.id) : []);
  if (!answers.knows(detail.id) && tab !== "Same") return [note("this page includes no answers about it; a notebook with a kernel answers")];
  if (tab === "Alias") return [...goneNote(context, detail), ...stateNote(context, detail), ...(detail.alias ? aliasTab(context, detail, detail.alias) : [note("it shares no memory: it is not a tensor or container, or does not exist yet")])];
  if (tab === "Layout") return [layoutTab(context, detail.id)];
  if (tab === "Fusion") return [detail.fusion ? sentence(context, detail.fusion) : note("nothing was fused here"), note(detail.kernel?.launched ?? ""), detail.time ? note(detail.time) : h("span", {}), ...neighbours(context, detail)];
  if (tab === "Kernel") return detail.kernel ? kernels.show(detail.id, detail.kernel) : [note("no generated kernel: fusion groups have one, other ops run through the array library")];
  const equals = records.equals(detail.id);
  const all = equals && equals.members.length > 1
    ? h("button", { onclick: () => selection.set(equals.members) }, `select all ${equals.members.length}`) : h("span", {});
  return [detail.same ? sentence(context, detail.same) : note("not one of the parts that were compared"), all, equals ? chips(context, equals.members.slice(0, MOST_LISTED)) : h("span", {})];
}
