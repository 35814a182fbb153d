"""Which way two names come to the same memory: steps between values, and edges of the points-to graph, each in words.

Where a value shares its source's element (a view, a cast, what comes out of a list) the step is read off the node that
makes the value. Where an element may be several things (an if, a loop, a container's contents), it is an edge of the
graph, with the node that made it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from irscope.analysis.alias.reach import Reach
from irscope.analysis.alias.sealed import Label, Place, PointsTo
from irscope.analysis.effects import OBJECT, Signatures
from irscope.ir.core import Block, Graph, Node, Value

__all__ = ["Paths", "Step"]


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
    """The ways through one graph, and the names of what lies on them."""

    def __init__(self, graph: Graph, points_to: PointsTo, reach: Reach) -> None:
        self._graph = graph
        self._points_to = points_to
        self._reach = reach
        self._signatures = Signatures()

    # Names

    def name(self, value: Value) -> str:
        return self._graph.names.get(value, value.name or f"#{value.id}")

    def node_words(self, node: Node) -> str:
        """The op, and what it makes: `aten::mul (%c)`."""
        made = ", ".join(f"%{self.name(value)}" for value in node.outputs)
        return f"{node.op} ({made})" if made else node.op

    def label_of(self, place: int) -> Label:
        """The label of a class: that of its first element that is a value's, or of its first."""
        labels = [self._points_to.labels[element] for element in self._members[place]]
        return next((label for label in labels if isinstance(label, Value)), labels[0])

    @cached_property
    def _members(self) -> Mapping[int, Sequence[int]]:
        found: dict[int, list[int]] = {}
        for element, place in enumerate(self._points_to.class_of):
            found.setdefault(place, []).append(element)
        return found

    def describe_label(self, label: Label) -> str:
        """A value by name, a place in words."""
        return f"%{self.name(label)}" if isinstance(label, Value) else self.describe_place(label)

    def describe_place(self, label: Label) -> str:
        if isinstance(label, Value):
            return f"%{self.name(label)}"
        of = f"%{self.name(label.of)}" if label.of is not None else ""
        kind = label.name.replace("Tensor", "tensor")
        words = {
            "contents": f"what {of or 'a container from outside'} holds",
            "field": f"field {label.name} of {of}",
            "input": f"an input ({kind})",
            "escaped": "what was given to code that is not in the graph",
            "unknown": f"memory of unknown origin ({kind})",
            "attribute": f"the attribute {label.name.removeprefix('*.')}",
            "slot": f"the place of the attribute {label.name.removeprefix('*.')}",
            "objects": "what an object holds",
            "opaque": "all that was given away",
            "called": f"memory of {label.name}",
        }
        return words[label.kind]

    # Paths

    def element(self, value: Value) -> int | None:
        return self._points_to.element_of.get(value)

    def meets(self, a: Value, b: Value) -> bool:
        left, right = self.element(a), self.element(b)
        class_of = self._points_to.class_of
        return left is not None and right is not None and self._reach.meet(class_of[left], class_of[right])

    def is_at(self, value: Value, element: int) -> bool:
        """Whether an operand is the way to an element: its own, or in what it holds."""
        mine = self.element(value)
        if mine is None:
            return False
        class_of, wanted = self._points_to.class_of, self._points_to.class_of[element]
        todo, seen = [class_of[mine]], {class_of[mine]}
        while todo:
            here = todo.pop()
            if here == wanted:
                return True
            fresh = [held for held in self._reach.inside.get(here, ()) if held not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        return False

    def next_labels(self, element: int) -> tuple[Label, ...]:
        """The labels that an element's edges lead to."""
        return tuple(self._points_to.labels[target] for target in self._points_to.edges.get(element, ()))

    def paths(self, a: Value, b: Value) -> tuple[list[Step], list[Step], Label]:
        """Steps from each value to the place where they meet."""
        left, right = self.element(a), self.element(b)
        assert left is not None and right is not None
        meeting = self.search(left, self.elements_below(right))[-1]
        return self._trimmed(self.path(a, {meeting}), self.path(b, {meeting}), self._points_to.labels[meeting])

    def _trimmed(self, left: list[Step], right: list[Step], meeting: Label) -> tuple[list[Step], list[Step], Label]:
        """Cut both paths where they first come together."""
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
        """Steps from a value to the nearest of some elements, which it may be."""
        element = self.element(value)
        if element is None:
            return []
        return [*self._shared(value), *self.edge_steps(self.search(element, goals))]

    def edge_steps(self, chain: Sequence[int]) -> list[Step]:
        """The steps along a chain of elements."""
        labels, steps = self._points_to.labels, []
        for here, there in pairwise(chain):
            if labels[here] is labels[there]:  # one value under two elements, since it took the place of another
                continue
            reason = self._points_to.reasons.of(here, there) or self._maker(labels[here])
            words = self._edge_words(labels[here], labels[there], reason)
            steps.append(Step(labels[here], labels[there], words, reason, False))
        return steps

    def elements_below(self, element: int) -> set[int]:
        """The element and all that it may be."""
        below, todo = {element}, [element]
        for here in todo:
            fresh = [there for there in self._points_to.edges.get(here, ()) if there not in below]
            below.update(fresh)
            todo.extend(fresh)
        return below

    def _maker(self, label: Label) -> Node | None:
        """The node that makes a value, or that has it as a block's parameter; of a container's contents, its maker."""
        if isinstance(label, Place) and label.kind == "contents":
            label = label.of or label
        if not isinstance(label, Value):
            return None
        block = self._graph.block_of.get(label)
        return self._graph.producer.get(label) or (self._graph.owner.get(block) if block is not None else None)

    def search(self, start: int, goals: Container[int]) -> list[int]:
        """The shortest chain of elements to one of the goals; every caller knows that there is one."""
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

    # Steps between values

    def _shared(self, value: Value) -> list[Step]:
        """The steps from a value to the one whose element it shares."""
        element = self.element(value)
        steps: list[Step] = []
        here: Label = value
        while isinstance(here, Value) and element is not None and self._points_to.labels[element] != here:
            if here in self.inputs:
                break
            step = self._derivation(here)
            if step is None or (isinstance(step.target, Value) and self.element(step.target) != element):
                label = self._points_to.labels[element]
                node = self._graph.producer.get(here)
                words = step.words if step is not None else f"%{self.name(here)} is {self.describe_label(label)}"
                steps.append(Step(here, label, words, node, False))
                break
            steps.append(step)
            here = step.target
        return steps

    @cached_property
    def inputs(self) -> frozenset[Value]:
        return frozenset(self._graph.inputs)

    def certain(self, value: Value) -> list[Step]:
        """The steps from a value back through views and casts alone."""
        steps: list[Step] = []
        step = self._derivation(value)
        while step is not None and step.is_certain and isinstance(step.target, Value):
            steps.append(step)
            step = self._derivation(step.target)
        return steps

    def _derivation(self, value: Value) -> Step | None:
        """What a value is by the node that makes it, or by the node whose parameter it is."""
        node = self._graph.producer.get(value)
        name = f"%{self.name(value)}"
        if node is None:
            return self._parameter(value)
        index = node.outputs.index(value)
        if node.op in ("prim::TupleUnpack", "prim::TupleIndex", "prim::ListUnpack"):
            holder = node.inputs[0]
            element = self.element(value)
            label = self._points_to.labels[element] if element is not None else holder
            return Step(value, label, f"{name} is taken out of %{self.name(holder)} ({node.op})", node, False)
        if node.blocks:
            return self._structured(value, node, index)
        if node.op in ("prim::unchecked_cast", "prim::profile", "prim::Guard", "prim::ConstantChunk"):
            kind = "a part of" if node.op == "prim::ConstantChunk" else "the same as"
            return Step(value, node.inputs[0], f"{name} is {kind} %{self.name(node.inputs[0])} ({node.op})", node, True)
        called = self._points_to.calls.get(node.id)
        if called is not None:
            element = self.element(value)
            given = self._points_to.labels[element] if element is not None else value
            words = f"{name} is {self.describe_label(given)}, which {called.callee} gives back ({node.op})"
            return Step(value, given, words, node, False) if given is not value else None
        signature = self._signatures.of(node)
        sources = signature.results[index] if index < len(signature.results) else ()
        if signature.is_container and not sources and node.inputs:
            element = self.element(value)
            if (0, OBJECT) in signature.writes and element == self.element(node.inputs[0]):  # `list += list`
                return Step(
                    value, node.inputs[0], f"{name} is %{self.name(node.inputs[0])} after {node.op}", node, True
                )
            label = self._points_to.labels[element] if element is not None else node.inputs[0]
            return Step(value, label, f"{name} is taken out of %{self.name(node.inputs[0])} ({node.op})", node, False)
        if len(sources) == 1 and sources[0][1] == OBJECT:
            operand = node.inputs[sources[0][0]]
            if signature.writes:
                return Step(value, operand, f"{name} is %{self.name(operand)} after {node.op}", node, True)
            return Step(
                value, operand, f"{name} is a view of %{self.name(operand)} ({node.op})", node, _always_shares(node.op)
            )
        return None

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
        certain = len(node.blocks) == 1 and node.op != "prim::fork"
        return Step(value, returned, f"{name} is %{self.name(returned)}, a result of {node.op}", node, certain)

    def _parameter(self, value: Value) -> Step | None:
        block: Block = self._graph.block_of[value]
        owner = self._graph.owner.get(block)
        if owner is None:
            return None
        index = block.params.index(value)
        name = f"%{self.name(value)}"
        if owner.op == "prim::Loop":
            start = owner.inputs[index + 1] if index else None
            return (
                Step(value, start, f"{name} is %{self.name(start)} in every round of the loop", owner, False)
                if start is not None
                else None
            )
        if len(block.params) == len(owner.inputs):
            operand = owner.inputs[index]
            return Step(value, operand, f"{name} stands for %{self.name(operand)} in {owner.op}", owner, True)
        return None

    def _edge_words(self, source: Label, target: Label, node: Node | None) -> str:
        there = self.describe_label(target)
        by = f" ({node.op})" if node is not None else ""
        if isinstance(source, Value):
            return f"{self.describe_label(source)} may be {there}{by}"
        if source.kind in ("contents", "field") and source.of is not None:
            return f"%{self.name(source.of)} may hold {there}{by}"
        return f"{self.describe_place(source)} may be {there}{by}"


def _always_shares(op: str) -> bool:
    """Whether an op's result is a view always, and not only when no copy is needed."""
    return op not in {
        "aten::reshape",
        "aten::reshape_as",
        "aten::contiguous",
        "aten::to",
        "aten::flatten",
        "aten::dropout",
    }
