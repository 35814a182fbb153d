// The layout tab: whether a tensor is a view or a copy and why, its axes in memory order, and the map of its buffer.

import { h } from "../lib/dom/dom";
import type { Context } from "../lib/model/context";
import type { AssumedLayout, BufferView, CopyView, LayoutView } from "../lib/model/schema";
import { bytes } from "../lib/model/sizes";
import { pickable } from "../profile/items";
import { ASKING, chips, labelled, more, note, problem, sentence } from "./words";

const MOST_LISTED = 20;
const NAMES: Record<string, string> = { rows: "row by row", columns: "column by column", channels_last: "channels last" };
const SAID: Record<string, string> = { gap: "with gaps", broadcast: "one index: the stride does not matter", expanded: "all indices read the same elements" };
const FLAGS: Record<string, string> = { contiguous: "#54a24b", gap: "#f58518", broadcast: "#9aa4b2", expanded: "#b279a2" };

export function layoutTab(context: Context, record: number): HTMLElement {
  const holder = h("div", { class: "irs-labelled" }, note(context.supply ? ASKING : ""));
  const value = context.records.isValue(record) ? record : (context.records.valuesOf(record)[0] ?? record);
  const { view, supply } = context;
  const show = (found: LayoutView | undefined) => holder.replaceChildren(...(found ? panel(context, found, found.buffer ?? view.buffers?.[found.root] ?? null) : [note("not a tensor, or its layout is not stored in this page")]));
  const stored = view.layouts?.[value];
  if (stored || !supply) show(stored);
  else supply.layout(value).then(show, (error: unknown) => holder.replaceChildren(problem(error)));
  return holder;
}

function panel(context: Context, found: LayoutView, buffer: BufferView | null): Node[] {
  const kind = { view: "a view", copy: "memory of its own", input: "passed in from outside" }[found.kind];
  const lead = sentence(context, `${kind}${found.decided ? "" : ", as far as known"}: ${found.because}`);
  if (found.kind === "copy" && context.copies.list.some((copy) => copy.value === found.id)) lead.classList.add("irs-copy-note");
  const axes = found.axes.map(({ axis, extent, stride, flag }) => {
    const element = h("div", { class: "irs-axis", title: flag }, h("strong", {}, `axis ${axis}: ${extent}`), `stride ${stride} · ${SAID[flag] ?? flag}`);
    element.style.setProperty("--c", FLAGS[flag] ?? "var(--irs-line)");
    return element;
  });
  const made: Node[] = [lead, labelled("axes in memory order, the slowest first", axes.length ? h("div", { class: "irs-axes" }, ...axes) : note("one element"))];
  if (context.supply && found.others.length) made.push(labelled("what if it had another layout", whatIf(context, found)));
  if (buffer) made.push(labelled(`the buffer of ${buffer.root}, ${bytes(buffer.bytes)}: which bytes each value covers${buffer.window < buffer.bytes ? ` in each of its ${(buffer.bytes / buffer.window).toLocaleString("en")} parts of ${bytes(buffer.window)}` : ""}`, byteMap(context, buffer)));
  return made;
}

/** The program with an argument in another layout, which Python computes when a layout is chosen. */
function whatIf(context: Context, found: LayoutView): HTMLElement {
  const answer = h("div", { role: "status" });
  const choice = h("select", { "aria-label": "assumed layout" }, h("option", { value: "" }, "current layout"), ...found.others.map((other) => h("option", { value: other }, NAMES[other] ?? other)));
  let asked = 0;
  choice.onchange = () => {
    const now = ++asked;
    if (!choice.value) return answer.replaceChildren();
    answer.replaceChildren(note(ASKING));
    context.supply?.assumed(found.id, choice.value).then(
      (assumed) => now === asked && answer.replaceChildren(...difference(context, assumed)),
      (error: unknown) => now === asked && answer.replaceChildren(problem(error)),
    );
  };
  return h("div", {}, choice, answer);
}

function difference(context: Context, assumed: AssumedLayout): Node[] {
  const side = (label: string, copies: readonly CopyView[]) => {
    const rows = copies.slice(0, MOST_LISTED).map((copy) => h("div", { class: "irs-neighbour" }, chips(context, [copy.id]), sentence(context, `${copy.bytes < 0 ? "" : `${bytes(copy.bytes)}: `}${copy.because}`)));
    return copies.length ? [labelled(label, h("div", {}, ...rows, more(copies.length - MOST_LISTED)))] : [];
  };
  return [sentence(context, assumed.told), ...side("copies now, would become views", assumed.views), ...side("views now, would become copies", assumed.copies)];
}

function byteMap(context: Context, buffer: BufferView): HTMLElement {
  const status = h("div", { class: "irs-quiet" });
  const part = (name: string) => ([from, to]: number[]) => {
    const bar = h("i", { class: name });
    bar.style.left = `${100 * from}%`;
    bar.style.width = `max(1px, ${100 * (to - from)}%)`;
    return bar;
  };
  const rows = buffer.rows.map((row) => {
    const name = h("span", {}, row.name);
    name.style.paddingLeft = `${8 * Math.min(row.depth, 6)}px`;
    return h("div", { class: "irs-buffer-row" }, name, h("span", { class: "irs-buffer-map" }, ...row.runs.map(part(row.depth ? "" : "root")), ...row.shared.map(part("shared"))));
  });
  const list = h("div", { class: "irs-buffer" }, ...rows);
  const items = buffer.rows.map((row, k) => ({ ids: [row.id], element: rows[k], told: `${row.name}${row.op ? ` by ${row.op}` : ""}: ${row.told}${row.shared.length ? "; it overlaps another value that it is not a view of" : ""}` }));
  pickable(context, list, `bytes of the buffer of ${buffer.root}`, items, status);
  return h("div", {}, list, more(buffer.left_out, " views"), status);
}
