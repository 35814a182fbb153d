// The answers about two records, each one sentence with its evidence; the evidence is lit in every pane.

import { whatIfButton } from "../branches/menu";
import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import type { PairDetail } from "../lib/model/schema";
import { besideTable } from "../same/beside";
import { pictureOf } from "./alias";
import { ASKING, chips, note, problem, sentence } from "./words";

export function pairAnswers(context: Context, head: HTMLElement, body: HTMLElement, still: () => boolean): void {
  const { answers, records, selection } = context;
  const [first, second] = selection.ids;
  head.replaceChildren(h("h3", {}, `${records.longTitle(first)}  and  ${records.longTitle(second)}`));
  body.replaceChildren(h("div", { class: "irs-panel" }, note(answers.isLive ? ASKING : "")));
  answers.pair(first, second).then(
    (pair) => {
      if (!still()) return;
      body.replaceChildren(h("div", { class: "irs-panel" }, chips(context, [first, second]), ...verdicts(context, pair)));
      const way = new Map<number, number[]>();
      pair.alias?.steps?.forEach(({ node }, k) => node && way.set(node, [...(way.get(node) ?? []), k + 1]));
      selection.light([pair.alias, pair.fusion, pair.same].flatMap((verdict) => verdict?.witness ?? []), way);
    },
    (error: unknown) => still() && body.replaceChildren(h("div", { class: "irs-panel" }, problem(error))),
  );
}

function verdicts(context: Context, pair: PairDetail): (Node | string)[] {
  return [
    verdict(context, "May they alias?", pair, "alias"),
    ...wayOf(context, pair),
    verdict(context, "Fused together?", pair, "fusion"),
    pair.fusion ? whatIf(context, pair, pair.fusion.holds) : "",
    verdict(context, "The same?", pair, "same"),
    ...(pair.same && context.same.isLive ? [besideOffer(context, pair)] : []),
  ];
}

/** The numbered path on which two values may share memory, as a list and as a picture; for a no, the picture of both. */
function wayOf(context: Context, { ids, alias }: PairDetail): Node[] {
  if (!alias) return [];
  const steps = (alias.steps ?? []).map(({ words }) => h("li", {}, sentence(context, words)));
  return [...(steps.length > 1 ? [oneStop(h("ol", { class: "irs-way-list" }, ...steps))] : []), pictureOf(context, ids)];
}

/** A button for the branch in which the answer is the opposite. */
function whatIf(context: Context, { ids }: PairDetail, together: boolean): Node | string {
  const { records } = context;
  if (ids.some((id) => records.isValue(id) && !records.makerOf(id))) return "";
  return (together ? whatIfButton(context, "what if they were apart?", { forbid: [ids] }) : whatIfButton(context, "what if they were one kernel?", { force: [ids] })) ?? "";
}

/** Shows two pieces side by side on request. */
function besideOffer(context: Context, pair: PairDetail): HTMLElement {
  const holder = h("div", { class: "irs-verdict" });
  holder.append(h("button", { onclick: () => {
    context.same.pair(pair.ids[0], pair.ids[1]).then((view) => holder.replaceChildren(view ? besideTable(context, view) : note("not stored in this page")), (error: unknown) => holder.replaceChildren(problem(error)));
  } }, "show them side by side"));
  return holder;
}

/** Why a question does not apply to some pairs of records. */
const DOES_NOT_APPLY = {
  alias: "one of the two is not a value, so it has no memory to share",
  fusion: "one of the two is an input, or a pass removed what made it: there is nothing to fuse",
  same: "only two fusion groups can be the same, and these two are not in two of them",
};

function verdict(context: Context, question: string, pair: PairDetail, kind: keyof typeof DOES_NOT_APPLY): HTMLElement {
  const answer = pair[kind];
  if (!answer) {
    const why = pair.ids.every((id) => context.answers.knows(id)) ? DOES_NOT_APPLY[kind] : "not stored in this page; a notebook with a kernel answers this";
    return h("div", { class: "irs-verdict" }, h("h4", {}, question), note(why));
  }
  const mark = h("span", { class: answer.holds ? "irs-yes" : "irs-no" }, answer.holds ? "yes" : "no");
  const evidence = answer.witness.length
    ? h("div", { class: "irs-evidence", onpointerenter: () => context.selection.light(answer.witness) }, h("span", { class: "irs-quiet" }, "evidence "), chips(context, answer.witness))
    : null;
  return h("div", { class: "irs-verdict" }, h("h4", {}, question, " ", mark), sentence(context, `because ${answer.because}`), evidence);
}
