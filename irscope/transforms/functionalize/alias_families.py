"""Finds the names of each fresh tensor, its writes, and the place up to which every name of it is known.

A *family* is one fresh tensor, its *base*, with its *members*: the base itself, views of members that can be taken
again of another tensor of the same layout, and the results of in-place ops, which are the member that was written.

A use of a member is a *read* if the op's schema says that it neither returns the operand's memory nor writes it. A use
that is neither a read, an in-place write, nor a view that is a member is a *capture*: from then on there may be unknown
names (an element of a list, a result of an if, memory of unseen code). The family is *frozen* on every path from there:
writes that can run later stay as they are. A capture in one branch of an if does not precede the nodes of the other; a
capture in loops inside the base's block precedes everything in these loops.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.ir import CONTROL_FLOW, NOT_CONSTANT, STR, Block, Graph, ListType, Node, OpSchema, Step, TensorType, Value, constant_of, steps
from irscope.ops.registry import category_of, effect_of, schema_of
from irscope.ops.traits import (
    ANOTHER_OBJECT,
    DENSE_RESULT,
    INVERSES,
    LOGICAL,
    MOVES_STATISTICS,
    OVERLAPPING_RESULT,
    PUTS_BACK,
    STARTS_LIKE_FIRST,
)
from irscope.ops.type_rules import lies_in_rows, static_shape, view_strides
from irscope.transforms.functionalize.pure_ops import Twin, Twins, is_steady, kept_operands, writes_first_only, written_operands
from irscope.transforms.grouping import Refusal


def why_no_member(graph: Graph, target: Value, *, is_reshaped: bool) -> Refusal:
    """Returns why a value's memory may have unknown names, so that a write to it stays in place."""
    name, producer = f"%{graph.names[target]}", graph.producer.get(target)
    if is_reshaped:
        return Refusal("changes-shape", f"an op changes the shape of {name} in place")
    if producer is None and target in graph.inputs:
        because = f"{name} is an input, and the caller sees what is written there; returning the new tensor instead is pure"
        return Refusal("input", because, (target,))
    clone = "a write to a clone() of it could become pure"
    if producer is None:
        because = f"{name} is a parameter of a block, and may be a tensor with other names; {clone}"
        return Refusal("block-parameter", because, (target,))
    if producer.op == "prim::Constant":
        because = f"{name} is a constant tensor, and the next run would see what this one writes; {clone}"
        return Refusal("constant", because, (producer,))
    rule, which = ("result-of-a-block", "and may be a tensor") if producer.blocks else ("other-names", "which may return memory")
    return Refusal(rule, f"{name} is a result of {producer.op}, {which} with other names; {clone}", (producer,))


# Properties of views that can be taken again and written back: disjoint parts, equal views, and restored strides.


def restores(whole: TensorType, seen: TensorType) -> bool:
    """Whether `view` to other extents and back restores the original strides.

    >>> whole, seen = TensorType("float32", (3, 1), (1, 3)), TensorType("float32", (3,), (1,))
    >>> restores(whole, seen), restores(whole.with_(strides=(1, 1)), seen), restores(whole.with_(shape=(3, 2)), seen)
    (False, True, True)
    """
    shape, viewed = static_shape(whole), static_shape(seen)
    if shape is None or viewed is None:
        return False
    if not shape or min(shape) > 1:
        return True  # then the elements' places determine every stride
    known = whole.strides is not None and seen.strides is not None
    return known and view_strides(viewed, seen.strides or (), shape) == whole.strides


def are_apart(graph: Graph, a: Node, b: Node) -> bool:
    """Whether two views of one tensor certainly share no element, by constant ranges of one dimension.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4, 6)):
    ...   %zero : int = prim::Constant[value=0]()
    ...   %one : int = prim::Constant[value=1]()
    ...   %two : int = prim::Constant[value=2]()
    ...   %last : int = prim::Constant[value=-1]()
    ...   %a : Tensor = aten::slice(%x, %one, %zero, %two, %one)
    ...   %b : Tensor = aten::slice(%x, %one, %two, %last, %one)
    ...   %c : Tensor = aten::select(%x, %one, %last)
    ...   return (%a, %b, %c)''')
    >>> are_apart(g, g.node("a"), g.node("b")), are_apart(g, g.node("b"), g.node("c")), are_apart(g, g.node("a"), g.node("a"))
    (True, True, False)
    """
    left, right = _range(graph, a), _range(graph, b)
    if left is None or right is None or left[0] != right[0]:
        return False
    return left[2] <= right[1] or right[2] <= left[1]


def are_alike(graph: Graph, a: Node, b: Node) -> bool:
    """Whether two views of one tensor are certainly the same view: one op, with the same numbers.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4, 6), %n : int):
    ...   %zero : int = prim::Constant[value=0]()
    ...   %null : int = prim::Constant[value=0]()
    ...   %a : Tensor = aten::select(%x, %zero, %n)
    ...   %b : Tensor = aten::select(%x, %null, %n)
    ...   %c : Tensor = aten::select(%x, %zero, %zero)
    ...   return (%a, %b, %c)''')
    >>> are_alike(g, g.node("a"), g.node("b")), are_alike(g, g.node("a"), g.node("c"))
    (True, False)
    """
    if a.op != b.op or len(a.inputs) != len(b.inputs):
        return False
    for x, y in zip(a.inputs[1:], b.inputs[1:], strict=True):
        known = constant_of(graph, x)
        if x is not y and (known is NOT_CONSTANT or x.type != y.type or known != constant_of(graph, y)):
            return False
    return True


_RANGES: Final = ("aten::select", "aten::slice")


def _range(graph: Graph, node: Node) -> tuple[int, int, int] | None:
    """The dimension of a select or slice, and the start and end of a range that contains its elements; None if unknown."""
    type = node.inputs[0].type
    shape = type.shape if isinstance(type, TensorType) else None
    given = [constant_of(graph, value) for value in node.inputs[1:4]]
    if node.op not in _RANGES or len(given) < 2 or not isinstance(given[0], int) or (given[0] < 0 and shape is None):
        return None
    dim = given[0] + (len(shape) if given[0] < 0 and shape is not None else 0)
    extent = shape[dim] if shape is not None and dim < len(shape) else None
    low = _place(0 if given[1] is None else given[1], extent)
    high = low + 1 if node.op == "aten::select" and low is not None else _place(given[2] if len(given) > 2 else None, extent)
    return None if low is None or high is None else (dim, low, high)


def _place(bound: object, extent: object) -> int | None:
    """A bound counted from the start; None when it is counted from an unknown end."""
    if bound is None:
        return extent if isinstance(extent, int) else None
    if not isinstance(bound, int):
        return None
    if bound >= 0:
        return bound
    return max(0, bound + extent) if isinstance(extent, int) else None


# Records of a fresh tensor, its names, writes and captures: the facts that `alias_families` finds and `rewrite` uses.


@dataclass(eq=False, slots=True)
class Member:
    """One tensor in the memory of a family; several names may be the same tensor."""

    family: "Family"
    value: Value
    parent: "Member | None" = None
    view: Node | None = None
    """The op that takes it as a view of the parent."""
    depth: int = 0
    is_dense: bool = False
    """Whether its elements certainly have no gaps and no overlaps in memory."""
    is_part: bool = False
    """Whether it is only a part of the base, that is, whether a view on the way took fewer than all elements."""


@dataclass(eq=False, slots=True)
class Write:
    """An in-place op on a member, with its functional variant."""

    node: Node
    member: Member
    twin: Twin
    block: Block
    time: int

    @property
    def is_exact(self) -> bool:
        """Whether the functional variant's result has the shape and the strides of the written tensor without a copy."""
        if self.member.family.base_is_copy:
            return False
        return self.twin.keeps_strides or (self.member.is_dense and self.twin.keeps_dense_strides)


@dataclass(eq=False, slots=True)
class Escape:
    """A use of a member after which its family may have unknown names."""

    member: Member
    node: Node | None
    """The user; None for the result of a block."""
    block: Block
    time: int


@dataclass(eq=False, slots=True)
class Family:
    """A fresh tensor, with its writes and captures."""

    base: Value
    block: Block
    base_is_copy: bool = False
    """Whether the base is a copy, which may have a storage offset, as its source may."""
    writes: list[Write] = field(default_factory=list)
    """The writes that become functional."""
    captures: list[Escape] = field(default_factory=list)
    late: list[tuple[Escape, Write]] = field(default_factory=list)
    """The writes that may run after a capture, each with that capture."""
    frozen_by: Escape | None = None
    """The capture that precedes the present place of the walk."""


def viewed(parent: Member, node: Node) -> Member:
    takes_all = node.op in INVERSES
    is_dense, is_part = parent.is_dense and takes_all, parent.is_part or not takes_all
    return Member(parent.family, node.output, parent, node, parent.depth + 1, is_dense, is_part)


_MOST_VIEWS: Final = 16
"""The longest chain of views that is followed; it bounds the views that are taken again, and keeps the pass linear."""


class Families:
    """Walks a graph once, in textual order, and finds its families."""

    def __init__(self, graph: Graph, *, scatter: bool | Container[Value]) -> None:
        self.graph = graph
        self.all: list[Family] = []
        """All families, in the order of their bases."""
        self.member_of: dict[Value, Member] = {}
        self.kept: dict[Node, tuple[Value, ...]] = {}
        """For each pure node with members as operands, the operands that it may return or keep."""
        self.refusals: list[tuple[Node, Refusal]] = []
        """The writes that stay in place, with the reason."""
        self._scatter = scatter
        shapes = shapes_of(graph)
        self.twins = Twins(graph, shapes)
        self._is_steady = cache(partial(is_steady, graph))  # the users of a list of sizes that all views share are scanned once
        self._reshaped = shapes.reshaped
        self._foreign: set[Block] = set()
        self._unreached: set[Block] = set()
        """The blocks that never run; little is known of their values."""
        self._loop_starts: dict[Block, int] = {}
        self._frozen_in: dict[Block, dict[Family, Escape]] = {}
        """The families frozen in each open block, or in a finished branch of an if whose other branch is open."""
        self._roots: dict[Value, Value] = {}
        """For values that are not members, the value that they are a view of, or the same tensor as."""
        for time, step in enumerate(steps(graph)):
            self._visit(step, time)

    def _visit(self, step: Step, time: int) -> None:
        if step.kind == "enter" and step.node is not None:
            if step.node.op not in CONTROL_FLOW or self.graph.block_of[step.node] in self._foreign:
                self._foreign.add(step.block)
            if step.block in self.twins.shapes.unreached or self.graph.block_of[step.node] in self._unreached:
                self._unreached.add(step.block)
            if step.node.op == "prim::Loop":
                self._loop_starts[step.block] = time
        elif step.kind == "leave":
            self._capture(step.block.returns, None, step.block, time)
            self._leave(step.node, step.block)
        elif step.kind == "done" and step.node is not None and step.node.op == "prim::If":
            self._hand_on(step.node, step.block)
        elif step.kind == "node" and step.node is not None:
            self._node(step.node, step.block, time)

    def _capture(self, values: tuple[Value, ...], node: Node | None, block: Block, time: int) -> None:
        for value in values:
            member = self.member_of.get(value)
            if member is not None:
                capture = Escape(member, node, block, time)
                member.family.captures.append(capture)
                if member.family.frozen_by is None:
                    self._freeze(member.family, capture)

    def _freeze(self, family: Family, capture: Escape) -> None:
        """Keep later writes of a family in place, and earlier writes in the enclosing loops, too."""
        family.frozen_by, block = capture, capture.block
        loops = [inner for inner, owner in self.owners(family, block) if owner.op == "prim::Loop"]
        if loops:
            start, block = self._loop_starts[loops[-1]], self.graph.block_of[self.graph.owner[loops[-1]]]
            while family.writes and family.writes[-1].time >= start:
                family.late.append((capture, family.writes.pop()))
        if block is not family.block:
            self._frozen_in.setdefault(block, {})[family] = capture

    def _leave(self, owner: Node | None, block: Block) -> None:
        """Unfreeze the families that the first branch of an if froze, for its second, and freeze them again after both."""
        frozen = self._frozen_in.get(block, {})
        if owner is None or not (frozen or owner.op == "prim::If"):
            return
        if owner.op == "prim::If" and block is owner.blocks[0]:
            for family in frozen:
                family.frozen_by = None
            return
        around = self.graph.block_of[owner]
        for inner in owner.blocks:
            for family, capture in self._frozen_in.pop(inner, {}).items():
                family.frozen_by = capture
                if family.block is not around:
                    self._frozen_in.setdefault(around, {})[family] = capture

    def _node(self, node: Node, block: Block, time: int) -> None:
        effect = "opaque" if node.blocks else effect_of(node)
        moves_statistics = node.op in MOVES_STATISTICS
        is_copy = self._contiguous(node) is False
        if moves_statistics or is_copy or (effect == "pure" and node.op.startswith("aten::")):
            self._start(node, block)
        if effect == "in-place" and not moves_statistics:
            self._write(node, block, time)
        elif is_copy:
            return
        elif effect == "view" and block not in self._foreign and self._is_member_view(node):
            self.member_of[node.output] = viewed(self.member_of[node.inputs[0]], node)
        elif effect == "view" and node.inputs[0] in self.member_of and self._returns_itself(node):
            self.member_of[node.output] = self.member_of[node.inputs[0]]
        else:
            if effect == "view" and node.inputs and node.inputs[0].type != STR and node.inputs[0] not in self.member_of:
                self._roots.update(dict.fromkeys(node.outputs, self._roots.get(node.inputs[0], node.inputs[0])))
            if any(value in self.member_of for value in node.inputs):
                kept = kept_operands(node)
                self._capture(kept, node, block, time)
                if effect == "pure":
                    self.kept[node] = kept

    def _start(self, node: Node, block: Block) -> None:
        """Make the results of an op that returns new tensors the bases of families."""
        if block in self._foreign or node.op in OVERLAPPING_RESULT:
            return
        for value in node.outputs:
            if isinstance(value.type, TensorType) and value not in self._reshaped:
                is_copy = node.op in STARTS_LIKE_FIRST
                is_dense = node.op in DENSE_RESULT or (category_of(node) == "pointwise" and not is_copy)
                self._add(Family(value, block, is_copy), is_dense=is_dense)

    def _add(self, family: Family, *, is_dense: bool) -> None:
        self.all.append(family)
        self.member_of[family.base] = Member(family, family.base, is_dense=is_dense)

    def _hand_on(self, node: Node, block: Block) -> None:
        """Make a result of an if the base of a family if each branch creates a fresh tensor for it and for nothing else."""
        if block in self._foreign:
            return
        for index, value in enumerate(node.outputs):
            if not isinstance(value.type, TensorType) or value in self._reshaped:
                continue
            if all(self._is_handed_on(branch.returns[index], branch) for branch in node.blocks):
                self._add(Family(value, block), is_dense=False)

    def _is_handed_on(self, value: Value, branch: Block) -> bool:
        member = self.member_of.get(value)
        if member is None:
            producer = self.graph.producer.get(value)
            return producer is not None and producer.op == "prim::Uninitialized"  # of a branch that ends the program
        (*others, last) = member.family.captures
        return member.parent is None and member.family.block is branch and not others and last.block is branch

    def _is_member_view(self, node: Node) -> bool:
        """Whether a view of a member can be taken again of another tensor, wherever the view is visible."""
        if node.op not in LOGICAL or node.op not in ANOTHER_OBJECT:
            return False
        parent = self.member_of.get(node.inputs[0])
        if parent is None or parent.depth >= _MOST_VIEWS or len(node.outputs) != 1 or node.output in self._reshaped:
            return False
        if node.op == "aten::view" and not isinstance(node.inputs[1].type, ListType):
            return False  # the same bytes as another element type
        return all(map(self._is_steady, node.inputs[1:]))

    def _returns_itself(self, node: Node) -> bool:
        """Whether the node returns its operand: a dropout that drops nothing, or `contiguous` of a contiguous tensor."""
        drops_nothing = node.op == "aten::dropout" and constant_of(self.graph, node.inputs[2]) is False
        return drops_nothing or self._contiguous(node) is True

    def _contiguous(self, node: Node) -> bool | None:
        """Whether the operand of a `contiguous` is contiguous already; None if unknown, or if another format is requested."""
        type = node.inputs[0].type if node.op == "aten::contiguous" else None
        if not isinstance(type, TensorType) or static_shape(type) is None or type.strides is None:
            return None
        return lies_in_rows(type) if all(constant_of(self.graph, format) == 0 for format in node.inputs[1:]) else None

    # Writes

    def _write(self, node: Node, block: Block, time: int) -> None:
        schema = schema_of(node)
        target = node.inputs[0]
        if schema is None or not isinstance(target.type, TensorType) or not writes_first_only(schema):
            self._capture(kept_operands(node), node, block, time)
            if any(isinstance(value.type, TensorType) for value in written_operands(node, schema)):
                self.refusals.append((node, Refusal("writes-several", f"{node.op} writes more than its first operand")))
            return
        if any(value in self.member_of for value in node.inputs[1:]):
            self._capture(tuple(v for v in kept_operands(node) if v is not target), node, block, time)
        member = self.member_of.get(target)
        refusal = self._refusal(node, target, member, schema, block)
        if isinstance(refusal, Refusal):
            self.refusals.append((node, refusal))
        elif member is not None:
            write, frozen_by = Write(node, member, refusal, block, time), member.family.frozen_by
            if frozen_by is None:
                member.family.writes.append(write)
            else:
                member.family.late.append((frozen_by, write))
        if len(node.outputs) == 1 and member is not None:
            self.member_of[node.output] = member
        elif len(node.outputs) == 1:
            self._roots[node.output] = self._roots.get(target, target)

    def _refusal(self, node: Node, target: Value, member: Member | None, schema: OpSchema, block: Block) -> Refusal | Twin:
        twin = self.twins.of(node, schema)
        if isinstance(twin, Refusal):
            return twin
        if member is None:
            root = self._roots.get(target, target)
            return why_no_member(self.graph, root, is_reshaped=root in self._reshaped)
        if block in self._foreign:
            return Refusal("inside-a-group", "it is part of a block of neither an if nor a loop")
        if block in self._unreached:
            return Refusal("never-runs", "it is part of a block that never runs")
        for value in node.inputs[1:]:
            other = self.member_of.get(value)
            if other is None or other.family is not member.family or (twin.is_pointwise and member is other):
                continue
            if not self._is_unharmed(member, other, twin.is_pointwise):
                because = f"%{self.graph.names[value]}, which it reads, may be part of the memory that it writes; a clone() of it would not"
                return Refusal("reads-what-it-writes", because, (value,))
        return self._propagation_refusal(node, member) or twin

    def _is_unharmed(self, written: Member, read: Member, is_pointwise: bool) -> bool:
        """Whether the read elements are certainly other ones, by their ranges in a common parent or by their bytes, or, where an op
        computes point by point, the same ones at the same places, as in `p[i] *= 2`, which stores its result."""
        a, b = written.view, read.view
        if a is None or b is None or written.parent is None or written.parent is not read.parent:
            return alias_db_of(self.graph).lie_apart(written.value, read.value)
        is_same = is_pointwise and are_alike(self.graph, a, b)
        return is_same or are_apart(self.graph, a, b) or alias_db_of(self.graph).lie_apart(written.value, read.value)

    def _propagation_refusal(self, node: Node, member: Member) -> Refusal | None:
        """Returns why a write through a view cannot be propagated to the base; None if it can."""
        name = f"%{self.graph.names[node.inputs[0]]}"
        while member.parent is not None and member.view is not None:
            op = member.view.op
            whole = f"%{self.graph.names[member.parent.value]}"
            if op not in INVERSES and op not in PUTS_BACK:
                reason = "no op puts such a part back" if op != "aten::detach" else "no gradient may see the write"
                because = f"{name} is {op} of {whole}, and {reason}"
                return Refusal("no-scatter", because, (member.view,))
            scatters = self._scatter if isinstance(self._scatter, bool) else member.family.base in self._scatter
            if op in PUTS_BACK and not scatters:
                base = f"%{self.graph.names[member.family.base]}"
                because = f"{name} is a part of {base}, and a functional variant would copy all of {base}"
                return Refusal("writes-a-part", because, (member.family.base,))
            member = member.parent
        return None

    def owners(self, family: Family, block: Block) -> list[tuple[Block, Node]]:
        """The nodes around a block, from the inside out, up to the base's block, each with its block on the way."""
        found = []
        while block is not family.block:
            owner = self.graph.owner[block]
            found.append((block, owner))
            block = self.graph.block_of[owner]
        return found
