// The kernel tab: facts about the kernel, and its text in each language. A click on a line selects the node that it
// came from; the lines of selected or lit nodes are marked. Machine code is requested when its language is chosen.

import type { Context } from "../lib/model/context";
import { freshId, h } from "../lib/dom/dom";
import { oneStop } from "../lib/dom/one_stop";
import { tabs } from "../lib/dom/tabs";
import { HEAT_COLOURS } from "../lib/model/heat";
import type { KernelDetail, KernelText } from "../lib/model/schema";
import { tokens } from "../lib/model/tokens";
import { messageOf, note } from "./words";

const NAMES: Record<string, string> = { llvm: "LLVM", assembly: "assembly", cuda: "CUDA", ptx: "PTX", sass: "SASS" };
const QUIET_MS = 300;
const ROOM = 520; // pixels of a panel that has room for the table and some lines of text

export class KernelTab {
  #language = "";
  #onlyHot = true;
  #unfolded: boolean | undefined;
  #shown = "";
  readonly #facts = h("div", { class: "irs-kernel-facts" });
  readonly #code = h("div", { class: "irs-kernel-code", role: "tabpanel", tabindex: "0", id: freshId("kernel") });

  constructor(private readonly context: Context) {
    context.selection.subscribe(() => this.#mark());
  }

  /** The content of the tab for a record with a kernel. */
  show(record: number, kernel: KernelDetail): Node[] {
    const languages = kernel.language in NAMES ? Object.keys(NAMES) : [kernel.language];
    if (!languages.includes(this.#language)) this.#language = kernel.language;
    const list = tabs({
      label: "language of the kernel", look: "irs-languages", names: languages, panel: this.#code, say: (name) => [NAMES[name] ?? name],
      onChoose: (name) => {
        if (!name) return;
        this.#language = name;
        this.#fill(record, kernel, name);
      },
    });
    const shared = kernel.shared_by > 1 ? ` · run by ${kernel.shared_by} groups` : "";
    list.choose(this.#language);
    return [h("p", { class: "irs-sentence" }, h("strong", {}, kernel.name), languages.length > 1 ? shared : ` · ${kernel.language}${shared}`), note(kernel.launched), this.#facts, languages.length > 1 ? list.element : h("span", {}), this.#code];
  }

  #fill(record: number, kernel: KernelDetail, language: string): void {
    const wanted = `${kernel.name} ${language}`;
    const again = this.#shown === wanted && this.#code.childElementCount > 0;
    const top = again ? this.#panel()?.scrollTop : undefined;
    this.#shown = wanted;
    if (language === kernel.language) this.#lines(ownText(this.context, kernel), kernel, top);
    if (!(language in NAMES)) return;
    const { answers } = this.context;
    const still = () => this.#shown === wanted;
    const slow = setTimeout(() => still() && !again && this.#code.replaceChildren(note("asking Python…")), language === kernel.language ? 1e9 : QUIET_MS);
    answers.kernel(record, kernel, language).then(
      (text) => {
        clearTimeout(slow);
        if (still()) this.#answered(text, kernel, language, top);
      },
      (error: unknown) => {
        clearTimeout(slow);
        if (still()) this.#problem(messageOf(error), language === kernel.language);
      },
    );
  }

  #answered(text: KernelText | null, kernel: KernelDetail, language: string, top: number | undefined): void {
    const own = language === kernel.language;
    if (!text) return this.#absent(own);
    this.#facts.replaceChildren(...this.#counted(text));
    if (text.trouble) this.#problem(text.trouble, own);
    else if (!own) this.#lines(text, kernel, top);
  }

  /** The counts of a kernel: the sentence, and the rest, folded if it would leave no room for the text. */
  #counted(text: KernelText): Node[] {
    if (!text.facts.length) return [];
    const rows = text.facts.map(([label, value]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, value)));
    const room = this.#panel()?.clientHeight ?? 0;
    const summary = h("summary", { onclick: () => (this.#unfolded = !details.open) }, "all counts");
    const details = h("details", { open: this.#unfolded ?? room > ROOM }, summary, h("table", {}, h("tbody", {}, ...rows)));
    return [h("p", { class: "irs-sentence", title: "counted in the machine code, with reference figures; not measured" }, text.because), details];
  }

  /** For a page without Python. */
  #absent(own: boolean): void {
    this.#facts.replaceChildren();
    if (!own) this.#code.replaceChildren(note("This page includes assembly only for the kernels that most groups run; a notebook generates the rest."));
  }

  #problem(message: string, own: boolean): void {
    this.#facts.replaceChildren(...(own && message ? [note(message)] : []));
    if (!own) this.#code.replaceChildren(h("pre", { class: "irs-problem", role: "status" }, message));
  }

  /** Draws a text; if the same text was drawn before, keeps the scroll position. */
  #lines(text: KernelText, kernel: KernelDetail, top: number | undefined): void {
    const lines = text.source.replace(/\n$/u, "").split("\n");
    const hot = new Set(text.hot);
    const only = this.#onlyHot && hot.size > 0;
    const nodeOf = (line: number) => text.line_nodes[line] ?? kernel.line_nodes[text.origins[line]] ?? 0;
    const made: HTMLElement[] = [];
    let last = -1;
    for (let k = 0; k < lines.length; k++) {
      if (only && !hot.has(k)) continue;
      if (only && made.length && k !== last + 1) made.push(h("div", { class: "irs-gap", "aria-hidden": "true" }, "⋯"));
      last = k;
      made.push(this.#line(lines[k], k, nodeOf(k), hot.has(k) && !only));
    }
    const hotSwitch = hot.size ? h("button", {
      class: "irs-switch", "aria-pressed": String(only), title: "show only the lines that run for every point",
      onclick: () => {
        this.#onlyHot = !this.#onlyHot;
        this.#lines(text, kernel, undefined);
      },
    }, "hot loops only") : null;
    const source = oneStop(h("div", { class: "irs-source", onpointerleave: () => this.context.selection.light([]) }, ...made));
    this.#code.replaceChildren(...(hotSwitch ? [hotSwitch] : []), text.source ? source : note("no source text"));
    this.#mark();
    requestAnimationFrame(() => this.#reveal(top));
  }

  #line(text: string, number: number, node: number, hot: boolean): HTMLElement {
    const { context, context: { records, selection } } = this;
    const pieces = tokens(text).map(({ kind, text: piece }) => (kind === "plain" ? piece : h("span", { class: `irs-t-${kind}` }, piece)));
    const heat = node ? context.heat.step(node) : undefined;
    const label = h("span", { class: heat ? "irs-number irs-heat" : "irs-number", "aria-hidden": "true", title: heat ? context.heat.told(context.heat.values(node)) : null }, String(number + 1));
    if (heat) label.style.setProperty("--c", HEAT_COLOURS[heat]);
    const kind = `irs-line${hot ? " hot" : ""}`;
    if (!node) return h("div", { class: kind }, label, h("code", {}, ...pieces));
    const pick = (event: MouseEvent | KeyboardEvent) => selection.pick(node, event.shiftKey);
    return h("div", {
      class: `${kind} linked`, role: "button", "data-node": node, title: records.longTitle(node), onclick: pick,
      onpointerenter: () => selection.light([node]), onkeydown: (event: KeyboardEvent) => event.key === "Enter" && pick(event),
    }, label, h("code", {}, ...pieces));
  }

  /** Marks the lines of nodes that are selected or lit, or that produce a selected or lit value. */
  #mark(): void {
    const { records, selection } = this.context;
    const nodes = (ids: Iterable<number>) => new Set([...ids].flatMap((id) => [id, records.makerOf(id)]));
    const [selected, lit] = [nodes(selection.ids), nodes(selection.lit)];
    for (const line of this.#code.querySelectorAll<HTMLElement>("[data-node]")) {
      const node = Number(line.dataset.node);
      line.classList.toggle("selected", selected.has(node));
      line.classList.toggle("lit", lit.has(node) && !selected.has(node));
    }
  }

  #panel(): HTMLElement | null {
    return this.#code.closest<HTMLElement>(".irs-panel");
  }

  /** Scrolls only the panel: back to where it was, then to the first selected line if none is visible. */
  #reveal(top: number | undefined): void {
    const panel = this.#panel();
    if (!panel) return;
    if (top !== undefined) panel.scrollTop = top;
    const around = panel.getBoundingClientRect();
    const marked = [...this.#code.querySelectorAll(".irs-line.selected")].map((line) => line.getBoundingClientRect());
    if (!marked.length || marked.some((line) => line.top >= around.top && line.bottom <= around.bottom)) return;
    panel.scrollTop += marked[0].top - around.top - around.height / 3;
  }
}

/** The text in the detail, or the one that the view stores for all groups that run the kernel. */
function ownText({ records }: Context, kernel: KernelDetail): KernelText {
  const source = kernel.source || (records.view.kernels?.[kernel.name] ?? "");
  return { language: kernel.language, source, origins: [], line_nodes: kernel.line_nodes, hot: [], facts: [], because: "", trouble: "" };
}
