// The editor of the program text: a text area with transparent letters over coloured lines. The text is sent to Python when typing
// pauses; an error is marked in its place, and the other panes keep the last valid program.

import { h } from "../lib/dom/dom";
import type { Branching, Draft } from "../lib/model/branches";
import { tokens } from "../lib/model/tokens";
import { messageOf } from "../inspector/words";

const ROW = 18;
/** The pause in typing before Python is asked, and its extension per letter of a long text, all of which is fused again. */
const RESTING_MS = 350;
const RESTING_PER_LETTER = 0.001;
const SPARE = 4;

export function editor(branching: Branching, signal: AbortSignal, close: () => void): HTMLElement {
  const { draft } = branching;
  const lines = h("div", { class: "irs-editor-lines", "aria-hidden": "true" });
  const status = h("div", { class: "irs-editor-said", role: "status", "aria-live": "polite", id: `irs-said-${Math.random().toString(36).slice(2)}` });
  const area = h("textarea", {
    class: "irs-editor-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
    "aria-label": "IR text of the program as written", "aria-describedby": status.id,
  });
  let resting: ReturnType<typeof setTimeout> | undefined;
  let asked = 0;
  const draw = () => drawLines(lines, area, draft);
  const tell = () => {
    area.setAttribute("aria-invalid", String(draft.trouble !== null));
    status.classList.toggle("wrong", draft.trouble !== null);
    status.replaceChildren(...statusOf(draft, () => goTo(area, draft)));
  };
  const show = () => {
    if (area.value !== draft.text) area.value = draft.text;
    area.setSelectionRange(draft.start, draft.end);
    [area.scrollTop, area.scrollLeft] = [draft.top, draft.left];
    draw();
    tell();
  };
  const ask = async () => {
    const mine = ++asked;
    const text = draft.text;
    try {
      const trouble = await branching.edit(text);
      if (text !== draft.text) return;
      Object.assign(draft, { trouble, taken: true });
    } catch (error) {
      if (text === draft.text) draft.trouble = { message: messageOf(error), hint: "your text is kept here", line: 0, column: 0 };
    }
    if (mine === asked) draft.tell();
  };
  draft.tell = () => {
    if (signal.aborted) return;
    draw();
    tell();
  };
  const wait = () => {
    clearTimeout(resting);
    resting = setTimeout(() => void (draft.taken || ask()), RESTING_MS + RESTING_PER_LETTER * draft.text.length);
  };
  const written = () => {
    draft.write(area.value, area.selectionStart, area.selectionEnd);
    draw();
    wait();
  };
  const back = (on: boolean) => {
    if (!(on ? draft.redo() : draft.undo())) return;
    show();
    wait();
  };
  area.addEventListener("input", (event) => (event as InputEvent).isComposing || written(), { signal });
  area.addEventListener("compositionend", written, { signal });
  area.addEventListener("beforeinput", (event) => {
    if (event.inputType !== "historyUndo" && event.inputType !== "historyRedo") return;
    event.preventDefault();
    back(event.inputType === "historyRedo");
  }, { signal });
  const remember = () => Object.assign(draft, { start: area.selectionStart, end: area.selectionEnd, top: area.scrollTop, left: area.scrollLeft });
  for (const name of ["keyup", "pointerup", "select"]) area.addEventListener(name, remember, { signal });
  area.addEventListener("scroll", () => {
    remember();
    draw();
  }, { signal, passive: true });
  area.addEventListener("focus", () => (draft.focused = true), { signal });
  area.addEventListener("blur", () => area.isConnected && (draft.focused = false), { signal });
  area.addEventListener("keydown", (event) => {
    const meta = event.ctrlKey || event.metaKey;
    if (meta && ["z", "y"].includes(event.key.toLowerCase())) {
      event.preventDefault();
      event.stopPropagation();
      return back(event.key.toLowerCase() === "y" || event.shiftKey);
    }
    if (meta || event.altKey) return;
    event.stopPropagation();
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      const before = area.value.slice(0, area.selectionStart);
      const indent = /^ */u.exec(before.slice(before.lastIndexOf("\n") + 1))![0];
      area.setRangeText(`\n${indent}`, area.selectionStart, area.selectionEnd, "end");
      written();
    }
  }, { signal });
  const sizes = new ResizeObserver(draw);
  sizes.observe(area);
  signal.addEventListener("abort", () => {
    if (area.isConnected) Object.assign(draft, { start: area.selectionStart, end: area.selectionEnd }); // the last movement has not fired an event yet
    sizes.disconnect();
    clearTimeout(resting);
  });
  if (!draft.taken) wait(); // edited while another program was replacing this one
  const element = h("div", { class: "irs-editor" }, status, h("div", { class: "irs-editor-sheet" }, lines, area));
  queueMicrotask(() => {
    if (signal.aborted) return;
    show();
    if (draft.focused) area.focus({ preventScroll: true });
    [area.scrollTop, area.scrollLeft] = [draft.top, draft.left];
    draw();
  });
  return element;
}

/** Draws the visible lines in colour where the text area has them. */
function drawLines(holder: HTMLElement, area: HTMLTextAreaElement, draft: Draft): void {
  const all = draft.text.split("\n");
  const first = Math.max(0, Math.floor(area.scrollTop / ROW) - SPARE);
  const last = Math.min(all.length, Math.ceil((area.scrollTop + area.clientHeight) / ROW) + SPARE);
  const { trouble } = draft;
  const made = all.slice(first, last).map((text, k) => {
    const wrong = trouble !== null && trouble.line === first + k + 1;
    const pieces = tokens(text).map(({ kind, text: piece }) => (kind === "plain" ? piece : h("span", { class: `irs-t-${kind}` }, piece)));
    const line = h("div", { class: wrong ? "irs-editor-line wrong" : "irs-editor-line" }, h("span", { class: "irs-number" }, String(first + k + 1)), h("code", {}, ...pieces));
    line.style.top = `${(first + k) * ROW}px`;
    if (wrong && trouble.column > 0) {
      const mark = h("i", { class: "irs-editor-mark" });
      mark.style.left = `calc(var(--irs-gutter) + ${trouble.column - 1}ch)`;
      mark.style.width = `${Math.max(1, /^[%\w.:$-]*/u.exec(text.slice(trouble.column - 1))![0].length)}ch`;
      line.append(mark);
    }
    return line;
  });
  holder.replaceChildren(...made);
  holder.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`;
}

function statusOf({ trouble }: Draft, go: () => void): (Node | string)[] {
  if (!trouble) return [h("span", { class: "irs-quiet" }, "all panes follow your edits · Esc leaves, Ctrl+Z undoes")];
  const what = trouble.line ? h("button", { title: "go there", onclick: go }, trouble.message) : h("span", {}, trouble.message);
  return [what, trouble.hint ? h("span", { class: "irs-quiet" }, `; ${trouble.hint}`) : "", h("span", { class: "irs-quiet" }, " · the panes show the last valid program")];
}

function goTo(area: HTMLTextAreaElement, { trouble }: Draft): void {
  if (!trouble) return;
  const lines = area.value.split("\n");
  const place = lines.slice(0, trouble.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(0, trouble.column - 1);
  area.focus();
  area.setSelectionRange(place, place);
  area.scrollTop = Math.max(0, (trouble.line - 5) * ROW);
}
