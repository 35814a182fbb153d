// What the bundle offers: `render` for the notebook's widget, `mount` for anybody, and a page that carries its view as JSON
// draws itself.

import { mount, type Host } from "./explorer/index";
import { stylesOnce } from "./lib/dom/styles";
import type { ExplorerView } from "./lib/model/schema";
import { render } from "./notebook";

export { mount };
export type { ExplorerView, Host };
export default { render };

/** Draws the view of a page: `<script type="application/json" data-irscope="view">` holds it, `[data-irscope="explorer"]` shows it. */
function drawPage(): void {
  const data = document.querySelector('script[type="application/json"][data-irscope="view"]');
  const place = document.querySelector<HTMLElement>('[data-irscope="explorer"]');
  if (!data || !place) return;
  place.replaceChildren();
  mount(place, JSON.parse(data.textContent ?? "") as ExplorerView, { page: true });
}

if (typeof document !== "undefined") {
  stylesOnce(document);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", drawPage);
  else drawPage();
}
