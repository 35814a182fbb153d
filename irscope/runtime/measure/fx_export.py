"""The export of a graph to a torch.fx module for torch.compile: torch's own competitor where only the graph is available.

Each node becomes a call of the overload that it means; fusion groups are inlined, bound values become constants. Nodes whose
blocks run depending on values (an `if`, a loop), and ops unknown to torch's dispatcher, cannot be exported.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.frontends.torch.capture import CAPTURE_LOCK
from irscope.ir import GROUPS, Block, Graph, Node, Value
from irscope.ops.registry import schema_of
from irscope.ops.traits import UNPACKS
from irscope.ops.type_rules import DTYPE_CODES
from irscope.runtime.arrays import TorchLibrary
from irscope.runtime.program import as_torch

PEERS: Final = ("torch", "torch.compile")
"""The names of competitors that are built from a graph."""

_TOGETHER: Final[dict[str, Callable[..., Any]]] = {
    "prim::ListConstruct": lambda *items: list(items),
    "prim::TupleConstruct": lambda *items: items,
}
_NAMES: Final[dict[str, Mapping[int, str]]] = {
    "dtype": DTYPE_CODES,
    "layout": {0: "strided"},
    "memory_format": dict(enumerate(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"))),
}
"""The names of torch's objects behind their numbers in IR, by the arguments that take them."""


def torch_peer(name: str, graph: Graph, model: Callable[..., Any] | None) -> Callable[..., Any]:
    """Returns the competitor of this name: the model itself if there is one, or else the graph, as it is or compiled.

    Raises ArgumentError for an unknown name. A competitor that cannot be built raises when it is called.
    """
    if name not in PEERS:
        raise ArgumentError(
            f"{name!r} is not the name of a competitor", hint=f"{', '.join(PEERS)} are; others are functions: peers={{{name!r}: function}}"
        )
    made: list[Callable[..., Any]] = []

    def first(*args: Any) -> Any:
        import torch

        plain = model or torch_function(graph)
        made.append(torch.compile(plain, dynamic=False) if name == "torch.compile" else plain)
        return made[0](*args)

    def run(*args: Any) -> Any:
        given = [*map(as_torch, args)]
        if made:
            return made[0](*given)
        with CAPTURE_LOCK:
            return first(*given)

    return run


def torch_function(graph: Graph) -> Callable[..., Any]:
    """Returns the program as a `torch.fx.GraphModule`. Raises ArgumentError, with the node, if it cannot be exported."""
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
            self.values[value] = self.constant(as_torch(self.graph.bound[value])) if bound else self.made.placeholder(f"x{value.id}")
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
        """Assigns the items of a list or tuple, whether known now or only at run time."""
        known = isinstance(found, list | tuple)
        for place, value in enumerate(values):
            self.values[value] = found[place] if known else self.made.call_function(operator.getitem, (found, place))

    def call(self, node: Node, operands: Sequence[Any]) -> Any:
        schema = schema_of(node)
        space, _, name = node.op.partition("::")
        if schema is None or schema.is_vararg or node.blocks or space == "prim":
            raise self.unsupported(node)
        try:
            overload = getattr(getattr(getattr(self.torch.ops, space), name), schema.overload or "default")
        except AttributeError:
            raise self.unsupported(node) from None
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
        """Returns tensors and other objects as attributes of the module; numbers, texts and lists of them as literals."""
        if not isinstance(held, self.torch.Tensor | self.torch.ScriptObject):
            return held
        name = f"held{len(self.held)}"
        self.held[name] = held
        return self.made.get_attr(name)

    def unsupported(self, node: Node) -> ArgumentError:
        return ArgumentError(f"{node.op} cannot be expressed in torch.fx", where=repr(node), hint="pass the model itself: eager=model")
