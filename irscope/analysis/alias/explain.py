"""The reasons of an alias db in words: who is a view of whom, which path of the points-to graph two values meet on.

A path has two kinds of steps. Where a value shares its source's element (a view, a cast, what comes out of a list)
the step is read off the node that makes the value. Where an element may be several things (an if, a loop, a
container's contents), the step is an edge of the points-to graph, with the node that made it. Names in a reason are
the printed ones.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from irscope._base.verdict import Verdict, no, yes
from irscope.analysis.alias.accesses import EVERYTHING, Access
from irscope.analysis.alias.crossing import Obstacle
from irscope.analysis.alias.points_to import Label, Place, PointsTo, Write
from irscope.analysis.alias.reach import Reach
from irscope.analysis.effects import OBJECT, Signatures
from irscope.ir.core import Block, Graph, Node, Value

__all__ = ["Explainer", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: `source` may be `target`, because of `node`."""

    source: Label
    target: Label
    words: str
    node: Node | None
    is_certain: bool
    """Whether the source always is (a view of) the target."""


_LONG = 3
"""Paths with more steps than this are told by their ends."""


class Explainer:
    """Finds and phrases the reasons for one graph's answers."""

    def __init__(self, graph: Graph, points_to: PointsTo, reach: Reach) -> None:
        self._graph = graph
        self._points_to = points_to
        self._reach = reach
        self._signatures = Signatures()

    # Verdicts

    def why_alias(self, a: Value, b: Value) -> Verdict:
        """The paths on which two values meet."""
        left, right, meeting = self._paths(a, b)
        return yes(self._joined(a, b, left, right, meeting), *_witness([*left, *right], a, b))

    def why_contain(self, a: Value, b: Value) -> Verdict:
        """What one holds, or both hold, that the other reaches."""
        for holder, held in ((a, b), (b, a)):
            inside = self._inner_meeting(holder, held)
            if inside is not None:
                other = self._element(held)
                assert other is not None
                chain = self._search(inside, self._elements_below(other))
                steps = [*self._edge_steps(chain), *self._path(held, {chain[-1]})]
                told = (
                    self._told(steps)
                    or f"%{self._name(holder)} holds {self.describe_label(self._points_to.labels[inside])}"
                )
                return yes(told, *_witness(steps, holder, held))
        return yes(f"%{self._name(a)} and %{self._name(b)} may hold the same things", a, b)

    def why_apart(self, a: Value, b: Value) -> Verdict:
        """Where the two different memories come from."""
        return no(f"they are different memory: {self.origin(a)}, {self.origin(b)}", a, b)

    def why_must(self, a: Value, b: Value) -> Verdict:
        """The chain of views and casts that makes two values one memory, if there is one."""
        left, right = self._certain(a), self._certain(b)
        ends = [a, *(step.target for step in left)]
        for index, end in enumerate([b, *(step.target for step in right)]):
            if end in ends:
                steps = [*left[: ends.index(end)], *right[:index]]
                return yes(self._told(steps) or "they are one value", *_witness(steps, a, b))
        if self._element(a) is not None and self._meets(a, b):
            return no(f"they may be the same memory, but need not be: {self.why_alias(a, b).because}", a, b)
        return self.why_apart(a, b)

    def why_written(self, value: Value, write: Write) -> Verdict:
        """Which node writes the memory of a value, through what, and why that is the same memory."""
        node = write.node
        through = next((v for v in node.inputs if self._is_at(v, write.element)), None)
        if through is None:
            return yes(
                f"{self.node_words(node)} may write anything that it was given or that was given away before",
                node,
                value,
            )
        writes = f"{node.op} writes %{self._name(through)}"
        if through is value:
            return yes(writes, node, value)
        shared = self.why_alias(value, through) if self._meets(value, through) else self.why_contain(value, through)
        return yes(f"{writes}, and {shared.because}", node, value, *shared.witness)

    def obstacle_words(self, obstacle: Obstacle) -> str:
        """Why one node must come after another."""
        earlier, later = self.node_words(obstacle.earlier), self.node_words(obstacle.later)
        if obstacle.kind == "data":
            assert obstacle.value is not None
            return f"{later} uses %{self._name(obstacle.value)}, which {earlier} makes"
        if obstacle.kind == "effect":
            return f"{earlier} and {later} both have an effect on the world, in this order"
        if obstacle.kind == "random":
            return f"{earlier} and {later} both draw random numbers, in this order"
        assert obstacle.accesses is not None
        return self.accesses_words(*obstacle.accesses)

    def accesses_words(self, first: Access, second: Access) -> str:
        """Two accesses that collide, and why they are to the same memory."""
        if EVERYTHING in (first.place, second.place):
            waiting = first if first.place == EVERYTHING else second
            return f"{self.node_words(waiting.node)} waits for a task that may have written anything"
        a, b = first.value, second.value
        words = f"{self.access_words(first)} and {self.access_words(second)} afterwards"
        if a is None or b is None or a is b:
            return words
        shared = self.why_alias(a, b) if self._meets(a, b) else self.why_contain(a, b)
        return f"{words}, and {shared.because}"

    def access_words(self, access: Access, verb: str = "") -> str:
        """`aten::relu_ writes %b`."""
        doing = verb or ("writes" if self._does_write(access) else "reads")
        thing = f"%{self._name(access.value)}" if access.value is not None else "anything that was given away"
        return f"{self.node_words(access.node)} {doing} {'the shape of ' if access.shape and doing == 'reads' else ''}{thing}"

    def _does_write(self, access: Access) -> bool:
        element_class = self._points_to.class_of
        return any(
            write.node is access.node and element_class[write.element] == access.place
            for write in self._writes_of.get(access.node, ())
        )

    @cached_property
    def _writes_of(self) -> Mapping[Node, Sequence[Write]]:
        found: dict[Node, list[Write]] = {}
        for write in self._points_to.writes:
            found.setdefault(write.node, []).append(write)
        return found

    # Names

    def _name(self, value: Value) -> str:
        return self._graph.names.get(value, value.name or f"#{value.id}")

    def node_words(self, node: Node) -> str:
        """The op, and what it makes: `aten::mul (%c)`."""
        made = ", ".join(f"%{self._name(value)}" for value in node.outputs)
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
        return f"%{self._name(label)}" if isinstance(label, Value) else self.describe_place(label)

    def describe_place(self, label: Label) -> str:
        if isinstance(label, Value):
            return f"%{self._name(label)}"
        of = f"%{self._name(label.of)}" if label.of is not None else ""
        kind = label.name.replace("Tensor", "tensor")
        words = {
            "contents": f"what {of or 'a container from outside'} holds",
            "field": f"field {label.name} of {of}",
            "input": f"an input ({kind})",
            "escaped": "what was given to code that is not in the graph",
            "unknown": f"memory of unknown origin ({kind})",
            "attribute": f"the attribute {label.name}",
            "slot": f"the place of the attribute {label.name}",
            "objects": "what an object holds",
            "opaque": "all that was given away",
        }
        return words[label.kind]

    def origin(self, value: Value) -> str:
        """Where the memory of a value comes from: `%a is made by aten::mul`."""
        element = self._element(value)
        steps = self._certain(value)
        root = steps[-1].target if steps else value
        name = f"%{self._name(value)}"
        start = root if isinstance(root, Value) else value
        if start in self._graph.inputs:
            return f"{name} is an input" if start is value else f"{name} is memory of the input %{self._name(start)}"
        if element is not None and self._points_to.class_of[element] in self._points_to.targets:
            leaves = self._reach.leaves(self._points_to.class_of[element])
            words = ", ".join(self.describe_label(self.label_of(leaf)) for leaf in sorted(leaves)[:3])
            return f"{name} may only be {words}{f' or {len(leaves) - 3} more' if len(leaves) > 3 else ''}"
        made = self._graph.producer.get(start)
        by = f"made by {made.op}" if made is not None else "a block parameter"
        return f"{name} is {by}" if start is value else f"{name} is memory of %{self._name(start)} ({by})"

    # Paths

    def _element(self, value: Value) -> int | None:
        return self._points_to.element_of.get(value)

    def _meets(self, a: Value, b: Value) -> bool:
        left, right = self._element(a), self._element(b)
        class_of = self._points_to.class_of
        return left is not None and right is not None and self._reach.meet(class_of[left], class_of[right])

    def _is_at(self, value: Value, element: int) -> bool:
        """Whether an operand is the way to an element: its own, or in what it holds."""
        mine = self._element(value)
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

    def _paths(self, a: Value, b: Value) -> tuple[list[Step], list[Step], Label]:
        """Steps from each value to the place where they meet."""
        left, right = self._element(a), self._element(b)
        assert left is not None and right is not None
        meeting = self._search(left, self._elements_below(right))[-1]
        return self._trimmed(self._path(a, {meeting}), self._path(b, {meeting}), self._points_to.labels[meeting])

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

    def _path(self, value: Value, goals: Container[int]) -> list[Step]:
        """Steps from a value to the nearest of some elements, which it may be."""
        element = self._element(value)
        if element is None:
            return []
        return [*self._shared(value), *self._edge_steps(self._search(element, goals))]

    def _edge_steps(self, chain: Sequence[int]) -> list[Step]:
        """The steps along a chain of elements."""
        labels, steps = self._points_to.labels, []
        for here, there in pairwise(chain):
            reason = self._points_to.reasons.of(here, there) or self._maker(labels[here])
            words = self._edge_words(labels[here], labels[there], reason)
            steps.append(Step(labels[here], labels[there], words, reason, False))
        return steps

    def _elements_below(self, element: int) -> set[int]:
        """The element and all that it may be."""
        below, todo = {element}, [element]
        for here in todo:
            fresh = [there for there in self._points_to.edges.get(here, ()) if there not in below]
            below.update(fresh)
            todo.extend(fresh)
        return below

    def _maker(self, label: Label) -> Node | None:
        """The node that makes a value, or that has it as a block's parameter."""
        if not isinstance(label, Value):
            return None
        return self._graph.producer.get(label) or self._graph.owner.get(self._graph.block_of[label])

    def _search(self, start: int, goals: Container[int]) -> list[int]:
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

    def _inner_meeting(self, holder: Value, held: Value) -> int | None:
        """An element inside `holder` that `held` itself may be."""
        start, other = self._element(holder), self._element(held)
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
        element = self._element(value)
        steps: list[Step] = []
        here: Label = value
        while isinstance(here, Value) and element is not None and self._points_to.labels[element] != here:
            if here in self._inputs:
                break
            step = self._derivation(here)
            if step is None or (isinstance(step.target, Value) and self._element(step.target) != element):
                label = self._points_to.labels[element]
                node = self._graph.producer.get(here)
                words = step.words if step is not None else f"%{self._name(here)} is {self.describe_label(label)}"
                steps.append(Step(here, label, words, node, False))
                break
            steps.append(step)
            here = step.target
        return steps

    @cached_property
    def _inputs(self) -> frozenset[Value]:
        return frozenset(self._graph.inputs)

    def _certain(self, value: Value) -> list[Step]:
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
        name = f"%{self._name(value)}"
        if node is None:
            return self._parameter(value)
        index = node.outputs.index(value)
        if node.op in ("prim::TupleUnpack", "prim::TupleIndex", "prim::ListUnpack"):
            holder = node.inputs[0]
            element = self._element(value)
            label = self._points_to.labels[element] if element is not None else holder
            return Step(value, label, f"{name} is taken out of %{self._name(holder)} ({node.op})", node, False)
        if node.blocks:
            return self._structured(value, node, index)
        signature = self._signatures.of(node)
        sources = signature.results[index] if index < len(signature.results) else ()
        if signature.is_container and not sources and node.inputs:
            element = self._element(value)
            label = self._points_to.labels[element] if element is not None else node.inputs[0]
            return Step(value, label, f"{name} is taken out of %{self._name(node.inputs[0])} ({node.op})", node, False)
        if len(sources) == 1 and sources[0][1] == OBJECT:
            operand = node.inputs[sources[0][0]]
            if signature.writes:
                return Step(value, operand, f"{name} is %{self._name(operand)} after {node.op}", node, True)
            return Step(
                value, operand, f"{name} is a view of %{self._name(operand)} ({node.op})", node, _always_shares(node.op)
            )
        if node.op in ("prim::unchecked_cast", "prim::profile", "prim::Guard", "prim::ConstantChunk"):
            kind = "a part of" if node.op == "prim::ConstantChunk" else "the same as"
            return Step(
                value, node.inputs[0], f"{name} is {kind} %{self._name(node.inputs[0])} ({node.op})", node, True
            )
        return None

    def _structured(self, value: Value, node: Node, index: int) -> Step | None:
        name = f"%{self._name(value)}"
        if node.op == "prim::Loop" and len(node.blocks[0].params) > index + 1:
            param = node.blocks[0].params[index + 1]
            return Step(value, param, f"{name} is %{self._name(param)} after the loop", node, False)
        returned = node.blocks[0].returns[index] if len(node.blocks[0].returns) > index else None
        if returned is None:
            return None
        certain = len(node.blocks) == 1 and node.op != "prim::fork"
        return Step(value, returned, f"{name} is %{self._name(returned)}, a result of {node.op}", node, certain)

    def _parameter(self, value: Value) -> Step | None:
        block: Block = self._graph.block_of[value]
        owner = self._graph.owner.get(block)
        if owner is None:
            return None
        index = block.params.index(value)
        name = f"%{self._name(value)}"
        if owner.op == "prim::Loop":
            start = owner.inputs[index + 1] if index else None
            return (
                Step(value, start, f"{name} is %{self._name(start)} in every round of the loop", owner, False)
                if start is not None
                else None
            )
        if len(block.params) == len(owner.inputs):
            operand = owner.inputs[index]
            return Step(value, operand, f"{name} stands for %{self._name(operand)} in {owner.op}", owner, True)
        return None

    def _edge_words(self, source: Label, target: Label, node: Node | None) -> str:
        there = self.describe_label(target)
        by = f" ({node.op})" if node is not None else ""
        if isinstance(source, Value):
            return f"{self.describe_label(source)} may be {there}{by}"
        if source.kind in ("contents", "field") and source.of is not None:
            return f"%{self._name(source.of)} may hold {there}{by}"
        return f"{self.describe_place(source)} may be {there}{by}"

    # Phrases

    def _told(self, steps: Sequence[Step]) -> str:
        """The steps as one sentence; a long chain by its first and last steps."""
        words = list(dict.fromkeys(step.words for step in steps))
        if len(words) > _LONG:
            words = [words[0], f"after {len(words) - 2} more steps", words[-1]]
        return ", and ".join(words)

    def _joined(self, a: Value, b: Value, left: list[Step], right: list[Step], meeting: Label) -> str:
        told = [words for words in (self._told(left), self._told(right)) if words]
        if isinstance(meeting, Place):
            roots = [steps[-1].target if steps else start for steps, start in ((left, a), (right, b))]
            if meeting.kind == "input" and all(root in self._inputs for root in roots):
                names = " and ".join(self.describe_label(root) for root in roots)
                told.append(f"{names} are both inputs, and two inputs may be the same object")
            elif not (told and told[-1].endswith(self.describe_place(meeting))):
                told.append(f"both may be {self.describe_place(meeting)}")
        return ", and ".join(told) or "they are one memory"


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


def _witness(steps: Sequence[Step], *ends: Value) -> tuple[Any, ...]:
    found: dict[Any, None] = dict.fromkeys(ends)
    for step in steps:
        for thing in (step.source, step.node, step.target):
            if thing is not None:
                found[thing] = None
    return tuple(found)
