"""Prints a few lines of a program around marked places: the *where* of every error about a graph."""

from __future__ import annotations

from collections.abc import Mapping

from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.text.printer import MAX_INDENT, print_node
from irscope.ir.traversal import Step, steps

__all__ = ["excerpt"]

_CONTEXT = 2


class _Names(dict[Value, str]):
    """Names with a default for values that the graph does not define: a broken graph must print, too."""

    def __missing__(self, value: Value) -> str:
        return value.name or f"#{value.id}"


def excerpt(graph: Graph, marks: Mapping[Node | Block, str], *, context: int = _CONTEXT) -> str:
    """The lines of marked nodes and of the ends of marked blocks, each with `>` and its note, and the lines around them.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> print(excerpt(g, {g.node("y"): "this one"}))
        graph(%x : Tensor):
    >     %y : Tensor = aten::relu(%x)    this one
          return (%y)
    """
    rows: list[tuple[Step, int]] = []
    marked: list[tuple[int, str]] = []
    depth = -1
    for step in steps(graph):
        if step.kind == "done":
            continue
        depth += step.kind == "enter"
        subject: Node | Block | None = {"node": step.node, "leave": step.block}.get(step.kind)
        if subject is not None and subject in marks:
            marked.append((len(rows), marks[subject]))
        rows.append((step, depth))
        depth -= step.kind == "leave"
    names = _Names(graph.names)
    notes = dict(marked)
    near = {row + shift for row, _ in marked for shift in range(-context, context + 1)}
    shown = sorted(near & set(range(len(rows))))
    lines: list[str] = []
    for index, row in enumerate(shown):
        if index and row > shown[index - 1] + 1:
            lines.append("    …")
        line = f"{'>' if row in notes else ' '}   {_line(*rows[row], names)}"
        lines.append(f"{line}    {notes[row]}" if notes.get(row) else line)
    return "\n".join(lines)


def _line(step: Step, depth: int, names: Mapping[Value, str]) -> str:
    pad = ("  " * (2 * depth + 1))[:MAX_INDENT]
    if step.kind == "node" and step.node is not None:
        return pad + print_node(step.node, names)
    declared = ", ".join(f"%{names[value]} : {value.type}" for value in step.block.params)
    returned = ", ".join(f"%{names[value]}" for value in step.block.returns)
    if step.node is None:
        return f"graph({declared}):" if step.kind == "enter" else f"  return ({returned})"
    return f"{pad[:-2]}block{step.place}({declared}):" if step.kind == "enter" else f"{pad}-> ({returned})"
