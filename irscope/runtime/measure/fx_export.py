"""The export of a graph to a torch.fx module for torch.compile: torch's own competitor where only the graph is available.

Each node becomes a call of the overload that it means; fusion groups are inlined, bound values become constants. Nodes whose
blocks run depending on values (an `if`, a loop), and ops unknown to torch's dispatcher, cannot be exported.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.frontends.torch.capture import CAPTURE_LOCK
from irscope.ir import GROUPS, Graph, Node
from irscope.ops.registry import schema_of
from irscope.ops.traits import UNPACKS
from irscope.ops.type_rules import DTYPE_CODES
from irscope.runtime.arrays import TorchLibrary
from irscope.runtime.program import as_torch, flatten

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
    for node in graph.nodes():
        if node.blocks and node.op not in GROUPS:
            raise _unsupported(node)
    library = _FxLibrary()
    given = {value: library.made.placeholder(f"x{value.id}") for value in graph.free_inputs}
    bound = {value: library.hold(as_torch(held)) for value, held in graph.bound.items()}
    code = flatten(graph.body, library, bound=bound)
    slots = code.template.copy()
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else given[value]
    code.run(slots)
    results = [slots[slot] for slot in code.outputs]
    library.made.output(results[0] if len(results) == 1 else tuple(results))
    module: Callable[..., Any] = library.torch.fx.GraphModule(library.held, library.made)
    return module


class _FxLibrary(TorchLibrary):
    """Writes each call of a run into a `torch.fx.Graph`, whose nodes are the values."""

    def __init__(self) -> None:
        super().__init__()
        self.made = self.torch.fx.Graph()
        self.held: dict[str, Any] = {}
        """Attributes of the module."""

    def constant(self, node: Node) -> Any:
        return self.hold(super().constant(node))

    def hold(self, held: Any) -> Any:
        """Returns tensors and other objects as attributes of the module; numbers, texts and lists of them as literals."""
        if not isinstance(held, self.torch.Tensor | self.torch.ScriptObject):
            return held
        name = f"held{len(self.held)}"
        self.held[name] = held
        return self.made.get_attr(name)

    def function(self, node: Node) -> Callable[..., Any]:
        count = len(node.outputs)
        if node.op in _TOGETHER:
            return _TOGETHER[node.op]
        if node.op in UNPACKS:
            return lambda found: self._parts(found, count)
        schema = schema_of(node)
        space, _, name = node.op.partition("::")
        if schema is None or schema.is_vararg or node.blocks or space == "prim":
            raise _unsupported(node)
        try:
            overload = getattr(getattr(getattr(self.torch.ops, space), name), schema.overload or "default")
        except AttributeError:
            raise _unsupported(node) from None

        def call(*operands: Any) -> Any:
            args, named = [], {}
            for argument, given in zip(schema.arguments, operands, strict=False):
                if isinstance(given, int) and argument.name in _NAMES:
                    given = getattr(self.torch, _NAMES[argument.name][given])
                if argument.keyword_only:
                    named[argument.name] = given
                else:
                    args.append(given)
            found = self.made.call_function(overload, tuple(args), named)
            return found if count == 1 else self._parts(found, count)

        return call

    def _parts(self, found: Any, count: int) -> Any:
        """Returns the items of a list or tuple, whether known now or only at run time; a single one as it is."""
        is_known = isinstance(found, list | tuple)
        parts = [found[place] if is_known else self.made.call_function(operator.getitem, (found, place)) for place in range(count)]
        return parts[0] if count == 1 else parts


def _unsupported(node: Node) -> ArgumentError:
    return ArgumentError(f"{node.op} cannot be expressed in torch.fx", where=repr(node), hint="pass the model itself: eager=model")
