"""`linalg` on tensors: a nest of loops whose body computes one element, as ops on whole tensors.

Each operand is brought into the space of the loops: its dimensions in their order, extent 1 where it has none. Then the
body's ops are those of whole tensors that broadcast. Where loops reduce, the body must join one value to the result so
far (a sum, a product, an extreme), and that value is reduced. A product of two operands that is summed is an `einsum`.
Operands are reached by permutations of loops only: a convolution's `d0 * 2 + d3` stays a loop nest, and so does
everything on memory (`memref`) and inside of executables, which are to be compared as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope._base.trampoline import Call
from irscope.frontends.mlir.emit import dtype_of, shape_of
from irscope.frontends.mlir.meaning.reductions import combined, is_identity, is_reducible, reduced
from irscope.frontends.mlir.meaning.shaping import permuted, reshaped, spread
from irscope.frontends.mlir.operation import Operation
from irscope.frontends.mlir.reader import BlockReader
from irscope.ir import TensorType, Value

__all__ = ["LOOP_NESTS"]

_JOINS: Final = {
    "arith.addf": "add", "arith.addi": "add", "arith.mulf": "mul", "arith.muli": "mul", "arith.maximumf": "max",
    "arith.minimumf": "min", "arith.maxsi": "max", "arith.minsi": "min", "arith.andi": "and", "arith.ori": "or",
}  # fmt: skip
_NAMED: Final = (
    "generic", "matmul", "batch_matmul", "matvec", "vecmat", "dot", "add", "sub", "mul", "div", "exp", "log", "abs", "ceil",
    "floor", "negf", "tanh", "sqrt", "rsqrt", "square", "max", "min", "powf", "select", "reciprocal", "erf", "contract",
    "elementwise",
)  # fmt: skip


class _Nest:
    """One op: its loops and how each operand lies in them."""

    def __init__(self, reader: BlockReader, operation: Any) -> None:
        self.reader = reader
        self.e = reader.e
        self.block = operation.regions[0].blocks[0]
        self.operands = reader.operands(operation)
        self.outputs = len(operation.results)
        self.maps = [_dims(str(attribute)) for attribute in operation.attributes["indexing_maps"]]
        types = operation.attributes.get("iterator_types")
        named = [str(kind) for kind in types] if types is not None else []
        self.reduces = [axis for axis, kind in enumerate(named) if "parallel" not in kind]
        self.extents = self._extents()

    def _extents(self) -> list[int] | None:
        """The extent of each loop; None where an operand is reached otherwise, or is no tensor of known extents."""
        found: dict[int, int] = {}
        for value, dims in zip(self.operands, self.maps, strict=True):
            shape = shape_of(value)
            if shape is None or dims is None or not dtype_of(value) or len(set(dims)) != len(dims):
                return None
            found.update(zip(dims, shape, strict=True))
        return [found[axis] for axis in range(len(found))] if sorted(found) == list(range(len(found))) else None

    def in_loops(self, value: Value, dims: Sequence[int]) -> Value:
        """An operand with the loops as its dimensions."""
        order = sorted(range(len(dims)), key=lambda place: dims[place])
        assert self.extents is not None  # the caller looked
        return reshaped(self.e, permuted(self.e, value, order), [
            extent if axis in dims else 1 for axis, extent in enumerate(self.extents)
        ])

    def run(self) -> list[Value] | None:
        """The results; None where the body or the loops have no counterpart."""
        if self.extents is None or 0 in self.extents or self.e.place is None:
            return None
        if not self.reduces:
            self.reduces = self._implied_reductions()
        if self.reduces:
            return self._contraction() or self._reduction()
        made = self._elements(self.block.operations)
        return None if made is None else [self._out(value, place) for place, value in enumerate(made)]

    def _implied_reductions(self) -> list[int]:
        """Loops that no result has, where the op does not say which of its loops reduce."""
        dims = {axis for made in self.maps[-self.outputs :] for axis in made or ()}
        return [axis for axis in range(len(self.extents or ())) if axis not in dims]

    def _out(self, value: Value, place: int) -> Value:
        """A value in the space of the loops as the result it is."""
        dims = self.maps[len(self.maps) - self.outputs + place]
        assert dims is not None and self.extents is not None  # the caller looked
        full = spread(self.e, reshaped(self.e, value, self._lifted(value)), self.extents)
        kept = [axis for axis in range(len(self.extents)) if axis in dims]
        return permuted(self.e, full, [kept.index(axis) for axis in dims])

    def _lifted(self, value: Value) -> list[int]:
        shape = shape_of(value) or ()
        return [*([1] * (len(self.extents or ()) - len(shape))), *shape]

    def _elements(self, operations: Any) -> list[Value] | None:
        """The body's ops but the last, on whole tensors; gives what the last one gives."""
        values: dict[Any, Value] = {}
        for argument, value, dims in zip(self.block.arguments, self.operands, self.maps, strict=True):
            assert dims is not None  # looked at before
            values[argument] = self.in_loops(value, dims)
        *body, end = [op.operation for op in operations]
        for op in body:
            rule = self.reader.reading.meanings.get(op.name)
            operands = [values.get(operand, self.reader.values.get(operand)) for operand in op.operands]
            known = [operand for operand in operands if operand is not None]
            if rule is None or len(known) != len(operands) or len(op.regions):
                return None
            types = [self._type(result, known) for result in op.results]
            made = rule(Operation(op.name, op, known, types, self.e, self.reader.reading))
            if made is None:
                return None
            values.update(zip(op.results, (made,) if isinstance(made, Value) else made, strict=True))
        given = [values.get(operand, self.reader.values.get(operand)) for operand in end.operands]
        return None if any(value is None for value in given) else [value for value in given if value is not None]

    def _type(self, result: Any, operands: Sequence[Value]) -> Any:
        """The type of an op of one element, for the tensors that it is given."""
        type = self.reader.reading.types(result.type)
        shapes = [shape_of(operand) or () for operand in operands]
        longest = max(map(len, shapes), default=0)
        if not isinstance(type, TensorType) or longest == 0:
            return type
        rows = [[1] * (longest - len(shape)) + list(shape) for shape in shapes]
        return TensorType(type.dtype, tuple(max(column) for column in zip(*rows, strict=True)))

    def _joined(self) -> tuple[str, int] | None:
        """What the body's last op joins to the result so far, and by which of its operands."""
        operations = [op.operation for op in self.block.operations]
        if self.outputs != 1 or len(operations) < 2:
            return None
        *_, last, end = operations
        so_far = self.block.arguments[len(self.block.arguments) - 1]
        readings = sum(operand == so_far for op in operations for operand in op.operands)
        kind = _JOINS.get(last.name)
        if kind is None or readings != 1 or list(end.operands) != list(last.results):
            return None
        places = [place for place, operand in enumerate(last.operands) if operand == so_far]
        return (kind, 1 - places[0]) if places else None

    def _reduction(self) -> list[Value] | None:
        joined = self._joined()
        result = self.operands[-1]
        if joined is None or not is_reducible(joined[0], dtype_of(result)):
            return None
        kind, place = joined
        *body, last, _ = [op.operation for op in self.block.operations]
        made = self._elements(_Body([*body, _End(last.operands[place])]))
        if made is None or self.extents is None:
            return None
        full = spread(self.e, reshaped(self.e, made[0], self._lifted(made[0])), self.extents)
        return [self._with_result(kind, reduced(self.e, kind, full, self.reduces))]

    def _with_result(self, kind: str, made: Value) -> Value:
        """What was reduced, over the remaining loops in order, joined to the result so far."""
        dims, result = self.maps[-1], self.operands[-1]
        assert dims is not None  # looked at before
        turned = permuted(self.e, made, [sorted(dims).index(axis) for axis in dims])
        if is_identity(kind, dtype_of(result), self.e.elements(result)):
            return turned
        return combined(self.e, kind, result, turned)

    def _contraction(self) -> list[Value] | None:
        """A sum of products of two operands."""
        operations = [op.operation for op in self.block.operations]
        joined, result = self._joined(), self.operands[-1]
        if joined is None or joined[0] != "add" or len(self.operands) != 3 or len(self.extents or ()) > 20:
            return None
        arguments = list(self.block.arguments)
        *casts, product, _, _ = operations
        is_product = product.name in ("arith.mulf", "arith.muli")
        sources = {op.results[0]: op.operands[0] for op in casts if op.name in ("arith.extf", "arith.extsi")}
        factors = [sources.get(operand, operand) for operand in product.operands]
        if not is_product or len(sources) != len(casts) or factors != arguments[:2]:
            return None
        letters = ["".join(chr(97 + axis) for axis in dims or ()) for dims in self.maps]
        dtype, dims = dtype_of(result), sorted(self.maps[-1] or ())
        inputs = [self.e.cast(value, dtype) for value in self.operands[:2]]
        equation = f"{letters[0]},{letters[1]}->{''.join(chr(97 + axis) for axis in dims)}"
        shape = [(self.extents or [])[axis] for axis in dims]
        product_op = _PRODUCTS.get(_in_order(equation))
        given = inputs if product_op else [equation, inputs, None]
        return [self._with_result("add", self.e.tensor(product_op or "einsum", *given, dtype=dtype, shape=shape))]


_PRODUCTS: Final = {"ab,bc->ac": "mm", "abc,acd->abd": "bmm", "ab,b->a": "mv"}
"""Sums of products that are ops of their own."""


def _in_order(equation: str) -> str:
    """The equation with its letters in the order in which they come.

    >>> _in_order("ac,cb->ab")
    'ab,bc->ac'
    """
    names: dict[str, str] = {}
    for letter in equation:
        if letter.isalpha():
            names.setdefault(letter, chr(97 + len(names)))
    return "".join(names.get(letter, letter) for letter in equation)


class _End:
    """A stand-in for the end of a body that gives one value."""

    def __init__(self, operand: Any) -> None:
        self.operands = [operand]


class _Body:
    """A body's ops, cut short."""

    def __init__(self, operations: Sequence[Any]) -> None:
        self._operations = operations

    def __iter__(self) -> Any:
        return iter([_Op(operation) for operation in self._operations])


class _Op:
    def __init__(self, operation: Any) -> None:
        self.operation = operation


def _dims(text: str) -> list[int] | None:
    """The loops by which a map reaches an operand's dimensions; None where it does more than choose them.

    >>> _dims("affine_map<(d0, d1, d2) -> (d2, d0)>"), _dims("affine_map<(d0, d1) -> (d0 + d1)>")
    ([2, 0], None)
    """
    found = re.fullmatch(r"affine_map<\([^)]*\) -> \((.*)\)>", text)
    words = [word.strip() for word in found.group(1).split(",") if word.strip()] if found is not None else ["?"]
    return [int(word[1:]) for word in words] if all(re.fullmatch(r"d\d+", word) for word in words) else None


def _loop_nest(reader: BlockReader, operation: Any) -> Call:
    is_tensors = len(operation.results) > 0 and not reader.reading.in_executable
    if is_tensors and "indexing_maps" in operation.attributes:
        mark = reader.e.mark()
        made = _Nest(reader, operation).run()
        if made is not None:
            reader.bind(operation.results, made)
            return
        reader.e.go_back(mark)
    yield reader.foreign_with_regions(operation)


def _fill(reader: BlockReader, operation: Any) -> Call:
    """`linalg.fill`: one number in all places."""
    number, result = reader.operands(operation)
    shape = shape_of(result)
    if not len(operation.results) or reader.reading.in_executable or shape is None or dtype_of(number) != dtype_of(result):
        yield reader.foreign_with_regions(operation)
        return
    reader.bind(operation.results, [spread(reader.e, number, shape)])


def _transpose(reader: BlockReader, operation: Any) -> Call:
    """`linalg.transpose`: a permutation of dimensions."""
    value, order = reader.operands(operation)[0], list(operation.attributes["permutation"])
    if not len(operation.results) or reader.reading.in_executable or shape_of(value) is None or not dtype_of(value):
        yield reader.foreign_with_regions(operation)
        return
    reader.bind(operation.results, [permuted(reader.e, value, order)])


LOOP_NESTS: Final[Mapping[str, Callable[[BlockReader, Any], Call]]] = {
    **{f"linalg.{name}": _loop_nest for name in _NAMED},
    "linalg.fill": _fill,
    "linalg.transpose": _transpose,
}
"""The ops that are loop nests over tensors."""
