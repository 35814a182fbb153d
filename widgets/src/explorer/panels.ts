// Which panes are visible, and how wide. Each can be widened, maximised or hidden; switches in the head line bring it back, and one puts
// source, IR and kernel side by side.

import { h } from "../lib/dom/dom";
import { divider } from "./splitters";

const PANELS = {
  source: ".irs-source-pane", text: ".irs-text:not(.irs-source-pane)", graph: ".irs-graph", kernel: ".irs-kernel-pane", inspector: ".irs-inspector", tables: ".irs-dock",
} as const;
type Panel = keyof typeof PANELS;
const NAMES = Object.keys(PANELS) as Panel[];
/** The panes beside each other, from the left, and those of them that are made when they are first shown. */
const ROW = NAMES.slice(0, -1);
const MADE_LATER = ["source", "kernel"] as const;
const SWITCHED: readonly Panel[] = ["text", "graph", "inspector", "tables"];
/** A widened pane has this many times the width of the others together. */
const WIDE = 2;

/** Makes a pane that is not shown at first; null if there is nothing to show. */
export type Makers = Record<(typeof MADE_LATER)[number], () => HTMLElement | null>;

export class Panels {
  readonly switches: HTMLElement;
  #hidden = new Set<Panel>(MADE_LATER);
  /** What is hidden without the columns, while these are shown. */
  #besides: Set<Panel> | null = null;
  #whole: Panel | null = null;
  /** A pane that is not beside the others, shown in place of all; with its name. */
  #other: { name: string; element: HTMLElement } | null = null;
  #wide: Panel | null = null;
  readonly #weights = new Map<Panel, number>([["source", 30], ["text", 27], ["graph", 49], ["kernel", 40], ["inspector", 24]]);
  readonly #dividers = new Map<Panel, HTMLElement>();
  readonly #toggles: Map<Panel, HTMLButtonElement>;
  readonly #columns: HTMLButtonElement;

  constructor(private readonly root: HTMLElement, private readonly make: Makers, private readonly makeOther: (name: string) => HTMLElement | null) {
    this.#toggles = new Map(SWITCHED.map((name) => [name, h("button", {
      class: "irs-switch", "aria-pressed": "true", title: `show or hide the ${name}`, onclick: () => this.#toggle(name),
    }, name)]));
    this.#columns = h("button", { class: "irs-switch", "aria-pressed": "false", title: "source, IR and kernel side by side, linked line by line (c)", onclick: () => this.columns() }, "columns");
    const full = root.classList.contains("irs-page") ? null : h("button", { class: "irs-switch", title: "fill the screen, or leave it", onclick: () => {
      if (document.fullscreenElement) void document.exitFullscreen();
      else root.requestFullscreen().catch(() => (full!.hidden = true)); // the page around forbids it
    } }, "full screen");
    this.switches = h("div", { class: "irs-panel-switches", role: "group", "aria-label": "panes" }, ...this.#toggles.values(), this.#columns, full);
  }

  /** Puts a button on each pane that has none yet, and shows the visible panes. */
  arrange(): void {
    for (const name of NAMES) {
      const bar = this.#find(name)?.querySelector(":scope > .irs-bar, :scope > .irs-dock-bar");
      if (!bar || bar.querySelector(".irs-whole")) continue;
      const title = `maximise the ${name}, or restore the layout`;
      bar.append(h("button", { class: "irs-whole", title: `${title}; z widens it`, "aria-label": title, "aria-pressed": "false", onclick: () => this.#fill(name) }, "⤢"));
    }
    this.#show();
  }

  /** The maximised pane; empty for none. */
  get alone(): string {
    return this.#other?.name ?? this.#whole ?? "";
  }

  /** Maximises a pane; an empty name restores the layout. */
  showAlone(name: string): void {
    this.#leaveOther();
    this.#whole = NAMES.find((panel) => panel === name) ?? null;
    const element = this.#whole ? null : this.makeOther(name);
    if (element) this.root.querySelector(".irs-main")?.append(element);
    this.#other = element && { name, element };
    this.#show();
  }

  #leaveOther(): void {
    this.#other?.element.remove();
    this.#other = null;
  }

  /** Widens the pane around an element, so that the others stay in sight, or restores the widths. */
  widen(element: Element | null): void {
    const name = NAMES.find((panel) => element?.closest(PANELS[panel])) ?? "graph";
    this.#wide = this.#wide === name ? null : name;
    this.#show();
  }

  /** Shows source, IR and kernel side by side, or what was shown before. */
  columns(): void {
    this.#leaveOther();
    this.#whole = null;
    if (this.#besides) {
      this.#hidden = this.#besides;
      this.#besides = null;
      return this.#show();
    }
    for (const name of MADE_LATER) {
      const element = this.#find(name) ?? this.make[name]();
      if (element && !element.isConnected) this.#find(name === "source" ? "text" : "graph")?.[name === "source" ? "before" : "after"](element);
    }
    this.#besides = this.#hidden;
    this.#hidden = new Set<Panel>(["graph", "inspector", ...(this.#hidden.has("tables") ? ["tables" as const] : [])]);
    this.arrange();
  }

  #find(name: Panel): HTMLElement | null {
    return this.root.querySelector<HTMLElement>(PANELS[name]);
  }

  #fill(name: Panel): void {
    this.#whole = this.#whole === name ? null : name;
    this.#show();
    this.#find(name)?.querySelector(".irs-whole")?.scrollIntoView({ block: "nearest" }); // the bar moves: focus stays in sight
  }

  #toggle(name: Panel): void {
    if (this.#other) this.#leaveOther();
    else if (this.#whole) {
      this.#whole = this.#whole === name ? null : name;
    } else if (!this.#hidden.delete(name) && NAMES.filter((other) => this.#isShown(other)).length > 1) this.#hidden.add(name);
    this.#show();
  }

  #isShown(name: Panel): boolean {
    return this.#other === null && this.#find(name) !== null && (this.#whole ? this.#whole === name : !this.#hidden.has(name));
  }

  #show(): void {
    const { root } = this;
    for (const name of NAMES) {
      const element = this.#find(name);
      const shown = this.#isShown(name);
      if (element) element.hidden = !shown;
      this.#toggles.get(name)?.setAttribute("aria-pressed", String(shown));
      element?.querySelector(".irs-whole")?.setAttribute("aria-pressed", String(this.#whole === name));
    }
    this.#columns.setAttribute("aria-pressed", String(this.#besides !== null));
    if (this.#whole === "tables") root.querySelector<HTMLElement>(".irs-dock:has(> .irs-dock-panel[hidden]) [role=tab]")?.click(); // closed tables would leave it empty
    const main = root.querySelector<HTMLElement>(".irs-main");
    if (!main) return;
    this.#showRow(main);
    main.hidden = this.#other === null && !ROW.some((name) => this.#isShown(name));
    root.classList.toggle("irs-no-dock", !this.#isShown("tables"));
    root.classList.toggle("irs-dock-alone", main.hidden);
    root.classList.toggle("irs-dock-wide", this.#wide === "tables");
    for (const bar of root.querySelectorAll<HTMLElement>(":scope > .irs-splitter")) bar.hidden = !this.#isShown("tables") || main.hidden;
  }

  /** The widths of the panes beside each other, and the borders between them. */
  #showRow(main: HTMLElement): void {
    const shown = ROW.filter((name) => this.#isShown(name));
    for (const name of ROW) {
      const element = this.#find(name);
      if (!element) continue;
      let border = this.#dividers.get(name);
      if (!border) this.#dividers.set(name, (border = this.#divider(name)));
      if (border.nextElementSibling !== element) element.before(border);
      border.hidden = shown.indexOf(name) < 1;
    }
    const weight = (name: Panel) => this.#weights.get(name)!;
    const others = shown.filter((name) => name !== this.#wide).reduce((sum, name) => sum + weight(name), 0);
    const columns = shown.map((name) => `minmax(0, ${name === this.#wide && others ? WIDE * others : weight(name)}fr)`);
    main.style.setProperty("--irs-columns", columns.join(" auto ") || "minmax(0, 1fr)");
  }

  /** The border on the left of a pane. */
  #divider(name: Panel): HTMLElement {
    const left = () => ROW.slice(0, ROW.indexOf(name)).reverse().find((other) => this.#isShown(other))!;
    return divider(() => [this.#find(left())!, this.#find(name)!], (share) => {
      const both = this.#weights.get(left())! + this.#weights.get(name)!;
      this.#wide = null;
      this.#weights.set(left(), both * share).set(name, both * (1 - share));
      this.#show();
    });
  }
}
