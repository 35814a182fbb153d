"""Finds the paths on which two names reach the same memory, and puts them into words."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from irscope._base.nested import grouped
from irscope._base.words import listed
from irscope.analysis.alias.points_to import Label, Place, PointsTo, Reachability, closure, is_inlined
from irscope.analysis.effects import OBJECT, Signatures
from irscope.analysis.views import ViewAliases
from irscope.ir import Graph, Node, TensorType, Value
from irscope.ops.traits import ALWAYS_SHARES


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: `source` may be `target`, because of `node`."""

    source: Label
    target: Label
    words: str
    node: Node | None
    is_certain: bool
    """Whether the source always is (a view of) the target."""


class Paths:
    """The paths through the points-to graph of one graph, and the words for the values, nodes and places on them."""

    def __init__(self, graph: Graph, points_to: PointsTo, reach: Reachability, views: Callable[[], ViewAliases]) -> None:
        """`views` are made when whether an op copies depends on strides."""
        self._graph, self._points_to, self._reach, self._views = graph, points_to, reach, views
        self._signatures = Signatures()

    # Words: names are the printed ones

    def name(self, value: Value) -> str:
        return self._graph.names.get(value, value.name or f"#{value.id}")

    def node_words(self, node: Node) -> str:
        """The op, or the name that a compiler gave to a group, its results and its line: `aten::mul (%c, model.py:12)`."""
        made = listed(node.outputs, lambda value: f"%{self.name(value)}")
        told = ", ".join(filter(None, (made, node.location.short if node.location is not None else "")))
        op = str(node.attrs.get("kernel") or node.op) if node.blocks else node.op
        return f"{op} ({told})" if told else op

    def label_of(self, place: int) -> Label:
        """The label of a class: that of its first element that belongs to a value, or else of its first element."""
        labels = [self._points_to.labels[element] for element in self._members[place]]
        return next((label for label in labels if isinstance(label, Value)), labels[0])

    @cached_property
    def _members(self) -> Mapping[int, Sequence[int]]:
        return grouped((place, element) for element, place in enumerate(self._points_to.class_of))

    def describe(self, label: Label) -> str:
        """A value by name, a place in words."""
        if isinstance(label, Value):
            return f"%{self.name(label)}"
        of = f"%{self.name(label.of)}" if label.of is not None else ""
        kind = label.name.replace("Tensor", "tensor")
        words = {
            "contents": f"what {of or 'a container from outside'} holds",
            "field": f"field {label.name} of {of}",
            "input": f"an input ({kind})",
            "argument": f"an argument ({kind})",
            "escaped": "memory that escaped to code outside the graph",
            "unknown": f"memory of unknown origin ({kind})",
            "attribute": f"the attribute {label.name.removeprefix('*.')}",
            "slot": f"the place of the attribute {label.name.removeprefix('*.')}",
            "objects": "what an object holds",
            "opaque": "all memory that escaped",
            "called": f"memory of {label.name}",
        }
        return words[label.kind]

    # Steps that derive a value from another by its producer or its block: a view, a cast, an item of a list, a result of a block

    def element(self, value: Value) -> int | None:
        return self._points_to.element_of.get(value)

    def certain(self, value: Value) -> list[Step]:
        """The steps from a value back through views and casts alone."""
        steps: list[Step] = []
        step = self.step(value)
        while step is not None and step.is_certain and isinstance(step.target, Value):
            steps.append(step)
            step = self.step(step.target)
        return steps

    def step(self, value: Value) -> Step | None:
        """The step from a value to what it is derived from, by its producer or by the node whose parameter it is."""
        node, name = self._graph.producer.get(value), f"%{self.name(value)}"
        if node is None:
            return self._parameter(value)
        index, element = node.outputs.index(value), self.element(value)
        own = self._points_to.labels[element] if element is not None else None
        if node.op in ("prim::TupleUnpack", "prim::TupleIndex", "prim::ListUnpack"):
            holder = node.inputs[0]
            return Step(value, own or holder, f"{name} is taken out of %{self.name(holder)} ({node.op})", node, False)
        if node.blocks:
            return self._structured(value, node, index)
        if node.op in ("prim::unchecked_cast", "prim::profile", "prim::Guard", "prim::ConstantChunk"):
            kind = "a part of" if node.op == "prim::ConstantChunk" else "the same as"
            certain = node.op != "prim::ConstantChunk" or self._keeps_storage(value)
            return Step(value, node.inputs[0], f"{name} is {kind} %{self.name(node.inputs[0])} ({node.op})", node, certain)
        called = self._points_to.calls.get(node.id)
        if called is not None:
            given = own or value
            words = f"{name} is {self.describe(given)}, which {called.callee} returns ({node.op})"
            return Step(value, given, words, node, False) if given is not value else None
        signature = self._signatures.of(node)
        sources = signature.results[index] if index < len(signature.results) else ()
        if signature.is_container and not sources and node.inputs:
            if (0, OBJECT) in signature.writes and element == self.element(node.inputs[0]):  # `list += list`
                return Step(value, node.inputs[0], f"{name} is %{self.name(node.inputs[0])} after {node.op}", node, True)
            return Step(value, own or node.inputs[0], f"{name} is taken out of %{self.name(node.inputs[0])} ({node.op})", node, False)
        if len(sources) == 1 and sources[0][1] == OBJECT:
            operand = node.inputs[sources[0][0]]
            if signature.writes:
                return Step(value, operand, f"{name} is %{self.name(operand)} after {node.op}", node, True)
            is_view = node.op in ALWAYS_SHARES or self._is_placed_in(value)
            words = f"{name} {'is' if is_view else 'may be'} a view of %{self.name(operand)} ({node.op})"
            return Step(value, operand, words, node, is_view and self._keeps_storage(value))
        return None

    def _is_placed_in(self, value: Value) -> bool:
        """Whether an op that may copy never does here, by the strides that are known."""
        if not isinstance(value.type, TensorType):
            return False
        placement = self._views().placement(value)
        return placement.kind == "view" and placement.is_decided

    def _keeps_storage(self, value: Value) -> bool:
        """Whether no tensor object that the value may be gets another storage (`set_`), after which a view need not stay one."""
        element = self.element(value)
        return element is None or not self._points_to.is_reshaped[self._points_to.class_of[element]]

    def _structured(self, value: Value, node: Node, index: int) -> Step | None:
        name = f"%{self.name(value)}"
        if node.op == "prim::Loop" and len(node.blocks[0].params) > index + 1:
            param = node.blocks[0].params[index + 1]
            return Step(value, param, f"{name} is %{self.name(param)} after the loop", node, False)
        found = [block.returns[index] for block in node.blocks if len(block.returns) > index]
        if not found:
            return None
        element = self.element(value)
        returned = next((other for other in found if self.element(other) == element), found[0])
        certain = is_inlined(node) and node.op != "prim::fork"
        return Step(value, returned, f"{name} is %{self.name(returned)}, a result of {node.op}", node, certain)

    def _parameter(self, value: Value) -> Step | None:
        block = self._graph.block_of[value]
        owner, index, name = self._graph.owner.get(block), block.params.index(value), f"%{self.name(value)}"
        if owner is None or (owner.op == "prim::Loop" and not index):
            return None
        if owner.op == "prim::Loop":
            start = owner.inputs[index + 1]
            return Step(value, start, f"{name} is %{self.name(start)} in every round of the loop", owner, False)
        if len(block.params) == len(owner.inputs):
            operand = owner.inputs[index]
            return Step(value, operand, f"{name} stands for %{self.name(operand)} in {owner.op}", owner, True)
        return None

    # Paths. If a value shares its source's element (a view, a cast, an item of a list), the step is read off the value's
    # producer. If an element may be several things (an if, a loop, a container's contents), the step is an edge of the
    # graph, with the node that added it.

    def meets(self, a: Value, b: Value) -> bool:
        left, right = self.element(a), self.element(b)
        class_of = self._points_to.class_of
        return left is not None and right is not None and self._reach.meet(class_of[left], class_of[right])

    def is_at(self, value: Value, element: int) -> bool:
        """Whether an element is an operand's own, or in its contents."""
        mine, class_of = self.element(value), self._points_to.class_of
        return mine is not None and class_of[element] in closure((class_of[mine],), self._reach.inside)

    def between(self, a: Value, b: Value) -> tuple[list[Step], list[Step], Label]:
        """The steps from each value to the label where their paths meet."""
        left, right = self.element(a), self.element(b)
        assert left is not None and right is not None
        meeting = self.search(left, self.elements_below(right))[-1]
        return self._trimmed(self.path(a, {meeting}), self.path(b, {meeting}), self._points_to.labels[meeting])

    def _trimmed(self, left: list[Step], right: list[Step], meeting: Label) -> tuple[list[Step], list[Step], Label]:
        """Cut both paths where they first meet."""
        targets = {step.target: index for index, step in enumerate(right)}
        if left and left[0].source in targets:
            return [], right[: targets[left[0].source] + 1], left[0].source
        for index, step in enumerate(left):
            if right and step.target == right[0].source:
                return left[: index + 1], [], step.target
            if step.target in targets:
                return left[: index + 1], right[: targets[step.target] + 1], step.target
        return left, right, meeting

    def path(self, value: Value, goals: Container[int]) -> list[Step]:
        """The steps from a value to the nearest of some elements that it may be."""
        element = self.element(value)
        if element is None:
            return []
        return [*self._shared(value), *self.edge_steps(self.search(element, goals))]

    def edge_steps(self, chain: Sequence[int]) -> list[Step]:
        labels, steps = self._points_to.labels, []
        for here, there in pairwise(chain):
            if labels[here] is labels[there]:  # one value under two elements, since it replaced another
                continue
            reason = self._added_by(here, there) or self._maker(labels[here])
            words = self._edge_words(labels[here], labels[there], reason)
            steps.append(Step(labels[here], labels[there], words, reason, False))
        return steps

    def _added_by(self, source: int, target: int) -> Node | None:
        """The node that added an edge, as it is in this graph, which edits of its operands may have made anew."""
        found = self._points_to.reasons.of(source, target)
        made = self._graph.producer.get(found.outputs[0]) if found is not None and found.outputs else None
        return made if made is not None and found is not None and made.id == found.id else found

    def elements_below(self, element: int) -> set[int]:
        """The element and all that it may be."""
        return closure((element,), self._points_to.edges)

    def _maker(self, label: Label) -> Node | None:
        """The node that produces a value or whose block parameter it is; for a container's contents, the container's."""
        if isinstance(label, Place) and label.kind == "contents":
            label = label.of or label
        if not isinstance(label, Value):
            return None
        block = self._graph.block_of.get(label)
        return self._graph.producer.get(label) or (self._graph.owner.get(block) if block is not None else None)

    def search(self, start: int, goals: Container[int]) -> list[int]:
        """The shortest chain of elements to one of the goals; every caller guarantees that one exists."""
        before: dict[int, int] = {start: start}
        todo = [start]
        for here in todo:
            if here in goals:
                chain = [here]
                while chain[-1] != start:
                    chain.append(before[chain[-1]])
                return chain[::-1]
            for there in self._points_to.edges.get(here, ()):
                if there not in before:
                    before[there] = here
                    todo.append(there)
        raise AssertionError("no path to a class that is reached")

    def inner_meeting(self, holder: Value, held: Value) -> int | None:
        """An element inside `holder` that `held` itself may be."""
        start, other = self.element(holder), self.element(held)
        if start is None or other is None:
            return None
        points_to = self._points_to
        todo, seen = [start], {start}
        for here in todo:
            if here != start and self._reach.meet(points_to.class_of[here], points_to.class_of[other]):
                return here
            inner = [points_to.cells.get(here), *points_to.fields.get(here, ()), *self._points_to.edges.get(here, ())]
            fresh = [e for e in inner if e is not None and e not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        return None

    def _shared(self, value: Value) -> list[Step]:
        """The steps from a value to the label whose element it shares."""
        element = self.element(value)
        steps: list[Step] = []
        here: Label = value
        while isinstance(here, Value) and element is not None and self._points_to.labels[element] != here:
            if here in self.inputs:
                break
            step = self.step(here)
            if step is None or (isinstance(step.target, Value) and self.element(step.target) != element):
                label = self._points_to.labels[element]
                node = self._graph.producer.get(here)
                words = step.words if step is not None else f"%{self.name(here)} is {self.describe(label)}"
                steps.append(Step(here, label, words, node, False))
                break
            steps.append(step)
            here = step.target
        return steps

    @cached_property
    def inputs(self) -> frozenset[Value]:
        return frozenset(self._graph.inputs)

    def _edge_words(self, source: Label, target: Label, node: Node | None) -> str:
        there, by = self.describe(target), f" ({node.op})" if node is not None else ""
        if isinstance(source, Place) and source.kind in ("contents", "field") and source.of is not None:
            return f"%{self.name(source.of)} may hold {there}{by}"
        return f"{self.describe(source)} may be {there}{by}"
