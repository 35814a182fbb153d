// A question beside the views of its program: picks by mouse in the views and by keyboard in the list are the same picks.
// Only Python knows the right answer; the page receives it after the user has answered.

import type { Context } from "../lib/model/context";
import { freshId, h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { CardJudgement, CardOption, CardRemark, CardView } from "../lib/model/schema";
import { note, sentence } from "../inspector/words";

/** The messages from the card to Python. */
export interface Answering {
  card: CardView;
  answer(picks: string[]): void;
  go(number: number): void;
  /** Subscribes to each new state of the same question, and to errors. */
  onCard(changed: (card: CardView) => void, failed: (message: string) => void): void;
}

const MARKS = { right: "✓", wrong: "✗", missed: "○" } as const;
const SAID = { right: "right", wrong: "not this one", missed: "missed" } as const;

export function quizCard(context: Context, asked: Answering): HTMLElement {
  const body = h("div", { class: "irs-panel irs-question" });
  const element = h("section", { class: "irs-pane irs-quiz", "aria-label": "question" }, body);
  const draw = (card: CardView) => {
    element.replaceChildren(bar(card, asked), body);
    body.replaceChildren(...(card.judged ? answered(context, card, card.judged) : asking(context, card, asked)), steps(card, asked));
  };
  asked.onCard((card) => {
    draw(card);
    body.querySelector<HTMLElement>(".irs-judgement")?.focus();
  }, (message) => body.append(h("pre", { class: "irs-problem", role: "alert" }, message)));
  draw(asked.card);
  return element;
}

function bar(card: CardView, asked: Answering): HTMLElement {
  const dots = card.done.map((state, k) => h("button", {
    class: `irs-dot ${state} ${k === card.number ? "here" : ""}`, "aria-current": k === card.number ? "step" : null,
    "aria-label": `question ${k + 1}${state ? `, answered ${state === "right" ? "right" : "not quite right"}` : ""}`,
    onclick: () => asked.go(k),
  }, state === "right" ? MARKS.right : state === "wrong" ? MARKS.wrong : String(k + 1)));
  return h("div", { class: "irs-bar" },
    h("span", { class: "irs-title", title: card.title }, `Question ${card.number + 1} of ${card.done.length}`),
    h("div", { class: "irs-dots", role: "group", "aria-label": "questions" }, ...(card.done.length > 1 ? dots : [])),
    h("span", { class: "irs-spring" }), h("span", { class: "irs-quiet" }, card.summary.replace(/^.*, /u, "")));
}

/** The options as a form; a click in a view picks the corresponding option. */
function asking(context: Context, card: CardView, asked: Answering): HTMLElement[] {
  const { selection, records, signal } = context;
  const name = freshId("options");
  const inputs = card.options.map((option) => h("input", { type: card.several ? "checkbox" : "radio", name, value: option.name, onchange: () => tell() }));
  const chosen = () => card.options.filter((_, k) => inputs[k].checked);
  const check = h("button", { type: "submit", class: "irs-check" }, "check");
  const tell = () => {
    check.disabled = !card.several && chosen().length === 0;
    if (card.options.some((option) => option.record && option.record !== card.subject)) selection.set(chosen().map((option) => option.record).filter((record) => record));
    if (card.subject) selection.light([card.subject]);
  };
  const optionOf = (record: number) => card.options.findIndex((option) => matches(context, option, record));
  selection.taker = card.judged ? null : (record) => {
    const k = optionOf(record);
    if (k < 0) status.textContent = record ? `${records.longTitle(record)} is not one of the options` : "";
    else {
      status.textContent = "";
      inputs[k].checked = card.several ? !inputs[k].checked : true;
      tell();
    }
  };
  signal.addEventListener("abort", () => (selection.taker = null));
  const status = h("p", { class: "irs-quiet", role: "status" });
  const form = h("form", { class: "irs-options", onsubmit: (event: Event) => {
    event.preventDefault();
    check.disabled = true;
    check.textContent = "asking Python…";
    asked.answer(chosen().map((option) => option.name));
  } },
    h("fieldset", {}, h("legend", {}, ...prompt(context, card)),
      ...card.options.map((option, k) => h("label", { class: "irs-option" }, inputs[k], h("div", {}, h("code", {}, option.name), h("span", {}, option.text))))),
    check, status);
  form.addEventListener("keydown", (event) => {
    const k = Number(event.key) - 1;
    if (event.ctrlKey || event.metaKey || event.altKey || !(k >= 0 && k < inputs.length)) return;
    event.preventDefault();
    inputs[k].click();
    inputs[k].focus();
  });
  check.disabled = !card.several;
  selection.set([]);
  if (card.subject) {
    queueMicrotask(() => selection.light([card.subject]));
    requestAnimationFrame(() => requestAnimationFrame(() => { // the panes have their sizes now, and move to the subject of the question
      if (signal.aborted || !selection.taker || chosen().length) return;
      selection.set([card.subject]);
      selection.set([]);
      selection.light([card.subject]);
    }));
  }
  return [form];
}

/** Whether a clicked record means an option: a line or a box names a node, the option may be its value or its producer. */
function matches({ records }: Context, option: CardOption, record: number): boolean {
  return option.record !== 0 && (option.record === record || records.valuesOf(record).includes(option.record) || records.makerOf(record) === option.record);
}

function prompt(context: Context, card: CardView): HTMLElement[] {
  return [sentence(context, card.prompt), ...(card.note ? [note(card.note)] : []), note(card.how)];
}

function answered(context: Context, card: CardView, judged: CardJudgement): HTMLElement[] {
  const { selection } = context;
  selection.taker = null;
  const wrong = judged.remarks.filter((remark) => remark.mark !== "right");
  const light = (remarks: CardRemark[]) => selection.light(remarks.flatMap((remark) => remark.witness));
  selection.set(card.options.filter((option) => judged.picks.includes(option.name)).map((option) => option.record).filter((record) => record));
  queueMicrotask(() => light(wrong.length ? wrong : judged.remarks));
  const verdict = judged.right ? "right" : judged.points > 0 ? `partly right: ${Math.round(100 * judged.points)} % of the point` : "not right";
  const remarks = judged.remarks.map((remark) => h("li", { class: `irs-said-${remark.mark}`, onpointerenter: () => light([remark]), onfocusin: () => light([remark]) },
    h("span", { class: "irs-mark", "aria-hidden": "true" }, MARKS[remark.mark]),
    h("div", {}, h("strong", {}, `${SAID[remark.mark]}: ${remark.name}`), sentence(context, `because ${remark.because}`))));
  const heading = h("h3", { class: `irs-judgement ${judged.right ? "right" : "wrong"}`, tabindex: "-1" }, verdict);
  const none = remarks.length ? null : note("none of the options is right");
  return [...prompt(context, card), h("div", { role: "status" }, heading), oneStop(h("ul", { class: "irs-remarks-said" }, ...remarks)), ...(none ? [none] : [])];
}

function steps(card: CardView, asked: Answering): HTMLElement {
  const step = (words: string, number: number) => h("button", { class: "irs-plain", disabled: number < 0 || number >= card.done.length, onclick: () => asked.go(number) }, words);
  return h("div", { class: "irs-quiz-steps" }, ...(card.done.length > 1 ? [step("back", card.number - 1), step("next question", card.number + 1)] : []));
}
