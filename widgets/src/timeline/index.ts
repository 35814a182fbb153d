// The step bar: the current step of the history, what it did and saved, and a slider over all steps.

import { sentence } from "../inspector/words";
import type { Context } from "../lib/model/context";
import { h, oncePerFrame } from "../lib/dom/dom";
import type { Steps } from "../lib/model/steps";
import { clamp } from "../lib/layout/viewport";
import { spark } from "./spark";
import { bytes } from "../lib/model/sizes";

const SPOKEN_AFTER_MS = 500;
const PLAY_SECONDS = 20;
const SLOWEST = 3;
const FASTEST = 30;
const LEAST_LABELLED = 0.05;

export function stepBar(context: Context, steps: Steps): HTMLElement {
  const { signal } = context;
  const button = (label: string, title: string, action: () => void) =>
    h("button", { title, "aria-label": title, onclick: action }, label);
  const player = playing(steps, signal, (on) => {
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-pressed", String(on));
  });
  const go = (state: number) => {
    player.stop();
    steps.go(state);
  };
  const play = button("▶", "play (space)", () => player.toggle());
  play.setAttribute("aria-pressed", "false");
  const back = button("‹", "step back (←)", () => go(steps.at - 1));
  const on = button("›", "next step (→)", () => go(steps.at + 1));
  const text = h("div", { class: "irs-said" });
  const total = h("div", { class: "irs-saved" });
  const spoken = h("div", { class: "irs-spoken", role: "status", "aria-live": "polite" });
  const track = slider(steps, go);
  let speech: ReturnType<typeof setTimeout> | undefined;
  const show = () => {
    text.replaceChildren(...description(context, steps));
    total.textContent = saved(steps);
    back.disabled = steps.at === 0;
    on.disabled = steps.at === steps.last;
    track.show();
    clearTimeout(speech);
    if (steps.active) speech = setTimeout(() => (spoken.textContent = inWords(steps)), SPOKEN_AFTER_MS);
  };
  steps.subscribe(oncePerFrame(show));
  signal.addEventListener("abort", () => clearTimeout(speech));
  show();
  const element = h("section", { class: "irs-steps", "aria-label": "timeline" },
    h("div", { class: "irs-step-row" }, h("div", { class: "irs-step-buttons", role: "group", "aria-label": "steps" }, back, play, on), text, total),
    track.element, spoken);
  element.addEventListener("keydown", (event) => key(event, steps, go, player), { signal });
  return element;
}

/** The keys of the bar; space on a button presses the button. */
function key(event: KeyboardEvent, steps: Steps, go: (state: number) => void, player: { toggle(): void }): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(10, Math.round(steps.last / 20));
  const targets: Record<string, number> = {
    ArrowRight: steps.at + 1, ArrowUp: steps.at + 1, ArrowLeft: steps.at - 1, ArrowDown: steps.at - 1,
    PageUp: steps.at + page, PageDown: steps.at - page, Home: 0, End: steps.last,
  };
  if (event.key === " " && !(event.target instanceof HTMLButtonElement)) player.toggle();
  else if (event.key in targets) go(targets[event.key]);
  else return;
  event.preventDefault();
}

/** What the step did, with its names linked. */
function description(context: Context, steps: Steps): Node[] {
  const { step, at, last } = steps;
  const count = h("strong", {}, `step ${at.toLocaleString("en")} / ${last.toLocaleString("en")}`);
  if (!step) return [count, sentence(context, "the program as it was loaded")];
  const pass = passOf(steps);
  const saves = step.saved ? `, saves ${bytes(step.saved)}` : "";
  const made: Node[] = [count, h("span", { class: "irs-pass", title: step.rule }, pass), sentence(context, `${step.did}${saves}`)];
  if (!step.because) return made;
  const why = sentence(context, `because ${step.because}`);
  why.classList.add("irs-quiet");
  why.title = `${step.rule}: ${step.because}`;
  for (const name of why.querySelectorAll("button")) name.tabIndex = -1; // cut off where the window is narrow
  return [...made, why];
}

function inWords(steps: Steps): string {
  const { step, at, last } = steps;
  return `step ${at} of ${last}: ${step ? `${step.did}${step.saved ? `, saves ${bytes(step.saved)}` : ""}` : "the program as it was loaded"}`;
}

function saved(steps: Steps): string {
  const all = steps.savedBy[steps.last];
  if (!all) return "";
  const some = steps.view.at_least ? "at least " : "";
  return steps.at === steps.last ? `saves ${some}${bytes(all)}` : `saves ${some}${bytes(steps.savedBy[steps.at])} of ${bytes(all)} so far`;
}

function passOf(steps: Steps): string {
  return steps.view.passes.find((pass) => steps.at > pass.first && steps.at <= pass.first + pass.steps)?.name ?? "";
}

/** The track with the bars on it, as one slider: a press goes there, a drag scrubs. */
function slider(steps: Steps, go: (state: number) => void): { element: HTMLElement; show(): void } {
  const bars = spark(steps);
  const mark = h("i", { class: "irs-here" });
  const many = steps.view.passes.filter((pass) => pass.steps > 0);
  const labels = many.length > 1 ? many.map((pass) => {
    const label = h("span", { class: "irs-pass-label", title: `${pass.name}: ${pass.steps.toLocaleString("en")} steps` }, pass.steps > LEAST_LABELLED * steps.last ? pass.name : "");
    label.style.left = `${(100 * pass.first) / steps.last}%`;
    label.style.width = `${(100 * pass.steps) / steps.last}%`;
    return label;
  }) : [];
  const element = h("div", {
    class: "irs-track", role: "slider", tabindex: "0", "aria-label": "step of the history", "aria-valuemin": 0, "aria-valuemax": steps.last,
    "aria-orientation": "horizontal", title: bars.measures,
  }, bars.element, ...labels, mark);
  const at = (event: PointerEvent) => {
    const place = element.getBoundingClientRect();
    go(clamp((event.clientX - place.left) / Math.max(1, place.width), 0, 1) * steps.last);
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    at(event);
  });
  element.addEventListener("pointermove", (event) => element.hasPointerCapture(event.pointerId) && at(event));
  const show = () => {
    element.setAttribute("aria-valuenow", String(steps.at));
    element.setAttribute("aria-valuetext", inWords(steps));
    mark.style.left = `${(100 * steps.at) / Math.max(1, steps.last)}%`;
    bars.show(steps.at);
  };
  return { element, show };
}

/** Plays step by step until the end or until stopped; from the end it starts over. */
function playing(steps: Steps, signal: AbortSignal, changed: (on: boolean) => void): { toggle(): void; stop(): void } {
  let timer: ReturnType<typeof setInterval> | undefined;
  const stop = () => {
    if (timer === undefined) return;
    clearInterval(timer);
    timer = undefined;
    changed(false);
  };
  const toggle = () => {
    if (timer !== undefined) return stop();
    if (steps.at === steps.last) steps.go(0);
    changed(true);
    timer = setInterval(() => {
      steps.go(steps.at + 1);
      if (steps.at === steps.last) stop();
    }, 1000 / clamp(steps.last / PLAY_SECONDS, SLOWEST, FASTEST));
  };
  signal.addEventListener("abort", stop);
  return { toggle, stop };
}
