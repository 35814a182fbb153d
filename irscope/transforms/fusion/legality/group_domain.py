"""Over which points a group iterates, and which groups may do so together.

The plan knows who reads what and what a merge would close; this file alone knows shapes. `Domains.join` answers for two
groups that are about to become one: the domain of the merged group, or why there is none. It looks at the two domains
and at how the groups meet, and keeps nothing.

*Pointwise groups*: all results of a launch have one shape. The domain of a group is the shape of what leaves it, so a
group of another shape may join its reader only if nothing of it leaves: its values are then computed, broadcast, at the
reader's points.

*Groups that gather* iterate over a full space S and gather along one set A of its axes. What leaves such a group is full
(shape S) or gathered (S with the axes A at extent 1, or without them). A pointwise group of space S may join in front
and behind; one of another shape in front only if nothing of it leaves. Behind, a reader must see a gathered value where
it belongs: with the axes kept, positions agree; without them they agree only among gathered values, or where A is in
front, or after a view that puts the axes back (`reduction_layout`). Two groups that gather need the same S and A.

*Views* move nothing. One joins the group that reads it if nobody else does; what it sees may then join that group like
any other producer. So a view is in a group only between two of its nodes, and never its result.

*Replaced ranges* (slice_scatter, select_scatter) make kernels that go part by part: such a group gathers nothing, replaces
only so many, and reads nothing of them through a reshape, which may put the parted axis inside another.

*Joins* (cat, stack) end a group: pointwise producers of which nothing leaves write into their parts of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from irscope.ir import Node, Value
from irscope.ops.traits import RESHAPES
from irscope.transforms.fusion.legality.eligibility import Eligibility
from irscope.transforms.fusion.legality.iteration_space import Space, format_space, same_space
from irscope.transforms.fusion.legality.reduction_layout import gathered_shapes, is_aligned
from irscope.transforms.grouping import Refusal

__all__ = ["MAX_PATCHES", "Domain", "Domains", "Meeting"]

MAX_PATCHES: Final = 16
"""Ranges that a group replaces at most: each makes up to two parts more, and a part costs code."""
MAX_ROW: Final = 1 << 16
"""Elements gathered into one, at most, if the group goes through them again afterwards: a longer row does not stay in a
core's cache, and then two kernels cost no more than one."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What every group has and joins: where it runs, and over which points."""

    space: Space
    device: str | None = None
    """Where it runs, if that is known."""
    kind: str = "pointwise"
    """What people call such a group: pointwise, reduction, view."""
    axes: tuple[int, ...] = ()
    """The axes of the space along which it gathers, ascending."""
    parts: int = 1
    """Into how many parts it cuts the first of these axes, to gather each by itself."""
    ends: bool = False
    """Whether it puts tensors together, after which nothing can be computed in the same kernels."""
    patches: int = 0
    """How many ranges of tensors it replaces."""

    @property
    def is_known(self) -> bool:
        """Whether the number of points is known, so that two domains can be proved the same."""
        return self.space is not None and None not in self.space

    def __str__(self) -> str:
        if not self.axes:
            return format_space(self.space)
        first, last = ", ".join(map(str, self.axes[:-1])), self.axes[-1]
        axes = f"axes {first} and {last}" if first else f"axis {last}"
        return f"{format_space(self.space)} reduced over {axes}{f' in {self.parts} parts' if self.parts > 1 else ''}"


class Meeting(Protocol):
    """How two groups touch that might become one. The first makes something that the second reads, or they are siblings."""

    @property
    def nodes(self) -> tuple[Node, Node]:
        """The two nodes, one of each group, that the question is about."""

    @property
    def shared(self) -> Sequence[Value]:
        """What the second group reads of the first; empty for siblings."""

    @property
    def first(self) -> Iterable[Node]:
        """The nodes of the first group."""

    @property
    def second(self) -> Iterable[Node]:
        """The nodes of the second group."""

    def leaves(self) -> bool:
        """Whether something of the first group would still be read outside both."""

    def kept(self) -> Value | None:
        """One of the shared values that would still be read outside both."""


class Domains:
    """The domains of the nodes of one graph; equal ones are the same object."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules
        self._known: dict[Domain, Domain] = {}

    def of(self, node: Node) -> Domain:
        """The domain of a group of this one node, which must be fit for a group."""
        rules = self._rules
        found = rules.tensor_type(node.outputs[0])
        device = found.device if found is not None else None
        if rules.is_view(node):
            return self._same(Domain(None, device, "view"))
        axes = rules.axes(node)
        return self._same(
            Domain(
                rules.space(node),
                device,
                "reduction" if axes else "pointwise",
                axes,
                rules.parts(node),
                rules.joins(node),
                int(rules.patches(node)),
            )
        )

    def join(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """The domain of both groups together, or why they cannot be one kernel."""
        plain = first is second and first.kind == "pointwise" and not (first.ends or first.patches)
        if plain and (meeting.shared or first.is_known):
            return first
        if first.device is not None and second.device is not None and first.device != second.device:
            return Refusal("device", f"one is on {first.device} and the other on {second.device}", meeting.nodes)
        if first.ends or (second.ends and (first.axes or not meeting.shared)):
            told = f"{meeting.nodes[not first.ends].op} combines tensors: it can only end a kernel, after pointwise ops"
            return Refusal("join", told, meeting.nodes)
        if first.kind == "view" or second.kind == "view":
            found = self._with_view(first, second, meeting)
        elif not meeting.shared:
            found = self._siblings(first, second, meeting)
        elif first.axes:
            found = self._behind(first, second, meeting)
        else:
            apart = (second.ends or not same_space(first.space, second.space)) and meeting.leaves()
            found = self._apart(first, second, meeting) if apart else second
        patches = first.patches + second.patches
        if not isinstance(found, Refusal) and patches:
            found = self._in_parts(first, second, patches, meeting) or found
        if isinstance(found, Refusal):
            return found
        device = second.device or first.device
        return self._same(Domain(found.space, device, found.kind, found.axes, found.parts, found.ends, patches))

    def _same(self, domain: Domain) -> Domain:
        return self._known.setdefault(domain, domain)

    def _with_view(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """A view joins the group that reads it, and no group ends in one."""
        if second.kind == "view" or not meeting.shared:
            view = meeting.nodes[second.kind == "view"]
            return Refusal("view", f"{view.op} is a view, which only joins the kernel that reads it", meeting.nodes)
        kept = meeting.kept()
        if kept is not None or meeting.leaves():
            name = self._rules.name(kept or meeting.shared[0])
            told = f"{name} is a view that is needed outside too, where it costs nothing"
            return Refusal("view", told if kept else f"other parts than {name} are needed outside too", meeting.nodes)
        return second

    def _in_parts(self, first: Domain, second: Domain, patches: int, meeting: Meeting) -> Refusal | None:
        """Why a group that replaces ranges cannot be computed part by part."""
        if patches > MAX_PATCHES:
            told = f"the kernel would replace {patches} ranges, the limit is {MAX_PATCHES}"
            return Refusal("patch-limit", told, meeting.nodes)
        both = (*meeting.first, *meeting.second) if first.axes or second.axes else ()
        gathering = next((node for node in both if self._rules.axes(node)), None)
        if gathering is not None:
            told = f"{gathering.op} gathers, and a kernel that replaces ranges goes part by part"
            return Refusal("patch", told, (gathering, *meeting.nodes))
        reshape = next((node for node in meeting.second if node.op in RESHAPES), None) if first.patches else None
        if reshape is not None:
            told = f"{reshape.op} may put the axis along which ranges are replaced inside another"
            return Refusal("patch", told, (reshape, *meeting.nodes))
        return None

    def _siblings(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """Neither reads the other: they must have the same points, and gather along the same axes if both do."""
        axes = {(domain.axes, domain.parts) for domain in (first, second) if domain.axes}
        if first.is_known and first.space == second.space and len(axes) <= 1:
            return first if first.axes else second
        return self._apart(first, second, meeting)

    def _behind(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """Something reads from a group that gathers."""
        full = same_space(first.space, second.space)
        gathered = any(same_space(shape, second.space) for shape in gathered_shapes(first.space, first.axes))
        if (second.axes, second.parts) not in (((), 1), (first.axes, first.parts)) or not (
            full or (gathered and not second.axes)
        ):
            return self._apart(first, second, meeting)
        wrong = is_aligned(meeting, first.space, first.axes, self._rules)
        if wrong is not None:
            node, value = wrong
            told = f"{node.op} reads {self._rules.name(value)} along other axes than those that {first} leaves"
            return Refusal("iteration-space", told, (node, value))
        row = _row(first)
        if full and row is not None and row > MAX_ROW:
            told = f"{first} gathers {row} elements into one, too many to go through them again in the same kernel"
            return Refusal("long-row", told, meeting.nodes)
        return first

    def _apart(self, first: Domain, second: Domain, meeting: Meeting) -> Refusal:
        alike = (first.axes, first.parts) == (second.axes, second.parts)
        maybe = alike and same_space(first.space, second.space)
        spaces = f"the iteration spaces {'may differ' if maybe else 'differ'}, {first} and {second}"
        if not meeting.shared:
            return Refusal("iteration-space", f"{spaces}, and neither group reads from the other", meeting.nodes)
        kept, name = meeting.kept(), self._rules.name
        if first.axes:
            return Refusal("iteration-space", spaces, meeting.nodes)
        what = name(kept) if kept else f"another result of the group that makes {name(meeting.shared[0])}"
        because = f"{spaces}, and {what} is needed outside too"
        return Refusal("iteration-space", because, (kept or meeting.shared[0], *meeting.nodes))


def _row(domain: Domain) -> int | None:
    """How many elements a group gathers into one, if that is known."""
    size = 1
    for axis in domain.axes:
        extent = domain.space[axis] if domain.space is not None else None
        if not isinstance(extent, int):
            return None
        size *= extent
    return size // domain.parts
