// The classes: the ladder of relations as a chart, the classes of the step that is chosen as cards, and one class in full.

import { h } from "../lib/dom/dom";
import { choice } from "../lib/dom/choice";
import type { Context } from "../lib/model/context";
import type { LadderStep, SameCard, SameStep, SameView } from "../lib/model/schema";
import { milliseconds } from "../tables/timing";
import { ASKING, problem } from "../inspector/words";
import { classDetail } from "./detail";

export function classesPane(context: Context): HTMLElement {
  const element = h("div", { class: "irs-same" }, note(context.same.isLive ? ASKING : ""));
  context.same.ladder().then((same) => {
    if (context.signal.aborted) return;
    element.replaceChildren(...(same && same.ladder.some((step) => step.pieces > 0) ? filled(context, same) : [note("no equal parts were found")]));
  }, (error: unknown) => element.replaceChildren(problem(error)));
  return element;
}

const note = (text: string) => h("p", { class: "irs-quiet irs-same-note" }, text);

function filled(context: Context, same: SameView): HTMLElement[] {
  const cards = h("div", { class: "irs-cards-holder" });
  const detail = h("div", { class: "irs-detail-holder", "aria-live": "polite" });
  let shown = "";
  const show = (step: LadderStep) => {
    shown = step.step;
    detail.replaceChildren(note(`step '${step.step}' gives up ${step.gives_up}`));
    context.same.step(step.step).then((classes) => {
      if (shown === step.step && classes) cards.replaceChildren(...cardList(context, step.step, classes, detail));
    }, (error: unknown) => cards.replaceChildren(problem(error)));
  };
  const ladder = choice("steps of the ladder", "irs-ladder", same.ladder.map((step) => rung(step, same)), (k) => show(same.ladder[k]));
  ladder.choose(Math.max(0, same.ladder.findIndex((step) => step.step === same.step)));
  return [h("div", { class: "irs-ladder-holder", title: same.note }, ladder.element), cards, detail];
}

function rung(step: LadderStep, same: SameView): HTMLElement {
  const bar = h("i", {});
  bar.style.width = `${(100 * step.classes) / Math.max(1, step.pieces)}%`;
  const saved = step.pieces - step.classes;
  const title = `${step.classes} classes of ${step.pieces} pieces at step '${step.step}': one body each saves ${step.ops} ops and ${milliseconds(1000 * step.seconds)} of compile time${step.measured ? "" : ", by estimate"}; gives up ${step.gives_up}`;
  return h("div", { class: step.step === same.step ? "irs-rung own" : "irs-rung", title },
    h("span", { class: "irs-rung-name" }, step.step), h("span", { class: "irs-rung-bar" }, bar), h("strong", {}, String(step.classes)),
    h("span", { class: "irs-quiet" }, saved ? `−${milliseconds(1000 * step.seconds)}` : ""));
}

function cardList(context: Context, step: string, classes: SameStep, detail: HTMLElement): HTMLElement[] {
  const { selection } = context;
  let shown = -1;
  const open = (k: number) => {
    shown = k;
    const card = classes.cards[k];
    selection.set(card.selects.flat());
    context.same.cls(step, k).then((cls) => {
      if (shown !== k) return;
      detail.replaceChildren(cls ? classDetail(context, step, k, card, cls) : note(card.count > 1 ? "this page includes only the largest classes; a notebook with a kernel shows all" : "equal to no other piece at this step"));
    }, (error: unknown) => detail.replaceChildren(problem(error)));
  };
  const made = classes.cards.map(cardElement);
  const list = choice(`classes at step ${step}`, "irs-cards", made, open);
  const mark = () => {
    const chosen = new Set(selection.ids);
    classes.cards.forEach((card, k) => made[k].classList.toggle("holding", chosen.size > 0 && card.selects.some((ids) => ids.some((id) => chosen.has(id)))));
  };
  selection.subscribe((moved) => moved && mark());
  mark();
  return [list.element, ...(classes.left_out ? [note(`and ${classes.left_out.toLocaleString("en")} more`)] : [])];
}

function cardElement(card: SameCard): HTMLElement {
  const { cost } = card;
  const price = cost ? (cost.slowdown ? `at most ${(100 * cost.slowdown).toFixed(1)} % slower` : cost.parameters ? `${cost.parameters} parameter${cost.parameters > 1 ? "s" : ""}` : "nothing lost") : "";
  return h("div", { class: card.count > 1 ? "irs-card" : "irs-card one" },
    h("span", { class: "irs-card-count" }, `×${card.count}`), h("span", { class: "irs-card-label" }, card.label), h("span", { class: "irs-quiet" }, card.detail),
    h("span", { class: "irs-quiet" }, price ? `${card.ops} ops · ${price}` : `${card.ops} op${card.ops > 1 ? "s" : ""}`));
}
