"""What kind of op a name is, one set for each question. Tested with torch 2.13, name by name: `tests/ops/traits`."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from irscope.ops.view_steps import INVERSES as _INVERSES
from irscope.ops.view_steps import KINDS, RETURNS, SCHEMAS, Kind, Returned

# Properties of ops' results and operands: created from numbers, packed into containers, laid out without gaps, commutative.


def in_space(space: str, names: str) -> frozenset[str]:
    return frozenset(f"{space}::{name}" for name in names.split())


_aten: Final = partial(in_space, "aten")


CREATES: Final = _aten("arange eye full ones zeros")
"""The result is a tensor determined by numbers."""

CREATES_LIKE: Final = _aten("full_like new_full new_ones new_zeros ones_like zeros_like")
"""The same, but reads the element type and the extents of a tensor operand."""

ALLOCATES: Final = _aten("empty empty_like empty_strided new_empty new_empty_strided")
"""The result is memory that nothing was written into."""

DENSE_RESULT: Final = _aten("clone empty_like full_like ones_like zeros_like")
"""Not pointwise, but the result is also in memory of its own and laid out without gaps."""

LAID_OUT_LIKE_FIRST: Final = _aten("copy")
"""Not pointwise, but the axes of the result are laid out in the order of those of the first operand; if that has no gaps, the
layouts are equal."""

LAID_OUT_LIKE_INPUT_ON_CPU: Final = _aten("group_norm native_group_norm")
"""On a CPU the result is channels-last if the input is; on a GPU it is row-major (torch 2.13)."""

STARTS_LIKE_FIRST: Final = _aten("copy as_strided_scatter diagonal_scatter masked_scatter select_scatter slice_scatter")
"""The result is the first operand with other elements. It may begin at an offset into its memory, as that operand does."""

ROW_MAJOR_RESULT: Final = _aten("zeros ones full empty arange rand randn eye linspace mm bmm addmm baddbmm linear matmul embedding")
"""The result is always row-major (torch 2.13)."""

ROW_MAJOR_FROM_ROWS: Final = _aten(
    "cat concat stack sum mean amax amin cumsum softmax _softmax log_softmax _log_softmax layer_norm index_select gather clone empty_like "
    "zeros_like ones_like full_like"
)
"""The result is row-major if all operands are (torch 2.13)."""

OVERLAPPING_RESULT: Final = _aten("as_strided as_strided_copy as_strided_scatter empty_strided new_empty_strided")
"""The result may contain the same memory location twice, because its strides are operands."""

CUTS_GRADIENT: Final = frozenset({"aten::data", "aten::detach", "prim::data"})
"""The result requires no gradient, whether or not the operand does."""

PACKS_SEQUENCE: Final = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})
PACKS: Final = PACKS_SEQUENCE | {"prim::DictConstruct"}
"""The result is a new container of exactly the operands."""

NARROWS: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"})
"""The result is the operand, with a more precise static type."""

UNPACKS: Final = frozenset({"prim::ListUnpack", "prim::TupleUnpack"})
"""The results are the elements of the operand, a container, one by one."""

COMMUTES: Final = _aten("add bitwise_and bitwise_or bitwise_xor eq logical_and logical_or logical_xor mul ne") | in_space(
    "kernel", "add and eq mul ne or xor"
)
"""Swapping two tensors changes no bit of a result that is a number, if `alpha` is 1. `maximum` does not commute: its result
for 0.0 and -0.0 depends on their order."""

DECIDES: Final[Mapping[str, frozenset[str]]] = {
    "aten::group_norm": frozenset({"eps"}), "aten::linalg_vector_norm": frozenset({"ord"}),
    "aten::nan_to_num": frozenset({"nan", "posinf", "neginf"}), "aten::norm": frozenset({"p"}), "aten::pow": frozenset({"exponent"}),
    "aten::softshrink": frozenset({"lambd"}),
    "aten::std": frozenset({"correction"}), "aten::var": frozenset({"correction"}), "aten::var_mean": frozenset({"correction"}),
}  # fmt: skip
"""Numbers that determine which operations are computed, or if any are, by op and argument; they must be known when a kernel is built."""


# Effects on memory that schemas do not declare: ops that read only shapes, may change them, or replace storage.
#
# An op in none of these sets is assumed to read all of its operands, elements and shape, and to write what its schema says.

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

MOVES_NOTHING: Final = OBJECT_WRITERS | ALLOCATES
"""Neither views nor free of effects, but they read and write no elements."""

SHAPE_READERS: Final = _aten("""
    size dim numel stride sym_size sym_stride sym_numel sym_storage_offset storage_offset is_floating_point is_complex
    is_contiguous element_size""") | in_space(
    "prim",
    """
    device dtype is_cpu is_ipu is_maia is_meta is_mtia is_vulkan is_xla is_xpu itemsize layout is_cuda is_mps requires_grad shape
    nbytes isinstance""",
)
"""They read the shape and the type of a tensor, not its elements, and return a number."""

OF_THE_TENSOR: Final = _aten("""
    as_strided as_strided_copy as_strided_scatter _reshape_alias storage_offset sym_storage_offset __is__ __isnot__""") | {
    "prim::requires_grad"
}
"""Their results depend on more than the elements, shape and strides of a tensor."""

LAYOUT_READERS: Final = _aten("""
    as_strided as_strided_ as_strided_copy as_strided_scatter _reshape_alias is_contiguous storage_offset stride sym_storage_offset
    sym_stride""")
"""Their results depend on the strides of their operand, not only on its elements and extents."""

GIVES_TO_HOST: Final = _aten("""
    item _local_scalar_dense Bool Int Float Complex ScalarImplicit IntImplicit FloatImplicit is_nonzero equal allclose cpu""") | {
    "prim::tolist"
}
"""Their results are numbers made of the elements of a tensor, or a copy of it there: where it is on a GPU, the host waits."""

SHAPED_BY_ELEMENTS: Final = _aten("""
    nonzero nonzero_numpy argwhere masked_select combinations isin _unique _unique2 unique_consecutive unique_dim
    unique_dim_consecutive bincount one_hot ctc_loss _ctc_loss linalg_lstsq to_sparse to_sparse_csr to_sparse_csc to_sparse_bsr
    to_sparse_bsc _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc""")
"""The shape of a result, or of what they need in between, depends on elements, which the host reads (torch 2.13: those that it tags
so, and what computes by them); of some others by their operands: see `reads_on_host` of `irscope.ops.registry`."""

NUMBER_OF_A_TENSOR: Final = {"aten::tensor_split": 1, "aten::narrow": 2, "aten::index_fill": 3, "aten::index_fill_": 3}
"""The operand that may be a number or a tensor that holds it, which the host reads."""

INDEXED: Final = _aten("index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put")
"""They count the elements of masks among their indices, and read nothing of whole numbers."""

CHECKED_ON_HOST: Final = _aten("""
    linalg_inv inverse linalg_solve linalg_ldl_solve linalg_tensorinv linalg_tensorsolve linalg_cholesky cholesky linalg_lu_factor
    linalg_ldl_factor linalg_lu_factor_ex linalg_ldl_factor_ex linalg_lu _lu_with_info linalg_matrix_power matrix_power linalg_eigh
    linalg_eigvalsh _linalg_eigh linalg_eig linalg_eigvals linalg_svd linalg_svdvals svd _linalg_svd linalg_pinv pinverse
    linalg_matrix_rank linalg_cond linalg_matrix_exp matrix_exp segment_reduce cov corrcoef istft _pack_padded_sequence""")
"""They fail for some elements, or choose their way by them: so the host reads a number before they return (torch 2.13)."""

OBJECT_READERS: Final = _aten("""
    __getitem__ _set_item append extend insert pop clear Delete copy get setdefault update keys values items popitem len
    list dict reverse slice select add_ mul_ add mul""") | {"prim::ListUnpack"}
"""Their overloads on lists and dicts read which objects a container holds, not the objects themselves."""

READ_NOTHING: Final = frozenset({
    "prim::If", "prim::Loop", "prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "prim::TupleUnpack",
    "prim::TupleIndex", "prim::TupleSlice", "prim::Constant", "prim::Uninitialized", "prim::unchecked_unwrap_optional",
    "prim::CreateObject", "aten::__is__", "aten::__isnot__", "aten::_unwrap_optional",
})  # fmt: skip
"""They pass their operands on, or only compare object identity."""

MOVES_STATISTICS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_aten("batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index"), "training"),
    "aten::instance_norm": "use_input_stats",
}
"""Normalisations that write their running statistics (operands 3 and 4), which their schemas do not declare, and the flag that
enables it (operand 5)."""


# Ops with side effects that no schema declares, by the kind of effect.

_TELLS: Final = frozenset({
    "aten::save", "aten::warn", "prim::Print", "prim::AddStatValue", "prim::TimePoint",
})  # fmt: skip
"""They produce output that is visible outside the program."""

STOPS: Final = frozenset({
    "prim::RaiseException", "aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata",
    "aten::_functional_assert_async", "aten::_functional_assert_scalar", "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size", "aten::_linalg_check_errors", "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
})  # fmt: skip
"""They may end the program: nothing may move from after to before them, and from then on only memory that the caller can reach
matters."""

CHANGES_RANDOM_STATE: Final = frozenset({"aten::manual_seed", "aten::seed"})

_CHANGES_STATE: Final = CHANGES_RANDOM_STATE | {
    "aten::set_grad_enabled", "aten::set_data", "aten::retain_grad", "prim::SetAttr",
}  # fmt: skip
"""They change global state, or an object as a whole."""

KNOWN_SIDE_EFFECTS: Final = _TELLS | STOPS | _CHANGES_STATE
"""They have a side effect outside memory; in memory they do only what their schema says."""

RUNS_UNSEEN_CODE: Final = frozenset({
    "aten::_backward", "aten::wait", "prim::BailOut", "prim::BailoutTemplate", "prim::CallFunction", "prim::CallMethod",
    "prim::Enter", "prim::Exit", "prim::IgnoredPythonOp", "prim::PythonOp", "prim::awaitable", "prim::awaitable_nowait",
    "prim::awaitable_wait", "prim::fork", "prim::forkClosure", "prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync",
})  # fmt: skip
"""They run code that is not in the graph, or at another time, which may do anything to their operands."""


# The view ops: sets that follow from what their rules declare (`irscope.ops.view_steps.rules`), and name no op.
#
# An op without a kind may still be a view, if its schema says so. Then only the schema counts, with conservative assumptions: it may
# have to copy, it reads the elements, and it does not keep their order.


def _of_kind(*kinds: Kind) -> frozenset[str]:
    return frozenset(op for op, kind in KINDS.items() if kind in kinds)


def _returning(*returned: Returned) -> frozenset[str]:
    return frozenset(op for op, its in RETURNS.items() if its in returned)


VIEWS: Final = frozenset(KINDS)
SAME_PLACE: Final = _of_kind("same place")
RESHAPES: Final = _of_kind("regroup")
CUTS: Final = _of_kind("cuts")

MAY_COPY: Final = _returning("a view or a copy")
"""The result is a view of all elements of the first operand (the operand itself, unless it is regrouped), or else a copy; the element
types, extents and strides of both decide which."""

LIKE_ANOTHER: Final = frozenset(op for op in KINDS if op.endswith("_as"))
"""Views that take extents from a second tensor, whose elements they do not read."""

ALWAYS_SHARES: Final = VIEWS - MAY_COPY
"""Every result shares memory with the first operand, whatever that is."""

READS_SHAPE: Final = ALWAYS_SHARES | {"prim::ConstantChunk", "prim::data", "prim::unchecked_cast"}
"""Views that read the shape of the operand, not its elements, and so may move across a write to them. A second tensor
is read as usual, except by `LIKE_ANOTHER`: `narrow` and `tensor_split` may take numbers out of one."""

ANOTHER_OBJECT: Final = VIEWS & _returning("a view") - CUTS
"""The result is a separate tensor object even where it has all elements of the operand: `t_` on one does not affect the other."""

MAYBE_ANOTHER_OBJECT: Final = VIEWS - _returning("the operand")
"""Two results of equal calls may be distinguishable from a single one, as objects."""

KEEPS_ORDER: Final = _of_kind("same place", "unit axes", "regroup", "stretch")
"""Axes of extent 1 are inserted, removed or repeated, and axes are merged or split, but none are exchanged or cut."""

SEEN_THROUGH: Final = (
    (_of_kind("unit axes", "regroup", "stretch", "exchange", "part", "cuts") | (SAME_PLACE & MAY_COPY)) & SCHEMAS.keys()
) - LIKE_ANOTHER
"""Views that a kernel reads through: an element's position in the operand follows from its position in the result by adding,
multiplying and dropping indices. Those without a type rule, or with a second tensor, are not; a diagonal moves along two axes at once."""

LOGICAL: Final = VIEWS - _of_kind("another type", "placed")
"""An element's position in the operand follows from its position in the result and from the shapes. So the view of a copy with
another layout has the same elements."""

INVERSES: Final[Mapping[str, str]] = {op: inverse for op, inverse in _INVERSES.items() if KINDS[op] != "part"}
"""Views of all elements, and the inverse of each: it takes the same operands, or the viewed tensor (`LIKE_ANOTHER`)."""

PUTS_BACK: Final[Mapping[str, str]] = {op: inverse for op, inverse in _INVERSES.items() if KINDS[op] == "part"}
"""Views of a part, and the op that writes such a part into a copy of the whole."""

PATCHES: Final = frozenset(PUTS_BACK.values())
"""Ops that return a tensor with a part of it replaced."""

JOINS: Final = _aten("cat concat stack")
"""They join a list of tensors along an axis."""

OVERWRITES: Final = _aten("copy_ copy fill_ zero_ normal_ uniform_ bernoulli_ exponential_ random_ geometric_ cauchy_ log_normal_")
"""They do not read the elements of their first operand, only its shape."""

LOOKS_UP: Final = _aten("embedding index_select gather index _unsafe_index take take_along_dim")
"""They read as many elements of the first operand as they return."""

WRITES_INDEXED: Final = _aten("""
    index_copy_ index_add_ index_fill_ index_reduce_ scatter_ scatter_add_ scatter_reduce_ put_ index_put_ _index_put_impl_""")
"""They write, and read where they add, no elements of the first operand but those that indices name."""

LAYS_OUT: Final = frozenset({"mkldnn::_convolution_pointwise", "irscope::convolution"})
"""They read a weight `W` in an order of their own: a program that holds the weight lays it out once, and keeps both."""

MAX_POOLS: Final = _aten("max_pool1d max_pool2d max_pool3d")
"""Each element of the result is the largest one of a window of the operand."""
