"""The emitter of graphs behind the frontends: typed nodes, one constant per open block, and a journal that can be taken back.

A result has the type that the importer states, or the one that the op's type rule returns for its operands. A rule of a frontend may find
half-way that an op of its source has no faithful meaning here. It then raises `Refused`, or returns nothing, and what it appended is taken
back to the mark that was set before, constants included: a constant whose node is gone must not be found again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from irscope._base.frozen import EMPTY
from irscope.errors import ArgumentError
from irscope.ir import ANY, FLOAT, INT, NONE, TENSOR, ListType, Location, Node, TensorData, TensorType, Type, Value, make_value
from irscope.ir.builder import BlockBuilder, GraphBuilder, payload_type
from irscope.ops.registry import op_of, schema_of
from irscope.ops.type_rules import DTYPE_CODES, SLIPS, Unknown

CODES: Final[Mapping[str, int]] = {name: code for code, name in DTYPE_CODES.items()}
"""The number that ops use for each element type."""

MOST_CIRCLE: Final = 32
"""Turns of a loop after which its numbers have to repeat: machine code has calls of their own for each of them."""

_EXACT: Final = frozenset({TensorData, int, bool, str, type(None)})
"""Payload types whose equal values are interchangeable; for floats and containers only the text distinguishes zeros and NaNs."""
_SIZES: Final = {"aten::reshape": 1, "aten::expand": 1, "aten::full": 0, "aten::zeros": 0, "aten::ones": 0}
"""Ops with an operand that holds the extents of their result, and that operand's index."""


class Refused(Exception):
    """Raised if an op, as it is used, has no faithful `aten::` meaning; the text says why."""


def refuse_if(holds: object, why: str) -> None:
    """Raises `Refused` if something holds."""
    if holds:
        raise Refused(why)


class Place(NamedTuple):
    """Where nodes come from: a line of the source, the name of their results, and the path of the scopes around them."""

    location: Location | None = None
    name: str = ""
    scope: str = ""


class Emitter:
    """The graph so far, the facts known about its values, and the place of the next nodes.

    >>> emit = Emitter("g")
    >>> x = emit.input("x", TensorType("float32", (2, 3)))
    >>> str(emit.op("sum", x, [1], True).type)
    'Float(2, 1)'
    """

    def __init__(self, name: str, constants_from: Callable[[], Place] = Place) -> None:
        self.build = GraphBuilder(name)
        self.place = Place()
        self.constants_from = constants_from
        """Returns the place of a new constant: none, unless the frontend has a line for it."""
        self.facts: dict[Value, Any] = {}
        """Known numbers and lists, which type rules receive."""
        self.known: dict[Value, np.ndarray[Any, Any]] = {}
        """The elements of constant tensors, as arrays that broadcast to them."""
        self.symbols: dict[Value, str] = {}
        """The symbols of extents that are integers of the graph."""
        self._constants: list[dict[object, Value]] = [{}]
        """One table per open block, innermost last: a constant in a branch is not visible after it."""
        self._journal: list[object] = []
        """Keys of the constants of the innermost block, in the order of their creation."""

    # Appending

    def input(self, name: str, type: Type) -> Value:
        """Add an input to the graph."""
        return self.build.input(name, type)

    def node(
        self, op: str, inputs: Sequence[Value], types: Sequence[Type], attrs: Mapping[str, Any] = EMPTY,
        blocks: Sequence[BlockBuilder] = (), *, names: Sequence[str] | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append a node of any op, whose results have these types, and these names, of which some may be missing, or that of the place."""
        location, name, scope = self.place
        names = [name] * len(types) if names is None else [*names, *[""] * len(types)][: len(types)]
        return self.build.node(op, inputs, types, blocks, names=names, attrs=attrs, location=location, scope=scope)

    def op(self, op: str, *operands: Any, type: Type | None = None) -> Value:
        """Append `aten::op` with one result. Operands are values and plain Python values; `type` overrides the rule."""
        return self.ops(op, 1, *operands, types=None if type is None else (type,))[0]

    def ops(self, op: str, count: int, *operands: Any, types: Sequence[Type] | None = None) -> tuple[Value, ...]:
        """Append a node with this many results."""
        name = op if "::" in op else f"aten::{op}"
        inputs = tuple([self.value(operand) for operand in operands])
        if types is not None:
            return self.node(name, inputs, types)
        inputs = self._with_defaults(name, inputs)
        types, facts = self._results(name, inputs, count)
        made = self.node(name, inputs, self._with_symbols(name, operands, types))
        for value, fact in zip(made, facts, strict=True):
            if isinstance(fact, bool | int | float | list | tuple):
                self.facts[value] = fact
        return made

    # Operands

    def value(self, operand: Any) -> Value:
        """Return an operand as a value; a plain Python value becomes a constant or a constructed list."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, list | tuple):
            return self.list(operand)
        return self.constant(operand)

    def list(self, items: Sequence[Any], element: Type | None = None) -> Value:
        """Return a list of values and numbers: a constant if all items are plain numbers."""
        if not any(isinstance(item, Value) for item in items):
            kind = ListType(element or (payload_type(items[0]) if items else INT))
            made = self.constant(tuple(items), kind)
            self.facts[made] = list(items)
            return made
        values = [self.value(item) for item in items]
        inside = element or (TENSOR if isinstance(values[0].type, TensorType) else values[0].type)
        (made,) = self.node("prim::ListConstruct", values, (ListType(inside),))
        self.facts[made] = [self.fact(value) for value in values]
        return made

    def constant(self, payload: Any, type: Type | None = None) -> Value:
        """Return a constant, one per block."""
        kind = payload_type(payload) if type is None else type
        key = (kind, payload.__class__, payload if payload.__class__ in _EXACT else repr(payload))
        for table in reversed(self._constants):
            found = table.get(key)
            if found is not None:
                return found
        location, name, scope = self.constants_from()
        made = self._constants[-1][key] = self.build.constant(payload, kind, name, location=location, scope=scope)
        self._journal.append(key)
        if not isinstance(payload, TensorData):
            self.facts[made] = payload
        elif payload.array is not None and payload.dtype != "bfloat16":
            self.known[made] = payload.array
        return made

    def fact(self, value: Value) -> Any:
        """Return what is known of a value: its type, or its number or list."""
        if isinstance(value.type, TensorType):
            return value.type
        if value.type == NONE:
            return None
        return self.facts.get(value, Unknown(value.type))

    # Blocks, and what is taken back

    @contextmanager
    def block(self, params: Sequence[tuple[str, Type]] = (), *, alone: bool = False) -> Iterator[BlockBuilder]:
        """Open a block with constants of its own; nodes are appended to it until the `with` ends. One that is `alone`, as a group's,
        does not see those around it."""
        outside, journal = (self._constants, self._journal)
        self._constants, self._journal = [*(() if alone else outside), {}], []
        try:
            with self.build.block(params) as made:
                yield made
        finally:
            self._constants, self._journal = outside, journal

    def mark(self) -> tuple[int, int]:
        """Return a position in the innermost block, for `take_back`."""
        return self.build.mark(), len(self._journal)

    def take_back(self, mark: tuple[int, int]) -> None:
        """Remove everything appended to the innermost block since the mark; it must not have users."""
        self.build.take_back(mark[0])
        for key in self._journal[mark[1] :]:
            del self._constants[-1][key]
        del self._journal[mark[1] :]

    def rename(self, mark: tuple[int, int], wanted: Mapping[Value, tuple[str, Type]]) -> dict[Value, Value]:
        """Rename and retype results of the nodes since the mark; returns the new values of those that changed."""
        nodes = self.build.take_back(mark[0])
        made = {value for node in nodes for value in node.outputs}
        new = {v: make_value(v.id, type, name) for v, (name, type) in wanted.items() if v in made}
        self.build.put_back([_renamed(node, new) for node in nodes] if new else nodes)
        for value, fresh in new.items():
            if value in self.facts:
                self.facts[fresh] = self.facts[value]
        for table in self._constants:
            table.update({key: new[value] for key, value in table.items() if value in new})
        return new

    # Types

    def _with_defaults(self, name: str, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the operands, followed by the defaults of omitted arguments, as TorchScript writes them."""
        schema = schema_of(Node(0, name, inputs))
        if schema is None or schema.is_vararg:
            return inputs
        return (*inputs, *(self.value(argument.default) for argument in schema.arguments[len(inputs) :]))

    def _results(self, name: str, inputs: tuple[Value, ...], count: int) -> tuple[Sequence[Type], Sequence[Any]]:
        """Return the types of the results and the facts about them, from the op's schema and type rule."""
        probe = Node(0, name, inputs)
        op, schema = op_of(probe), schema_of(probe)
        if op is None or schema is None:
            operands = ", ".join(str(value.type) for value in inputs)
            raise Refused(f"{name} does not take ({operands})")
        declared: list[Type] = [item.type for item in schema.returns]
        if len(declared) != count:
            declared = [ANY] * count
        if op.type_rule is None:
            return declared, (None,) * count
        given = [self.fact(value) for value in inputs]
        names = [argument.name for argument in schema.arguments]
        try:
            found = op.type_rule(*given) if schema.is_vararg else op.type_rule(**dict(zip(names, given, strict=False)))
        except ArgumentError as error:
            raise Refused(error.what) from None
        except SLIPS:  # less than the rule can handle: the result's type is left open
            return declared, (None,) * count
        facts = found if count != 1 else (found,)
        if isinstance(facts, Unknown) or len(facts) != count:
            return declared, (None,) * count
        return [_type(fact, type) for fact, type in zip(facts, declared, strict=True)], facts

    def _with_symbols(self, name: str, operands: Sequence[Any], types: Sequence[Type]) -> Sequence[Type]:
        """Fill in the symbols of extents that an operand holds, since type rules know only numbers."""
        place = _SIZES.get(name)
        sizes = operands[place] if place is not None else None
        made = types[0] if types else None
        if not isinstance(sizes, list | tuple) or not isinstance(made, TensorType) or made.rank != len(sizes):
            return types
        pairs = zip(made.shape or (), sizes, strict=True)
        shape = tuple(self.symbols.get(size) if dim is None and isinstance(size, Value) else dim for dim, size in pairs)
        return (made.with_(shape=shape),)


def _renamed(node: Node, new: Mapping[Value, Value]) -> Node:
    """Return the node over the new values; recursive over nested blocks, whose depth the importer limits."""
    inputs = tuple(new.get(value, value) for value in node.inputs)
    outputs = tuple(new.get(value, value) for value in node.outputs)
    blocks = tuple(
        replace(
            block, nodes=tuple(_renamed(inner, new) for inner in block.nodes),
            returns=tuple(new.get(value, value) for value in block.returns),
        )
        for block in node.blocks
    )  # fmt: skip
    return replace(node, inputs=inputs, outputs=outputs, blocks=blocks)


def _type(fact: Any, declared: Type) -> Type:
    """Return the type of a result without strides and device, which depend on the arguments'."""
    if isinstance(fact, TensorType):
        return fact.with_(strides=None, device=None)
    if isinstance(fact, bool | int | float):
        return payload_type(fact) if not (declared == FLOAT and isinstance(fact, int)) else FLOAT
    return declared
