// The what-if menu: changes to what is under the pointer, or to the selection. Each entry creates a branch.

import { dataNumber, h } from "../lib/dom/dom";
import type { Change } from "../lib/model/branches";
import type { Context } from "../lib/model/context";
import { messageOf } from "../inspector/words";

interface Entry {
  says: string;
  change: Change;
}

const NEAR = 4;

/** Opens the menu with the right button, the menu key or `w`; returns the action of `w`. */
export function whatIfMenu(root: HTMLElement, context: Context): () => void {
  const { branching, signal } = context;
  if (!branching) return () => undefined;
  let close = () => undefined as void;
  const open = (about: number[], x: number, y: number) => {
    close();
    close = show(root, context, about, x, y);
  };
  root.addEventListener("contextmenu", (event) => {
    const target = event.target as Element;
    if (event.shiftKey || target.closest("textarea, input, select, .irs-menu, .irs-branches") || document.getSelection()?.toString()) return;
    const pane = target.closest(".irs-text, .irs-graph");
    if (!pane) return;
    event.preventDefault();
    event.stopPropagation();
    const under = recordsUnder(context, event);
    open(under.length ? under : [...context.selection.ids], event.clientX, event.clientY);
  }, { signal });
  signal.addEventListener("abort", () => close());
  return () => {
    const place = (root.querySelector(".irs-box.selected, .irs-line.selected") ?? root.querySelector(".irs-main") ?? root).getBoundingClientRect();
    open([...context.selection.ids], place.left + Math.min(40, place.width / 2), place.top + Math.min(24, place.height / 2));
  };
}

/** The record of a name, line, box or edge; with one that is selected, both of them. */
function recordsUnder({ records, selection }: Context, event: MouseEvent): number[] {
  const target = event.target as Element;
  const box = dataNumber(target, "box");
  const line = dataNumber(target, "line");
  const found = dataNumber(target, "record") ?? (box !== null ? records.hierarchy.boxes[box].id : line !== null ? (records.view.text.nodes[line] || null) : null);
  if (found === null || (box !== null && records.hierarchy.isCluster(box) && records.hierarchy.boxes[box].kind !== "group")) return edgeUnder(target, event);
  const { ids } = selection;
  if (target.closest(".selected")) return [...ids];
  return ids.length === 1 && ids[0] !== found ? [ids[0], found] : ids.includes(found) ? [...ids] : [found];
}

/** Both ends of the edge under the pointer; an edge is thin, so points slightly beside it count. */
function edgeUnder(target: Element, event: MouseEvent): number[] {
  const svg = target.closest("svg");
  for (const path of svg?.querySelectorAll<SVGPathElement>("path[data-from]") ?? []) {
    const matrix = path.getScreenCTM()?.inverse();
    if (!matrix) continue;
    for (let dx = -NEAR; dx <= NEAR; dx += 2) {
      for (let dy = -NEAR; dy <= NEAR; dy += 2) {
        if (path.isPointInStroke(new DOMPoint(event.clientX + dx, event.clientY + dy).matrixTransform(matrix))) return [Number(path.dataset.from), Number(path.dataset.to)];
      }
    }
  }
  return [];
}

/** The changes that can be tried on records, and on the program. */
function entries(context: Context, about: readonly number[]): { title: string; entries: Entry[] }[] {
  const { records, branching } = context;
  const now = branching!.now();
  const nodes = about.filter((id) => id > 0 && (!records.isValue(id) || records.makerOf(id) > 0));
  const titleOf = (id: number) => records.longTitle(id);
  const made: Entry[] = [];
  if (nodes.length === 2) {
    made.push({ says: `${titleOf(nodes[0])} and ${titleOf(nodes[1])} in one kernel`, change: { force: [nodes] } });
    made.push({ says: `${titleOf(nodes[0])} and ${titleOf(nodes[1])} in different kernels`, change: { forbid: [nodes] } });
  } else if (nodes.length > 2) {
    made.push({ says: `all ${nodes.length} in one kernel`, change: { force: [nodes] } }, { says: `no two of the ${nodes.length} in one kernel`, change: { forbid: [nodes] } });
  }
  for (const id of nodes.slice(-1)) {
    const box = records.hierarchy.find(id);
    const isGroup = box >= 0 && records.hierarchy.boxes[box].kind === "group";
    if (isGroup) made.push({ says: `${titleOf(id)} taken apart`, change: { forbid: [[id]] } });
    else made.push({ says: `${titleOf(id)} opaque: the library runs it`, change: { opaque: [id] } });
  }
  const names = about.filter((id) => records.isValue(id) && !records.makerOf(id)).map((id) => records.longTitle(id).replace(/^%/u, "").split(" ")[0]);
  for (const name of names) made.push({ says: `%${name} shares memory with no other input`, change: { distinct: [name] } });
  const whole: Entry[] = [
    ...(now?.policies ?? []).map((policy) => ({ says: `policy ${policy}`, change: { policy } })),
    now?.distinct ? { says: "inputs that may share memory", change: { distinct: false } } : { says: "inputs that share no memory", change: { distinct: true } },
    ...(now?.inputs ?? []).slice(0, 4).map((name) => ({ says: `%${name} with its channels last`, change: { channels_last: [name] } })),
  ];
  return [{ title: about.length ? "what if, for this" : "", entries: made }, { title: "what if, for the program", entries: whole }].filter((part) => part.entries.length);
}

function show(root: HTMLElement, context: Context, about: readonly number[], x: number, y: number): () => void {
  const { steps } = context;
  const before = document.activeElement;
  const from = steps && steps.at !== steps.last ? steps.at : undefined;
  const closing = new AbortController();
  const close = () => {
    if (closing.signal.aborted) return;
    closing.abort();
    menu.remove();
  };
  const leave = () => {
    close();
    if (before instanceof HTMLElement || before instanceof SVGElement) before.focus({ preventScroll: true });
  };
  const item = ({ says, change }: Entry) => h("button", { role: "menuitem", tabindex: "-1", onclick: () => {
    leave();
    void askWhatIf(context, from === undefined ? change : { step: from, ...change });
  } }, says);
  const parts = entries(context, about).map(({ title, entries: several }) => h("div", { role: "group", "aria-label": title }, h("div", { class: "irs-quiet", "aria-hidden": "true" }, title), ...several.map(item)));
  const menu = h("div", { class: "irs-menu", role: "menu", "aria-label": "what if" }, from === undefined ? null : h("div", { class: "irs-quiet" }, `merges up to step ${from} are kept`), ...parts);
  root.append(menu);
  const place = root.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(2, Math.min(x - place.left, place.width - size.width - 4))}px`;
  menu.style.top = `${Math.max(2, Math.min(y - place.top, place.height - size.height - 4))}px`;
  const items = [...menu.querySelectorAll<HTMLElement>("[role=menuitem]")];
  menu.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const at = items.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      items[(next + items.length) % items.length].focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      leave();
    }
  });
  document.addEventListener("pointerdown", (event) => menu.contains(event.target as Node) || close(), { signal: closing.signal, capture: true });
  items[0]?.focus({ preventScroll: true });
  return close;
}

/** Asks for a branch; a failure is shown below the steps. */
async function askWhatIf({ branching }: Context, change: Change): Promise<void> {
  if (!branching) return;
  branching.problem = "";
  await branching.whatIf(change).catch((error: unknown) => (branching.problem = messageOf(error)));
}

/** A button that asks for a branch; null in a page without Python. */
export function whatIfButton(context: Context, says: string, change: Change): HTMLElement | null {
  return context.branching?.now() ? h("button", { class: "irs-switch irs-what-if", onclick: () => void askWhatIf(context, change) }, says) : null;
}
