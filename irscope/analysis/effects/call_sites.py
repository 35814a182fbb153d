"""The callee of a call, by the name that the program's text gives it, and the operands that the call passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from irscope.ir import ClassType, Graph, Node, Value
from irscope.ir.module import symbol_name

__all__ = ["CALLS", "callee_of", "calls_in", "operands_of"]


def callee_of(graph: Graph, node: Node) -> str | None:
    """The name of the program that a node calls; None for other nodes, and for callees known only at run time.

    A function has its own name, a method its class and name (`__torch__.Net.forward`), a symbol its name without `@`.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Tensor):
    ...   %f : Function = prim::Constant[name="helper"]()
    ...   %y : Tensor = prim::CallFunction(%f, %x)
    ...   return (%y)''')
    >>> callee_of(g, g.node("y")), operands_of(g.node("y"))
    ('helper', (%x,))
    """
    naming = CALLS.get(node.op)
    return naming(graph, node) if naming is not None else None


def operands_of(node: Node) -> tuple[Value, ...]:
    """The operands that a call passes to the callee's parameters, in order; the object of a method is the first."""
    return node.inputs[1:] if node.op == "prim::CallFunction" else node.inputs


def calls_in(graph: Graph) -> Iterator[tuple[Node, str]]:
    """The calls of a program whose callee has a name, in textual order."""
    for node in graph.nodes():
        if node.op in CALLS:
            name = callee_of(graph, node)
            if name is not None:
                yield node, name


def _function(graph: Graph, node: Node) -> str | None:
    made = graph.producer.get(node.inputs[0]) if node.inputs else None
    name = made.attrs.get("name") if made is not None and made.op == "prim::Constant" else None
    return name if isinstance(name, str) else None


def _method(graph: Graph, node: Node) -> str | None:
    holder, name = node.inputs[0].type if node.inputs else None, node.attrs.get("name")
    return f"{holder.name}.{name}" if isinstance(holder, ClassType) and isinstance(name, str) else None


def _symbol(graph: Graph, node: Node) -> str | None:
    name = node.attrs.get("callee")
    return symbol_name(name) if isinstance(name, str) else None


CALLS: Final[Mapping[str, Callable[[Graph, Node], str | None]]] = {
    "prim::CallFunction": _function,
    "prim::CallMethod": _method,
    "func::call": _symbol,
    "util::call": _symbol,
}
"""The ops that run another program."""
