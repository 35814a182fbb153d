"""Builds a graph from Python, node by node in execution order.

>>> from irscope.ir.builder import GraphBuilder
>>> b = GraphBuilder()
>>> x = b.input("x")
>>> y = b.op("aten::relu", x, name="y")
>>> print(b.finish([y]))
graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  return (%y)
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir.core import Block, Graph, Location, Module, Node, Symbol, Value, make_node, make_value, new_id, reads_of
from irscope.ir.payload import argument_type
from irscope.ir.types import DEVICE, INT, TENSOR, ListType, TensorType, Type


class BlockBuilder:
    """One open block: its parameters, the nodes so far, and its returned values."""

    def __init__(self, params: tuple[Value, ...]) -> None:
        self.params = params
        self._nodes: list[Node] = []
        self._returns: tuple[Value, ...] = ()

    def returns(self, values: Sequence[Value]) -> None:
        """Set the values that the block returns; call it last."""
        self._returns = tuple(values)

    def freeze(self) -> Block:
        """The finished block."""
        return Block(new_id(), self.params, tuple(self._nodes), self._returns)


class GraphBuilder:
    """Appends nodes to the innermost open block; `finish` returns the frozen graph."""

    def __init__(self, name: str = "graph") -> None:
        self._name = name
        self._inputs: list[Value] = []
        self._open: list[BlockBuilder] = [BlockBuilder(())]

    def input(self, name: str, type: Type = TENSOR) -> Value:
        """Add an input to the graph."""
        value = make_value(new_id(), type, name)
        self._inputs.append(value)
        return value

    def node(
        self, op: str, inputs: Sequence[Value], types: Sequence[Type], blocks: Sequence[BlockBuilder | Block] = (), *,
        names: Sequence[str] = (), attrs: Mapping[str, Any] | None = None, location: Location | None = None, scope: str = "",
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append a node with one output per type, and with blocks (`prim::If`, `prim::Loop`, a group); returns its outputs."""
        names = names or [""] * len(types)
        outputs = tuple(make_value(new_id(), type, name) for type, name in zip(types, names, strict=True))
        bodies = tuple(block.freeze() if isinstance(block, BlockBuilder) else block for block in blocks)
        frozen = attrs if isinstance(attrs, FrozenDict) else FrozenDict(attrs) if attrs else EMPTY
        self._open[-1]._nodes.append(make_node(new_id(), op, tuple(inputs), outputs, frozen, bodies, location, scope))
        return outputs

    def op(self, op: str, *inputs: Value, type: Type = TENSOR, name: str = "", attrs: Mapping[str, Any] | None = None) -> Value:
        """Append a node with one output; returns that output."""
        (value,) = self.node(op, inputs, (type,), names=(name,), attrs=attrs)
        return value

    def constant(
        self, payload: Any, type: Type | None = None, name: str = "", *, location: Location | None = None, scope: str = ""
    ) -> Value:
        """Append a `prim::Constant`; the type follows from a plain Python payload."""
        type = payload_type(payload) if type is None else type
        if isinstance(payload, list):
            payload = tuple(payload)
        attrs = EMPTY if payload is None else FrozenDict(value=int(payload) if isinstance(payload, bool) else payload)
        (value,) = self.node("prim::Constant", (), (type,), names=(name,), attrs=attrs, location=location, scope=scope)
        return value

    @contextmanager
    def block(self, params: Sequence[tuple[str, Type]] = ()) -> Iterator[BlockBuilder]:
        """Open a block: nodes go into it until the `with` ends; then hand it to `node`."""
        inner = BlockBuilder(tuple(make_value(new_id(), type, name) for name, type in params))
        self._open.append(inner)
        try:
            yield inner
        finally:
            self._open.pop()

    def mark(self) -> int:
        """The current position in the innermost open block, for `take_back`."""
        return len(self._open[-1]._nodes)

    def since(self, mark: int) -> tuple[Node, ...]:
        """The nodes that were appended to the innermost open block since the mark."""
        return tuple(self._open[-1]._nodes[mark:])

    def take_back(self, mark: int) -> list[Node]:
        """Remove and return the nodes that were appended to the innermost open block since the mark."""
        nodes = self._open[-1]._nodes
        taken = nodes[mark:]
        del nodes[mark:]
        return taken

    def put_back(self, nodes: Sequence[Node]) -> None:
        """Append nodes that were taken back, or their replacements, to the innermost open block."""
        self._open[-1]._nodes.extend(nodes)

    def drop_unread(self, block: BlockBuilder, ops: Set[str]) -> None:
        """Remove the nodes of these ops, which must be pure, that nothing in a finished block reads."""
        read, kept = set(block._returns), list[Node]()
        for node in reversed(block._nodes):
            if node.op in ops and read.isdisjoint(node.outputs):
                continue
            kept.append(node)
            read.update(reads_of(node))
        block._nodes[:] = reversed(kept)

    def finish(self, outputs: Sequence[Value], *, bound: Mapping[Value, Any] | None = None) -> Graph:
        """The frozen graph."""
        assert len(self._open) == 1, "a block is still open"
        body = Block(new_id(), tuple(self._inputs), tuple(self._open[0]._nodes), tuple(outputs))
        return Graph(body, self._name, dict(bound or {}))


def payload_type(payload: Any) -> Type:
    """The type of a plain Python constant.

    >>> str(payload_type([1, 2]))
    'int[]'
    """
    if payload is None or isinstance(payload, bool | int | float | complex | str):
        return argument_type(payload)
    if isinstance(payload, list | tuple):
        return ListType(payload_type(payload[0]) if payload else INT)
    dtype = getattr(payload, "dtype", None)
    if dtype is not None and hasattr(payload, "shape"):
        return TensorType(str(dtype).removeprefix("torch."), tuple(payload.shape))
    return DEVICE if type(payload).__name__ == "device" else TENSOR


class ModuleBuilder:
    """A module of which not all parts are known yet."""

    def __init__(self, name: str, attrs: Mapping[str, Any]) -> None:
        self.name, self.attrs = name, attrs
        self.graphs: dict[str, Graph] = {}
        self.constants: dict[str, Any] = {}
        self.modules: dict[str, Module] = {}
        self.symbols: list[Symbol] = []

    def finish(self) -> Module:
        return Module(self.graphs, self.constants, self.name, self.modules, tuple(self.symbols), self.attrs)
