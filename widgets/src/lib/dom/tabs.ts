// A list of tabs over one panel: roles, labels, and the arrow keys, once for every such list.

import { freshId, h } from "./dom";

export interface TabOptions<Name extends string> {
  /** The name of the list for a screen reader. */
  label: string;
  /** The style class of the list. */
  look: string;
  names: readonly Name[];
  /** The content of a tab's label; its name by default. */
  say?(name: Name): (Node | string)[];
  /** Gets the label of the chosen tab; its content is the caller's. */
  panel: HTMLElement;
  /** Called for each choice; "" when the chosen tab is pressed again and `closes`. */
  onChoose(name: Name | ""): void;
  closes?: boolean;
}

export interface TabList<Name extends string> {
  element: HTMLElement;
  choose(name: Name | ""): void;
}

export function tabs<Name extends string>(options: TabOptions<Name>): TabList<Name> {
  const { names, panel } = options;
  let chosen: Name | "" = "";
  if (!panel.id) panel.id = freshId("panel");
  const buttons = new Map(names.map((name) => [name, h("button", {
    role: "tab", id: freshId("tab"), "aria-controls": panel.id,
    onclick: () => choose(options.closes && name === chosen ? "" : name),
  }, ...(options.say?.(name) ?? [name]))] as const));
  const choose = (name: Name | "") => {
    chosen = name;
    for (const [other, button] of buttons) {
      button.setAttribute("aria-selected", String(other === name));
      button.tabIndex = other === name || (name === "" && other === names[0]) ? 0 : -1;
    }
    if (name) panel.setAttribute("aria-labelledby", buttons.get(name)!.id);
    options.onChoose(name);
  };
  const element = h("div", { class: options.look, role: "tablist", "aria-label": options.label, onkeydown: (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const next = names[((chosen ? names.indexOf(chosen) : -1) + by + names.length) % names.length];
    choose(next);
    buttons.get(next)!.focus();
  } }, ...buttons.values());
  return { element, choose };
}
