import { describe, expect, it } from "vitest";
import { pieces } from "../src/story/markdown";

describe("a sentence in Markdown", () => {
  it("falls into plain and marked pieces", () => {
    expect(pieces("the **write** to `%p.1` is *seen* [here](https://example.org/x)").map(({ kind, text }) => `${kind}:${text}`)).toEqual([
      "text:the ", "strong:write", "text: to ", "code:%p.1", "text: is ", "em:seen", "text: ", "link:here",
    ]);
  });
  it("leaves what is no mark, and markup, as text", () => {
    expect(pieces("2 * 3 * 4 <b>x</b> [a](javascript:alert(1))")).toEqual([{ kind: "text", text: "2 * 3 * 4 <b>x</b> [a](javascript:alert(1))" }]);
  });
});
