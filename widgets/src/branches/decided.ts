// What another compiler decided, above the steps: the programs that it made, where it broke the graph, and what was not clear to the reader.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import { problem } from "../inspector/words";

export function decidedStrip(context: Context): HTMLElement | null {
  const { view: { decided }, branching } = context;
  if (!decided) return null;
  const below = h("div", { class: "irs-branch-below", role: "status", "aria-live": "polite" });
  const programs = decided.programs.map((line, k) => {
    const shown = k === decided.shown;
    if (!branching || decided.programs.length === 1) return h("span", { class: "irs-program", "aria-current": String(shown) }, line);
    return h("button", {
      class: "irs-program", "aria-pressed": String(shown), title: shown ? "shown now" : `show ${line}`,
      onclick: () => void branching.program(k).catch((error: unknown) => below.replaceChildren(problem(error))),
    }, line);
  });
  const row = h("div", { class: "irs-decided-row" }, h("strong", {}, decided.compiler), ...programs);
  const breaks = decided.breaks.map(({ reason, explanation, file, line, function: name }) => {
    const place = file ? `${file.replace(/^.*[/\\]/u, "")}:${line}${name ? ` in ${name}` : ""}` : "";
    const at = file ? context.records.nodesFrom(file, line) : [];
    const where = at.length ? h("button", { class: "irs-switch", title: `${file}:${line}: select its ops`, onclick: () => context.selection.set(at) }, place) : h("span", { class: "irs-quiet", title: file }, place);
    return h("li", { title: explanation || null }, h("strong", {}, "graph break "), where, ` ${reason}`);
  });
  const told = [
    ...decided.notes.map((note) => h("li", { class: "irs-quiet" }, note)),
    ...(decided.guards.length ? [h("li", {}, h("details", {}, h("summary", {}, `${decided.guards.length} ${decided.guards.length === 1 ? "guard" : "guards"}: what must hold to use this program again`), ...decided.guards.map((guard) => h("div", {}, h("code", {}, guard)))))] : []),
  ];
  return h("section", { class: "irs-decided", "aria-label": `what ${decided.compiler} decided` }, row, ...(breaks.length + told.length ? [h("ul", {}, ...breaks, ...told)] : []), below);
}
