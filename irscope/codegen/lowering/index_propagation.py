"""Lowers an element of an output to instructions over elements of the inputs, by affine indices.

A walk visits the values of a group together with their index at each point of the space. Inside a reduction, operands are
indexed by the reduced axes instead of those of the result, and the walk records which axes the result depends on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Final

from irscope.codegen.kernel import Instruction, constant_bits
from irscope.codegen.lowering.element_values import Compute, GroupValues, Joined, Patched, Pooled, Seen, Window
from irscope.errors import CodegenError
from irscope.ir import TensorType, Value
from irscope.ops.expr import COMMUTATIVE, POSITIONS, REDUCTIONS, Expr, call, const, evaluate, input_element
from irscope.ops.type_rules import contiguous_strides, is_contiguous

# Affine indices: the element of a value that is read at each point of an iteration space.
#
# The index along each dimension of a value is an `AffineIndex`, or form: an offset plus steps along axes of the space. Views
# inside a group change only forms. Any view of a row-major tensor is an offset and a stride per dimension, so the forms of
# the view determine the position in the row-major tensor, which is again a form. Its digits in the mixed radix of the extents
# are the forms of the base. Where a digit would carry, an axis of the space must be cut in two (`AxisMustSplit`), and
# planning starts again with the finer space: a flattened image is then traversed by rows and columns.
#
# Where a range of a tensor was replaced, an index decides which of two values is read. It must be the same one at all
# points; where it is not, the output is computed in two parts (`OutputMustPart`).


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """An index as an affine form: an offset, and (axis, step) for each axis of the space along which it moves, ascending."""

    offset: int
    terms: tuple[tuple[int, int], ...] = ()

    @property
    def axes(self) -> set[int]:
        """The axes along which it moves."""
        return {axis for axis, _ in self.terms}


ZERO = AffineIndex(0)


class AxisMustSplit(Exception):
    """Raised when an axis of the space must be cut in two, the inner one of extent `inner`."""

    def __init__(self, axis: int, inner: int) -> None:
        super().__init__(axis, inner)
        self.axis = axis
        self.inner = inner


class OutputMustPart(CodegenError):
    """Raised when an output must be computed in two parts, the second of which starts at `at` along a dimension."""

    def __init__(self, dim: int, at: int) -> None:
        super().__init__("elements of one output are read from different values", rule="codegen-patch")
        self.dim = dim
        self.at = at


@dataclass(slots=True)
class Space:
    """The axes that a kernel iterates over: kept ones, then reduced ones, each cut into factors."""

    kept: list[int]
    """Extents of the kept axes."""
    reduced: list[int]
    """Extents of the reduced axes, which together number the reduced elements in row-major order."""
    factors: list[list[int]] = field(init=False)
    """For each kept axis, then for all reduced ones together: the extents of its pieces, outermost first."""

    def __post_init__(self) -> None:
        self.factors = [*([size] for size in self.kept), list(self.reduced)]

    @property
    def extents(self) -> list[int]:
        """The extent of each axis after all cuts."""
        return [size for factors in self.factors for size in factors]

    def first(self, position: int) -> int:
        """Return the first axis that one of the original kept axes was cut into; with their number, the first reduced one."""
        return sum(len(factors) for factors in self.factors[:position])

    @property
    def first_reduced(self) -> int:
        """The number of axes that are kept."""
        return self.first(len(self.kept))

    def kept_form(self, position: int) -> AffineIndex:
        """Return the index along one of the original kept axes, before any cut."""
        factors = self.factors[position]
        pieces = enumerate(zip(factors, contiguous_strides(factors), strict=True), self.first(position))
        return AffineIndex(0, tuple((axis, step) for axis, (size, step) in pieces if size != 1))

    def reduced_form(self) -> AffineIndex:
        """Return the position of a reduced element, in row-major order."""
        return self.kept_form(len(self.kept))

    def owner(self, axis: int) -> int:
        """Return the kept axis that this one was cut from, or the number of kept axes if it is reduced."""
        for position, factors in enumerate(self.factors):
            if axis < len(factors):
                return position
            axis -= len(factors)
        raise IndexError(axis)

    def part(self, axis: int, at: int) -> OutputMustPart:
        """Return the exception for an axis whose points from `at` on read another value than those before."""
        dim = self.owner(axis)
        first = self.first(dim)
        outer, inner = self.extents[first:axis], self.factors[dim][axis - first + 1 :]
        if dim == len(self.kept) or prod(outer) > 1:
            raise CodegenError("a replaced range is read along axes that cannot be separated", rule="codegen-patch")
        return OutputMustPart(dim, at * prod(inner))

    def gather(self, extents: Sequence[int]) -> None:
        """Set the reduced axes, if there are none yet."""
        if not self.factors[-1]:
            self.factors[-1] = list(extents)

    def split(self, axis: int, inner: int) -> None:
        """Cut an axis in two."""
        position = self.owner(axis)
        factors, at = self.factors[position], axis - self.first(position)
        factors[at : at + 1] = [factors[at] // inner, inner]


def linearize(forms: Iterable[AffineIndex], strides: Iterable[int], offset: int = 0) -> AffineIndex:
    """Return the position of an element, from its index along each dimension and the position of the first element.

    >>> linearize([AffineIndex(1, ((0, 1),)), AffineIndex(0, ((1, 2),))], [10, 1])
    AffineIndex(offset=10, terms=((0, 10), (1, 2)))
    """
    steps = dict[int, int]()
    for form, stride in zip(forms, strides, strict=True):
        offset += form.offset * stride
        for axis, step in form.terms:
            steps[axis] = steps.get(axis, 0) + step * stride
    return AffineIndex(offset, tuple(sorted((axis, step) for axis, step in steps.items() if step)))


def shifted(form: AffineIndex, by: int) -> AffineIndex:
    return AffineIndex(form.offset + by, form.terms) if by else form


def windowed(form: AffineIndex, window: Window, extent: int, space: Space) -> list[AffineIndex]:
    """Return the indices of a window's elements along an axis of this extent, without those out of bounds.

    Raises OutputMustPart where some windows are cut off and others are not.

    >>> space = Space([3], [])
    >>> windowed(AffineIndex(0, ((0, 1),)), Window(2, 2, 0, 1), 6, space)
    [AffineIndex(offset=0, terms=((0, 2),)), AffineIndex(offset=1, terms=((0, 2),))]
    """
    terms = tuple((axis, step * window.step) for axis, step in form.terms)
    first = form.offset * window.step - window.margin
    found = [AffineIndex(first + place * window.gap, terms) for place in range(window.size)]
    return [index for index in found if lies_within(index, 0, extent, space)]


def lies_within(form: AffineIndex, start: int, stop: int, space: Space) -> bool:
    """Whether an index is in `start` to before `stop` at every point (True) or at none (False).

    Raises OutputMustPart when it is at some points only.

    >>> space = Space([4, 3], [])
    >>> lies_within(AffineIndex(2, ((0, 1),)), 2, 6, space), lies_within(AffineIndex(2, ((0, 1),)), 0, 2, space)
    (True, False)
    >>> try: lies_within(AffineIndex(0, ((0, 3), (1, 1))), 6, 12, space)
    ... except OutputMustPart as cut: cut.dim, cut.at
    (0, 2)
    """
    extents = space.extents
    if 0 in extents:
        return False
    low, high = form.offset, form.offset + sum(step * (extents[axis] - 1) for axis, step in form.terms)
    if start <= low and high < stop:
        return True
    if high < start or stop <= low:
        return False
    step, axis = max((step, axis) for axis, step in form.terms if extents[axis] > 1)
    border = start if low < start else stop
    raise space.part(axis, min(-((low - border) // step), extents[axis] - 1))


def delinearize(position: AffineIndex, shape: Sequence[int], extents: Sequence[int]) -> tuple[AffineIndex, ...]:
    """Return the index along each dimension of the element at this position of a row-major tensor.

    `extents` are those of the space's axes. Raises AxisMustSplit, or CodegenError if cutting does not help.

    >>> delinearize(AffineIndex(1, ((0, 4), (1, 1))), (5, 4), [5, 3])
    (AffineIndex(offset=0, terms=((0, 1),)), AffineIndex(offset=1, terms=((1, 1),)))
    """
    if prod(shape) == 0:
        return (ZERO,) * len(shape)
    offsets = _mixed_radix(position.offset, shape)
    terms: list[list[tuple[int, int]]] = [[] for _ in shape]
    for axis, step in position.terms:
        for dim, digit in enumerate(_mixed_radix(step, shape)):
            if digit:
                terms[dim].append((axis, digit))
    for dim in range(len(shape) - 1, 0, -1):
        reach = offsets[dim] + sum(step * (extents[axis] - 1) for axis, step in terms[dim])
        if reach < shape[dim]:
            continue
        for axis, step in terms[dim]:
            inner, rest = divmod(shape[dim], step)
            if not rest and 1 < inner < extents[axis] and extents[axis] % inner == 0:
                raise AxisMustSplit(axis, inner)
        raise CodegenError("a view inside the group mixes dimensions in a way that no strides describe", rule="codegen-view")
    return tuple(AffineIndex(offset, tuple(own)) for offset, own in zip(offsets, terms, strict=True))


def _mixed_radix(number: int, shape: Sequence[int]) -> list[int]:
    """Return the digits of a number in the mixed radix of a shape; the first digit is unbounded."""
    found = []
    for size in reversed(shape[1:]):
        number, digit = divmod(number, size)
        found.append(digit)
    return [number, *reversed(found)] if shape else []


# Linearizes the expressions of many nodes into one list of instructions, with common subexpressions shared, constants folded and
# needless roundings dropped.
#
# A half-precision op computes in float32 and rounds its result. When the next op widens that result again, the rounding
# between them is dropped, as in other fusing compilers: the fused result is closer to the exact one than op by op.
# An explicit cast of an operand (`to(bfloat16)`, a number that becomes a half) keeps its rounding, and in an exact kernel
# all casts do.


class InstructionList:
    """A list of instructions in order of computation, each distinct one once."""

    def __init__(self, *, exact: bool = False) -> None:
        """`exact`: round halves between ops too."""
        self.exact = exact
        self.steps: list[Instruction] = []
        self._known: dict[tuple[str, tuple[int, ...], str, int | None], int] = {}
        self._explicit: set[int] = set()
        """Explicit casts of operands, whose rounding stays."""

    def input(self, operand: int, dtype: str, *, node: int = -1) -> int:
        return self._step("input", (), dtype, operand, node)

    def splice(
        self, root: Expr, leaves: Mapping[int, int], *, node: int, gathered: Mapping[int, int] | None = None, index: int | None = None
    ) -> int:
        """Append the steps of an expression and return the last one; `leaves` maps each operand to its step.

        `gathered` maps operands inside reductions to their steps, if these are others, and `index` is the step of the
        position within the reduced loops.
        """
        outside, inside = (leaves, False), (leaves if gathered is None else gathered, True)
        done: dict[tuple[int, bool], int] = {}
        stack = [(root, outside)]
        while stack:
            here, scope = stack[-1]
            below = inside if here.op in REDUCTIONS else scope
            args = () if here.op == "count" else here.args
            waiting = [(arg, below) for arg in args if (id(arg), below[1]) not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if (id(here), scope[1]) not in done:
                given = tuple(done[id(arg), below[1]] for arg in args)
                if here.op in POSITIONS:
                    assert index is not None
                    given = (*given, index)
                done[id(here), scope[1]] = self._expr(here, given, scope[0], node)
        return done[id(root), False]

    def _expr(self, expr: Expr, args: tuple[int, ...], leaves: Mapping[int, int], node: int) -> int:
        if expr.op in ("input", "scalar"):
            assert isinstance(expr.value, int)
            leaf = leaves[expr.value]
            assert self.steps[leaf].dtype == expr.dtype, f"operand of {self.steps[leaf].dtype} read as {expr.dtype}"
            return leaf
        if expr.op == "const":
            return self._step("const", (), expr.dtype, constant_bits(expr.value, expr.dtype), node)
        if expr.op == "cast":
            step = self.cast(args[0], expr.dtype, node=node)
            if expr.args[0].op in ("input", "scalar"):
                self._explicit.add(step)
            return step
        if expr.op not in REDUCTIONS | {"count"} and all(self.steps[arg].op == "const" for arg in args):
            return self._folded(expr.op, args, expr.dtype, node)
        return self._step(expr.op, args, expr.dtype, None, node)

    def cast(self, arg: int, dtype: str, *, node: int) -> int:
        """Return a step converted to another type, or the step itself if it has that type."""
        source = self.steps[arg]
        if source.dtype == dtype:
            return arg
        if source.op == "const":
            return self._folded("cast", (arg,), dtype, node)
        if source.op == "cast" and dtype == "float32" and arg not in self._explicit and not self.exact:
            widest = source.args[0]
            if source.dtype in ("float16", "bfloat16") and self.steps[widest].dtype == dtype:
                return widest
        return self._step("cast", (arg,), dtype, None, node)

    def _folded(self, op: str, args: tuple[int, ...], dtype: str, node: int) -> int:
        operands = tuple(const(self.steps[arg].number, self.steps[arg].dtype) for arg in args)
        value = evaluate(Expr(op, operands, dtype), [])
        return self._step("const", (), dtype, constant_bits(value.item(), dtype), node)

    def _step(self, op: str, args: tuple[int, ...], dtype: str, value: int | None, node: int) -> int:
        key = (op, tuple(sorted(args)) if op in COMMUTATIVE else args, dtype, value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.steps)
            self.steps.append(Instruction(op, args, dtype, value, node))
        return found


REDUCED: Final = -1
"""Stands in place of an axis's number for a dimension along reduced axes."""
_MOST_SPLITS: Final = 64

Forms = tuple[AffineIndex, ...]
Piece = tuple[int, int | None]
"""An extent and the kept axis that it runs along; `REDUCED`; or None for an extent of 1."""
Axes = tuple[tuple[Piece, ...], ...]
"""For each dimension its pieces, outermost first: usually one, but a group norm keeps the groups and reduces the rest."""


class Walk:
    """One kernel whose instructions are being built, for the current cut of the space."""

    def __init__(self, values: GroupValues, space: Space) -> None:
        self.values = values
        self.space = space
        self.code = InstructionList(exact=values.exact)
        self.operands: dict[Read, int] = {}
        """The operand's position for each distinct read of an input."""
        self.gathered: tuple[int, ...] | None = None
        """The extents that reductions reduce."""
        self.walked: set[int] = set()
        """The axes along which the results of reductions vary."""
        self.first: tuple[tuple[int, ...], tuple[int, ...], Forms] | None = None
        """For the first reduction: the shape of its operand, the reduced axes, and the index of its result."""
        self._done: dict[tuple[Value, Forms], int] = {}

    def lower(self, root: Value, forms: Forms) -> int:
        """Append instructions that compute an element of a value, and return the last one's number."""
        wanted = (root, forms)
        stack = [wanted]
        below: dict[tuple[Value, Forms], list[tuple[Value, Forms]]] = {}
        while stack:
            need = stack[-1]
            if need in self._done:
                stack.pop()
                continue
            if need not in below:
                below[need] = self._below(*need)
            waiting = [other for other in below[need] if other not in self._done]
            if waiting:
                stack.extend(waiting)
            else:
                self._done[need] = self._step(*need, [self._done[other] for other in below[need]])
        return self._done[wanted]

    def whole(self, axes: Axes) -> tuple[tuple[int, ...], Axes] | None:
        """Return the shape and axes of the first reduction's operand, if each of its dimensions runs along one of these axes."""
        assert self.first is not None
        shape, reduced, forms = self.first
        names = {self.space.kept_form(dim): pieces for dim, pieces in enumerate(axes)}
        found: list[tuple[Piece, ...]] = []
        for dim, (size, form) in enumerate(zip(shape, forms, strict=True)):
            if size != 1 and dim not in reduced and form not in names:
                return None
            found.append(((1, None),) if size == 1 else ((size, REDUCED),) if dim in reduced else names[form])
        return shape, tuple(found)

    def _below(self, value: Value, forms: Forms) -> list[tuple[Value, Forms]]:
        step = self.values.steps.get(value)
        if step is None:
            return []
        if isinstance(step, Seen):
            if step.operand in self.values.params and is_contiguous(*self.values.layout(step.operand)):
                return []  # any view of a row-major input can be read from its memory
            shape = self.values.shape(step.operand)
            return [(step.operand, delinearize(linearize(forms, step.strides, step.offset), shape, self.space.extents))]
        if isinstance(step, Joined):
            raise CodegenError("joined tensors are read again inside the group", rule="codegen-join")
        if isinstance(step, Patched):
            return [self._patched(step, forms)]
        if isinstance(step, Pooled):
            shape, axes = self.values.shape(step.operand), len(step.windows)
            each = zip(forms[-axes:], step.windows, shape[-axes:], strict=True)
            along = [windowed(form, window, extent, self.space) for form, window, extent in each]
            return [(step.operand, (*forms[:-axes], *place)) for place in product(*along)]  # in the order in which torch visits them
        outside, inside = self._places(step, forms)
        return [
            (operand, _aligned(inside if gathered else outside, self.values.shape(operand), axis))
            for _, operand, axis, gathered in step.reads
        ]

    def _step(self, value: Value, forms: Forms, below: list[int]) -> int:
        step = self.values.steps.get(value)
        if step is None:
            if value in self.values.known or value not in self.values.params:
                raise CodegenError(f"{value!r} cannot be read by a kernel", rule="codegen-constant")
            if not isinstance(self.values.types[value], TensorType):
                return self._element(value, None)
            return self._element(value, linearize(forms, self.values.layout(value)[1]))
        if isinstance(step, Seen):
            return below[0] if below else self._element(step.operand, linearize(forms, step.strides, step.offset))
        if isinstance(step, Patched):
            return below[0]
        if isinstance(step, Pooled):
            return self._largest(step, below)
        assert isinstance(step, Compute)
        outside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if not gathered}
        inside = {leaf: at for (leaf, _, _, gathered), at in zip(step.reads, below, strict=True) if gathered}
        index = self._read(Read(-1, self.space.reduced_form()), "int64") if step.positions else None
        return self.code.splice(step.expr, outside, node=step.position, gathered=inside, index=index)

    def _patched(self, step: Patched, forms: Forms) -> tuple[Value, Forms]:
        """Return the tensor that an element comes from, and its index there."""
        if not lies_within(forms[step.axis], step.start, step.stop, self.space):
            return step.whole, forms
        own = () if step.without_axis else (shifted(forms[step.axis], -step.start),)
        return step.part, (*forms[: step.axis], *own, *forms[step.axis + 1 :])

    def _largest(self, step: Pooled, below: list[int]) -> int:
        if not below:
            raise CodegenError("a window has no elements", rule="codegen-empty")
        if self.values.exact:
            raise CodegenError("torch may give 0.0 or -0.0 as the maximum of a window that holds both", rule="inexact")
        dtype = self.values.dtype(step.operand)
        elements = [input_element(index, dtype) for index in range(len(below))]
        return self.code.splice(reduce(partial(call, "maximum"), elements), dict(enumerate(below)), node=step.position)

    def _places(self, step: Compute, forms: Forms) -> tuple[Forms, Forms]:
        """Return the index at which an expression reads its operands outside its reductions, and inside."""
        if not step.axes:
            return forms, forms
        outside = list(forms)
        if len(forms) < len(step.shape):
            for axis in step.axes:
                outside.insert(axis, ZERO)
        extents = tuple(step.shape[axis] for axis in step.axes)
        self._gather(step, extents, outside)
        inside = list(outside)
        for axis, form in zip(step.axes, delinearize(self.space.reduced_form(), extents, self.space.extents), strict=True):
            inside[axis] = form
        return tuple(outside), tuple(inside)

    def _gather(self, step: Compute, extents: tuple[int, ...], forms: Sequence[AffineIndex]) -> None:
        kept = [form for dim, form in enumerate(forms) if dim not in step.axes]
        if self.gathered is None:
            self.gathered = extents
            self.first = (step.shape, step.axes, tuple(forms))
            self.space.gather(extents)
        if prod(self.gathered) != prod(extents):
            raise CodegenError(f"one reduction reduces {prod(self.gathered)} elements, another {prod(extents)}", rule="codegen-reduction")
        walked = {axis for form in kept for axis in form.axes}
        if any(axis >= self.space.first_reduced for axis in walked):
            raise CodegenError("a reduction of a reduction along other axes", rule="codegen-reduction")
        self.walked |= walked

    def _element(self, value: Value, place: AffineIndex | None) -> int:
        return self._read(Read(self.values.params[value], place), self.values.dtype(value))

    def _read(self, read: "Read", dtype: str) -> int:
        return self.code.input(self.operands.setdefault(read, len(self.operands)), dtype)


@dataclass(frozen=True, slots=True)
class Read:
    """An operand of a kernel: an input of the group and the position read there; input -1 is the position itself."""

    input: int
    place: AffineIndex | None = None
    """None for a number."""


def _aligned(forms: Forms, shape: tuple[int, ...], axis: int | None) -> Forms:
    """Return the index of an operand, given that of the result that uses it: broadcast, or along one axis."""
    if axis is None or len(shape) != 1:
        if len(shape) > len(forms):
            raise CodegenError(f"an operand has {len(shape)} axes, and its user has {len(forms)}", rule="codegen-axis")
        own = forms[len(forms) - len(shape) :]
    elif axis < len(forms):
        own = (forms[axis],)
    else:
        raise CodegenError(f"an operand lies along axis {axis} of a result with {len(forms)} axes", rule="codegen-axis")
    return tuple(ZERO if size == 1 else form for size, form in zip(shape, own, strict=True))


def lowered(values: GroupValues, space: Space, roots: Callable[[], Sequence[tuple[Value, Forms]]]) -> tuple[Walk, list[int]]:
    """Return instructions for these elements; `roots` is called again whenever a view makes it necessary to cut the space."""
    for _ in range(_MOST_SPLITS):
        walk = Walk(values, space)
        try:
            return walk, [walk.lower(value, forms) for value, forms in roots()]
        except AxisMustSplit as cut:
            space.split(cut.axis, cut.inner)
    raise CodegenError("the views inside the group cut its dimensions into too many parts", rule="codegen-view")
