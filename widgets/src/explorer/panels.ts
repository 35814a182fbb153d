// Which panes are visible: each can be maximised or hidden; switches in the head line bring it back.

import { h } from "../lib/dom/dom";

const PANELS = { text: ".irs-text", graph: ".irs-graph", inspector: ".irs-inspector", tables: ".irs-dock" } as const;
type Panel = keyof typeof PANELS;
const NAMES = Object.keys(PANELS) as Panel[];

export class Panels {
  readonly switches: HTMLElement;
  readonly #hidden = new Set<Panel>();
  #whole: Panel | null = null;
  readonly #toggles: Map<Panel, HTMLButtonElement>;

  constructor(private readonly root: HTMLElement) {
    this.#toggles = new Map(NAMES.map((name) => [name, h("button", {
      class: "irs-switch", "aria-pressed": "true", title: `show or hide the ${name}`, onclick: () => this.#toggle(name),
    }, name)]));
    this.switches = h("div", { class: "irs-panel-switches", role: "group", "aria-label": "panes" }, ...this.#toggles.values());
  }

  /** Puts a button on each pane that has none yet, and shows the visible panes. */
  arrange(): void {
    for (const name of NAMES) {
      const bar = this.#find(name)?.querySelector(":scope > .irs-bar, :scope > .irs-dock-bar");
      if (!bar || bar.querySelector(".irs-whole")) continue;
      const title = `maximise the ${name}, or restore the layout`;
      bar.append(h("button", { class: "irs-whole", title, "aria-label": title, "aria-pressed": "false", onclick: () => this.#fill(name) }, "⤢"));
    }
    this.#show();
  }

  /** The maximised pane; empty for none. */
  get alone(): string {
    return this.#whole ?? "";
  }

  /** Maximises a pane; an empty name restores the layout. */
  showAlone(name: string): void {
    this.#whole = NAMES.find((panel) => panel === name) ?? null;
    this.#show();
  }

  #find(name: Panel): HTMLElement | null {
    return this.root.querySelector<HTMLElement>(PANELS[name]);
  }

  #fill(name: Panel): void {
    this.#whole = this.#whole === name ? null : name;
    this.#show();
  }

  #toggle(name: Panel): void {
    if (this.#whole) {
      this.#whole = this.#whole === name ? null : name;
    } else if (!this.#hidden.delete(name) && this.#hidden.size < NAMES.length - 1) this.#hidden.add(name);
    this.#show();
  }

  #isShown(name: Panel): boolean {
    return this.#whole ? this.#whole === name : !this.#hidden.has(name);
  }

  #show(): void {
    const { root } = this;
    for (const name of NAMES) {
      const shown = this.#isShown(name);
      const element = this.#find(name);
      if (element) element.hidden = !shown;
      this.#toggles.get(name)!.setAttribute("aria-pressed", String(shown));
      element?.querySelector(".irs-whole")?.setAttribute("aria-pressed", String(this.#whole === name));
    }
    const [text, graph, inspector, tables] = NAMES.map((name) => this.#isShown(name));
    if (this.#whole === "tables") root.querySelector<HTMLElement>(".irs-dock:has(> .irs-dock-panel[hidden]) [role=tab]")?.click(); // closed tables would leave it empty
    const main = root.querySelector<HTMLElement>(".irs-main");
    if (!main) return;
    const bars = main.querySelectorAll<HTMLElement>(":scope > .irs-splitter");
    const borders = [text && (graph || inspector), graph && inspector];
    bars.forEach((bar, k) => (bar.hidden = !borders[k]));
    const rest = graph ? "graph" : text ? "text" : "inspector";
    const columns = [
      text ? (rest === "text" ? "minmax(0, 1fr)" : "var(--irs-left, 30%)") : "", borders[0] ? "auto" : "", graph ? "minmax(0, 1fr)" : "", borders[1] ? "auto" : "",
      inspector ? (rest === "inspector" ? "minmax(0, 1fr)" : "var(--irs-right, 27%)") : "",
    ];
    main.style.setProperty("--irs-columns", columns.filter((column) => column).join(" "));
    main.hidden = !text && !graph && !inspector;
    root.classList.toggle("irs-no-dock", !tables);
    root.classList.toggle("irs-dock-alone", main.hidden);
    for (const bar of root.querySelectorAll<HTMLElement>(":scope > .irs-splitter")) bar.hidden = !tables || main.hidden;
  }
}
