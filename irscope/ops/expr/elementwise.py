"""Defines a pointwise op from one entry: its overloads, and its computation per element as an expression, which NumPy's arrays
can take the place of; a separate one for NumPy where they cannot.

Type rule, reference and kernel expression then follow the same steps: promote the operands, convert them, compute
(halves in float32), convert the result. Only the middle step differs between ops.

Operands are given as text. `"self other"` names the arguments whose types promote together; `"?mask"` does not take part in
promotion and becomes a bool; `"=value"` is converted to the promoted type without taking part in promotion. An operand that is
None is passed on as None. All further arguments reach the two functions by name: known ones as Python values, run-time numbers
as `Expr` of the computing type.

Where the promoted type is a half, torch first rounds a tensor of whole numbers to it: 257 times 1.0 is 256 in bfloat16.
A number, or a 0-d tensor that is not the first operand, is used unrounded in products and quotients, and
rounded in sums, comparisons, remainders and powers (`rounds`), so that `x == 0.1` matches the 0.1 of bfloat16.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np

from irscope._base.frozen import EMPTY
from irscope.errors import ArgumentError
from irscope.ir import ITEM_SIZE, TensorType
from irscope.ops.expr.expression import Expr, NoExpression, cast, lift
from irscope.ops.expr.numpy_eval import round_to
from irscope.ops.op import Op, define, in_place_variants
from irscope.ops.type_rules import (
    DIMENSIONED,
    ZERO_DIM,
    Operand,
    Unknown,
    broadcast,
    contiguous_strides,
    dtype_name,
    fresh,
    is_integral,
    iterator_strides,
    like_strides,
    operand_of,
    opmath,
    refined,
    result_dtype,
    static_shape,
    to_float,
    to_real,
)

Array = np.ndarray[Any, Any]

Kind = Literal["same", "exact", "number", "magnitude", "float", "bool", "logical"]
"""How result and computing type follow from the promoted type. same: both are the promoted type. exact: the
same, and NumPy computes halves as they are. number: bools become int64. magnitude: as same, but the result of a
complex number is real. float: whole numbers become floats. bool: compute in the promoted type and return bool.
logical: convert each operand to bool first."""

Layout = Literal["iterator", "numbers-aside", "reversed", "like-first", "rows"]
"""The layout of a fresh result. iterator: as torch's iterator lays out the result of the operands in order, including
numbers. numbers-aside: the same for the tensors alone. reversed: as iterator, with the operands in reverse order. like-first:
as a copy of the first operand. rows: row-major."""

_Types = tuple[str | None, str | None, str | None]
_HALVES = ("float16", "bfloat16")
KERNEL_TYPES: Final = frozenset(ITEM_SIZE)
"""The element types that kernels compute with."""


@dataclass(frozen=True, eq=False)
class Elementwise:
    """The definition of a pointwise op, from which its type rule, reference and expression are derived."""

    name: str
    operands: tuple[str, ...]
    """Argument names in order, with their marks (`?`, `=`)."""
    kind: Kind | Callable[..., Kind | None]
    numpy: Callable[..., Any]
    expr: Callable[..., Expr] | None
    in_place: bool
    axes: Mapping[str, int]
    layout: Layout
    rounds: bool
    """Whether numbers are rounded to the promoted type, or only to the computing one."""

    def type_rule(self, /, **args: Any) -> TensorType:
        """Return the result's type; for an in-place op that of its first operand."""
        values = self._values(args)
        first = next((value for value in values if isinstance(value, TensorType)), TensorType())
        if self.in_place:
            return first
        common, result, _ = self._types(values, args)
        laid = [
            value.with_(dtype=common) if mark[0] == "?" and isinstance(value, TensorType) else value  # is not copied
            for mark, value in zip(self.operands, self._laid(values), strict=True)
        ]
        return result_type(result, laid, common, self.layout)

    def reference(self, /, **args: Any) -> Array:
        """Compute the op in NumPy."""
        values = [np.asarray(value) if isinstance(value, np.generic) else value for value in self._values(args)]
        rest = {name: value.item() if isinstance(value, np.generic) else value for name, value in self._rest(args).items()}
        common, dtype, compute = self._types(values, args)
        assert dtype is not None, f"{self.name} of {[operand_of(v) for v in values if v is not None]}"
        rest = {name: self._number(value, common) for name, value in rest.items()}
        arrays = [
            self._converted(mark, value, common, compute, not place)
            for place, (mark, value) in enumerate(zip(self.operands, self._laid(values), strict=True))
        ]
        with np.errstate(all="ignore"):
            result = np.asarray(self.numpy(*arrays, **rest)).astype(np.dtype(dtype), copy=False)
        if not self.in_place:
            return result
        target = values[0]
        assert isinstance(target, np.ndarray)
        target[...] = result
        return target

    def decided(self, args: Mapping[str, Any]) -> tuple[dict[str, np.dtype[Any] | None], np.dtype[Any]] | None:
        """Return the types to which `reference` converts each operand and the result, for arrays and Python's numbers of these types;
        None where more than the types decides."""
        values = self._values(args)
        common, dtype, compute = self._types(values, args)
        if self.axes or common is None or dtype is None or compute is None or common in _HALVES:
            return None
        computing = np.dtype(compute)
        return {mark.lstrip("?="): np.dtype(bool) if mark[0] == "?" else computing for mark in self.operands}, np.dtype(dtype)

    def expression(self, /, **args: Any) -> Expr:
        """Return the op on one element. Raises NoExpression, with the reason, for a call that no kernel computes."""
        assert self.expr is not None
        values = self._values(args)
        for value in values:
            if isinstance(value, Expr) and value.dtype not in KERNEL_TYPES:
                raise NoExpression(f"kernels do not compute with {value.dtype}")
        common, dtype, compute = self._types(values, args, widen=True)
        if dtype is None or compute is None or not {dtype, compute} <= KERNEL_TYPES:
            raise NoExpression(f"the element type of the result of {self.name} is not known, or not one that kernels compute with")
        parts = [
            None if value is None else lift(value, "bool") if mark[0] == "?" else self._lifted(value, common, compute, not place)
            for place, (mark, value) in enumerate(zip(self.operands, values, strict=True))
        ]
        rest = {
            name: self._lifted(value, common, compute) if isinstance(value, Expr) else self._number(value, common)
            for name, value in self._rest(args).items()
        }
        try:
            made = self.expr(*parts, **rest)
        except ArithmeticError as error:  # such as 1 / alpha: torch refuses the call when it runs
            raise NoExpression(f"it is not defined for these numbers ({error})") from None
        return cast(made, dtype)

    def _lifted(self, value: Any, common: str | None, compute: str, first: bool = False) -> Expr:
        """Return an operand in the computing type, rounded to the promoted half type first where torch does so."""
        if not isinstance(value, Expr):
            return lift(self._number(value, common), compute)
        rounded = self.rounds or value.strength >= (ZERO_DIM if first else DIMENSIONED)
        if common in _HALVES and compute != "bool" and rounded:
            value = cast(value, common)
        return cast(value, compute)

    def _number(self, value: Any, common: str | None) -> Any:
        """Return a known number, rounded as an operand of the promoted type; anything else unchanged."""
        if not self.rounds or common not in _HALVES or type(value) not in (int, float):
            return value
        with np.errstate(all="ignore"):
            return float(round_to(np.asarray(value, np.float32), str(common)))

    def _values(self, args: Mapping[str, Any]) -> list[Any]:
        return [args.get(mark.lstrip("?=")) for mark in self.operands]

    def _rest(self, args: Mapping[str, Any]) -> dict[str, Any]:
        names = {mark.lstrip("?=") for mark in self.operands}
        return {name: value for name, value in args.items() if name not in names}

    def _types(self, values: Sequence[Any], args: Mapping[str, Any], *, widen: bool = False) -> _Types:
        operands = tuple(None if value is None else operand_of(value) for value in values)
        return _types(self, operands, self.kind(**self._rest(args)) if callable(self.kind) else self.kind, widen)

    def _laid(self, values: Sequence[Any]) -> list[Any]:
        """Return the operands, with those in `axes` reshaped to align with their axis of the first operand."""
        laid = list(values)
        for index, mark in enumerate(self.operands):
            axis, value = self.axes.get(mark.lstrip("?=")), values[index]
            if axis is None or value is None or isinstance(value, Unknown):
                continue
            first = values[0]
            rank = first.rank if isinstance(first, TensorType) else first.ndim
            own = value.shape if isinstance(value, TensorType) or value.ndim == 1 else None
            aligned = None if own is None or rank is None else own + (1,) * (rank - axis - 1) if rank else ()
            if isinstance(value, TensorType):
                laid[index] = fresh(value.dtype, aligned)
            elif aligned is not None:
                laid[index] = value.reshape(aligned)
        return laid

    def _converted(self, mark: str, value: Any, common: str | None, compute: str | None, first: bool) -> Any:
        """Convert an array or number as `_lifted` does an expression."""
        if value is None:
            return None
        array = np.asarray(value)
        rounded = self.rounds or array.ndim or (first and isinstance(value, np.ndarray))
        if mark[0] != "?" and common == "float16" != compute != "bool" and rounded:
            with np.errstate(all="ignore"):
                array = array.astype(np.float16)
        return array.astype(np.dtype("bool" if mark[0] == "?" else compute), copy=False)


@lru_cache(maxsize=4096)
def _types(rule: Elementwise, operands: tuple[Operand | None, ...], kind: Kind | None, widen: bool) -> _Types:
    """Return the promoted, the result's and the computing type; a kernel computes halves in float32 whatever the kind (`widen`)."""
    own = [o for mark, o in zip(rule.operands, operands, strict=True) if mark[0] not in "?=" and o is not None]
    promoted = result_dtype(own)
    common = None if promoted is None or kind is None else to_float(promoted) if kind == "float" else promoted
    common = "int64" if common == "bool" and kind == "number" else common
    compute = common if common is None or (kind == "exact" and not widen) else opmath(common)
    if rule.in_place:
        result = None if operands[0] is None else operands[0].dtype
    elif kind in ("bool", "logical"):
        result = "bool"
    else:
        result = to_real(common) if common is not None and kind == "magnitude" else common
    return common, result, "bool" if kind == "logical" else compute


def result_type(dtype: str | None, operands: Sequence[Any], common: str | None = None, layout: Layout = "iterator") -> TensorType:
    """Return the type of a fresh elementwise result: broadcast shape, and the layout that torch's iterator chooses.

    `common` is the type in which torch computes: it first copies operands of another type, and a copy has no gaps.
    """
    tensors = [operand for operand in operands if isinstance(operand, TensorType)]
    shape = broadcast(*(tensor.shape for tensor in tensors))
    sizes = None if shape is None else static_shape(TensorType(None, shape))
    laid: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for tensor in tensors:
        own = static_shape(tensor)
        if own is None or tensor.strides is None:
            return refined(dtype, shape)
        copied = common is not None and tensor.dtype != common
        laid.append((own, like_strides(own, tensor.strides) if copied else tensor.strides))
    if sizes is None:
        return refined(dtype, shape)
    if layout in ("rows", "like-first"):
        kept = layout == "like-first" and laid[0][0] == sizes
        return refined(dtype, shape, like_strides(*laid[0]) if kept else contiguous_strides(sizes))
    if layout != "numbers-aside":
        laid += [((), ())] * sum(isinstance(operand, int | float | complex | Unknown) for operand in operands)
    return refined(dtype, shape, iterator_strides(sizes, laid[::-1] if layout == "reversed" else laid))


def elementwise(
    *overloads: str, numpy: Callable[..., Any] | None = None, expr: Callable[..., Expr] | None = None,
    kind: Kind | Callable[..., Kind | None] = "same", operands: str = "self other", in_place: bool = True, written: bool = False,
    also: str = "", axes: Mapping[str, int] = EMPTY, layout: Layout = "iterator", rounds: bool = False,
) -> tuple[Op, ...]:  # fmt: skip
    """Return the op of these overloads, its in-place variant (`add_` for `add`), and both again under other names (`also`).

    Without `numpy`, the reference is the expression, on arrays. If the overloads of the in-place variant have other names, declare it
    separately, with `written=True`.

    >>> made = elementwise("aten::neg", numpy=np.negative, operands="self", also="negative")
    >>> [op.name for op in made]
    ['aten::neg', 'aten::neg_', 'aten::negative', 'aten::negative_']
    """
    array = numpy or expr
    assert array is not None
    rule = Elementwise("", tuple(operands.split()), kind, array, expr, written, axes, layout, rounds)
    made = []
    first = overloads[0].partition("::")[2].partition(".")[0]
    for name in (first, *also.split()):
        here = [overload.replace(f"::{first}", f"::{name}", 1) for overload in overloads]
        made.append(_op(here, rule))
        variants = in_place_variants(here) if in_place else ()
        if variants:
            made.append(_op(variants, replace(rule, in_place=True)))
    return tuple(made)


def _op(overloads: Sequence[str], template: Elementwise) -> Op:
    rule = replace(template, name=overloads[0].partition(".")[0])
    made = define(
        *overloads,
        category="pointwise",
        type_rule=rule.type_rule,
        reference=rule.reference,
        expression=None if rule.expr is None else rule.expression,
        operand_axes=rule.axes,
    )
    unknown = {mark.lstrip("?=") for mark in rule.operands} - {argument.name for schema in made.schemas for argument in schema.arguments}
    if unknown:
        has = ", ".join(argument.name for argument in made.schemas[0].arguments)
        raise ArgumentError(f"{rule.name} has no argument {sorted(unknown)[0]}", hint=f"name its tensors in `operands=`; it has {has}")
    return replace(made, rule=rule)


def require_known(value: Any, what: str) -> Any:
    """Return a flag or mode that must be known when an expression is built. Raises NoExpression if it is not."""
    if isinstance(value, Expr | Unknown):
        raise NoExpression(f"{what} is not known before the program runs")
    return value


def require_float(dtype: str, what: str) -> None:
    """Raises NoExpression for whole numbers."""
    if is_integral(dtype):
        raise NoExpression(f"kernels do not compute {what} of {dtype} elements")


def conversion(self: Expr, dtype: Any = None, other: Expr | None = None, device: Any = None, **rest: Any) -> Expr:
    """Return one element of `to`, `type_as` and similar ops; `irscope.ops.data.copies` determines their layout."""
    if device is not None:
        raise NoExpression("the elements may move to another device")
    target = other.dtype if other is not None else dtype_name(require_known(dtype, "the element type"), self.dtype)
    if target is None or target.startswith(("complex", "float8", "q")) or self.dtype.startswith(("complex", "float8", "q")):
        raise NoExpression(f"kernels do not convert {self.dtype} to {target}")
    return cast(self, target)
