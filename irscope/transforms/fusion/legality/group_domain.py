"""The iteration domains of groups, and the rules for which two groups have a common one.

The plan knows uses and cycles; this module alone knows shapes. For two groups that are about to become one, `Domains.join`
returns the domain of the merged group, or why there is none. It depends only on the two domains and on how the groups
meet, and keeps no state.

*Pointwise groups*: all results of a launch have one shape. The domain of a group is the shape of the values that leave it,
so a group of another shape may join its user only if none of its values leave: they are then computed, broadcast, at the
user's points.

*Reduction groups* iterate over a full space S and reduce along one set A of its axes. A value that leaves such a group is
full (shape S) or reduced (S with the axes A at extent 1, or without them). A pointwise group of space S may join in front
and behind; one of another shape in front only if none of its values leave. Behind, a user must see a reduced value at the
right positions: with the axes kept, positions agree; without them they agree only among reduced values, or where A is in
front, or after a view that puts the axes back (`reduction_layout`). Two reduction groups need the same S and A.

*Views* move nothing. A view joins the group that reads it if it has no other users; its operand's producer may then join
that group like any other producer. So a view is in a group only between two of its nodes, and never its result.

*Replaced ranges* (slice_scatter, select_scatter) make kernels that go part by part: such a group reduces nothing, replaces a
limited number of ranges, and reads none of them through a reshape, which may put the parted axis inside another.

*Joins* (cat, stack) end a group: pointwise producers whose values do not leave write into their parts of the result.
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
"""The most ranges that a group replaces: each adds up to two parts, and a part costs code."""
MAX_ROW: Final = 1 << 16
"""The most elements reduced into one, if the group reads them again afterwards: a longer row does not stay in a core's
cache, and then two kernels cost no more than one."""


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

    def __str__(self) -> str:
        if not self.axes:
            return format_space(self.space)
        first, last = ", ".join(map(str, self.axes[:-1])), self.axes[-1]
        axes = f"axes {first} and {last}" if first else f"axis {last}"
        return f"{format_space(self.space)} reduced over {axes}{f' in {self.parts} parts' if self.parts > 1 else ''}"


class Meeting(Protocol):
    """How two groups that might become one are related: the second reads values of the first, or they are siblings."""

    @property
    def nodes(self) -> tuple[Node, Node]:
        """The two nodes, one of each group, whose merge is in question."""

    @property
    def shared(self) -> Sequence[Value]:
        """The values of the first group that the second reads; empty for siblings."""

    @property
    def first(self) -> Iterable[Node]:
        """The nodes of the first group."""

    @property
    def second(self) -> Iterable[Node]:
        """The nodes of the second group."""

    def leaves(self) -> bool:
        """Whether a value of the first group would still be read outside both."""

    def kept(self) -> Value | None:
        """One of the shared values that would still be read outside both."""


class Domains:
    """The domains of the nodes of one graph; equal ones are the same object."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules
        self._known: dict[Domain, Domain] = {}

    def of(self, node: Node) -> Domain:
        """The domain of a group of this one node, which must be eligible."""
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
            because = f"{meeting.nodes[not first.ends].op} combines tensors: it can only end a kernel, after pointwise ops"
            return Refusal("join", because, meeting.nodes)
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
        """The domain with a view, which joins the group that reads it and never ends a group; or why not."""
        if second.kind == "view" or not meeting.shared:
            view = meeting.nodes[second.kind == "view"]
            what = "copies elements to other places" if self._rules.copies(view) else "is a view"
            return Refusal("view", f"{view.op} {what}, which only joins the kernel that reads it", meeting.nodes)
        kept = meeting.kept()
        if kept is not None or meeting.leaves():
            name = self._rules.name(kept or meeting.shared[0])
            copied = any(self._rules.copies(node) for node in meeting.first if kept in node.outputs)
            because = f"{name} is a {'copy' if copied else 'view'} that is needed outside too{'' if copied else ', where it costs nothing'}"
            return Refusal("view", because if kept else f"other parts than {name} are needed outside too", meeting.nodes)
        return second

    def _in_parts(self, first: Domain, second: Domain, patches: int, meeting: Meeting) -> Refusal | None:
        """Returns why a group that replaces ranges cannot be computed part by part; None if it can."""
        if patches > MAX_PATCHES:
            because = f"the kernel would replace {patches} ranges, the limit is {MAX_PATCHES}"
            return Refusal("patch-limit", because, meeting.nodes)
        both = (*meeting.first, *meeting.second) if first.axes or second.axes else ()
        gathering = next((node for node in both if self._rules.axes(node)), None)
        if gathering is not None:
            because = f"{gathering.op} gathers, and a kernel that replaces ranges goes part by part"
            return Refusal("patch", because, (gathering, *meeting.nodes))
        reshape = next((node for node in meeting.second if node.op in RESHAPES), None) if first.patches else None
        if reshape is not None:
            because = f"{reshape.op} may put the axis along which ranges are replaced inside another"
            return Refusal("patch", because, (reshape, *meeting.nodes))
        return None

    def _siblings(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """The domain of siblings, which must have the same points, and reduce along the same axes if both do; or why not."""
        axes = {(domain.axes, domain.parts) for domain in (first, second) if domain.axes}
        if first.is_known and first.space == second.space and len(axes) <= 1:
            return first if first.axes else second
        return self._apart(first, second, meeting)

    def _behind(self, first: Domain, second: Domain, meeting: Meeting) -> Domain | Refusal:
        """The domain of a reduction group and a user behind it, or why they cannot be one kernel."""
        full = same_space(first.space, second.space)
        gathered = any(same_space(shape, second.space) for shape in gathered_shapes(first.space, first.axes))
        if (second.axes, second.parts) not in (((), 1), (first.axes, first.parts)) or not (
            full or (gathered and not second.axes)
        ):
            return self._apart(first, second, meeting)
        wrong = is_aligned(meeting, first.space, first.axes, self._rules)
        if wrong is not None:
            node, value = wrong
            because = f"{node.op} reads {self._rules.name(value)} along other axes than those that {first} leaves"
            return Refusal("iteration-space", because, (node, value))
        row = _row(first)
        if full and row is not None and row > MAX_ROW:
            because = f"{first} gathers {row} elements into one, too many to go through them again in the same kernel"
            return Refusal("long-row", because, meeting.nodes)
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
    """The number of elements that a group reduces into one; None if unknown."""
    size = 1
    for axis in domain.axes:
        extent = domain.space[axis] if domain.space is not None else None
        if not isinstance(extent, int):
            return None
        size *= extent
    return size // domain.parts
