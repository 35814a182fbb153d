// The entry points of the bundle: `render` for the notebook's widget, `mount` for any host; a page that carries its view as JSON
// draws itself.

import { mount, type Host } from "./explorer/index";
import { stylesOnce } from "./lib/dom/styles";
import type { ExplorerView } from "./lib/model/schema";
import { render } from "./notebook";

export { mount };
export type { ExplorerView, Host };
export default { render };

/** Draws the view of a page: `<script type="application/json" data-irscope="view">` holds it, `[data-irscope="explorer"]` shows it. */
async function drawPage(): Promise<void> {
  const data = document.querySelector<HTMLElement>('script[type="application/json"][data-irscope="view"]');
  const place = document.querySelector<HTMLElement>('[data-irscope="explorer"]');
  if (!data || !place) return;
  const text = data.textContent ?? "";
  const packed = data.dataset.packed === "gzip";
  if (packed && !("DecompressionStream" in globalThis)) return place.prepend("Only the picture is shown: this browser is older than 2023 and cannot unpack the rest.");
  const view = (packed ? await unpacked(text) : JSON.parse(text)) as ExplorerView;
  place.replaceChildren();
  mount(place, view, { page: true });
}

/** JSON that was compressed and written as base64. */
async function unpacked(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

if (typeof document !== "undefined") {
  stylesOnce(document);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void drawPage());
  else void drawPage();
}
