// The branches of the timeline, one below the other: where each branches off, its cost, and the Python that creates it.

import { h } from "../lib/dom/dom";
import type { Branching } from "../lib/model/branches";
import type { Context } from "../lib/model/context";
import type { BranchView } from "../lib/model/schema";
import { messageOf, problem, sentence } from "../inspector/words";
import { diffTable } from "./diff";

export function branchStrip(context: Context, openMenu: () => void): HTMLElement | null {
  const { branching, signal, view } = context;
  const stored = view.story ? null : view.branches; // a story is about one program
  if (!branching && !stored) return null;
  const diffWithShown = async (other: number, shown: number) => (branching ? branching.diff(other, shown) : stored!.diffs[other]);
  const rows = h("div", { class: "irs-branch-rows", role: "group", "aria-label": "branches" });
  const below = h("div", { class: "irs-branch-below", role: "status", "aria-live": "polite" });
  const beside = h("div", { class: "irs-branch-diff" });
  const bar = h("div", { class: "irs-branch-bar" });
  const element = h("section", { class: "irs-branches", "aria-label": "what-if branches" }, bar, rows, below, beside);
  const compare = (other: number, shown: number) => {
    const opener = document.activeElement;
    const close = () => {
      beside.replaceChildren();
      const back = opener instanceof HTMLElement && opener.isConnected ? opener : bar.querySelector("button");
      back?.focus({ preventScroll: true });
    };
    beside.replaceChildren(h("span", { class: "irs-quiet" }, "comparing…"));
    diffWithShown(other, shown).then((diff) => {
      beside.replaceChildren(diffTable(context, diff, close));
      context.heat.compare(diff.compared);
    }, (error: unknown) => beside.replaceChildren(problem(error)));
  };
  const draw = () => {
    const now = branching ? branching.now() : stored;
    element.hidden = !now;
    if (!now || signal.aborted) return;
    const held = document.activeElement;
    const [inRow, inBar] = [[...rows.children].findIndex((each) => each.contains(held)), bar.contains(held)];
    const several = now.branches.length > 1;
    const steps = Math.max(1, ...now.branches.map((branch) => branch.steps), ...now.branches.map((branch) => branch.step));
    rows.hidden = !several;
    rows.replaceChildren(...now.branches.map((branch, k) => row(branching, branch, k, now.shown, steps, now.branches, compare)));
    const measure = branching && "can_measure" in now && now.can_measure ? h("button", { class: "irs-switch", title: "run all branches in turn", onclick: () => {
      measure!.disabled = true;
      measure!.textContent = "measuring…";
      branching.measure().catch((error: unknown) => {
        branching.problem = messageOf(error);
        draw();
      });
    } }, "measure") : null;
    bar.replaceChildren(
      ...(branching ? [h("button", { class: "irs-switch", title: "for the selection, or for the program (w)", onclick: openMenu }, "what if…")] : []),
      h("span", { class: "irs-quiet" }, several ? `${now.branches.length} branches` : "try a change in a new branch of the timeline"),
      h("span", { class: "irs-spring" }), ...(measure ? [measure] : []),
    );
    (inRow >= 0 ? rows.children[inRow] : inBar ? bar : undefined)?.querySelector("button")?.focus({ preventScroll: true });
    const refused = now.branches[now.shown].refused.map((because) => {
      const line = sentence(context, `refused: ${because}`);
      line.classList.add("irs-refused");
      return line;
    });
    below.replaceChildren(...(branching?.problem ? [problem(branching.problem)] : []), ...refused);
  };
  branching?.onChange(draw);
  draw();
  return element;
}

function row(branching: Branching | null, branch: BranchView, index: number, shown: number, steps: number, all: readonly BranchView[], compare: (other: number, shown: number) => void): HTMLElement {
  const title = `${index} ${branch.name}`;
  const name = branching ? h("button", {
    class: "irs-branch-name", "aria-pressed": String(index === shown), title: index === shown ? "shown now" : `show ${branch.name}`, onclick: () => void branching.show(index),
  }, title) : h("span", { class: "irs-branch-name", title: branch.name }, title);
  const line = h("i", {});
  line.style.left = `${(100 * branch.step) / steps}%`;
  line.style.right = `${100 - (100 * Math.max(branch.steps, branch.step)) / steps}%`;
  const origin = branch.parent >= 0 ? `branches off ${branch.parent} ${all[branch.parent].name}${branch.step < all[branch.parent].steps ? ` at step ${branch.step}` : ""}; ` : "";
  const track = h("span", { class: "irs-branch-track", title: `${origin}${branch.steps} steps`, "aria-hidden": "true" }, line);
  const cell = (text: string, title: string, look = "") => h("span", { class: `irs-branch-cost ${look}`, title }, text);
  const copy = h("button", { class: "irs-switch", title: branch.code, "aria-label": `code: copy the Python of branch ${index}`, onclick: () => {
    Promise.resolve().then(() => navigator.clipboard.writeText(branch.code)).then(() => (copy.textContent = "copied"), () => (copy.textContent = "copying is not allowed: print(e.branches.code(…))"));
  } }, "code");
  return h("div", { class: index === shown ? "irs-branch shown" : "irs-branch" }, name, track,
    cell(many(branch.kernels, "kernel"), "fusion groups"), cell(`+ ${many(branch.calls, "call")}`, "ops that the array library runs"),
    cell(branch.moved, "bytes that kernels and calls move"), cell(branch.micros >= 0 ? `traffic ~${micros(branch.micros)}` : "", "an estimate of moving the bytes alone, at 20 GB/s: a call also computes, and starts kernels", "irs-branch-estimate"),
    cell(branch.measured >= 0 ? `call ${micros(1000 * branch.measured)}` : "", "measured median of one call, with irscope's kernels"),
    cell(branch.own >= 0 ? `${micros(1000 * branch.own)} own` : "", "measured median of one call of what that compiler compiled"),
    cell(branch.matched, branch.matching && `of branch 0: ${branch.matching}`, "irs-branch-matched"),
    h("span", { class: "irs-branch-cost irs-refused", title: branch.refused.join("\n") }, branch.refused.length ? `${branch.refused.length} refused` : ""),
    index === shown ? h("span", { class: "irs-branch-cost" }, "shown") : h("button", { class: "irs-switch", title: "how the branch shown differs from it, line by line, and as colours of the graph", "aria-label": `diff: compare branch ${index} with the branch shown`, onclick: () => compare(index, shown) }, "diff"), copy);
}

function many(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function micros(value: number): string {
  return value >= 1000 ? `${(value / 1000).toPrecision(3)} ms` : `${value.toPrecision(3)} µs`;
}
