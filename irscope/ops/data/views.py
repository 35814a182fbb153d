"""The view ops: their types with strides, and their references in NumPy, both computed from their steps.

`irscope.ops.view_steps` says what each op does (`rules`) and what a step does to strides (`strided_steps`). So a type is exact: shape,
strides, and which of the "view if you can" ops must copy. A number that is not known has a name while the steps are applied; what then
depends on a name is not known of the result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

import irscope.ops.view_steps.rules  # noqa: F401  # which enters every rule into RULES and SCHEMAS
from irscope.errors import ArgumentError
from irscope.ir import INT, REQUIRED, TENSOR, Dim, ListType, TensorType
from irscope.ops.numpy_layout import Array, address_of, array_type, channels_last_copy, memory_of, numpy_dtype, view_at
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract, Unknown, broadcast, contiguous_strides, dtype_name, mismatch
from irscope.ops.view_steps import (
    KINDS,
    RULES,
    SCHEMAS,
    Copied,
    Cut,
    Dense,
    Expand,
    Extent,
    Failed,
    Joined,
    Layout,
    NotKnown,
    Num,
    Operand,
    Paired,
    Pick,
    Place,
    Regroup,
    Retyped,
    Step,
    Steps,
    Window,
    apply,
    make_layout,
    product,
)


def _define(name: str, overloads: Sequence[str]) -> Op:
    """Return the op whose type and reference follow from its rule."""
    op = define(*overloads, category="view")
    defaults = {each.name: each.default for schema in op.schemas for each in schema.arguments if each.default is not REQUIRED}
    is_list = any(isinstance(result.type, ListType) for result in op.schemas[0].returns)
    return replace(op, type_rule=_type_rule(name, defaults, is_list=is_list), reference=_reference(name, defaults))


# Types. A number that is not known goes by a name, and what the steps make of it is looked up again afterwards.


def _type_rule(name: str, defaults: Mapping[str, Any], *, is_list: bool) -> Callable[..., Abstract]:
    rule, short = RULES[name], name.partition("::")[2]

    def type_rule(self: TensorType, **arguments: Abstract) -> Abstract:
        dims: dict[object, Dim] = {}
        given = {**defaults, **arguments}
        for key, value in given.items():
            if not (value is None or value.__class__ is int):
                given[key] = _named_parts(value, key, dims)
        if self.shape is None:
            return Unknown(ListType(TENSOR)) if is_list else _without_rank(_retyped(name, self.dtype), given, dims)
        shape = tuple([dim if dim.__class__ is int else _named(dim, f"?{axis}", dims) for axis, dim in enumerate(self.shape)])
        operand = Operand(shape, self.dtype, self.device, given, short, self)
        try:
            found = rule(operand)
        except (NotKnown, KeyError):
            if is_list:
                return Unknown(ListType(TENSOR))
            return _type(operand.at_least, None, operand.dtype, dims)
        if not found:
            return self if not is_list else []
        layout = make_layout(shape, self.strides, 0, self.dtype)
        if isinstance(found, list):
            return _piece_types(found, layout, operand, dims)
        after = _after(found, layout, operand)
        return self if after is layout else _type(after.shape, after.strides, after.dtype, dims)

    return type_rule


def _named(dim: Dim, name: str, dims: dict[object, Dim]) -> Num:
    """Return an extent, by a name if it is not known; `dims` maps that back."""
    if isinstance(dim, int):
        return dim
    named = Extent.of(name if dim is None else dim)
    dims[named] = dim
    return named


class _Other(NamedTuple):
    """Another tensor among the arguments, of which only the extents count."""

    shape: tuple[Num, ...] | None


def _named_parts(value: Abstract, key: str, dims: dict[object, Dim]) -> Abstract:
    """Return an argument with names for its unknown numbers; about a name that begins with `~` nothing is known, not even a sign."""
    if isinstance(value, list | tuple):
        return [Extent.of(f"~{key}{place}") if isinstance(each, Unknown) else each for place, each in enumerate(value)]
    if isinstance(value, Unknown):
        return Extent.of(f"~{key}") if value.type == INT else value
    if isinstance(value, TensorType):
        shape = value.shape
        return _Other(None if shape is None else tuple([_named(dim, f"~{key}{axis}", dims) for axis, dim in enumerate(shape)]))
    return value


def _retyped(name: str, dtype: str | None) -> str | None:
    """Return the element type of a view of elements of this type, whatever their extents."""
    if KINDS.get(name) != "another type":
        return dtype
    try:
        steps = RULES[name](Operand((2,), dtype, None, {}))
    except (NotKnown, KeyError):
        return None
    return steps[0].dtype if steps else dtype


def _without_rank(dtype: str | None, given: Mapping[str, Any], dims: dict[object, Dim]) -> TensorType:
    """Return what the arguments alone say of a view of a tensor of unknown rank, whose elements are of this type."""
    sizes, strides = given.get("size", given.get("shape")), given.get("stride")
    if "other" in given:
        sizes = given["other"].shape
    if "dtype" in given:
        return TensorType(dtype_name(given["dtype"], None))
    if not isinstance(sizes, list | tuple):
        return TensorType(dtype)
    return _type([None if size == -1 else size for size in sizes], strides if isinstance(strides, list) else None, dtype, dims)


def _type(shape: Sequence[Num | None] | None, strides: Sequence[Num] | None, dtype: str | None, dims: dict[object, Dim]) -> TensorType:
    if shape is None:
        return TensorType(dtype)
    known = tuple([dim if dim.__class__ is int else dims.get(dim) for dim in shape])
    if strides is not None:
        for stride in strides:
            if stride.__class__ is not int:
                strides = None
                break
    return TensorType(dtype, known, None if strides is None else tuple(strides))  # type: ignore[arg-type]


def _piece_types(found: Sequence[Steps], layout: Layout, operand: Operand, dims: dict[object, Dim]) -> list[TensorType]:
    """Return the types of the pieces; those of one size have one type."""
    types: dict[object, TensorType] = {}
    pieces: list[TensorType] = []
    for steps in found:
        (step,) = steps
        size = step.length if isinstance(step, Cut) else None
        type = types.get(size)
        if type is None:
            after = _after(steps, layout, operand)
            type = types[size] = _type(after.shape, after.strides, after.dtype, dims)
        pieces.append(type)
    return pieces


_BY_EXTENT: Final = (Dense, Expand, Regroup)


def _after(steps: Steps, layout: Layout, operand: Operand) -> Layout:
    """Return the layout after some steps, of a copy or not. Raises ArgumentError where torch would."""
    for step in steps:
        outcome = apply(step, layout, 0)
        if isinstance(outcome, Layout):
            layout = outcome
        elif isinstance(outcome, Failed):
            raise _refusal(step, layout, operand, outcome.because)
        else:
            layout = outcome.layout
        if step.__class__ in _BY_EXTENT and any([dim.__class__ is not int for dim in layout.shape]):  # noqa: C419 a list is faster
            layout = make_layout(layout.shape, None, None, layout.dtype)  # an extent of 1 gets another stride than one of n
    return layout


def _refusal(step: Step, before: Layout, operand: Operand, because: str) -> ArgumentError:
    """Return the error for a step that no such tensor takes, in the terms of the op's arguments."""
    given = operand.given
    if isinstance(step, Regroup):
        count, wanted = product(before.shape), f"({', '.join(map(str, step.shape))})"
        if count != product(step.shape):
            return mismatch(f"({', '.join(map(str, before.shape))}), {count} elements, cannot be seen as {wanted}", rule="view-size")
        return mismatch(f"{operand} cannot be seen as {wanted} without a copy; use reshape", rule="view-strides")
    if isinstance(step, Expand):
        pairs = zip(before.shape, step.shape[len(step.shape) - len(before.shape) :], strict=True)
        old, new = next((old, new) for old, new in pairs if old not in (1, new) and isinstance(old, int) and isinstance(new, int))
        return mismatch(f"expand makes {old} into {new}; only an extent of 1 can grow", rule="expand-size")
    if isinstance(step, Retyped):
        return mismatch(f"{operand} cannot be seen as elements of {step.dtype}: {because}", rule="view-size")
    if isinstance(step, Joined):
        return mismatch(f"view_as_complex takes pairs of numbers along the last dimension, not {operand}: {because}", rule="view-size")
    if isinstance(step, Pick):
        return mismatch(f"index {given['index']} is outside dimension {given['dim']} of {operand}", rule="index-range")
    if isinstance(step, Cut) and "length" in given:
        part = f"narrow from {given['start']} to {given['length']} elements"
        return mismatch(f"{part} is not within dimension {given['dim']} of {operand}", rule="index-range")
    if isinstance(step, Window):
        what = f"windows of {step.size}, {step.step} apart, do not fit dimension {given['dimension']} of {operand}"
        return mismatch(what, rule="index-range")
    return mismatch(f"{operand.name} of {operand}: {because}", rule="view-bounds")


# References.


def _reference(name: str, defaults: Mapping[str, Any]) -> Callable[..., Any]:
    rule, short = RULES[name], name.partition("::")[2]

    def reference(self: Array, **arguments: Any) -> Any:
        given = {**defaults, **arguments}
        for key, value in given.items():
            if not (value is None or value.__class__ is int or key == "other"):  # of another tensor the shape is read
                given[key] = _plain(value)
        type = array_type(self)
        operand = Operand(self.shape, type.dtype, "cpu", given, name=short, type=type, most_pieces=None)
        try:
            found = rule(operand)
        except (NotKnown, KeyError):
            raise TypeError(f"{short} takes no array of {self.dtype} with these arguments") from None
        if isinstance(found, list):
            return [_view(self, steps, type, operand) for steps in found]
        return _view(self, found, type, operand)

    return reference


def _plain(value: Any) -> Any:
    """Return Python's number for one of NumPy's, also in lists."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size == 1 and not value.ndim):
        return value.item()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _view(self: Array, steps: Steps, type: TensorType, operand: Operand) -> Array:
    """Return the view of an array, or the copy where the steps need one."""
    if not steps:
        return self
    if isinstance(steps[0], Retyped | Paired | Joined):
        return _reinterpreted(self, steps[0], type, operand)
    layout = make_layout(self.shape, type.strides, 0, "uint8")  # so that offsets count elements
    base = (address_of(self) - memory_of(self)[1]) // self.itemsize if isinstance(steps[0], Place) else 0
    for step in steps:
        outcome = apply(step, layout, base)
        if isinstance(outcome, Failed):
            raise _refusal(step, layout, operand, outcome.because)
        if isinstance(outcome, Copied):
            return _copy(self, outcome.layout)
        assert isinstance(outcome, Layout)  # all numbers are known
        layout = outcome
    if len(steps) == 1 and (index := _index(steps[0])) is not None:
        indexed: Array = self[index]
        return indexed
    offset, strides = layout.offset, layout.strides
    assert isinstance(offset, int) and strides is not None
    if (layout.shape, strides, offset) == (self.shape, type.strides, 0):
        return self
    in_bytes = [int(step) * self.itemsize for step in strides]  # type: ignore[arg-type]
    return view_at(self, layout.shape, in_bytes, address_of(self) + offset * self.itemsize, op=operand.name)  # type: ignore[arg-type]


def _index(step: Step) -> tuple[Any, ...] | None:
    """Return the index that does the same as a step; None if none does. It costs NumPy a tenth of a view by strides."""
    if isinstance(step, Pick):
        return (*(slice(None),) * step.axis, step.place, ...)
    if isinstance(step, Cut) and isinstance(step.start, int) and isinstance(step.length, int) and isinstance(step.step, int):
        return (*(slice(None),) * step.axis, slice(step.start, step.start + step.length * step.step, step.step))
    return None


def _copy(self: Array, layout: Layout) -> Array:
    shape = tuple(int(size) for size in layout.shape)  # type: ignore[arg-type]
    if layout.strides == contiguous_strides(shape):
        return np.ascontiguousarray(self).reshape(shape)
    return channels_last_copy(self)


def _reinterpreted(self: Array, step: Step, type: TensorType, operand: Operand) -> Array:
    """Return the same bytes as elements of another type."""
    _after((step,), make_layout(self.shape, type.strides, 0, type.dtype), operand)  # refuses what torch refuses
    if isinstance(step, Joined):
        return self.view(np.result_type(self, np.complex64))[..., 0]
    if isinstance(step, Paired):
        return self[..., None].view(step.dtype) if step.part is None else self.imag if step.part else self.real
    assert isinstance(step, Retyped)
    if step.dtype == "bfloat16":
        raise TypeError("NumPy has no elements of bfloat16")
    return self.view(numpy_dtype(operand.given["dtype"], self.dtype))


# Several tensors.


def _broadcast_tensors(tensors: Abstract) -> Abstract:
    if isinstance(tensors, Unknown):
        return Unknown(ListType(TENSOR))
    shape = broadcast(*(tensor.shape for tensor in tensors))
    return [TensorType(tensor.dtype, shape, tensor.strides if tensor.shape == shape else None) for tensor in tensors]


def _broadcast_arrays(tensors: Sequence[Array]) -> list[Array]:
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    seen = [np.broadcast_to(each, shape) for each in tensors]
    return [view_at(each, it.shape, it.strides, address_of(each), op="broadcast_tensors") for each, it in zip(tensors, seen, strict=True)]


OPS = (
    *(_define(name, overloads) for name, overloads in SCHEMAS.items()),
    define("aten::broadcast_tensors", category="view", type_rule=_broadcast_tensors, reference=_broadcast_arrays),
)
