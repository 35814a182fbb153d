"""Structural equality: two programs are the same except for names if a one-to-one map of values fits all definitions and uses.

Both are walked side by side in textual order (`SideBySide`, which dedup's relations `text`, `alpha` and `symbols` share). Each value
is mapped at its definition; each use must be mapped to the value that the other program uses there. Order matters, because
in-place ops make it part of the program. Names, ids, source locations, module paths and bound inputs do not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from irscope._base.frozen import EMPTY
from irscope._base.results import Verdict, no, yes
from irscope._base.words import plural
from irscope.errors import public
from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.module import graph_of
from irscope.ir.payload import TensorData
from irscope.ir.text import typed
from irscope.ir.types import Type, erase_refinements

Structural = Literal["parameters", "results", "nodes", "op", "blocks", "arity", "operand", "result"]
"""What may differ in structure: the counts of a block's parameters, results or nodes; a node's op, or the counts of its blocks, or of
its operands and results; the value that is an operand or a block's result."""


def inner_blocks(node: Node) -> tuple[Block, ...]:
    """Returns the blocks of a node, and the bodies of graphs among its attributes."""
    attrs = node.attrs
    graphs = [key for key in attrs if isinstance(attrs[key], Graph)] if attrs is not EMPTY else None
    return (*node.blocks, *(attrs[key].body for key in sorted(graphs))) if graphs else node.blocks


def free_values(node: Node) -> tuple[Value, ...]:
    """Returns the values that the blocks of a node read from outside it, in the order of first use."""
    blocks = list(node.blocks)
    own: set[Value] = set()
    order: dict[Value, None] = {}
    stack: list[tuple[Block, int]] = [(block, 0) for block in reversed(blocks)]
    while stack:
        block, start = stack.pop()
        if start == 0:
            own.update(block.params)
        for place in range(start, len(block.nodes)):
            inner = block.nodes[place]
            order.update((value, None) for value in inner.inputs if value not in own)
            own.update(inner.outputs)
            if inner.blocks:
                stack.append((block, place + 1))
                stack.extend((nested, 0) for nested in reversed(inner.blocks))
                break
        else:
            order.update((value, None) for value in block.returns if value not in own)
    return tuple(order)


class SideBySide:
    """A walk over two programs, node by node, up to the first difference of structure.

    A subclass says what is done with a difference, and which types and attributes are the same. Values from outside correspond
    from their first use on.
    """

    def __init__(self) -> None:
        self.partner: dict[Value, Value] = {}
        self.nodes: dict[Node, Node] = {}
        self.blocks: dict[Block, Block] = {}
        self._back: dict[Value, Value] = {}

    def stop(self, kind: Structural, one: Any, other: Any, place: int = 0) -> None:
        """Record a difference of structure between two nodes or blocks; `place` is that of an operand or result."""
        raise NotImplementedError

    def same_types(self, x: Value, y: Value, what: str, place: int) -> bool:
        """Whether the walk goes on, given the types of two values: each is a `what`, the one at this place."""
        raise NotImplementedError

    def same_attributes(self, one: Node, other: Node) -> bool:
        """Whether the walk goes on, given the attributes of two nodes."""
        raise NotImplementedError

    def walk(self, left: Block, right: Block) -> bool:
        """Compare two blocks, and return whether all nodes and values correspond."""
        pending: list[tuple[Block, Block, int]] = [(left, right, -1)]
        while pending:
            a, b, at = pending.pop()
            if at < 0 and not self._open(a, b):
                return False
            for place in range(at + 1, len(a.nodes)):
                one, other = a.nodes[place], b.nodes[place]
                if not self.node(one, other):
                    return False
                inner = inner_blocks(one)
                if inner:
                    pending.append((a, b, place))
                    pending += [(x, y, -1) for x, y in zip(reversed(inner), reversed(inner_blocks(other)), strict=True)]
                    break
            else:
                if not self._read(a.returns, b.returns, "result", a, b):
                    return False
        return True

    def _open(self, a: Block, b: Block) -> bool:
        """Begin two blocks: compare the numbers of parameters, results and nodes, and pair the parameters."""
        self.blocks[a] = b
        counts: tuple[tuple[Structural, int, int], ...] = (
            ("parameters", len(a.params), len(b.params)), ("results", len(a.returns), len(b.returns)),
            ("nodes", len(a.nodes), len(b.nodes)),
        )  # fmt: skip
        for kind, ours, theirs in counts:
            if ours != theirs:
                return self._differs(kind, a, b)
        pairs = enumerate(zip(a.params, b.params, strict=True))
        return all(self._define(x, y, "parameter", place) for place, (x, y) in pairs)

    def node(self, one: Node, other: Node) -> bool:
        """Pair two nodes, and return whether they are the same apart from their blocks."""
        if one.op != other.op:
            return self._differs("op", one, other)
        if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
            return self._differs("arity", one, other)
        if len(inner_blocks(one)) != len(inner_blocks(other)):
            return self._differs("blocks", one, other)
        if not self._read(one.inputs, other.inputs, "operand", one, other):
            return False
        self.nodes[one] = other
        if not self.same_attributes(one, other):
            return False
        pairs = enumerate(zip(one.outputs, other.outputs, strict=True))
        return all(self._define(x, y, f"result of {one.op}", place) for place, (x, y) in pairs)

    def _define(self, x: Value, y: Value, what: str, place: int) -> bool:
        self.partner[x], self._back[y] = y, x
        return self.same_types(x, y, what, place)

    def _read(
        self, xs: Sequence[Value], ys: Sequence[Value], kind: Literal["operand", "result"], one: Node | Block, other: Node | Block
    ) -> bool:
        partner, back = self.partner, self._back
        for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if x not in partner and y not in back and not self._define(x, y, "value from outside", place):
                return False
            if partner.get(x) is not y or back.get(y) is not x:
                return self._differs(kind, one, other, place)
        return True

    def _differs(self, kind: Structural, one: Node | Block, other: Node | Block, place: int = 0) -> bool:
        self.stop(kind, one, other, place)
        return False


def first_unlike(a: Block, b: Block) -> int | None:
    """Returns the place of the first nodes of two blocks with different ops; None where one block only goes on."""
    return next((place for place, (x, y) in enumerate(zip(a.nodes, b.nodes, strict=False)) if x.op != y.op), None)


@public
def same_structure(a: Graph, b: Graph, *, types: bool = True, elements: bool = True) -> Verdict:
    """Whether two programs differ in names alone; the witness of a difference is the pair of nodes, values or blocks.

    `types=False` ignores the refinements of tensor types. A constant of which only the size is
    known (`<Tensor>`) is the same only as itself, unless `elements=False` ignores the elements of
    constant tensors.

    >>> from irscope.ir.text.parser import parse
    >>> a = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> b = parse("graph(%p : Tensor):\\n  %q : Tensor = aten::relu(%p)\\n  return (%q)")
    >>> c = parse("graph(%p : Tensor):\\n  %q : Tensor = aten::relu(%p)\\n  return (%p)")
    >>> print(same_structure(a, b))
    the same: 1 node and 2 values correspond one to one
    >>> print(same_structure(a, c))
    not the same: result 0 is %y in one and %p in the other
    """
    a, b = graph_of(a, "same_structure"), graph_of(b, "same_structure")
    walk = _Comparison(a, b, types, elements)
    if walk.walk(a.body, b.body):
        return yes(f"{plural(walk.count, 'node')} and {plural(len(walk.partner), 'value')} correspond one to one").in_words("the same", "")
    assert walk.verdict is not None
    return walk.verdict.in_words("", "not the same")


class _Comparison(SideBySide):
    """The walk that stops at any difference, and says which."""

    def __init__(self, a: Graph, b: Graph, types: bool, elements: bool) -> None:
        super().__init__()
        self.a, self.b = a, b
        self.types, self.elements = types, elements
        self.count = 0
        self.verdict: Verdict | None = None
        self.equal_types: set[tuple[int, int]] = set()
        """Pairs of type objects, by identity, that were found equal."""

    def node(self, one: Node, other: Node) -> bool:
        self.count += 1
        if one is other and not inner_blocks(one) and all(self.partner.get(value) is value for value in one.inputs):
            for value in one.outputs:
                self.partner[value] = self._back[value] = value
            return True
        return super().node(one, other)

    def stop(self, kind: Structural, one: Any, other: Any, place: int = 0) -> None:
        both = "in one and {} in the other"
        subjects = one, other
        match kind:
            case "parameters" | "results":
                ours, theirs = (len(block.params if kind == "parameters" else block.returns) for block in subjects)
                what = f"a block has {ours} {kind} {both.format(theirs)}"
            case "nodes":
                what = f"a block has {plural(len(one.nodes), 'node')} {both.format(len(other.nodes))}"
                at = first_unlike(one, other)
                if at is not None:
                    subjects = one.nodes[at], other.nodes[at]
                    what += f"; the first that differ are {subjects[0].op} and {subjects[1].op}"
            case "op":
                what = f"node {self.count - 1} is {one.op} {both.format(other.op)}"
            case "blocks":
                what = f"{one.op} has {len(inner_blocks(one))} blocks {both.format(len(inner_blocks(other)))}"
            case "arity":
                what = f"{one.op} has another number of operands or results in the other"
            case "operand" | "result":
                x, y = ((each.inputs if kind == "operand" else each.returns)[place] for each in subjects)
                names = f"%{self.a.names.get(x, x.name)} {both.format('%' + (self.b.names.get(y, y.name) or ''))}"
                what = f"operand of {one.op}, number {place}, is {names}" if kind == "operand" else f"result {place} is {names}"
        self.verdict = no(what, *subjects)

    def same_types(self, x: Value, y: Value, what: str, place: int) -> bool:
        if x.type is y.type or self._same_type(x.type, y.type):
            return True
        self.verdict = no(f"a {what} is of type {x.type} in one and {y.type} in the other", x, y)
        return False

    def _same_type(self, x: Type, y: Type) -> bool:
        key = (id(x), id(y))
        if key in self.equal_types:
            return True
        x, y = (x, y) if self.types else (erase_refinements(x), erase_refinements(y))
        same = x == y or str(x) == str(y)  # types that print the same are the same: `Float()` with strides unknown or none
        if same:
            self.equal_types.add(key)
        return same

    def same_attributes(self, one: Node, other: Node) -> bool:
        if one.attrs is other.attrs:
            return True
        if one.attrs.keys() != other.attrs.keys():
            keys = f"{sorted(one.attrs)} and {sorted(other.attrs)}"
            self.verdict = no(f"{one.op} has other attributes in the other: {keys}", one, other)
            return False
        types = tuple(node.outputs[0].type if len(node.outputs) == 1 else None for node in (one, other))
        for key, x in one.attrs.items():
            y = other.attrs[key]
            if isinstance(x, Graph) and isinstance(y, Graph):
                continue  # their bodies are compared with the blocks
            if key == "value":
                x, y = typed(x, types[0]), typed(y, types[1])
            if not same_payload(x, y, elements=self.elements):
                self.verdict = no(f"the attribute {key!r} of {one.op} differs", one, other)
                return False
        return True


def same_payload(x: Any, y: Any, *, elements: bool = True) -> bool:
    """Whether two constants are the same bits: `1` is not `1.0` nor `True`, `0.0` is not `-0.0`, and `nan` is `nan`.

    >>> same_payload((1, float("nan")), (1, float("nan"))), same_payload(1, True)
    (True, False)
    """
    if x is y:
        return True
    if isinstance(x, TensorData) and isinstance(y, TensorData):
        if not elements:
            return (x.dtype, x.shape, x.device) == (y.dtype, y.shape, y.device)
        return x == y or _same_but_nan_bits(x, y)
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return np.float64(x).tobytes() == np.float64(y).tobytes() or (x != x and y != y)
    if isinstance(x, complex):
        return same_payload(x.real, y.real) and same_payload(x.imag, y.imag)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(same_payload(p, q, elements=elements) for p, q in zip(x, y, strict=True))
    if isinstance(x, Mapping):
        return list(x) == list(y) and all(same_payload(x[key], y[key], elements=elements) for key in x)
    return bool(x == y)


def _same_but_nan_bits(x: TensorData, y: TensorData) -> bool:
    """Whether two float tensors have the same bits wherever they are not both NaN."""
    if x.array is None or y.array is None or (x.dtype, x.shape, x.device) != (y.dtype, y.shape, y.device):
        return False
    if x.array.dtype.kind not in "fc":
        return False
    kind = x.array.real.dtype
    one, other = (np.ascontiguousarray(array).reshape(-1).view(kind) for array in (x.array, y.array))
    both = np.isnan(one) & np.isnan(other)
    return np.where(both, 0, one).tobytes() == np.where(both, 0, other).tobytes()
