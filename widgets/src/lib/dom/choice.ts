// A list of which one entry is chosen, by a click or with the arrow keys.

import { freshId, h } from "./dom";

export interface Choice {
  element: HTMLElement;
  choose(k: number): void;
}

export function choice(label: string, look: string, entries: readonly HTMLElement[], onChoose: (k: number) => void): Choice {
  let at = -1;
  const element = h("div", { class: look, role: "listbox", tabindex: "0", "aria-label": label }, ...entries);
  const choose = (k: number) => {
    at = k;
    entries.forEach((entry, other) => {
      entry.classList.toggle("chosen", other === k);
      entry.setAttribute("aria-selected", String(other === k));
    });
    element.setAttribute("aria-activedescendant", entries[k].id);
    onChoose(k);
  };
  entries.forEach((entry, k) => {
    entry.id = freshId("entry");
    entry.setAttribute("role", "option");
    entry.setAttribute("aria-selected", "false");
    entry.addEventListener("click", () => choose(k));
  });
  element.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" || event.key === "ArrowRight" ? 1 : event.key === "ArrowUp" || event.key === "ArrowLeft" ? -1 : 0;
    const to = event.key === "Home" ? 0 : event.key === "End" ? entries.length - 1 : Math.max(0, Math.min(entries.length - 1, at + by));
    if ((!by && event.key !== "Home" && event.key !== "End") || !entries.length) return;
    event.preventDefault();
    event.stopPropagation();
    choose(to);
    entries[to].scrollIntoView({ block: "nearest" });
  });
  return { element, choose };
}
