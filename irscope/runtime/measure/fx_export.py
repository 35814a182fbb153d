"""A graph as a module of torch.fx, which torch.compile takes: torch's own competitor for a program of which only the graph is
at hand.

Each node becomes a call of the overload that it means; fusion groups are taken apart, bound values become constants. What
runs its blocks by what it computes (an `if`, a loop), and ops that torch's dispatcher does not know, have no such form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.ir import GROUPS, Block, Graph, Node, Value
from irscope.ops.registry import schema_of
from irscope.ops.traits import UNPACKS
from irscope.ops.typing import DTYPE_CODES
from irscope.runtime.arrays import TorchLibrary
from irscope.runtime.executor import as_torch

__all__ = ["PEERS", "torch_function", "torch_peer"]

PEERS: Final = ("torch", "torch.compile")
"""Competitors that are made of a graph, by name."""

_TOGETHER: Final[dict[str, Callable[..., Any]]] = {
    "prim::ListConstruct": lambda *items: list(items),
    "prim::TupleConstruct": lambda *items: items,
}
_NAMES: Final[dict[str, Mapping[int, str]]] = {
    "dtype": DTYPE_CODES,
    "layout": {0: "strided"},
    "memory_format": dict(enumerate(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"))),
}
"""What torch calls the numbers that stand for its objects in IR, by the arguments that take them."""


def torch_peer(name: str, graph: Graph, model: Callable[..., Any] | None) -> Callable[..., Any]:
    """The competitor of this name: the model itself if there is one, or else the graph, as it is or compiled.

    Raises ArgumentError for a name that there is not. What cannot be made raises when it is called.
    """
    if name not in PEERS:
        raise ArgumentError(
            f"{name!r} is not the name of a competitor",
            hint=f"{', '.join(PEERS)} are; others are functions: peers={{{name!r}: function}}",
        )
    made: list[Callable[..., Any]] = []

    def run(*args: Any) -> Any:
        if not made:
            import torch

            plain = model or torch_function(graph)
            made.append(torch.compile(plain, dynamic=False) if name == "torch.compile" else plain)
        return made[0](*map(as_torch, args))

    return run


def torch_function(graph: Graph) -> Callable[..., Any]:
    """The program as a `torch.fx.GraphModule`. Raises ArgumentError, with the node, for one that has no such form."""
    return _Builder(graph).module()


class _Builder:
    def __init__(self, graph: Graph) -> None:
        import torch

        self.torch = torch
        self.graph = graph
        self.library = TorchLibrary()
        self.made = torch.fx.Graph()
        self.held: dict[str, Any] = {}
        self.values: dict[Value, Any] = {}

    def module(self) -> Callable[..., Any]:
        for value in self.graph.inputs:
            bound = value in self.graph.bound
            self.values[value] = (
                self.constant(as_torch(self.graph.bound[value])) if bound else self.made.placeholder(f"x{value.id}")
            )
        self.block(self.graph.body)
        results = [self.values[value] for value in self.graph.body.returns]
        self.made.output(results[0] if len(results) == 1 else tuple(results))
        module: Callable[..., Any] = self.torch.fx.GraphModule(self.held, self.made)
        return module

    def block(self, body: Block) -> None:
        stack = [iter(body.nodes)]
        after: list[tuple[Block, Node]] = []
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                if after:
                    inner, group = after.pop()
                    self.values.update(zip(group.outputs, [self.values[value] for value in inner.returns], strict=True))
            elif node.op in GROUPS and len(node.blocks) == 1:
                (inner,) = node.blocks
                self.values.update(zip(inner.params, [self.values[value] for value in node.inputs], strict=True))
                after.append((inner, node))
                stack.append(iter(inner.nodes))
            else:
                self.node(node)

    def node(self, node: Node) -> None:
        operands = [self.values[value] for value in node.inputs]
        if node.op == "prim::Constant":
            self.values[node.output] = self.constant(self.library.constant(node))
        elif node.op in _TOGETHER:
            self.values[node.output] = _TOGETHER[node.op](*operands)
        elif node.op in UNPACKS:
            self.give(node.outputs, operands[0])
        else:
            found = self.call(node, operands)
            if len(node.outputs) == 1:
                self.values[node.output] = found
            else:
                self.give(node.outputs, found)

    def give(self, values: Sequence[Value], found: Any) -> None:
        """The parts of a list or tuple, known now or not."""
        known = isinstance(found, list | tuple)
        for place, value in enumerate(values):
            self.values[value] = found[place] if known else self.made.call_function(operator.getitem, (found, place))

    def call(self, node: Node, operands: Sequence[Any]) -> Any:
        schema = schema_of(node)
        space, _, name = node.op.partition("::")
        if schema is None or schema.is_vararg or node.blocks or space == "prim":
            raise self.stranger(node)
        try:
            overload = getattr(getattr(getattr(self.torch.ops, space), name), schema.overload or "default")
        except AttributeError:
            raise self.stranger(node) from None
        args, named = [], {}
        for argument, given in zip(schema.arguments, operands, strict=False):
            if isinstance(given, int) and argument.name in _NAMES:
                given = getattr(self.torch, _NAMES[argument.name][given])
            if argument.keyword_only:
                named[argument.name] = given
            else:
                args.append(given)
        return self.made.call_function(overload, tuple(args), named)

    def constant(self, held: Any) -> Any:
        """Tensors and other objects are attributes of the module; numbers, texts and lists of them stand in the call."""
        if not isinstance(held, self.torch.Tensor | self.torch.ScriptObject):
            return held
        name = f"held{len(self.held)}"
        self.held[name] = held
        return self.made.get_attr(name)

    def stranger(self, node: Node) -> ArgumentError:
        return ArgumentError(
            f"torch.fx has no form of {node.op}", where=repr(node), hint="pass the model itself: eager=model"
        )
