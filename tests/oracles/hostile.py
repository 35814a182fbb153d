"""Text that is markup, script, or nothing that can be seen, and a program with it in every field."""

from irscope._base.frozen import FrozenDict
from irscope.ir import STR, Graph, GraphBuilder, Location, TensorType

HOSTILE = [
    "</script><script>window.pwned=1</script>", "<!--<script>", "<!-- x", "--> x", "<![CDATA[", "]]>", "<img src=x onerror=window.pwned=1>",
    "\" onload=\"window.pwned=1", "' onload='window.pwned=1", "&lt;b&gt; &amp;", "a\udc80b", "\ud800", "\udfff\ud83d", "nul\0nul",
    "\x1b[31mred\x1b]0;title\x07", "\u202eabc\u2066", "\u2028\u2029", "\ufffe\uffff\ufdd0", "\ufeffmark", "\r\nnew", "\x7f\x9b\x85",
    "\\N\\G\\l\\", "\"];evil[label=\"", "`${window.pwned=1}`", "%s %d {0} {x}", "=1+1", "🧑‍🚀 ü 漢字", "__proto__", "constructor",
    "\\u003cscript>", "\\x3c\\", "]}}//", "a" * 30_000, "<" * 30_000, "a." * 20_000,
]  # fmt: skip
SHORT = [text for text in HOSTILE if len(text) < 100]
X = TensorType("float32", (4, 8), (8, 1))


def program(text: str) -> Graph:
    """One with the text as its name, as names of values, scopes, places, constants, attributes, and inside of containers."""
    build = GraphBuilder(text)
    there = {"location": Location(text, 3), "scope": text}
    x = build.input(text, X)
    constants = [build.constant(text, STR), build.constant([text, text]), build.constant(FrozenDict({text: 1}))]
    (y,) = build.node("aten::relu", (x,), (X,), names=(text,), **there)  # type: ignore[arg-type]
    (z,) = build.node("aten::tanh", (y,), (X,), names=(f"{text}2",), **there)  # type: ignore[arg-type]
    attrs = {"value": text, "code": (text,)}
    (w,) = build.node("foreign::op", (z, *constants), (X,), attrs=attrs, names=("w",), **there)  # type: ignore[arg-type]
    half = build.constant(0.5)
    (v,) = build.node("aten::add_", (w, half, half), (X,), **there)  # type: ignore[arg-type]
    return build.finish([v])


def told(text: str) -> str:
    return ascii(text[:16])


BRIEF = [text for text in HOSTILE if text.startswith(("<!--<", "</", "a\udc80", "nul", "\x1b", '"];', "\r", "<<"))]
"""One of each kind, for the suite; the others are tried in the long run."""
