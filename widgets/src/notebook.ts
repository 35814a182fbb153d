// The explorer as a widget of a notebook: the selection goes through the hub model, questions go to Python as messages.

import { mount } from "./explorer/index";
import type { Ask } from "./lib/answers";
import type { Detail, ExplorerView, PairDetail } from "./lib/schema";

/** The part of an anywidget model that is used here. */
interface Model {
  get(name: "selection"): number[];
  get(name: "view"): DataView | string;
  get(name: "hub"): string;
  set(name: "selection", value: number[]): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, listener: (content: never) => void): void;
  off(event: string, listener: (content: never) => void): void;
}

interface Rendered {
  model: Model;
  el: HTMLElement;
  signal?: AbortSignal;
  host: { getModel(reference: string): Promise<Model> };
}

type Reply =
  | { kind: "detail"; token: number; detail: Detail }
  | { kind: "pair"; token: number; pair: PairDetail }
  | { kind: "error"; token: number; message: string };

export async function render({ model, el, signal, host }: Rendered): Promise<() => void> {
  const hub = await host.getModel(model.get("hub"));
  const gone = new AbortController();
  signal?.addEventListener("abort", () => gone.abort());
  const listen = (on: Model, event: string, listener: (content: never) => void) => {
    on.on(event, listener);
    gone.signal.addEventListener("abort", () => on.off(event, listener));
  };
  el.classList.add("irs-live");
  const view = model.get("view");
  const text = typeof view === "string" ? view : new TextDecoder().decode(view);
  const shared = {
    get: () => hub.get("selection"),
    set: (ids: number[]) => {
      hub.set("selection", ids);
      hub.save_changes();
    },
    onChange: (listener: () => void) => listen(hub, "change:selection", listener),
  };
  const unmount = mount(el, JSON.parse(text) as ExplorerView, { shared, ask: asker(model, listen), signal: gone.signal });
  return () => {
    unmount();
    gone.abort();
  };
}

/** Questions get numbers, since answers may come late or never. */
function asker(model: Model, listen: (on: Model, event: string, listener: (content: never) => void) => void): Ask {
  const waiting = new Map<number, { resolve: (answer: Detail | PairDetail) => void; reject: (error: Error) => void }>();
  let last = 0;
  listen(model, "msg:custom", (reply: Reply) => {
    const asked = waiting.get(reply.token);
    if (!asked) return;
    waiting.delete(reply.token);
    if (reply.kind === "error") asked.reject(new Error(reply.message));
    else asked.resolve(reply.kind === "detail" ? reply.detail : reply.pair);
  });
  return (ids) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    model.send({ kind: "inspect", ids, token: last });
  });
}
