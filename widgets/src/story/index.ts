// The bar of a story: plays its steps, and, with a kernel, records, edits and reorders them.

import type { GraphPane } from "../graph/index";
import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import type { StoryStep, StoryView } from "../lib/model/schema";
import { markdown } from "./markdown";

export interface Telling {
  story: StoryView;
  /** Asks Python for a change; absent in a page that only plays. */
  change?(message: object): void;
  onStory?(changed: (story: StoryView) => void, failed: (message: string) => void): void;
}

/** Which pane is shown alone; empty for all. */
export interface Alone {
  readonly alone: string;
  showAlone(name: string): void;
}

export interface StoryBar {
  element: HTMLElement;
  /** Whether a key was one of the bar's. */
  key(name: string): boolean;
}

export function storyBar(context: Context, panes: Alone, graph: GraphPane, telling: Telling): StoryBar {
  let { story } = telling;
  let { at } = story;
  let edits = false;
  const body = h("div", { class: "irs-story-text", role: "status", "aria-live": "polite" });
  const controls = h("div", { class: "irs-story-controls", role: "group", "aria-label": "story" });
  const element = h("section", { class: "irs-story", "aria-label": `story: ${story.title}`, tabindex: "-1" }, controls, body);

  const show = (number: number, tell = true) => {
    at = Math.max(-1, Math.min(story.steps.length - 1, number));
    if (at >= 0) look(context, panes, graph, story.steps[at]);
    if (tell && at >= 0) telling.change?.({ kind: "go", number: at });
    draw();
  };
  const button = (label: string, title: string, action: () => void, able = true) => h("button", { class: "irs-plain", title, "aria-label": title, disabled: !able, onclick: action }, label);
  const draw = () => {
    const { steps } = story;
    const editing = telling.change ? [
      button("add this view", "add this view to the story", () => compose("", (text) => telling.change!({ kind: "add", text, ...seen(context, panes, graph) }))),
      ...(at < 0 ? [] : [
        button("edit", "edit the text of this step", () => compose(steps[at].text, (text) => telling.change!({ kind: "edit", number: at, text }))),
        button("↑", "move this step back", () => telling.change!({ kind: "move", number: at, to: at - 1 }), at > 0),
        button("↓", "move this step forward", () => telling.change!({ kind: "move", number: at, to: at + 1 }), at < steps.length - 1),
        button("×", "remove this step", () => telling.change!({ kind: "remove", number: at })),
      ]),
    ] : [];
    const focused = controls.contains(document.activeElement);
    controls.replaceChildren(
      h("span", { class: "irs-title" }, story.title),
      button("‹", "previous step (p)", () => show(at - 1), at > 0), h("span", { class: "irs-story-at" }, steps.length ? `${at + 1} / ${steps.length}` : "no steps yet"), button("›", "next step (n)", () => show(at + 1), at < steps.length - 1),
      h("span", { class: "irs-spring" }), ...editing,
    );
    if (focused) element.focus(); // the button that had it is redrawn; keeps the keys working
    if (edits) return;
    body.replaceChildren(...(at >= 0 ? markdown(context, steps[at].text) : [h("p", { class: "irs-quiet" }, steps.length ? "press n to play the first step" : "select something, open boxes, choose colours, and add the view")]),
      ...story.problems.map((problem) => h("p", { class: "irs-problem" }, problem)));
  };
  /** Replaces the text by a field to edit it. */
  const compose = (text: string, done: (text: string) => void) => {
    const field = h("textarea", { rows: "2", "aria-label": "what this view shows, in Markdown", placeholder: "what this view shows, in Markdown" });
    field.value = text;
    edits = true;
    const end = (keep: boolean) => {
      edits = false;
      if (keep) done(field.value);
      draw();
      element.focus();
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") end(false);
      else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        end(true);
      }
    });
    body.replaceChildren(h("div", { class: "irs-story-compose" }, field, button("keep", "keep the text (Enter)", () => end(true)), button("cancel", "discard it (Escape)", () => end(false))));
    field.focus();
  };
  telling.onStory?.((changed) => {
    const before = story.steps.length;
    const shown = viewOf(story.steps[at]);
    story = changed;
    at = changed.at;
    if (at >= 0 && viewOf(story.steps[at]) !== shown) look(context, panes, graph, story.steps[at]);
    if (before !== changed.steps.length || !edits) draw();
  }, (message) => body.replaceChildren(h("pre", { class: "irs-problem", role: "alert" }, message)));
  draw();
  const first = new ResizeObserver(() => { // after the graph's first look, which closes what is too much
    if (!element.clientWidth) return;
    first.disconnect();
    if (at >= 0) show(at, false);
  });
  first.observe(element);
  return {
    element,
    key: (name) => {
      if (name !== "n" && name !== "p") return false;
      show(name === "n" ? at + 1 : Math.max(0, at - 1));
      return true;
    },
  };
}

/** What a step shows, without its words. */
function viewOf(step: StoryStep | undefined): string {
  return JSON.stringify({ ...step, text: "" });
}

/** Restores the views stored in a step. A step that opens no boxes opens those around what it selects, or around what it colours. */
function look({ view, selection, steps }: Context, panes: Alone, graph: GraphPane, step: StoryStep): void {
  if (panes.alone !== step.pane) panes.showAlone(step.pane);
  graph.restore(step.open, step.colour);
  if (step.step !== null && steps && steps.at !== step.step) steps.go(step.step);
  selection.set(step.selection);
  if (!step.open) graph.reveal(step.selection.length || step.colour !== "equal" ? step.selection : view.classes.flatMap(({ members }) => members));
}

/** The current state of the views, as a step stores it. */
function seen({ selection, steps }: Context, panes: Alone, graph: GraphPane): object {
  const { open, colour } = graph.kept();
  return { selection: [...selection.ids], state: steps?.active ? steps.at : null, open, colour, pane: panes.alone };
}
