// Many controls that are one stop of the Tab key, as a screen full of names would be fifty; the arrow keys walk among them.

const CONTROLS = "button:not(:disabled), [role=button]";
const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

/** Makes the controls in an element one stop: ← → go to the one before or after, ↑ ↓ in a table to the row above or below, and Home and
 * End to the first and last. An element without any can be focused itself if it `scrolls`. Of two around a control the outer one holds. */
export function oneStop<E extends HTMLElement | SVGElement>(element: E, scrolls = false): E {
  const inside = () => [...element.querySelectorAll<HTMLElement>(CONTROLS)];
  const stopAt = (at: Element | undefined) => inside().forEach((control) => control.setAttribute("tabindex", control === at ? "0" : "-1"));
  const first = inside()[0];
  if (!first && scrolls) element.setAttribute("tabindex", "0");
  stopAt(first);
  element.setAttribute("data-stop", "");
  element.addEventListener("focusin", ({ target }) => inside().includes(target as HTMLElement) && stopAt(target as Element));
  element.addEventListener("keydown", (given) => {
    const event = given as KeyboardEvent;
    const controls = inside();
    const at = controls.indexOf(event.target as HTMLElement);
    const by = STEPS[event.key];
    if (at < 0 || !by || event.ctrlKey || event.metaKey || event.altKey || element.parentElement?.closest("[data-stop]")) return;
    event.preventDefault();
    event.stopPropagation();
    const next = event.key === "ArrowDown" || event.key === "ArrowUp" ? inRow(controls, at, by) : at + by;
    controls[Math.max(0, Math.min(controls.length - 1, next))].focus();
  });
  return element;
}

/** The control of the next row with any that is in the same place; outside a table, the one beside it. */
function inRow(controls: readonly HTMLElement[], at: number, by: number): number {
  const rowOf = (k: number) => controls[k]?.closest("tr");
  const row = rowOf(at);
  if (!row) return at + by;
  const place = at - controls.findIndex((_, k) => rowOf(k) === row);
  let k = at;
  while (k in controls && rowOf(k) === row) k += by;
  const other = controls.flatMap((_, n) => (rowOf(n) === rowOf(k) ? [n] : []));
  return k in controls ? other[Math.min(place, other.length - 1)] : at;
}
