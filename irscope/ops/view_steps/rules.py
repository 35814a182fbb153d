"""What each view op does, as steps: the one place where a view op is described.

A rule reads the extents and the arguments of an op and returns the steps to its result, or a list of these for a list of results.
Its type with strides and its NumPy reference (`irscope.ops.data.views`) follow, and so does what the analysis of views knows of it
(`irscope.analysis.views`). Extents and numbers among the arguments may be `Extent`s; tensors are represented by their `shape`, `dtype`
and `device`. A number that cannot be derived from the arguments gets a fresh name, the same for the same expression.

The rules follow torch 2.13, op by op: `tests/ops/data/test_views.py` compares types with torch, and `tests/analysis/views/test_storages.py`
storages. A rule raises `NotKnown` for what depends on a run, and `ArgumentError` (`mismatch`) for what no run accepts.
"""

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeVar

from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ops.type_rules import dtype_name, mismatch, wrap_dim
from irscope.ops.view_steps.extents import Extent, Num, divided, is_at_least, product, quotient, slice_bound, slice_length
from irscope.ops.view_steps.steps import (
    FRESH,
    Cut,
    Dense,
    Diagonal,
    Drop,
    Expand,
    Insert,
    Joined,
    Kind,
    NotKnown,
    Operand,
    Paired,
    Permute,
    Pick,
    Place,
    Regroup,
    Returned,
    Retyped,
    Rule,
    Step,
    Steps,
    Window,
    chunks_of,
    pieces_of,
    sections_of,
    whole,
)

RULES: Final[dict[str, Rule]] = {}
"""The rule of each op."""

SCHEMAS: Final[dict[str, tuple[str, ...]]] = {}
"""The overloads of the ops whose type and reference follow from their steps."""

KINDS: Final[dict[str, Kind]] = {}
"""The kind of each op of torch that is always a view, or a view if it can be."""

RETURNS: Final[dict[str, Returned]] = {}
"""What each op returns, as an object."""

INVERSES: Final[dict[str, str]] = {}
"""The op that undoes a view, where there is one: it takes the result and the same other operands, `view_as` the viewed tensor. That of
a part takes the whole, and what is to stand in the place of the part: it returns a copy of the whole with that in it."""

_R = TypeVar("_R", bound=Rule)


def view(
    *overloads: str, elsewhere: str = "", kind: Kind | None = None, returns: Returned = "a view", inverse: str | None = None
) -> Callable[[_R], _R]:
    """Enters a rule for these overloads (as `define` takes them), and for ops whose types are declared elsewhere.

    What the steps do not say is declared: what happens to the elements, what is returned, and the op that undoes the view (`itself`).
    """

    def enter(rule: _R) -> _R:
        names = [overload.partition("(")[0].partition(".")[0] for overload in overloads]
        for op, overload in zip(names, overloads, strict=True):
            SCHEMAS[op] = (*SCHEMAS.get(op, ()), overload)
        for op in (*names, *elsewhere.split()):
            RULES[op], RETURNS[op] = rule, returns
            if kind and op.startswith("aten::"):
                KINDS[op] = kind
            if inverse:
                INVERSES[op] = op if inverse == "itself" else inverse
        return rule

    return enter


Lowered = tuple[Steps, ...] | str | None
"""The steps to each result; `FRESH` if the results have memory of their own; None if that depends on something unknown."""


def lower(op: str, shape: tuple[Num, ...], dtype: str | None, device: str | None, arguments: Mapping[str, Any]) -> Lowered:
    """Return the steps of a view op on a tensor of this shape and type; None also for an op that is not in the table.

    `arguments` has the op's other arguments by name, including defaults.

    >>> lower("aten::flatten", (2, 3, 4), "float32", None, {"start_dim": 1, "end_dim": -1})
    ((Regroup(shape=(2, 12), may_copy=True),),)
    >>> lower("aten::unbind", (2, 3), "float32", None, {"dim": 0})
    ((Pick(axis=0, place=0),), (Pick(axis=0, place=1),))
    """
    rule = RULES.get(op)
    if rule is None:
        return None
    try:
        found = rule(Operand(shape, dtype, device, arguments))
    except (NotKnown, ArgumentError, KeyError):
        return None
    return FRESH if found is FRESH else tuple(found) if isinstance(found, list) else (found,)


# Other axes: permuted, dropped, inserted.


@view("aten::alias", kind="same place", inverse="itself")
@view("aten::detach", elsewhere="aten::data prim::data prims::view_of", kind="same place")
@view(elsewhere="aten::lift aten::lift_fresh aten::positive", kind="same place", returns="the operand")
@view(elsewhere="aten::_conj aten::_neg_view prims::conj", kind="another type")
@view(elsewhere="aten::conj", kind="another type", returns="a view or the operand")
@view("aten::detach_")
def _same(self: Operand) -> Steps:
    return ()


@view(elsewhere="aten::resolve_conj aten::resolve_neg aten::conj_physical")
def _same_if_real(self: Operand) -> Steps:
    """Return no steps (the tensor itself), unless it may be marked as a conjugate."""
    if self.dtype is None or self.dtype.startswith("complex"):
        raise NotKnown
    return ()


@view("aten::permute", elsewhere="prims::transpose", kind="exchange")
def _permute(self: Operand) -> Steps:
    self.at_least = (None,) * self.rank
    axes = self.axes("permutation" if "permutation" in self.given else "dims")
    if sorted(axes) != list(range(self.rank)):
        raise mismatch(f"permute({list(axes)}) does not name each of the {self.rank} dimensions once", rule="permute-dims")
    return (Permute(axes),)


def _exchange(self: Operand, a: int, b: int) -> Steps:
    if not self.rank:
        return ()
    axes = list(range(self.rank))
    axes[a], axes[b] = axes[b], axes[a]
    return (Permute(tuple(axes)),)


@view("aten::transpose.int", "aten::swapdims", "aten::swapaxes", kind="exchange", inverse="itself")
def _transpose(self: Operand) -> Steps:
    self.at_least = (None,) * self.rank
    return _exchange(self, *(self.axis(name) for name in self.given))


@view("aten::t", kind="exchange", inverse="itself")
def _t(self: Operand) -> Steps:
    if self.rank > 2:
        raise mismatch(f"t() takes a matrix, not {self}", rule="rank")
    return _reverse(self)


@view("aten::numpy_T", kind="exchange")
@view(elsewhere="aten::matrix_H", kind="another type", returns="a view or the operand")
def _reverse(self: Operand) -> Steps:
    return (Permute(tuple(range(self.rank))[::-1]),)


@view("aten::mT", kind="exchange", returns="a view or the operand")
@view(elsewhere="aten::mH aten::adjoint", kind="another type", returns="a view or the operand")
def _transpose_matrix(self: Operand) -> Steps:
    return _exchange(self, wrap_dim(-2, self.rank, op="mT"), wrap_dim(-1, self.rank, op="mT")) if self.rank else ()


@view("aten::movedim.intlist", "aten::movedim.int", elsewhere="aten::moveaxis", kind="exchange")
def _movedim(self: Operand) -> Steps:
    sources, targets = self.axes("source"), self.axes("destination")
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise mismatch(f"movedim takes pairs of different dimensions, not {list(sources)} and {list(targets)}", rule="permute-dims")
    if not self.rank:  # a 0-d tensor has one nominal axis, and stays as it is
        return (Permute(()),)
    axes = [axis for axis in range(self.rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        axes.insert(target, source)
    return (Permute(tuple(axes)),)


def _is_one(extent: Num) -> bool:
    if isinstance(extent, int):
        return extent == 1
    if is_at_least(extent, 2):
        return False
    raise NotKnown


@view("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", elsewhere="prims::squeeze", kind="unit axes")
def _squeeze(self: Operand) -> Steps:
    name = "dim" if "dim" in self.given else "dimensions"
    axes = tuple(range(self.rank)) if self.given.get(name) is None else self.axes(name)
    if len(set(axes)) != len(axes):
        raise mismatch(f"squeeze names a dimension of {self} twice: {list(axes)}", rule="squeeze-dims")
    return (Drop(tuple(sorted(axis for axis in axes if self.rank and _is_one(self.shape[axis])))),)


@view("aten::unsqueeze", kind="unit axes", inverse="aten::squeeze")
def _unsqueeze(self: Operand) -> Steps:
    self.at_least = (None,) * (self.rank + 1)
    return (Insert(self.axis("dim", self.rank + 1)),)


def _atleast(rank: int) -> Rule:
    places = {(1, 0): (0,), (2, 0): (0, 1), (2, 1): (0,), (3, 0): (0, 1, 2), (3, 1): (0, 2), (3, 2): (2,)}
    return lambda self: tuple(Insert(axis) for axis in places.get((rank, self.rank), ()))


for _rank in (1, 2, 3):
    view(elsewhere=f"aten::atleast_{_rank}d")(_atleast(_rank))


# All elements with other extents: regrouped, repeated, or reinterpreted as another type.


def _shape_text(shape: Sequence[Num]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _target(shape: Sequence[Num], sizes: Sequence[Num]) -> tuple[Num, ...]:
    """Return the extents with -1 resolved."""
    if -1 not in sizes:
        return tuple(sizes)
    count, given = product(shape), product(size for size in sizes if size != -1)
    if isinstance(given, int) and isinstance(count, int):
        if not given or count % given:
            raise mismatch(f"{_shape_text(shape)}, {plural(count, 'element')}, cannot be seen as {_shape_text(sizes)}", rule="view-size")
        rest: Num = count // given
    else:
        rest = divided(count, given)
    return tuple(rest if size == -1 else size for size in sizes)


@view("aten::view", "aten::view.dtype", kind="regroup", inverse="aten::view_as")
@view("aten::_unsafe_view", "aten::view_as", kind="regroup")
def _view(self: Operand) -> Steps:
    if "dtype" in self.given:
        return _view_of_dtype(self)
    return (Regroup(_asked(self, "size"), False),)


def _asked(self: Operand, name: str) -> tuple[Num, ...]:
    return self.shape_of("other") if "other" in self.given else _target(self.shape, self.nums(name))


@view(elsewhere="prims::view_of_dtype")
def _view_of_dtype(self: Operand) -> Steps:
    own, self.dtype = self.dtype, dtype_name(self.given["dtype"], None)
    if own is None or self.dtype is None:
        raise NotKnown
    return (Retyped(self.dtype),)


@view("aten::reshape", "aten::reshape_as", kind="regroup", returns="a view or a copy")
def _reshape(self: Operand) -> Steps:
    return (Regroup(_asked(self, "shape"), True),)


def _merge(self: Operand, first: int, last: int, *, may_copy: bool) -> Steps:
    merged = product(self.shape[first : last + 1])
    return (Regroup((*self.shape[:first], merged, *self.shape[last + 1 :]), may_copy),)


@view("aten::flatten.using_ints", kind="regroup", returns="a view or a copy")
def _flatten(self: Operand) -> Steps:
    first, last = self.axis("start_dim"), self.axis("end_dim")
    if not self.rank:
        return (Regroup((1,), True),)
    if first > last:
        raise mismatch(f"flatten goes from a dimension to a later one, not from {first} to {last}", rule="dimension-range")
    return () if first == last else _merge(self, first, last, may_copy=True)


@view(elsewhere="prims::collapse_view")
def _collapse(self: Operand) -> Steps:
    return _merge(self, self.axis("start"), self.axis("end"), may_copy=False)


@view(elsewhere="aten::ravel", kind="regroup", returns="a view or a copy")
def _ravel(self: Operand) -> Steps:
    return (Dense(0), Regroup((product(self.shape),), False))


def _split_axis(self: Operand, axis: int, parts: Sequence[Num]) -> Steps:
    return (Regroup((*self.shape[:axis], *parts, *self.shape[axis + 1 :]), False),)


@view("aten::unflatten.int", kind="regroup")
def _unflatten(self: Operand) -> Steps:
    axis = self.own_axis("dim")
    sizes, extent = _target(self.shape[axis : axis + 1], self.nums("sizes")), self.shape[axis]
    if isinstance(extent, int) and isinstance(product(sizes), int) and product(sizes) != extent:  # though both tensors may be empty
        raise mismatch(f"dimension {self.given['dim']} of {self} cannot be seen as {_shape_text(sizes)}", rule="view-size")
    return _split_axis(self, axis, sizes)


@view(elsewhere="prims::split_dim")
def _split_dim(self: Operand) -> Steps:
    axis, outer = self.own_axis("dim"), self.nums("outer_length")[0]
    return _split_axis(self, axis, (outer, divided(self.shape[axis], outer)))


@view("aten::expand", "aten::broadcast_to", "aten::expand_as", kind="stretch")
def _expand(self: Operand) -> Steps:
    sizes = self.shape_of("other") if "other" in self.given else self.nums("size")
    new = len(sizes) - self.rank
    if new < 0:
        raise mismatch(f"{self} has more dimensions than expand's {_shape_text(sizes)}", rule="expand-size")
    if -1 in sizes[:new]:
        raise mismatch(f"expand's -1 keeps an extent, and {self} has none there: {_shape_text(sizes)}", rule="expand-size")
    old = (1,) * new + self.shape
    return (Expand(tuple(here if size == -1 or _is_kept(here, size) else size for here, size in zip(old, sizes, strict=True))),)


def _is_kept(here: Num, size: Num) -> bool:
    """Whether an extent of which nothing is known, and which may be -1, can only be the one that is there: only 1 can grow."""
    return isinstance(here, int) and here != 1 and isinstance(size, Extent) and any(name[0] == "~" for name in size.names)


@view(elsewhere="prims::broadcast_in_dim")
def _broadcast_in_dim(self: Operand) -> Steps:
    shape, kept = self.nums("shape"), self.nums("broadcast_dimensions")
    inserted: list[Step] = [Insert(axis) for axis in range(len(shape)) if axis not in kept]
    return (*inserted, Expand(shape))


# Parts: slices, diagonals, windows, pieces.


def _from_the_front(index: Num | None, extent: Num) -> Num | None:
    """Return an index counted from the front; None where its sign is not known."""
    if isinstance(index, int) and index < 0:
        return extent + index
    return None if isinstance(index, Extent) and not is_at_least(index, 0) else index


@view("aten::select.int", kind="part", inverse="aten::select_scatter")
def _select(self: Operand) -> Steps:
    self.at_least = (None,) * (self.rank - 1)
    axis = self.own_axis("dim")
    return (Pick(axis, _from_the_front(self.num("index"), self.shape[axis])),)


@view("aten::slice.Tensor", kind="part", inverse="aten::slice_scatter")
def _slice(self: Operand) -> Steps:
    self.at_least = (None,) * self.rank
    axis = self.own_axis("dim")
    self.at_least = (*self.shape[:axis], None, *self.shape[axis + 1 :])
    step, extent, given = self.whole("step"), self.shape[axis], self.given
    if step < 1:
        raise mismatch(f"the step of a slice is {step}; torch takes only steps of at least 1", rule="slice-step")
    if isinstance(extent, int) and not {given["start"].__class__, given["end"].__class__} - {int, NoneType}:
        places = range(extent)[given["start"] : given["end"] : step]
        return (Cut(axis, places.start, len(places), step),)
    start = slice_bound(0 if given["start"] is None else self.num("start"), extent)
    end = slice_bound(extent if given["end"] is None else self.num("end"), extent)
    if start is None or end is None:
        raise NotKnown
    return (Cut(axis, start, slice_length(start, end, step), step),)


@view("aten::narrow", "aten::narrow.Tensor", kind="part")
def _narrow(self: Operand) -> Steps:
    axis = self.own_axis("dim")
    (length,) = self.nums("length")
    return (Cut(axis, _from_the_front(self.num("start"), self.shape[axis]), length),)


@view("aten::diagonal", elsewhere="aten::linalg_diagonal", kind="diagonal")
def _diagonal(self: Operand) -> Steps:
    offset, rows, columns = self.whole("offset"), self.own_axis("dim1"), self.own_axis("dim2")
    if rows == columns:
        raise mismatch(f"a diagonal runs along two dimensions, not twice along {rows}", rule="dimension-range")
    tall, wide = self.shape[rows], self.shape[columns]
    if isinstance(tall, int) and isinstance(wide, int):
        length: Num = max(min(tall, wide - offset) if offset >= 0 else min(tall + offset, wide), 0)
    elif offset == 0 and (is_at_least(wide, tall) or is_at_least(tall, wide)):
        length = tall if is_at_least(wide, tall) else wide
    else:
        length = Extent.of(f"diagonal({tall}, {wide}, {offset})")
    return (Diagonal(offset, rows, columns, length),)


@view("aten::unfold", kind="window")
def _unfold(self: Operand) -> Steps:
    axis, size, step = self.axis("dimension"), self.whole("size"), self.whole("step")
    if step < 1 or size < 0 or (not self.rank and size > 1):
        what = f"windows of {size}, {step} apart, do not fit dimension {self.given['dimension']} of {self}"
        raise mismatch(what, rule="index-range")
    if not self.rank:
        return (Place((size,), (1,), None),)
    extent = self.shape[axis]
    count = quotient(extent - size, step) if isinstance(extent, Extent) else (extent - size) // step
    return (Window(axis, size, step, (Extent.of(f"({extent - size})//{step}") if count is None else count) + 1),)


@view("aten::as_strided", "aten::_reshape_alias", kind="placed")
def _as_strided(self: Operand) -> Steps:
    (offset,) = (None,) if self.given.get("storage_offset") is None else self.nums("storage_offset")
    sizes = self.nums("size")
    self.at_least = sizes
    strides = self.nums("stride")
    if len(sizes) != len(strides):
        raise mismatch(f"{len(sizes)} sizes and {len(strides)} strides make no view", rule="view-bounds")
    for what, numbers in (("extent", sizes), ("stride", strides)):
        least = min((number for number in numbers if isinstance(number, int)), default=0)
        if least < 0:
            raise mismatch(f"as_strided takes no negative {what}: {least}", rule="view-bounds")
    if isinstance(offset, int) and offset < 0:
        raise mismatch(f"as_strided takes no negative offset: {offset}", rule="view-bounds")
    return (Place(sizes, strides, offset),)


def _pieces(self: Operand, axis: int, sizes: Sequence[Num] | None) -> list[Steps]:
    if sizes is None:
        raise NotKnown
    found: list[Steps] = []
    start: Num = 0
    for size in sizes:
        found.append((Cut(axis, start, size),))
        start = start + size
    return found


@view("aten::chunk", kind="cuts")
def _chunk(self: Operand) -> list[Steps]:
    axis, chunks = self.own_axis("dim"), self.whole("chunks")
    if chunks < 1:
        raise mismatch(f"chunk takes at least 1 chunk, not {chunks}", rule="split-sizes")
    return _pieces(self, axis, chunks_of(self.extent(axis), chunks, self.most_pieces))


@view("aten::split.Tensor", "aten::split.sizes", "aten::split", "aten::split_with_sizes", kind="cuts")
def _split(self: Operand) -> list[Steps]:
    name = next(name for name in ("split_size", "split_sizes") if self.given.get(name) is not None)
    axis = self.own_axis("dim")
    if isinstance(self.given[name], list | tuple):
        sizes = self.nums(name)
        total, least = sum(sizes), min((size for size in sizes if isinstance(size, int)), default=0)
        if least < 0 or (isinstance(total, int) and isinstance(self.shape[axis], int) and total != self.shape[axis]):
            raise mismatch(f"pieces of {list(sizes)} do not add up to dimension {self.given['dim']} of {self}", rule="split-sizes")
        return _pieces(self, axis, sizes)
    extent, size = self.extent(axis), self.whole(name)
    if size < 0 or (size == 0 and extent):
        raise mismatch(f"split cannot cut {extent} elements into pieces of {size}", rule="split-sizes")
    return _pieces(self, axis, pieces_of(extent, size, self.most_pieces))


def _unless_conjugate(rule: Rule) -> Rule:
    """Restrict a rule to tensors that are not lazily conjugated: torch materializes a conjugate before an op that declares no view,
    and then the parts are views of a copy."""

    def pieces(self: Operand) -> Any:
        _same_if_real(self)
        return rule(self)

    return pieces


view(elsewhere="aten::unsafe_chunk", kind="cuts")(_unless_conjugate(_chunk))
view(elsewhere="aten::unsafe_split aten::unsafe_split_with_sizes", kind="cuts")(_unless_conjugate(_split))


@view("aten::unbind.int", kind="cuts")
def _unbind(self: Operand) -> list[Steps]:
    axis = self.own_axis("dim")
    extent = self.extent(axis)
    if self.most_pieces is not None and extent > self.most_pieces:
        raise NotKnown
    return [(Pick(axis, index),) for index in range(extent)]


def _cut_at(self: Operand, axis: int) -> list[Steps]:
    """Return the steps of `tensor_split`: into a number of parts, the first ones larger by one, or at given indices."""
    extent, sections = self.extent(axis), self.given.get("sections")
    if sections is not None:
        if whole(sections) < 1:
            raise mismatch(f"tensor_split takes at least 1 section, not {sections}", rule="split-sizes")
        return _pieces(self, axis, sections_of(extent, sections, self.most_pieces))
    ends = [whole(slice_bound(place, extent)) for place in self.nums("indices")]
    cuts = zip([0, *ends], [*ends, extent], strict=True)
    return [(Cut(axis, start, max(end - start, 0)),) for start, end in cuts]


@view("aten::tensor_split.sections", "aten::tensor_split.indices", kind="cuts")
def _tensor_split(self: Operand) -> list[Steps]:
    return _cut_at(self, self.own_axis("dim"))


def _cut_along(first: int) -> Rule:
    """Return the rule of `hsplit`, `vsplit` or `dsplit`, which split along a fixed axis."""

    def pieces(self: Operand) -> list[Steps]:
        axis = 0 if first == 1 and self.rank == 1 else first
        if axis >= self.rank:
            raise NotKnown
        return _cut_at(self, axis)

    return pieces


for _name, _axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
    view(elsewhere=f"aten::{_name}", kind="cuts")(_cut_along(_axis))


# The tensor itself if it has the requested type, memory format and device; and views between complex and real.

_COMPLEX_OF: Final = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
_REAL_OF: Final = {whole: part for part, whole in _COMPLEX_OF.items()}


@view("aten::real", elsewhere="prims::real", kind="another type", returns="a view or the operand")
def _real(self: Operand) -> Steps:
    self.at_least = self.shape
    if self.dtype is None:
        raise NotKnown
    return (Paired(0, _REAL_OF[self.dtype]),) if self.dtype in _REAL_OF else ()


@view("aten::imag", elsewhere="prims::imag", kind="another type")
def _imag(self: Operand) -> Steps:
    self.at_least = self.shape
    return (Paired(1, _REAL_OF[self.dtype or ""]),)


@view("aten::view_as_real", kind="another type")
def _view_as_real(self: Operand) -> Steps:
    self.at_least = (*self.shape, 2)
    return (Paired(None, _REAL_OF[self.dtype or ""]),)


@view("aten::view_as_complex", kind="another type")
def _view_as_complex(self: Operand) -> Steps:
    self.at_least = self.shape[:-1]
    return (Joined(_COMPLEX_OF[self.dtype or ""]),)


@view("aten::contiguous", kind="same place", returns="a view or a copy")
def _contiguous(self: Operand) -> Steps:
    self.at_least = self.shape
    wanted = self.whole("memory_format")
    return () if wanted == 1 else (Dense(wanted),)


@view(elsewhere="aten::to aten::type_as", returns="a view or a copy")
def _to(self: Operand) -> Steps | str:
    other, given = self.given.get("other"), self.given
    dtype = dtype_name(given.get("dtype"), self.dtype) if other is None else other.dtype
    if given.get("copy", False) is True or (dtype is not None and self.dtype is not None and dtype != self.dtype):
        return FRESH
    device = given.get("device") if other is None else other.device
    if device is not None or other is not None:
        if device is None or self.device is None:
            raise NotKnown
        if str(device) != self.device:
            return FRESH
    if dtype is None or self.dtype is None or given.get("copy", False) is not False:
        raise NotKnown
    wanted = given.get("memory_format")
    if wanted is None or wanted == 1:
        return ()
    return (Dense(whole(wanted), suggested=True),)


@view(elsewhere="aten::cpu")
def _cpu(self: Operand) -> Steps | str:
    if self.device is None:
        raise NotKnown
    return () if self.device == "cpu" else FRESH


@view(elsewhere="aten::dropout aten::feature_dropout aten::alpha_dropout aten::feature_alpha_dropout")
def _dropout(self: Operand) -> Steps | str:
    train, p = self.given["train"], self.given["p"]
    if train is False or p == 0:
        return ()
    if train is not True or not isinstance(p, float | int) or not all(is_at_least(dim, 1) for dim in self.shape):
        raise NotKnown
    return FRESH
