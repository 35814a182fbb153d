"""The graph view in Graphviz's language, for figures of up to a few hundred boxes.

`graph_dot` returns the text and needs no dependency. Drawing it needs the `dot` program; `irscope.display.svg` draws the
same view without it.
"""

from __future__ import annotations

from irscope._base.escaping import in_dot
from irscope.report.view_models import Box, GraphView
from irscope.report.words import PALETTE, WRITES

__all__ = ["graph_dot"]


def graph_dot(view: GraphView) -> str:
    """DOT text with a cluster for every box that contains boxes; all boxes open.

    >>> print(graph_dot(GraphView(boxes=[], edges=[], closed=[])))
    digraph {
      node [shape=box style=rounded fontname="Helvetica" fontsize=10]
      compound=true
    }
    """
    children: dict[int, list[Box]] = {}
    for inner in view["boxes"]:
        children.setdefault(inner["parent"], []).append(inner)
    lines = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]', "  compound=true"]
    pending: list[Box | None] = list(reversed(children.get(0, [])))
    depth = 1
    while pending:
        box = pending.pop()
        if box is None:  # all boxes of a cluster are written
            depth -= 1
            lines.append(f"{'  ' * depth}}}")
            continue
        indent = "  " * depth
        colour = WRITES if box["writes"] else PALETTE.get(box["category"], PALETTE["other"])
        inside = children.get(box["id"])
        if inside is None:
            label = box["label"] + (f"\n{box['detail']}" if box["detail"] else "")
            lines.append(f'{indent}n{_key(box["id"])} [label={in_dot(label)} color="{colour}"]')
            continue
        lines.append(f'{indent}subgraph cluster_{_key(box["id"])} {{ label={in_dot(box["label"])} color="{colour}"')
        lines.append(
            f"{indent}  n{_key(box['id'])} [shape=point style=invis]"
        )  # lets edges end at the box itself
        depth += 1
        pending.append(None)
        pending.extend(reversed(inside))
    lines += [f"  n{_key(edge['source'])} -> n{_key(edge['target'])}" for edge in view["edges"]]
    return "\n".join([*lines, "}"])


def _key(id: int) -> str:
    return str(id) if id >= 0 else f"m{-id}"
