// Elements in one expression. Text always goes in as text, never as markup.

type Listener = (event: never) => void;
type Attributes = Record<string, string | number | boolean | null | undefined | Listener>;
type Child = Node | string | null | undefined;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** An HTML element; attributes that start with `on` are listeners. A button submits nothing. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), tag === "button" ? { type: tag, ...attributes } : attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets an attribute if its value differs: setting the same value again costs a layout. */
export function keep(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

let made = 0;

/** An id that no other element of the page has. */
export function freshId(word: string): string {
  return `irs-${word}-${++made}-${Math.floor(performance.now())}`;
}

/** Runs a function at most once a frame, however often it is asked for. */
export function oncePerFrame(work: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

/** The nearest element around an event's target that carries this data attribute, with its number; null when there is none. */
export function dataNumber(target: EventTarget | null, name: string): number | null {
  const found = target instanceof Element ? target.closest(`[data-${name}]`) : null;
  const value = found?.getAttribute(`data-${name}`);
  return value === null || value === undefined ? null : Number(value);
}

/** Fills an element anew, and gives the focus to the control that takes the place of the focused one. */
export function keepFocus(element: HTMLElement, fill: () => void): void {
  const focused = document.activeElement;
  const paneOf = (control: Element) => control.closest(".irs-pane")?.getAttribute("aria-label");
  const nameOf = (control: Element) => control.getAttribute("aria-label") ?? control.textContent;
  const place = focused && element.contains(focused) ? [focused.tagName, paneOf(focused), nameOf(focused)] as const : null;
  fill();
  if (!place || (document.activeElement && document.activeElement !== document.body)) return;
  const [tag, pane, name] = place;
  const control = [...element.querySelectorAll<HTMLElement>(tag)].find((other) => paneOf(other) === pane && nameOf(other) === name);
  control?.focus({ preventScroll: true });
}
