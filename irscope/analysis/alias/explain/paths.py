"""Finds the paths on which two names reach the same memory: steps between values and points-to edges, each in words.

If a value shares its source's element (a view, a cast, an item of a list), the step is read off the value's
producer. If an element may be several things (an if, a loop, a container's contents), the step is an edge of the
graph, with the node that added it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from itertools import pairwise

from irscope.analysis.alias.explain.derivation import Derivation, Step
from irscope.analysis.alias.explain.names import Words
from irscope.analysis.alias.points_to import Label, Place, Reachability
from irscope.ir import Node, Value

__all__ = ["Paths"]


class Paths:
    """The paths through one graph."""

    def __init__(self, derivation: Derivation, words: Words, reach: Reachability) -> None:
        self._derivation, self._words, self._reach = derivation, words, reach
        self._graph, self._points_to = words.graph, words.points_to

    def meets(self, a: Value, b: Value) -> bool:
        left, right = self._derivation.element(a), self._derivation.element(b)
        class_of = self._points_to.class_of
        return left is not None and right is not None and self._reach.meet(class_of[left], class_of[right])

    def is_at(self, value: Value, element: int) -> bool:
        """Whether an element is an operand's own, or in its contents."""
        mine = self._derivation.element(value)
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

    def between(self, a: Value, b: Value) -> tuple[list[Step], list[Step], Label]:
        """The steps from each value to the label where their paths meet."""
        left, right = self._derivation.element(a), self._derivation.element(b)
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
        element = self._derivation.element(value)
        if element is None:
            return []
        return [*self._shared(value), *self.edge_steps(self.search(element, goals))]

    def edge_steps(self, chain: Sequence[int]) -> list[Step]:
        """The steps along a chain of elements."""
        labels, steps = self._points_to.labels, []
        for here, there in pairwise(chain):
            if labels[here] is labels[there]:  # one value under two elements, since it replaced another
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
        start, other = self._derivation.element(holder), self._derivation.element(held)
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
        element = self._derivation.element(value)
        steps: list[Step] = []
        here: Label = value
        while isinstance(here, Value) and element is not None and self._points_to.labels[element] != here:
            if here in self.inputs:
                break
            step = self._derivation.step(here)
            if step is None or (isinstance(step.target, Value) and self._derivation.element(step.target) != element):
                label = self._points_to.labels[element]
                node = self._graph.producer.get(here)
                words = (
                    step.words
                    if step is not None
                    else f"%{self._words.name(here)} is {self._words.describe_label(label)}"
                )
                steps.append(Step(here, label, words, node, False))
                break
            steps.append(step)
            here = step.target
        return steps

    @cached_property
    def inputs(self) -> frozenset[Value]:
        return frozenset(self._graph.inputs)

    def _edge_words(self, source: Label, target: Label, node: Node | None) -> str:
        there = self._words.describe_label(target)
        by = f" ({node.op})" if node is not None else ""
        if isinstance(source, Value):
            return f"{self._words.describe_label(source)} may be {there}{by}"
        if source.kind in ("contents", "field") and source.of is not None:
            return f"%{self._words.name(source.of)} may hold {there}{by}"
        return f"{self._words.describe_place(source)} may be {there}{by}"
