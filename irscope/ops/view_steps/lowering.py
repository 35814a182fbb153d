"""Each view op as steps: what `aten::flatten` or `aten::movedim` come to for a tensor of given extents.

Extents and numbers among the arguments may be `Extent`s; tensors among them stand for themselves by their `shape`, `dtype`
and `device`. What follows from no argument at hand gets a name of its own, the same for the same question. The table is torch's of
2.13, op by op: `tests/analysis/views/test_storages.py` runs each against storages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope.errors import ArgumentError
from irscope.ops.typing import dtype_name, wrap_dim
from irscope.ops.view_steps.extents import Extent, Num, is_at_least, product, quotient
from irscope.ops.view_steps.steps import (
    Cut,
    Dense,
    Diagonal,
    Drop,
    Expand,
    Insert,
    Joined,
    Paired,
    Permute,
    Pick,
    Place,
    Regroup,
    Retyped,
    Step,
    Window,
)

__all__ = ["FRESH", "Lowered", "Steps", "could_be_steps", "is_lowered", "lower"]

Steps = tuple[Step, ...]
"""What one result is of the operand."""

Lowered = tuple[Steps, ...] | str | None
"""The steps to each result; `FRESH` for memory of their own; None if that depends on what is not known."""

FRESH: Final = "fresh"

_COMPLEX_OF: Final = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
_REAL_OF: Final = {whole: part for part, whole in _COMPLEX_OF.items()}
_FAR: Final = 2**62
"""From here on, an end of a slice means the end of the axis."""


class _NotKnown(Exception):
    """The steps depend on an argument that is not known."""


class _Self:
    """The operand and the other arguments of one op."""

    __slots__ = ("device", "dtype", "given", "shape")

    def __init__(self, shape: tuple[Num, ...], dtype: str | None, device: str | None, given: Mapping[str, Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.given = given

    @property
    def rank(self) -> int:
        return len(self.shape)

    def axis(self, name: str, rank: int | None = None) -> int:
        return wrap_dim(self.whole(name), self.rank if rank is None else rank)

    def whole(self, name: str) -> int:
        return _whole(self.given[name])

    def axes(self, name: str) -> tuple[int, ...]:
        given = self.given[name]
        return tuple(wrap_dim(_whole(item), self.rank) for item in (given if isinstance(given, list | tuple) else [given]))

    def num(self, name: str) -> Num | None:
        """A number; None if all that is known is that there is one."""
        given = self.given[name]
        return given if isinstance(given, int | Extent) else None

    def nums(self, name: str) -> tuple[Num, ...]:
        given = self.given[name]
        items = given if isinstance(given, list | tuple) else [given]
        if not all(isinstance(item, int | Extent) for item in items):
            raise _NotKnown
        return tuple(items)

    def extent(self, axis: int) -> int:
        return _whole(self.shape[axis])


def _whole(given: Any) -> int:
    if not isinstance(given, int):
        raise _NotKnown
    return int(given)


def lower(
    op: str, shape: tuple[Num, ...], dtype: str | None, device: str | None, arguments: Mapping[str, Any]
) -> Lowered:
    """The steps of a view op on a tensor of this shape and type; None also for an op that is not in the table.

    `arguments` has what the op takes beside the tensor, by name, defaults included.

    >>> lower("aten::flatten", (2, 3, 4), "float32", None, {"start_dim": 1, "end_dim": -1})
    ((Regroup(shape=(2, 12), may_copy=True),),)
    >>> lower("aten::unbind", (2, 3), "float32", None, {"dim": 0})
    ((Pick(axis=0, place=0),), (Pick(axis=0, place=1),))
    """
    rule = _RULES.get(op)
    if rule is None:
        return None
    try:
        found = rule(_Self(shape, dtype, device, arguments))
    except (_NotKnown, ArgumentError, KeyError):
        return None
    if found is FRESH or not isinstance(found, list):
        return found if found is FRESH else (found,)  # type: ignore[return-value]
    return tuple(found)


def is_lowered(op: str) -> bool:
    """Whether the table has an op."""
    return op in _RULES


def could_be_steps(op: str, shape: tuple[Num, ...], arguments: Mapping[str, Any]) -> Steps | None:
    """The steps of a view that would do where torch makes a copy: a padding by nothing and by less.

    >>> could_be_steps("aten::constant_pad_nd", (4, 6), {"pad": (-1, -2)})
    (Cut(axis=1, start=1, length=3, step=1),)
    """
    pad = arguments.get("pad")
    if op not in _PADS or arguments.get("mode", "constant") != "constant" or not isinstance(pad, list | tuple):
        return None
    if len(pad) % 2 or len(pad) > 2 * len(shape) or not all(isinstance(width, int) and width <= 0 for width in pad):
        return None
    steps: list[Step] = []
    for index in range(0, len(pad), 2):
        axis = len(shape) - 1 - index // 2
        if pad[index] or pad[index + 1]:
            steps.append(Cut(axis, -pad[index], shape[axis] + pad[index] + pad[index + 1]))
    return tuple(steps)


_PADS: Final = frozenset({"aten::constant_pad_nd", "aten::pad"})


# The same tensor, other axes


def _same(self: _Self) -> Steps:
    return ()


def _same_if_real(self: _Self) -> Steps:
    if self.dtype is None or self.dtype.startswith("complex"):
        raise _NotKnown
    return ()


def _permute(self: _Self) -> Steps:
    axes = self.axes("permutation" if "permutation" in self.given else "dims")
    if sorted(axes) != list(range(self.rank)):
        raise _NotKnown
    return (Permute(axes),)


def _exchanged(self: _Self, a: int, b: int) -> Steps:
    if not self.rank:
        return ()
    axes = list(range(self.rank))
    axes[a], axes[b] = axes[b], axes[a]
    return (Permute(tuple(axes)),)


def _transpose(self: _Self) -> Steps:
    return _exchanged(self, self.axis("dim0"), self.axis("dim1"))


def _swapaxes(self: _Self) -> Steps:
    return _exchanged(self, self.axis("axis0"), self.axis("axis1"))


def _reversed(self: _Self) -> Steps:
    return (Permute(tuple(range(self.rank))[::-1]),)


def _matrix(self: _Self) -> Steps:
    return _exchanged(self, wrap_dim(-2, self.rank), wrap_dim(-1, self.rank)) if self.rank else ()


def _movedim(self: _Self) -> Steps:
    sources, targets = self.axes("source"), self.axes("destination")
    axes = [axis for axis in range(self.rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        axes.insert(target, source)
    return (Permute(tuple(axes)),)


def _is_one(extent: Num) -> bool:
    if isinstance(extent, int):
        return extent == 1
    if is_at_least(extent, 2):
        return False
    raise _NotKnown


def _squeeze(self: _Self) -> Steps:
    given = self.given.get("dim", self.given.get("dimensions"))
    if given is None:
        axes = tuple(range(self.rank))
    else:
        axes = self.axes("dim" if "dim" in self.given else "dimensions") if self.rank else ()
    return (Drop(tuple(sorted({axis for axis in axes if _is_one(self.shape[axis])}))),)


def _unsqueeze(self: _Self) -> Steps:
    return (Insert(self.axis("dim", self.rank + 1)),)


def _atleast(rank: int) -> Callable[[_Self], Steps]:
    places = {(1, 0): (0,), (2, 0): (0, 1), (2, 1): (0,), (3, 0): (0, 1, 2), (3, 1): (0, 2), (3, 2): (2,)}
    return lambda self: tuple(Insert(axis) for axis in places.get((rank, self.rank), ()))


# Regrouping


def _target(self: _Self, sizes: Sequence[Num], count: Num | None = None) -> tuple[Num, ...]:
    """The extents with -1 worked out."""
    if -1 not in sizes:
        return tuple(sizes)
    count = product(self.shape) if count is None else count
    given = product(size for size in sizes if size != -1)
    if isinstance(given, int) and isinstance(count, int):
        if not given or count % given:
            raise _NotKnown
        rest: Num = count // given
    else:
        rest = _divided(count, given)
    return tuple(rest if size == -1 else size for size in sizes)


def _divided(count: Num, by: Num) -> Num:
    exact = quotient(count, by)
    return Extent.of(f"({count})/({by})") if exact is None else exact


def _view(self: _Self) -> Steps:
    if "dtype" in self.given:
        return _view_of_dtype(self)
    return (Regroup(_target(self, self.nums("size")), False),)


def _view_of_dtype(self: _Self) -> Steps:
    dtype = dtype_name(self.given["dtype"], None)
    if dtype is None or self.dtype is None:
        raise _NotKnown
    return (Retyped(dtype),)


def _reshape(self: _Self) -> Steps:
    return (Regroup(_target(self, self.nums("shape")), True),)


def _like(name: str, may_copy: bool) -> Callable[[_Self], Steps]:
    return lambda self: (Regroup(_shape_of(self.given[name]), may_copy),)


def _shape_of(other: Any) -> tuple[Num, ...]:
    shape = getattr(other, "shape", None)
    if shape is None or not all(isinstance(dim, int | Extent) for dim in shape):
        raise _NotKnown
    return tuple(shape)


def _flatten(self: _Self) -> Steps:
    if not self.rank:
        return (Regroup((1,), True),)
    first, last = self.axis("start_dim"), self.axis("end_dim")
    if first == last:
        return ()
    return (Regroup((*self.shape[:first], product(self.shape[first : last + 1]), *self.shape[last + 1 :]), True),)


def _collapsed(self: _Self) -> Steps:
    first, last = self.axis("start"), self.axis("end")
    return (Regroup((*self.shape[:first], product(self.shape[first : last + 1]), *self.shape[last + 1 :]), False),)


def _ravel(self: _Self) -> Steps:
    return (Dense(0), Regroup((product(self.shape),), False))


def _unflatten(self: _Self) -> Steps:
    axis = self.axis("dim")
    parts = _target(self, self.nums("sizes"), self.shape[axis])
    return (Regroup((*self.shape[:axis], *parts, *self.shape[axis + 1 :]), False),)


def _split_axis(self: _Self) -> Steps:
    axis, outer = self.axis("dim"), self.nums("outer_length")[0]
    parts = outer, _divided(self.shape[axis], outer)
    return (Regroup((*self.shape[:axis], *parts, *self.shape[axis + 1 :]), False),)


def _expand(self: _Self) -> Steps:
    return _expanded(self, self.nums("size"))


def _expanded(self: _Self, sizes: Sequence[Num]) -> Steps:
    new = len(sizes) - self.rank
    if new < 0:
        raise _NotKnown
    old = (1,) * new + self.shape
    return (Expand(tuple(here if size == -1 else size for here, size in zip(old, sizes, strict=True))),)


def _expand_as(self: _Self) -> Steps:
    return _expanded(self, _shape_of(self.given["other"]))


def _broadcast_in_dim(self: _Self) -> Steps:
    shape, kept = self.nums("shape"), self.nums("broadcast_dimensions")
    inserted: list[Step] = [Insert(axis) for axis in range(len(shape)) if axis not in kept]
    return (*inserted, Expand(shape))


# Parts


def _select(self: _Self) -> Steps:
    axis, index = self.axis("dim"), self.num("index")
    if isinstance(index, int) and index < 0:
        index = self.shape[axis] + index
    elif isinstance(index, Extent) and not is_at_least(index, 0):
        index = None
    return (Pick(axis, index),)


def _slice(self: _Self) -> Steps:
    axis, step = self.axis("dim"), self.whole("step")
    extent, given = self.shape[axis], self.given
    if step < 1 or not self.rank:
        raise _NotKnown
    start = _bound(0 if given["start"] is None else self.num("start"), extent)
    end = _bound(extent if given["end"] is None else self.num("end"), extent)
    if start is None or end is None:
        raise _NotKnown
    return (Cut(axis, start, _count(start, end, step), step),)


def _bound(bound: Num | None, extent: Num) -> Num | None:
    """Where a slice begins or ends: counted from the end if negative, and never outside; None where not known."""
    if isinstance(bound, int) and bound < 0:
        if isinstance(extent, int):
            return max(extent + bound, 0)
        bound = extent + bound
        return bound if is_at_least(bound, 0) else Extent.of(f"max({bound}, 0)")
    if bound is None or (isinstance(bound, Extent) and not is_at_least(bound, 0)):
        return None
    if is_at_least(extent, bound):
        return bound
    if is_at_least(bound, extent) or (isinstance(bound, int) and bound >= _FAR):
        return extent
    return Extent.of(f"min({bound}, {extent})")


def _count(start: Num, end: Num, step: int) -> Num:
    length = end - start
    if isinstance(length, int):
        return max(-(-length // step), 0)
    if not is_at_least(length, 0):
        length = Extent.of(f"max({length}, 0)")
    if step == 1:
        return length
    exact = quotient(length, step)
    return Extent.of(f"ceil(({length})/{step})") if exact is None else exact


def _narrow(self: _Self) -> Steps:
    axis, start = self.axis("dim"), self.num("start")
    (length,) = self.nums("length")
    if isinstance(start, int) and start < 0:
        start = self.shape[axis] + start
    elif isinstance(start, Extent) and not is_at_least(start, 0):
        start = None
    return (Cut(axis, start, length),)


def _diagonal(self: _Self) -> Steps:
    offset, rows, columns = self.whole("offset"), self.axis("dim1"), self.axis("dim2")
    tall, wide = self.shape[rows], self.shape[columns]
    if isinstance(tall, int) and isinstance(wide, int):
        length: Num = max(min(tall, wide - offset) if offset >= 0 else min(tall + offset, wide), 0)
    elif offset == 0 and (is_at_least(wide, tall) or is_at_least(tall, wide)):
        length = tall if is_at_least(wide, tall) else wide
    else:
        length = Extent.of(f"diagonal({tall}, {wide}, {offset})")
    return (Diagonal(offset, rows, columns, length),)


def _unfold(self: _Self) -> Steps:
    size, step = self.whole("size"), self.whole("step")
    if not self.rank:
        return (Place((size,), (1,), None),)
    axis = self.axis("dimension")
    extent = self.shape[axis]
    count = quotient(extent - size, step) if isinstance(extent, Extent) else (extent - size) // step
    return (Window(axis, size, step, (Extent.of(f"({extent - size})//{step}") if count is None else count) + 1),)


def _as_strided(self: _Self) -> Steps:
    offset = self.given["storage_offset"]
    return (Place(self.nums("size"), self.nums("stride"), None if offset is None else self.nums("storage_offset")[0]),)


def _reshape_alias(self: _Self) -> Steps:
    return (Place(self.nums("size"), self.nums("stride"), None),)


def _pieces(self: _Self, axis: int, sizes: Sequence[Num]) -> list[Steps]:
    found: list[Steps] = []
    start: Num = 0
    for size in sizes:
        found.append((Cut(axis, start, size),))
        start = start + size
    return found


def _chunk(self: _Self) -> list[Steps]:
    axis, chunks = self.axis("dim"), self.whole("chunks")
    extent = self.extent(axis)
    size = -(-extent // chunks)
    return _pieces(self, axis, _even(extent, size) if size else [0] * chunks)


def _even(extent: int, size: int) -> list[int]:
    return [min(size, extent - start) for start in range(0, extent, size)] if size and extent else [extent]


def _split(self: _Self) -> list[Steps]:
    name = next(name for name in ("split_size", "split_sizes") if self.given.get(name) is not None)
    axis = self.axis("dim")
    if isinstance(self.given[name], list | tuple):
        return _pieces(self, axis, self.nums(name))
    return _pieces(self, axis, _even(self.extent(axis), self.whole(name)))


def _unless_conjugate(rule: Callable[[_Self], list[Steps]]) -> Callable[[_Self], list[Steps]]:
    """Torch computes a conjugate, which is only a mark, before an op that declares no view: then the parts are of a copy."""

    def pieces(self: _Self) -> list[Steps]:
        _same_if_real(self)
        return rule(self)

    return pieces


def _unbind(self: _Self) -> list[Steps]:
    axis = self.axis("dim")
    return [(Pick(axis, index),) for index in range(self.extent(axis))]


def _cut_at(self: _Self, axis: int, name: str, sections: str) -> list[Steps]:
    """`tensor_split`: into so many parts, the first ones larger by one; or at these places."""
    extent = self.extent(axis)
    if self.given.get(sections) is not None:
        count = self.whole(sections)
        return _pieces(self, axis, [extent // count + (index < extent % count) for index in range(count)])
    ends = [_whole(_bound(place, extent)) for place in self.nums(name)]
    cuts = zip([0, *ends], [*ends, extent], strict=True)
    return [(Cut(axis, start, max(end - start, 0)),) for start, end in cuts]


def _tensor_split(self: _Self) -> list[Steps]:
    return _cut_at(self, self.axis("dim"), "indices", "sections")


def _cut_along(first: int) -> Callable[[_Self], list[Steps]]:
    """`hsplit`, `vsplit`, `dsplit`: along this axis."""
    return lambda self: _cut_at(self, 0 if first == 1 and self.rank == 1 else first, "indices", "sections")


# Other types, other formats


def _real(self: _Self) -> Steps:
    if self.dtype is None:
        raise _NotKnown
    return (Paired(0, _REAL_OF[self.dtype]),) if self.dtype in _REAL_OF else ()


def _imag(self: _Self) -> Steps:
    return (Paired(1, _REAL_OF[self.dtype or ""]),)


def _as_real(self: _Self) -> Steps:
    return (Paired(None, _REAL_OF[self.dtype or ""]),)


def _as_complex(self: _Self) -> Steps:
    return (Joined(_COMPLEX_OF[self.dtype or ""]),)


def _contiguous(self: _Self) -> Steps:
    wanted = self.whole("memory_format")
    return () if wanted == 1 else (Dense(wanted),)


def _to(self: _Self) -> Steps | str:
    other, given = self.given.get("other"), self.given
    dtype = dtype_name(given.get("dtype"), self.dtype) if other is None else other.dtype
    if given.get("copy", False) is True or (dtype is not None and self.dtype is not None and dtype != self.dtype):
        return FRESH
    device = given.get("device") if other is None else other.device
    if device is not None or other is not None:
        if device is None or self.device is None:
            raise _NotKnown
        if str(device) != self.device:
            return FRESH
    if dtype is None or self.dtype is None or given.get("copy", False) is not False:
        raise _NotKnown
    wanted = given.get("memory_format")
    if wanted is None or wanted == 1:
        return ()
    return (Dense(_whole(wanted), suggested=True),)


def _cpu(self: _Self) -> Steps | str:
    if self.device is None:
        raise _NotKnown
    return () if self.device == "cpu" else FRESH


def _dropout(self: _Self) -> Steps | str:
    train, p = self.given["train"], self.given["p"]
    if train is False or p == 0:
        return ()
    if train is not True or not isinstance(p, float | int) or not all(is_at_least(dim, 1) for dim in self.shape):
        raise _NotKnown
    return FRESH


def _aten(rules: Mapping[str, Callable[[_Self], Any]]) -> dict[str, Callable[[_Self], Any]]:
    return {f"aten::{name}": rule for names, rule in rules.items() for name in names.split()}


_RULES: Final[Mapping[str, Callable[[_Self], Any]]] = {
    **_aten({
        "alias data detach lift lift_fresh positive _conj conj _neg_view": _same,
        "detach_": _same,
        "resolve_conj resolve_neg conj_physical": _same_if_real,
        "permute": _permute,
        "transpose swapdims": _transpose,
        "swapaxes": _swapaxes,
        "t numpy_T matrix_H": _reversed,
        "mT mH adjoint": _matrix,
        "movedim moveaxis": _movedim,
        "squeeze": _squeeze,
        "unsqueeze": _unsqueeze,
        "atleast_1d": _atleast(1), "atleast_2d": _atleast(2), "atleast_3d": _atleast(3),
        "view _unsafe_view": _view,
        "reshape": _reshape,
        "view_as": _like("other", False),
        "reshape_as": _like("other", True),
        "flatten": _flatten,
        "ravel": _ravel,
        "unflatten": _unflatten,
        "expand broadcast_to": _expand,
        "expand_as": _expand_as,
        "select": _select,
        "slice": _slice,
        "narrow": _narrow,
        "diagonal linalg_diagonal": _diagonal,
        "unfold": _unfold,
        "as_strided": _as_strided,
        "_reshape_alias": _reshape_alias,
        "chunk": _chunk,
        "split split_with_sizes": _split,
        "unsafe_chunk": _unless_conjugate(_chunk),
        "unsafe_split unsafe_split_with_sizes": _unless_conjugate(_split),
        "unbind": _unbind,
        "tensor_split": _tensor_split,
        "hsplit": _cut_along(1), "vsplit": _cut_along(0), "dsplit": _cut_along(2),
        "real": _real, "imag": _imag, "view_as_real": _as_real, "view_as_complex": _as_complex,
        "contiguous": _contiguous,
        "to type_as": _to,
        "cpu": _cpu,
        "dropout feature_dropout alpha_dropout feature_alpha_dropout": _dropout,
    }),
    "prim::data": _same,
    "prims::view_of": _same,
    "prims::conj": _same,
    "prims::transpose": _permute,
    "prims::squeeze": _squeeze,
    "prims::split_dim": _split_axis,
    "prims::collapse_view": _collapsed,
    "prims::broadcast_in_dim": _broadcast_in_dim,
    "prims::view_of_dtype": _view_of_dtype,
    "prims::real": _real,
    "prims::imag": _imag,
}  # fmt: skip
