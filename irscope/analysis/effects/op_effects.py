"""What ops do to memory that their schemas do not tell: who looks at shapes only, who may change them, who runs unseen code.

A name that is in no table here is taken to read all of its operands, data and shape.
"""

from __future__ import annotations

from typing import Final, Literal

from irscope.ops.schema import has_side_effects

__all__ = [
    "OBJECT_READERS",
    "READ_NOTHING",
    "SHAPE_READERS",
    "SHAPE_WRITERS",
    "TENSOR_VIEWS",
    "ReadKind",
    "changes_random_state",
    "is_fully_opaque",
    "is_stopping",
    "reads_by_name",
]

ReadKind = Literal["deep", "shape", "object", "none"]
"""deep: data and shape of every tensor operand and of all that containers hold. shape: tensors' shapes alone.
object: which things a container holds, not those things. none: operands are passed on unread."""

TENSOR_VIEWS: Final = frozenset(
    f"aten::{name}"
    for name in """
    alias as_strided chunk detach diagonal expand expand_as hsplit vsplit dsplit movedim moveaxis narrow numpy_T permute select
    slice split split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unfold unsqueeze view view_as
    view_as_real view_as_complex real imag unflatten mT mH adjoint""".split()
) | {"prim::ConstantChunk", "prim::data", "prim::unchecked_cast"}
"""Views that never copy: they read the shape of a tensor and not its data."""

SHAPE_READERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    size dim numel stride sym_size sym_stride sym_numel sym_storage_offset storage_offset is_floating_point is_complex
    is_contiguous ndimension element_size""".split()
) | frozenset(
    f"prim::{name}"
    for name in """
    device dtype is_cpu is_ipu is_maia is_meta is_mtia is_vulkan is_xla is_xpu itemsize layout is_cuda is_mps requires_grad shape
    nbytes isinstance""".split()
)

OBJECT_READERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    __getitem__ _set_item append extend insert pop clear Delete copy get setdefault update keys values items popitem len
    list dict reverse slice select add_ mul_ add mul""".split()
) | {"prim::ListUnpack"}
"""Of these, the overloads on lists and dicts look at which things a container holds, not at the things."""

READ_NOTHING: Final = frozenset(
    {
        "prim::If",
        "prim::Loop",
        "prim::ListConstruct",
        "prim::TupleConstruct",
        "prim::DictConstruct",
        "prim::TupleUnpack",
        "prim::TupleIndex",
        "prim::TupleSlice",
        "prim::Constant",
        "prim::Uninitialized",
        "aten::__is__",
        "aten::__isnot__",
        "prim::unchecked_unwrap_optional",
        "aten::_unwrap_optional",
        "prim::CreateObject",
    }
)

SHAPE_WRITERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ resize_ resize_as_ resize_as_sparse_ set_ as_strided_ rename_ detach_
    _resize_output_ sparse_resize_ sparse_resize_and_clear_ _coalesced_ copy_sparse_to_sparse_ data set_data""".split()
)

_HARMLESS_SIDE_EFFECTS: Final = frozenset(
    {
        "prim::Print",
        "prim::RaiseException",
        "aten::warn",
        "aten::save",
        "prim::AddStatValue",
        "prim::TimePoint",
        "aten::manual_seed",
        "aten::seed",
        "aten::set_grad_enabled",
        "aten::retain_grad",
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::_functional_assert_async",
        "aten::_functional_assert_scalar",
        "aten::_functional_sym_constrain_range",
        "aten::_functional_sym_constrain_range_for_size",
        "aten::_linalg_check_errors",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "aten::set_data",
        "prim::SetAttr",
    }
)
"""Ops with an effect on the world that do to memory what their schema says and no more."""

_STOPPING: Final = frozenset({"prim::RaiseException"}) | frozenset(
    name for name in _HARMLESS_SIDE_EFFECTS if "assert" in name or "_check_" in name
)


def is_stopping(op: str) -> bool:
    """Whether the op may end the program, after which only what the caller can reach still matters."""
    return op in _STOPPING


def reads_by_name(op: str) -> ReadKind | None:
    """How an op with a rule of its own reads its operands, whatever its schema; None for ordinary ops."""
    if op in READ_NOTHING:
        return "none"
    if op.startswith("prim::") and op in TENSOR_VIEWS | SHAPE_READERS:
        return "shape"
    return "object" if op == "prim::ListUnpack" else None


def is_fully_opaque(op: str) -> bool:
    """Whether the op runs code that nobody here can see: calls, other processes, other times."""
    return has_side_effects(op) and op not in _HARMLESS_SIDE_EFFECTS


def changes_random_state(op: str) -> bool:
    """Whether the op may set or use the random state though it draws nothing that the graph sees."""
    return op in ("aten::manual_seed", "aten::seed") or is_fully_opaque(op)
