"""Effects on memory that schemas do not declare: ops that read only shapes, may change them, or replace storage.

An op in none of these sets is assumed to read all of its operands, elements and shape, and to write what its schema says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "LAYOUT_READERS", "MOVES_STATISTICS",
    "OBJECT_READERS",
    "OBJECT_WRITERS",
    "READ_NOTHING",
    "REBINDS_STORAGE",
    "SHAPE_READERS",
    "SHAPE_WRITERS",
    "STORAGE_WRITERS",
]

REBINDS_STORAGE: Final = frozenset({"aten::set_", "aten::set_data"})
"""The first operand gets the storage of the second: its views no longer share memory with it."""

STORAGE_WRITERS: Final = REBINDS_STORAGE | {
    "aten::_resize_output_", "aten::resize_", "aten::resize_as_", "aten::resize_as_sparse_", "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_",
}  # fmt: skip
"""The first operand may get other storage, of another size."""

SHAPE_WRITERS: Final = STORAGE_WRITERS | {
    "aten::_coalesced_", "aten::as_strided_", "aten::copy_sparse_to_sparse_", "aten::squeeze_",
    "aten::swapaxes_", "aten::swapdims_", "aten::t_", "aten::transpose_", "aten::unsqueeze_",
}  # fmt: skip
"""The first operand may have another shape, other strides or other sparse parts afterwards, under all its names."""

OBJECT_WRITERS: Final = SHAPE_WRITERS | {"aten::detach_"}
"""The first operand, as an object, may have properties other than its elements changed, including its autograd state: the ops
that torch tags `inplace_view`, and more. An op that creates a view of that operand must not be reordered with them."""

SHAPE_READERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    size dim numel stride sym_size sym_stride sym_numel sym_storage_offset storage_offset is_floating_point is_complex
    is_contiguous element_size""".split()
) | frozenset(
    f"prim::{name}"
    for name in """
    device dtype is_cpu is_ipu is_maia is_meta is_mtia is_vulkan is_xla is_xpu itemsize layout is_cuda is_mps requires_grad shape
    nbytes isinstance""".split()
)
"""They read the shape and the type of a tensor, not its elements, and return a number."""

LAYOUT_READERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    as_strided as_strided_ as_strided_copy as_strided_scatter _reshape_alias is_contiguous storage_offset stride sym_storage_offset
    sym_stride""".split()
)
"""Their results depend on the strides of their operand, not only on its elements and extents."""

OBJECT_READERS: Final = frozenset(
    f"aten::{name}"
    for name in """
    __getitem__ _set_item append extend insert pop clear Delete copy get setdefault update keys values items popitem len
    list dict reverse slice select add_ mul_ add mul""".split()
) | {"prim::ListUnpack"}
"""Their overloads on lists and dicts read which objects a container holds, not the objects themselves."""

READ_NOTHING: Final = frozenset({
    "prim::If", "prim::Loop", "prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "prim::TupleUnpack",
    "prim::TupleIndex", "prim::TupleSlice", "prim::Constant", "prim::Uninitialized", "prim::unchecked_unwrap_optional",
    "prim::CreateObject", "aten::__is__", "aten::__isnot__", "aten::_unwrap_optional",
})  # fmt: skip
"""They pass their operands on, or only compare object identity."""

MOVES_STATISTICS: Final[Mapping[str, str]] = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::cudnn_batch_norm": "training",
    "aten::miopen_batch_norm": "training",
    "aten::_batch_norm_impl_index": "training",
    "aten::instance_norm": "use_input_stats",
}
"""Normalisations that write their running statistics (operands 3 and 4), which their schemas do not declare, and the flag that
enables it (operand 5)."""
