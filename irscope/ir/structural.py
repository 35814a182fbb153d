"""Structural equality: two programs are the same except for names if a one-to-one map of values fits all definitions and uses.

Both are walked side by side in textual order. Each value is mapped at its definition; each use
must be mapped to the value that the other program uses there. Order matters, because in-place ops make it part of the program.
Names, ids, source locations, module paths and bound inputs do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from irscope._base.verdict import Verdict, no, yes
from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.payload import TensorData
from irscope.ir.text import typed
from irscope.ir.types import Type, erase_refinements

__all__ = ["same_payload", "same_structure"]


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
    yes, because 1 node and 2 values correspond one to one
    >>> print(same_structure(a, c))
    no, because result 0 is %y in one and %p in the other
    """
    return _Comparison(a, b, types, elements).verdict()


class _Comparison:
    """Compares two programs side by side, with the map of values so far."""

    def __init__(self, a: Graph, b: Graph, types: bool, elements: bool) -> None:
        self.a, self.b = a, b
        self.types, self.elements = types, elements
        self.image: dict[Value, Value] = {}
        self.nodes = 0
        self.equal_types: set[tuple[int, int]] = set()
        """Pairs of type objects, by identity, that were found equal."""

    def verdict(self) -> Verdict:
        stack: list[tuple[Block, Block, int]] = [(self.a.body, self.b.body, -1)]
        while stack:
            left, right, at = stack.pop()
            if at < 0:
                different = self.sizes(left, right)
                if different is None:
                    different = self.define(left.params, right.params, "parameter")
                if different is not None:
                    return different
            for index in range(at + 1, len(left.nodes)):
                one, other = left.nodes[index], right.nodes[index]
                different = self.node(one, other)
                if different is not None:
                    return different
                if one.blocks:
                    stack.append((left, right, index))
                    stack += [(x, y, -1) for x, y in zip(reversed(one.blocks), reversed(other.blocks), strict=True)]
                    break
            else:
                different = self.uses(left.returns, right.returns, "result ", left, right)
                if different is not None:
                    return different
        return yes(f"{_count(self.nodes, 'node')} and {_count(len(self.image), 'value')} correspond one to one")

    def sizes(self, left: Block, right: Block) -> Verdict | None:
        for what, x, y in (
            ("parameters", len(left.params), len(right.params)), ("results", len(left.returns), len(right.returns)),
        ):
            if x != y:
                return no(f"a block has {x} {what} in one and {y} in the other", left, right)
        if len(left.nodes) != len(right.nodes):
            counts = f"a block has {len(left.nodes)} nodes in one and {len(right.nodes)} in the other"
            for one, other in zip(left.nodes, right.nodes, strict=False):
                if one.op != other.op:
                    return no(f"{counts}; the first that differ are {one.op} and {other.op}", one, other)
            return no(counts, left, right)
        return None

    def node(self, one: Node, other: Node) -> Verdict | None:
        self.nodes += 1
        if one is other and not one.blocks and all(self.image.get(value) is value for value in one.inputs):
            self.image.update(zip(one.outputs, one.outputs, strict=True))
            return None
        if one.op != other.op:
            return no(f"node {self.nodes - 1} is {one.op} in one and {other.op} in the other", one, other)
        if len(one.blocks) != len(other.blocks):
            return no(f"{one.op} has {len(one.blocks)} blocks in one and {len(other.blocks)} in the other", one, other)
        if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
            return no(f"{one.op} has another number of operands or results in the other", one, other)
        different = self.uses(one.inputs, other.inputs, f"operand of {one.op}, number ", one, other)
        if different is None:  # a negative verdict is falsy: `or` would skip it
            different = self.attributes(one, other)
        if different is None:
            different = self.define(one.outputs, other.outputs, f"result of {one.op}")
        return different

    def uses(self, xs: tuple[Value, ...], ys: tuple[Value, ...], what: str, *subjects: Node | Block) -> Verdict | None:
        image = self.image
        for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if image.get(x) is not y:
                names = f"%{self.a.names.get(x, x.name)} in one and %{self.b.names.get(y, y.name)} in the other"
                return no(f"{what}{index}{',' if ',' in what else ''} is {names}", *subjects)
        return None

    def define(self, xs: tuple[Value, ...], ys: tuple[Value, ...], what: str) -> Verdict | None:
        for x, y in zip(xs, ys, strict=True):
            if x.type is not y.type and not self.same_type(x.type, y.type):
                return no(f"a {what} is of type {x.type} in one and {y.type} in the other", x, y)
            self.image[x] = y
        return None

    def same_type(self, x: Type, y: Type) -> bool:
        key = (id(x), id(y))
        if key in self.equal_types:
            return True
        x, y = (x, y) if self.types else (erase_refinements(x), erase_refinements(y))
        same = x == y or str(x) == str(y)  # types that print the same are the same: `Float()` with strides unknown or none
        if same:
            self.equal_types.add(key)
        return same

    def attributes(self, one: Node, other: Node) -> Verdict | None:
        if one.attrs is other.attrs:
            return None
        if one.attrs.keys() != other.attrs.keys():
            keys = f"{sorted(one.attrs)} and {sorted(other.attrs)}"
            return no(f"{one.op} has other attributes in the other: {keys}", one, other)
        types = tuple(node.outputs[0].type if len(node.outputs) == 1 else None for node in (one, other))
        for key, x in one.attrs.items():
            y = other.attrs[key]
            if key == "value":
                x, y = typed(x, types[0]), typed(y, types[1])
            if not same_payload(x, y, elements=self.elements):
                return no(f"the attribute {key!r} of {one.op} differs", one, other)
        return None


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
