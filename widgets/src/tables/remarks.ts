// Remarks, or kernels, as a table that sorts by any column and filters by any word; a row selects the records it is about, and with
// Shift its first one makes a pair with the first one selected.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { Scroller } from "../lib/dom/scroller";
import type { Column, TableView } from "../lib/model/schema";

const ROW = 22;
const SAMPLE = 200;

type Cell = string | number | null;

export function recordTable(context: Context, table: TableView, name: string): HTMLElement {
  const { selection, signal } = context;
  const { columns, rows, selects, total } = table;
  let order = rows.map((_, k) => k);
  let sorted: { column: number; up: boolean } | null = null;
  let word = "";
  const tracks = widths(columns, rows);
  let pair: readonly number[] = [];
  const isSelected = (k: number) => {
    const { ids } = selection;
    if (pair.length === 2 && ids.length === 2 && ids.every((id, n) => id === pair[n])) return ids.includes(selects[k][0]);
    return selects[k].length > 0 && selects[k].length === ids.length && selects[k].every((id) => ids.includes(id));
  };
  const choose = (k: number, extend: boolean) => {
    if (!extend || !selects[k].length) return selection.set(selects[k]);
    selection.pick(selects[k][0], true);
    pair = [...selection.ids];
    scroller.redraw();
  };
  const scroller = new Scroller(ROW, (k) => {
    const row = order[k];
    const cells = columns.map((column, c) => h("div", { role: "gridcell", class: `irs-cell ${column.kind}`, title: shown(rows[row][c]) }, shown(rows[row][c])));
    const element = h("div", {
      role: "row", class: `irs-row ${isSelected(row) ? "selected" : ""} ${cells[0]?.textContent ?? ""}`, "aria-rowindex": k + 2, "aria-selected": String(isSelected(row)),
      "data-row": row, onclick: (event: MouseEvent) => choose(row, event.shiftKey),
    }, ...cells);
    element.style.gridTemplateColumns = tracks;
    return element;
  }, signal, { role: "rowgroup", "aria-label": name });
  const arrange = () => {
    const has = (row: Cell[]) => !word || row.some((cell) => shown(cell).toLowerCase().includes(word));
    order = rows.flatMap((row, k) => (has(row) ? [k] : []));
    if (sorted) {
      const { column, up } = sorted;
      order.sort((a, b) => (up ? 1 : -1) * compare(rows[a][column], rows[b][column]) || a - b);
    }
    scroller.reset(order.length);
    found.textContent = [
      word ? `${order.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "",
      total ? `the first ${rows.length.toLocaleString("en")}; search finds all: rule:…` : "",
    ].filter(Boolean).join(" · ");
  };
  const found = h("span", { class: "irs-quiet", "aria-live": "polite" });
  const filter = h("input", { type: "search", placeholder: "filter", "aria-label": `filter ${name}`, oninput: (event: Event) => {
    word = (event.target as HTMLInputElement).value.trim().toLowerCase();
    arrange();
  } });
  const heads = columns.map((column, c) => h("div", { role: "columnheader", "aria-sort": "none" }, h("button", { onclick: () => {
    sorted = sorted?.column === c ? (sorted.up ? { column: c, up: false } : null) : { column: c, up: true };
    heads.forEach((head, k) => head.setAttribute("aria-sort", sorted?.column === k ? (sorted.up ? "ascending" : "descending") : "none"));
    arrange();
  } }, column.label)));
  const head = h("div", { role: "row", class: "irs-row irs-head-row", "aria-rowindex": 1 }, ...heads);
  head.style.gridTemplateColumns = tracks;
  scroller.element.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || !order.length) return;
    event.preventDefault();
    const at = order.findIndex(isSelected);
    const next = Math.max(0, Math.min(order.length - 1, at < 0 ? 0 : at + by));
    selection.set(selects[order[next]]);
    scroller.reveal(next);
  }, { signal });
  selection.subscribe(() => scroller.redraw());
  arrange();
  const grid = h("div", { class: "irs-grid", role: "grid", "aria-label": name, "aria-rowcount": rows.length + 1 }, head, scroller.element);
  return h("div", { class: "irs-remarks" }, h("div", { class: "irs-filter" }, filter, found), grid);
}

function shown(cell: Cell): string {
  return cell === null ? "" : typeof cell === "number" ? cell.toLocaleString("en", { maximumSignificantDigits: 6 }) : cell;
}

function compare(a: Cell, b: Cell): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Column widths by content: the widest column takes the remaining space. */
function widths(columns: Column[], rows: Cell[][]): string {
  const sample = rows.filter((_, k) => k % Math.ceil(rows.length / SAMPLE) === 0);
  const lengths = columns.map((column, c) => Math.max(column.label.length, ...sample.map((row) => shown(row[c]).length)));
  const widest = lengths.indexOf(Math.max(...lengths));
  return lengths.map((length, c) => (c === widest ? "minmax(200px, 1fr)" : `minmax(60px, ${Math.min(32, length) * 7.6 + 26}px)`)).join(" ");
}
