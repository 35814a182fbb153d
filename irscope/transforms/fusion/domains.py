"""The iteration domains of groups, and the profiles of nodes as groups of their own.

`Eligibility` judges one node; here nodes of one form (`irscope.analysis.shapes`) share a judgement where it depends on nothing
else. For views, and for ops that may return their operand, it depends on more: which memory is written, and who uses the
result, are properties of the program and not of the form.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from irscope.analysis.per_graph import once, shapes_of
from irscope.analysis.shapes import NodeSignature
from irscope.errors import ArgumentError
from irscope.ir import NOT_CONSTANT, Dim, Graph, Node, TensorType, Value, count_uses
from irscope.ops.registry import bind, effect_of, op_of
from irscope.ops.traits import JOINS, KEEPS_ORDER, PATCHES
from irscope.ops.view_steps import Num, tensor_bytes, typical
from irscope.transforms.fusion.eligibility import Eligibility, Space, format_space, same_space

# Whether the reduced values of a group broadcast to the right positions in their users.
#
# A group iterates over a space S and reduces along axes A. A reduced value has S's shape with the axes A at extent 1
# (*kept*) or without them (*dropped*). Broadcasting aligns shapes at their last axes, so a kept value is aligned with S. A
# dropped one is not in general: the sums of the rows of a square matrix, added to that matrix, align with its columns. So
# dropped values are followed through their users until they are kept, by a view that puts axes of extent 1 back, or have
# left the group; a user with the shape of S before that reads the wrong positions, unless A are the first axes.


def gathered_shapes(space: Space, axes: Sequence[int]) -> tuple[Space, Space]:
    """Returns the shapes of a value reduced along these axes of a space: with the axes kept, and without them.

    >>> gathered_shapes((2, 3, 4), (1,)), gathered_shapes(None, (0,))
    (((2, 1, 4), (2, 4)), (None, None))
    """
    if space is None:
        return None, None
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(space))
    return kept, tuple(size for axis, size in enumerate(space) if axis not in axes)


def misaligned_use(
    shared: Iterable[Value], users: Iterable[Node], space: Space, axes: Sequence[int], rules: Eligibility
) -> tuple[Node, Value] | None:
    """Returns the first of the users that reads a shared value at the wrong positions, and the value; None when all values are
    aligned. Linear in the users, whose number is limited."""
    inside = set(users)
    stack = list(shared)
    seen = set(stack)
    while stack:
        value = stack.pop()
        for use in rules.graph.users.get(value, ()):
            if not isinstance(use.user, Node) or use.user not in inside:
                continue
            onward = _read_onward(value, use.user, space, axes, rules)
            if onward is None:
                return use.user, value
            fresh = [result for result in onward if result not in seen]
            seen.update(fresh)
            stack.extend(fresh)
    return None


def _read_onward(value: Value, reader: Node, space: Space, axes: Sequence[int], rules: Eligibility) -> Sequence[Value] | None:
    """Follows a reduced value to its user: the results that have to be followed further; None when it reads the wrong positions."""
    types = rules.tensor_type(value), rules.tensor_type(reader.outputs[0])
    shape, result = (None if type is None else type.shape for type in types)
    if shape is None or result is None or space is None:
        return None
    kept, dropped = gathered_shapes(space, axes)
    in_front = tuple(axes) == tuple(range(len(axes)))

    def is_kept(shape: tuple[Dim, ...]) -> bool:
        return same_space(shape, kept) and all(shape[axis] == 1 for axis in axes)

    is_full = same_space(shape, space)
    is_aligned = is_kept(shape) or (same_space(shape, dropped) and in_front)
    if rules.axes(reader):
        return () if is_full else None
    if _reads_other_axis(reader, value):
        return None
    if rules.is_view(reader):
        if reader.op not in KEEPS_ORDER:
            return None
        if is_kept(result) or same_space(result, dropped):
            same = [dim for dim in shape if dim != 1] == [dim for dim in result if dim != 1]
            return reader.outputs if same else None
        return () if same_space(result, space) and (is_aligned or shape == result) else None
    if is_kept(result):
        return reader.outputs if is_aligned else None
    if same_space(result, space):
        return () if is_full or is_aligned else None
    return reader.outputs if same_space(shape, dropped) and same_space(result, dropped) else None


def _reads_other_axis(reader: Node, value: Value) -> bool:
    """Whether the user reads a value along an axis other than its last ones, as a batch norm reads its weight."""
    op = op_of(reader)
    return op is not None and bool(op.operand_axes) and any(bind(reader).get(name) is value for name in op.operand_axes)


# How often a kernel computes the values of a group that joins a user of more points.
#
# They are computed, broadcast, at the points of the user. A kernel computes a value outside the loops along which it stays the same
# (`irscope.codegen.kernel.loops`), but once for each turn of a loop around one along which it varies: a vector along the last axis,
# read by each row of a matrix, is computed again for each row. Through views a value is followed by its strides.
#
# On a CPU that is charged as the memory traffic that takes as long, beyond what hides behind the user's own reads and writes in a
# cache. A launch counts as traffic, too: two kernels cost one more than one. On a GPU arithmetic is so much faster than memory, and
# a launch so much dearer, that nothing is charged.

CYCLES_OF_TRAFFIC: Final = 0.25
"""The cycles for an element of float32 to be read from a cache and written to it, behind which as much arithmetic hides."""
BYTES_IN_A_CYCLE: Final = 4
"""The memory traffic of a core in the time of a cycle."""
BYTES_OF_A_LAUNCH: Final = 1 << 14
"""The memory traffic in the time that a call of a kernel takes by itself, a microsecond."""


def times_computed(shared: Iterable[Value], users: Iterable[Node], space: Space, rules: Eligibility) -> int:
    """Returns how often a kernel of these users over a space computes each element of the shared values, at most; an unknown extent
    counts as 64, and a value of which it is not known along which axes it varies as computed once. Linear in the users."""
    inside, times = set(users), 1
    stack = [(value, tuple(size != 1 for size in _shape_of(rules, value))) for value in shared]
    seen = {value for value, _ in stack}
    while stack:
        value, varies = stack.pop()
        for use in rules.graph.users.get(value, ()):
            reader = use.user
            if not isinstance(reader, Node) or reader not in inside:
                continue
            if rules.is_view(reader):
                onward = _seen_through(rules, value, varies, reader)
            else:
                onward = _broadcast(rules, value, varies, reader)
                times = max(times, _times_around(rules, reader, onward))
                if rules.space(reader) == space:
                    continue
            if not rules.axes(reader):
                stack += [(result, onward) for result in reader.outputs if result not in seen]
                seen.update(reader.outputs)
    return times


def _shape_of(rules: Eligibility, value: Value) -> tuple[Dim, ...]:
    found = rules.tensor_type(value)
    return () if found is None or found.shape is None else found.shape


def _broadcast(rules: Eligibility, value: Value, varies: tuple[bool, ...], reader: Node) -> tuple[bool, ...]:
    """The axes of a node's space along which an operand of it varies; all where it is not aligned with the last ones."""
    rank = len(rules.space(reader) or ())
    if _reads_other_axis(reader, value) or reader.op in PATCHES or len(varies) > rank:
        return (True,) * rank
    return (False,) * (rank - len(varies)) + varies


def _seen_through(rules: Eligibility, value: Value, varies: tuple[bool, ...], view: Node) -> tuple[bool, ...]:
    """The axes of a view along which a value varies: those that step within its own axes; all where the strides are not known."""
    before, after = rules.tensor_type(value), rules.tensor_type(view.outputs[0])
    own, steps = _spans(before), _spans(after)
    if own is None or steps is None:
        return (True,) * len(_shape_of(rules, view.outputs[0]))
    inside = [span for span, is_own in zip(own, varies, strict=True) if is_own]
    return tuple(end > first and any(low < end and first < high for low, high in inside) for first, end in steps)


def _spans(type: TensorType | None) -> list[tuple[int, int]] | None:
    """For each axis its stride, and the first element after the span that it steps through; None if unknown."""
    if type is None or type.shape is None or type.strides is None:
        return None
    axes = zip(type.strides, type.shape, strict=True)
    found = [(step, step * size if size != 1 else step) for step, size in axes if isinstance(size, int)]
    return found if len(found) == len(type.shape) else None


def _times_around(rules: Eligibility, reader: Node, varies: Sequence[bool]) -> int:
    """The turns of the loops around those along which a value varies and along which it does not."""
    space, result = rules.space(reader) or (), rules.tensor_type(reader.outputs[0])
    steps = _spans(result) if result is None or result.shape == space else None
    order = sorted(range(len(space)), key=lambda axis: -steps[axis][0] if steps else 0)
    inner = max((place for place, axis in enumerate(order) if varies[axis]), default=0)
    return typical(tensor_bytes(TensorType("uint8", tuple(space[axis] for axis in order[:inner] if not varies[axis]))))


MAX_PATCHES: Final = 16
"""The most ranges that a group replaces: each adds up to two parts, and a part costs code."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a group: its device and its iteration space, with the reduced axes."""

    space: Space
    device: str | None = None
    """The device that it runs on, if known."""
    kind: str = "pointwise"
    """The usual name of such a group: pointwise, reduction, view."""
    axes: tuple[int, ...] = ()
    """The axes of the space along which it reduces, ascending."""
    parts: int = 1
    """The number of parts into which it cuts the first of these axes, to reduce each separately."""
    ends: bool = False
    """Whether it joins tensors, after which the same kernel can compute nothing more."""
    patches: int = 0
    """The number of ranges of tensors that it replaces."""

    @property
    def is_known(self) -> bool:
        """Whether the number of points is known, so that two domains can be proved the same."""
        return self.space is not None and None not in self.space

    @property
    def is_static(self) -> bool:
        """Whether all its extents are numbers."""
        return self.space is not None and all(isinstance(size, int) for size in self.space)

    @property
    def points(self) -> int:
        """The number of points; an unknown extent counts as 64."""
        return typical(tensor_bytes(TensorType("uint8", self.space)))

    def __str__(self) -> str:
        if not self.axes:
            return format_space(self.space)
        first, last = ", ".join(map(str, self.axes[:-1])), self.axes[-1]
        axes = f"axes {first} and {last}" if first else f"axis {last}"
        return f"{format_space(self.space)} reduced over {axes}{f' in {self.parts} parts' if self.parts > 1 else ''}"


class NodeProfile(NamedTuple):
    """The properties of a node as a group of its own."""

    domain: Domain
    arguments: tuple[int, ...]
    """The positions of the operands that are kernel arguments; known numbers are built into the kernel instead."""
    size: Num
    """The bytes of its first result."""
    cycles: float
    """The cycles of one core that it takes, over all points; an unknown extent counts as 64."""


class NodeProfiles:
    """Computes the profiles of the nodes of one graph."""

    def __init__(self, rules: Eligibility) -> None:
        self.rules = rules
        self._domains: dict[Domain, Domain] = {}
        self.readings: Mapping[Value, int] = count_uses(rules.graph)
        """How often each value is read in the whole program."""
        self._shapes = shapes_of(rules.graph)
        self._by_form: dict[NodeSignature, NodeProfile] = {}
        self.sizes: dict[Value, Num] = _Sizes(rules)
        """The bytes of each tensor."""

    def of(self, node: Node) -> NodeProfile | None:
        """Returns the node's profile; None when it cannot be in any group."""
        form = self._shapes.form(node)
        known = self._by_form.get(form) if form is not None else None
        if known is not None:
            return known
        if self.rules.refusal(node) is not None:
            return None
        is_known = self.rules.known
        arguments = tuple(i for i, value in enumerate(node.inputs) if is_known(value) is NOT_CONSTANT)
        domain = self.domain_of(node)
        cycles = self.rules.cycles(node) * domain.points
        profile = NodeProfile(domain, arguments, self.rules.size_in_bytes(node.outputs[0]), cycles)
        if form is not None and effect_of(node) == "pure" and node.op not in JOINS:
            self._by_form[form] = profile
        return profile

    def domain_of(self, node: Node) -> Domain:
        """The domain of a group of this one node, which must be eligible."""
        rules = self.rules
        found = rules.tensor_type(node.outputs[0])
        device = found.device if found is not None else None
        if rules.is_view(node):
            return self.shared_domain(Domain(None, device, "view"))
        axes = rules.axes(node)
        kind, ends, patches = "reduction" if axes else "pointwise", node.op in JOINS, int(node.op in PATCHES)
        return self.shared_domain(Domain(rules.space(node), device, kind, axes, rules.parts(node), ends, patches))

    def shared_domain(self, domain: Domain) -> Domain:
        """Returns the same object for equal domains."""
        return self._domains.setdefault(domain, domain)


def profiles_of(graph: Graph, *, exact: bool = False) -> NodeProfiles:
    """Returns the profiles of a graph, which are shared by all callers; `exact` as for `Eligibility`."""
    return once(graph, (NodeProfiles, exact), lambda: NodeProfiles(Eligibility(graph, exact=exact)))


class _Sizes(dict[Value, Num]):
    """The bytes of tensors, computed on first use."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules

    def __missing__(self, value: Value) -> Num:
        size = self[value] = self._rules.size_in_bytes(value)
        return size


# Speeds that people name.

DEFAULT_BANDWIDTH: Final = "20 GB/s"
"""About the memory bandwidth that two cores of a server reach."""

_UNITS: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def bytes_per_second(bandwidth: str | float) -> float:
    """Returns a memory bandwidth in bytes per second.
    >>> bytes_per_second("20 GB/s"), bytes_per_second("3.35 TB/s"), bytes_per_second(5e9)
    (20000000000.0, 3350000000000.0, 5000000000.0)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?B)/s\s*", bandwidth) if isinstance(bandwidth, str) else None
    try:
        speed = float(found[1]) * _UNITS[found[2]] if found else float(bandwidth) * (not isinstance(bandwidth, bool))
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ArgumentError(f"{bandwidth!r} is not a bandwidth", hint="a text such as '20 GB/s', or bytes per second as a number")
    return speed
