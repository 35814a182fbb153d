// A sentence in Markdown as elements: bold, emphasis, code, links and lists; printed names in it select. No markup goes in as markup.

import type { Context } from "../lib/model/context";
import { h } from "../lib/dom/dom";
import { sentence } from "../inspector/words";

export interface Piece {
  kind: "text" | "strong" | "em" | "code" | "link";
  text: string;
  to?: string;
}

const MARKED = /\*\*(?<strong>[^*]+)\*\*|\*(?<em>[^*\s][^*]*)\*|`(?<code>[^`]+)`|\[(?<label>[^\]]+)\]\((?<to>https?:[^)\s]+)\)/gu;

/** The pieces of a paragraph, in order. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let done = 0;
  for (const match of text.matchAll(MARKED)) {
    if (match.index > done) found.push({ kind: "text", text: text.slice(done, match.index) });
    const { strong, em, code, label, to } = match.groups!;
    if (strong !== undefined) found.push({ kind: "strong", text: strong });
    else if (em !== undefined) found.push({ kind: "em", text: em });
    else if (code !== undefined) found.push({ kind: "code", text: code });
    else found.push({ kind: "link", text: label, to });
    done = match.index + match[0].length;
  }
  if (done < text.length) found.push({ kind: "text", text: text.slice(done) });
  return found;
}

export function markdown(context: Context, text: string): HTMLElement[] {
  const inside = (words: string) => [...sentence(context, words).childNodes];
  const made = ({ kind, text: words, to }: Piece): Node[] => {
    if (kind === "text") return inside(words);
    if (kind === "link") return [h("a", { href: to, rel: "noopener noreferrer", target: "_blank" }, words)];
    const element = h(kind, {});
    element.append(...inside(words));
    return [element];
  };
  return text.split(/\n\s*\n/u).map((paragraph) => {
    const lines = paragraph.split("\n");
    const isList = lines.every((line) => /^\s*[-*] /u.test(line));
    const element = h(isList ? "ul" : "p", {});
    if (isList) element.append(...lines.map((line) => {
      const item = h("li", {});
      item.append(...pieces(line.replace(/^\s*[-*] /u, "")).flatMap(made));
      return item;
    }));
    else element.append(...pieces(lines.join(" ")).flatMap(made));
    return element;
  });
}
