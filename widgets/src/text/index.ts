// The text pane: the IR, or the user's source if the view has it. A click on a name selects the value, elsewhere on a
// line the record of the line; the selection is marked in every line that prints it.

import type { Context } from "../lib/model/context";
import { freshId, h, oncePerFrame } from "../lib/dom/dom";
import { Scroller } from "../lib/dom/scroller";
import { tokens } from "../lib/model/tokens";
import { messageOf } from "../inspector/words";
import { editor } from "./editor";
import { irLines, sourceLines, type Lines } from "./lines";

const ROW = 18;
const MOST_MARKS = 400;
const LINES_BEFORE = 4;
const MOST_BEFORE = 12;

/** The IR, and the user's source files to choose from; or the source alone, to stand beside the IR. */
export function textPane(context: Context, isSource = false): HTMLElement {
  const { view, selection, signal, steps } = context;
  const texts = new Map<string, Lines>(isSource ? [] : [["IR", irLines(context)]]);
  for (const file of Object.keys(view.source ?? {})) texts.set(file, sourceLines(context, file));
  const [first] = texts.keys();
  let lines = texts.get(first)!;
  const listId = freshId("text");
  const scroller = new Scroller(ROW, (index) => row(lines, index, listId), signal, {
    role: "listbox", "aria-label": isSource ? first : "IR text", "aria-multiselectable": "true", id: listId,
  });
  const ruler = h("div", { class: "irs-ruler", "aria-hidden": "true" });

  const refresh = (reveal: boolean) => {
    lines.mark();
    drawRuler(ruler, lines);
    const first = lines.marked.find(([, kind]) => kind === "selected")?.[0] ?? lines.marked[0]?.[0] ?? -1;
    const seen = lines.marked.some(([line, kind]) => kind === "selected" && scroller.isInSight(line));
    if (reveal && !seen) scroller.reveal(first); // before the rows are updated: most of them are dropped
    for (const [index, element] of scroller.rows()) {
      redress(element, lines, index, listId);
      markNames(element, lines);
    }
    if (first >= 0) scroller.element.setAttribute("aria-activedescendant", `${listId}-${first}`);
    else scroller.element.removeAttribute("aria-activedescendant");
  };
  const follow = () => {
    const about = steps?.now.size ? [...steps.now] : selection.ids.filter((id) => steps?.goneLine(id));
    const current = () => about.map((node) => lines.lineOf(node)).filter((line) => line >= 0);
    if (rearrange(current)) return;
    scroller.reveal(...current());
    for (const [index, element] of scroller.rows()) redress(element, lines, index, listId);
  };
  /** Shows or hides removed lines, and keeps the top line in place unless others are wanted; returns whether any line moved. */
  const rearrange = (wanted: () => number[] = () => []) => {
    const top = lines.anchor(scroller.topRow);
    const shift = scroller.top - scroller.topRow * ROW;
    if (!lines.arrange()) return false;
    lines.mark();
    scroller.reset(lines.count, lines.fromAnchor(top) * ROW + shift, wanted());
    drawRuler(ruler, lines);
    return true;
  };
  const length = h("span", { class: "irs-quiet" });
  const show = (name: string) => {
    lines = texts.get(name)!;
    scroller.element.setAttribute("aria-label", name === "IR" ? "IR text" : name);
    const made = (line: number) => (name === "IR" ? view.text.nodes[line] : isSource && context.records.nodesFrom(name, line + 1).length);
    const start = Array.from({ length: name === "IR" ? view.text.lines.length : lines.count }, (_, line) => line).findIndex(made) - LINES_BEFORE;
    length.textContent = `${(name === "IR" ? view.text.lines.length : lines.count).toLocaleString("en")} lines`;
    types.hidden = !lines.typed;
    removed.hidden = lines.gone === 0;
    lines.mark();
    scroller.reset(lines.count);
    // A model has hundreds of parameters before its first op.
    scroller.startAt(selection.ids.length === 0 && start > MOST_BEFORE ? start : 0);
    refresh(true);
  };
  const types = h("button", { class: "irs-switch", "aria-pressed": "false", title: "show the type of each value", onclick: () => {
    lines.showTypes = !lines.showTypes;
    types.setAttribute("aria-pressed", String(lines.showTypes));
    scroller.redraw();
  } }, "types");
  const removed = h("button", {
    class: "irs-switch", "aria-pressed": "false", title: "show the lines that passes removed, in every state", onclick: () => {
      lines.showGone = !lines.showGone;
      removed.setAttribute("aria-pressed", String(lines.showGone));
      rearrange();
    },
  }, "removed");
  selection.subscribe((moved) => refresh(moved));
  context.heat.subscribe(oncePerFrame(() => scroller.redraw()));
  context.copies.subscribe(oncePerFrame(() => scroller.redraw()));
  context.records.onText(oncePerFrame(() => refresh(false)));
  steps?.subscribe(oncePerFrame(follow));
  listen(scroller, () => lines, signal);
  show(first);
  const choice = texts.size > 1 ? fileChoice([...texts.keys()], show) : h("span", { class: "irs-title", title: first }, fileName(first));
  const body = h("div", { class: "irs-text-body" }, scroller.element, ruler);
  const actions = isSource ? [] : [removed, types, editing(context, body)];
  const bar = h("div", { class: "irs-bar" }, choice, length, h("span", { class: "irs-spring" }), ...actions);
  return h("section", { class: `irs-pane irs-text${isSource ? " irs-source-pane" : ""}`, "aria-label": isSource ? "source" : "IR text" }, bar, body);
}

/** The switch between reading and editing; in a page without Python, the word "read-only". */
function editing(context: Context, body: HTMLElement): HTMLElement {
  const { branching, signal } = context;
  const now = branching?.now();
  if (!branching || !now) return h("span", { class: "irs-quiet", title: "a notebook with a kernel can change it" }, context.supply ? "" : "read-only");
  if (now.read_only) return h("span", { class: "irs-quiet", title: now.read_only, tabindex: "0" }, "read-only: too long");
  const { draft } = branching;
  const read = [...body.childNodes];
  const button = h("button", { class: "irs-switch", "aria-pressed": "false", title: "all panes follow your edits" }, "edit");
  const show = () => {
    button.setAttribute("aria-pressed", String(draft.open));
    button.textContent = !draft.open && draft.trouble ? "edit ●" : "edit";
    if (!draft.open && draft.trouble) button.title = "continue: your text is kept";
    body.replaceChildren(...(draft.open ? [editor(branching, signal, close)] : read));
  };
  const close = () => {
    draft.open = false;
    draft.focused = false;
    show();
    button.focus();
  };
  button.addEventListener("click", () => {
    if (draft.open) return close();
    if (draft.trouble) {
      draft.open = draft.focused = true;
      return show();
    }
    branching.written().then((text) => {
      if (signal.aborted) return;
      draft.begin(text);
      show();
    }, (error: unknown) => (button.title = messageOf(error)));
  }, { signal });
  if (draft.open) show();
  else if (now.edits && !draft.text) button.click();
  else show();
  return button;
}

function fileChoice(names: string[], show: (name: string) => void): HTMLElement {
  const options = names.map((name) => h("option", { value: name, title: name }, fileName(name)));
  return h("select", { "aria-label": "text to show", onchange: (event: Event) => show((event.target as HTMLSelectElement).value) }, ...options);
}

function fileName(path: string): string {
  return path.split("/").pop() || path;
}

function row(lines: Lines, index: number, listId: string): HTMLElement {
  const mark = lines.markOf(index);
  const look = lines.look(index);
  const waits = lines.isThere(index) ? "" : "waits";
  let nth = 0;
  const pieces = tokens(lines.text(index), lines.isPython).map(({ kind, text }) => {
    if (kind === "plain") return text;
    if (kind !== "value") return h("span", { class: `irs-t-${kind}` }, text);
    const { record, name, kept } = lines.meant(index, text.slice(1), nth++);
    if (record === undefined) return h("span", { class: "irs-t-value" }, text);
    return h("span", { class: `irs-t-value ${lines.nameMark(record)}${kept ? " t-kept" : ""}`, "data-record": record }, `%${name}`);
  });
  const element = h("div", {
    class: `irs-line ${mark} ${look.classes} ${lines.fate(index)} ${waits}`, role: "option", id: `${listId}-${index}`, "data-line": index,
    "aria-selected": mark === "selected" ? "true" : "false", "aria-posinset": index + 1, "aria-setsize": lines.count,
    "aria-label": pieces.length ? null : `${lines.number(index)}, blank`,
  }, numberOf(lines, index), h("code", {}, ...pieces));
  element.style.setProperty("--g", look.colour || null);
  printedWords.set(element, wordsOf(lines, index));
  return element;
}

/** The number of a line, on the colour of the line's cost. */
function numberOf(lines: Lines, index: number): HTMLElement {
  const heat = lines.heat(index);
  const number = h("span", { class: heat ? "irs-number irs-heat" : "irs-number", "aria-hidden": "true", title: heat?.told }, ...lines.way(index).map((step) => h("b", { class: "irs-way" }, String(step))), lines.number(index));
  if (heat) number.style.setProperty("--c", heat.colour);
  return number;
}

const printedWords = new WeakMap<HTMLElement, string>();

/** The key of what a line prints; the line is printed again when it changes. */
function wordsOf(lines: Lines, index: number): string {
  return lines.isThere(index) ? lines.words(index) : "waits";
}

/** Updates a line to the current step and selection with as few changes as possible. */
function redress(element: HTMLElement, lines: Lines, index: number, listId: string): void {
  const words = wordsOf(lines, index);
  if (printedWords.get(element) !== words) {
    const made = row(lines, index, listId);
    element.replaceChildren(...made.childNodes);
    printedWords.set(element, words);
  }
  const look = lines.look(index);
  const mark = lines.markOf(index);
  const classes = `irs-line ${mark} ${look.classes} ${lines.fate(index)} ${words === "waits" ? words : ""}`;
  if (element.className !== classes) element.className = classes;
  const selected = String(mark === "selected");
  if (element.ariaSelected !== selected) element.ariaSelected = selected;
  if (element.style.getPropertyValue("--g") !== look.colour) element.style.setProperty("--g", look.colour || null);
}

/** Marks the names on a line whose values are selected. */
function markNames(element: HTMLElement, lines: Lines): void {
  for (const name of element.querySelectorAll<HTMLElement>("[data-record]")) {
    const marked = lines.nameMark(Number(name.dataset.record));
    for (const each of ["selected", "inside", "lit"] as const) name.classList.toggle(each, each === marked);
  }
}

/** Draws small marks beside the scrollbar, which show selected lines that are out of sight. */
function drawRuler(ruler: HTMLElement, lines: Lines): void {
  const marks = lines.marked.slice(0, MOST_MARKS).map(([line, kind]) => {
    const mark = h("i", { class: kind });
    mark.style.top = `${(100 * line) / Math.max(1, lines.count)}%`;
    return mark;
  });
  ruler.replaceChildren(...marks);
}

function listen(scroller: Scroller, lines: () => Lines, signal: AbortSignal): void {
  const { element } = scroller;
  element.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault(), { signal });
  element.addEventListener("click", (event) => {
    if (!event.shiftKey && document.getSelection()?.toString()) return; // the user marks text to copy it
    const target = event.target as Element;
    const name = target.closest("[data-record]");
    const line = target.closest("[data-line]");
    lines().pick(name ? Number(name.getAttribute("data-record")) : null, line ? Number(line.getAttribute("data-line")) : null, event.shiftKey);
  }, { signal });
  element.addEventListener("pointerover", (event) => {
    const name = (event.target as Element).closest("[data-record]");
    for (const other of element.querySelectorAll(".hover")) other.classList.remove("hover");
    if (!name) return;
    const record = name.getAttribute("data-record")!;
    for (const other of element.querySelectorAll(`[data-record="${record}"]`)) other.classList.add("hover");
    if (!name.hasAttribute("title")) {
      const kept = name.classList.contains("t-kept") ? "\nneeds no memory: only its group reads it" : "";
      name.setAttribute("title", lines().hint(Number(record)) + kept);
    }
  }, { signal });
  element.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    lines().step(step, event.shiftKey);
  }, { signal });
}
