// The search: matches below the box while typing; arrows choose, Enter selects, the last entry selects them all.

import type { Context } from "../lib/model/context";
import { freshId, h } from "../lib/dom/dom";
import { search, type Matches } from "../lib/model/search";
import { withoutTypes } from "../lib/model/tokens";

/** Milliseconds without a key before a page looks through its own lines. Python is asked sooner, and one question at a time. */
const LEAST_PAUSE = 80;
const SHORT_PAUSE = 15;
const WORDS = "a name, an op, a type";
const isEmpty = (asked: string) => ["", "?"].includes(asked.trim());
const QUESTION = /^\s*(?:[a-z]+\s*(?::(?!:)|[<>=])|(?:writes|reads|makes|alias)\s+%)/u;

export function searchBox(context: Context): { element: HTMLElement; focus: () => void } {
  const { records, selection } = context;
  const listId = freshId("found");
  const list = h("div", { class: "irs-found", role: "listbox", id: listId, "aria-label": "matches", hidden: true });
  const input = h("input", {
    type: "search", placeholder: "search  /", title: WORDS, role: "combobox", "aria-label": "search", "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list",
    autocomplete: "off", spellcheck: "false",
  });
  let actions: (() => void)[] = [];
  let at = 0;
  /** Whether Enter was pressed before an answer arrived. */
  let chooseWhenFound = false;
  /** Whether an answer is pending: what was typed meanwhile is asked after it. */
  let waiting = false;
  let pause: ReturnType<typeof setTimeout> | undefined;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    [...list.children].forEach((option, k) => option.setAttribute("aria-selected", String(k === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    if (list.children[at]) input.setAttribute("aria-activedescendant", list.children[at].id);
  };
  const option = (k: number, ...content: Node[]) => h("div", {
    role: "option", id: `${listId}-${k}`, onpointerdown: (event: PointerEvent) => {
      event.preventDefault();
      choose(k);
    },
  }, ...content);
  const choose = (k: number) => {
    actions[k]?.();
    close();
  };
  const look = () => {
    const asked = input.value;
    if (context.supply && isEmpty(asked)) return explain();
    if (!context.supply) return offer(search(records, asked), QUESTION.test(asked) || asked.trim() === "?" ? "this page finds words only; a notebook with a kernel answers questions" : "");
    if (waiting) return;
    waiting = true;
    const answered = () => {
      waiting = false;
      if (input.value !== asked && !context.signal.aborted) look();
    };
    context.supply.find(asked).then(({ count, ids, shown, lines, trouble, titles }) => {
      if (input.value !== asked || context.signal.aborted) return;
      const more = count > ids.length ? () => void context.supply?.find(asked, true).then((found) => selection.set(found.ids)) : undefined;
      offer({ all: ids, shown: shown.map((record, k) => ({ record, title: titles[k], line: withoutTypes(lines[k]).trim() })) }, trouble, count, more);
    }, () => offer(search(records, asked), "")).finally(answered);
  };
  const offer = ({ shown, all }: Matches, trouble: string, count = all.length, more = () => selection.set(all)) => {
    actions = shown.map(({ record }) => () => selection.set([record]));
    const options = shown.map((match, k) => option(k, h("strong", {}, match.title), h("code", {}, match.line)));
    if (count > 1) {
      actions.push(more);
      options.push(option(options.length, h("em", {}, `select all ${count.toLocaleString("en")}`)));
    }
    if (!options.length) options.push(h("div", { class: "irs-quiet", role: "option", "aria-disabled": "true" }, trouble || "nothing found"));
    at = 0;
    list.classList.remove("irs-examples");
    list.replaceChildren(...options);
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
    if (chooseWhenFound) choose(at);
    chooseWhenFound = false;
  };
  input.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(look, context.supply ? SHORT_PAUSE : LEAST_PAUSE);
  });
  /** Queries that find something in this program, once they were asked for. */
  let examples: Promise<[string, string][]> | undefined;
  const explain = () => void (examples ??= context.supply!.examples()).then((found) => {
    if (!isEmpty(input.value) || document.activeElement !== input || context.signal.aborted) return;
    actions = found.map(([query]) => () => {
      input.value = query;
      queueMicrotask(look);
    });
    list.replaceChildren(...found.map(([query, finds], k) => option(k, h("strong", {}, query), h("span", { class: "irs-quiet" }, finds))));
    at = 0;
    list.classList.add("irs-examples");
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  }, () => (examples = undefined));
  const help = h("button", { class: "irs-switch irs-search-help", title: "what can be asked for: six examples", "aria-label": "examples of queries", onpointerdown: (event: PointerEvent) => event.preventDefault(), onclick: () => {
    input.value = "";
    if (document.activeElement === input) explain();
    else input.focus();
  } }, "?");
  input.addEventListener("blur", close);
  if (context.supply) input.addEventListener("focus", () => input.value.trim() || explain());
  input.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by && actions.length) {
      at = (at + by + actions.length) % actions.length;
      mark();
    } else if (event.key === "Enter") {
      clearTimeout(pause);
      if (!list.hidden && pause === undefined) choose(at);
      else if (!context.supply) {
        look();
        choose(at);
      } else {
        chooseWhenFound = true;
        look();
      }
    } else if (event.key === "Escape" && (input.value || !list.hidden)) {
      input.value = "";
      close();
      event.stopPropagation();
    } else return;
    pause = undefined;
    event.preventDefault();
  });
  return { element: h("div", { class: "irs-search", role: "search" }, input, ...(context.supply ? [help] : []), list), focus: () => input.focus() };
}
