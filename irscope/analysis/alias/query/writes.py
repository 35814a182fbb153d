"""Questions about writes: who may write the memory of a value, what a node reads and writes, and whether that matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from irscope._base.concurrency.cached import cached_property
from irscope._base.verdict import Verdict, no, yes
from irscope.analysis.alias.build import EVERYTHING, Accesses, ModRef
from irscope.analysis.alias.explain import lazy
from irscope.analysis.alias.query.aliasing import SharingQuestions, Values
from irscope.ir import Node, Value

__all__ = ["WriteQuestions"]


class WriteQuestions(SharingQuestions):
    """Who writes what in one graph, on top of what may be the same memory."""

    @cached_property
    def _accesses(self) -> Accesses:
        return Accesses(self.graph, self._points_to, self._reach)

    def has_writers(self, subject: Value | Node | str) -> Verdict:
        """Whether some node, anywhere in the graph, may write the memory of a value, or of an operand or result of a
        node."""
        if subject.__class__ is Value:  # asked of every value of a program: nothing is called that need not be
            element = self._points_to.element_of.get(subject)
            if element is not None:
                written = self._points_to.is_written[self._points_to.class_of[element]]
                return lazy(written != 0, WriteQuestions._why_written, self, subject)
            if subject in self.graph.block_of:
                return lazy(False, WriteQuestions._why_written, self, subject)
        if isinstance(subject, Node) or (isinstance(subject, str) and "::" in subject):
            node = self._node(subject)
            verdicts = (self._has_writers(value) for value in dict.fromkeys((*node.inputs, *node.outputs)))
            return next((v for v in verdicts if v), no(f"nothing writes an operand or a result of {node.op}", node))
        return self._has_writers(self._value(subject))

    def _has_writers(self, value: Value) -> Verdict:
        return lazy(self.is_written(value), WriteQuestions._why_written, self, value)

    def _why_written(self, value: Value) -> Verdict:
        place = self._place(value)
        if place is None or not self._points_to.is_written[place]:
            return no(f"no node writes memory that %{self.graph.names[value]} may be", value)
        for write in self._points_to.writes:
            if self._reach.meet(place, self._points_to.class_of[write.element]):
                return self._explainer.why_written(value, write)
        raise AssertionError(f"{value!r} is marked as written, and no write meets it")

    def is_written(self, value: Value | str) -> bool:
        """`has_writers` of a value as a plain bool, in constant time."""
        place = self._place(value) if isinstance(value, Value) else None
        if place is None:  # a name, or it is no memory, or no value of this graph
            place = self._place(self._value(value))
        return place is not None and bool(self._points_to.is_written[place])

    def writers(self, value: Value | str) -> tuple[Node, ...]:
        """The nodes that may write the memory of a value, in textual order."""
        place = self._place(self._value(value))
        if place is None or not self._points_to.is_written[place]:
            return ()
        written = self._written
        found = [numbered for other in self._reach.all_meeting(place) for numbered in written.get(other, ())]
        return tuple(dict.fromkeys(node for _, node in sorted(found, key=itemgetter(0))))

    @cached_property
    def _written(self) -> Mapping[int, Sequence[tuple[int, Node]]]:
        """Class to the nodes that write it, with the places of the writes in textual order."""
        written: dict[int, list[tuple[int, Node]]] = {}
        for number, write in enumerate(self._points_to.writes):
            written.setdefault(self._points_to.class_of[write.element], []).append((number, write.node))
        return written

    def accesses(self, node: Node | str) -> ModRef:
        """What a node, its blocks included, reads and writes of memory that somebody writes; its other effects."""
        return self._accesses.of(self._node(node))

    def reads(self, node: Node | str) -> tuple[Value, ...]:
        """The values through which a node, its blocks included, reads memory that somebody writes."""
        return tuple(dict.fromkeys(access.value for access in self.accesses(node).reads if access.value is not None))

    def writes(self, node: Node | str) -> tuple[Value, ...]:
        """The values through which a node, its blocks included, writes."""
        return tuple(dict.fromkeys(access.value for access in self.accesses(node).writes if access.value is not None))

    def writes_to(self, node: Node | str, values: Values) -> Verdict:
        """Whether a node, its blocks included, may write the memory of one of the values."""
        found = self._node(node)
        for value in self._values(values):
            place = self._place(value)
            for write in self.accesses(found).writes:
                if place is not None and (write.place == EVERYTHING or self._reach.meet(place, write.place)):
                    return yes(
                        f"{self._explainer.access_words(write, 'writes')}, which %{self.graph.names[value]} may be",
                        write.node,
                        value,
                    )
        return no(f"{found.op} writes none of that memory", found)

    def is_mutable(self, node: Node | str) -> Verdict:
        """Whether a node may write one of its own operands."""
        found = self._node(node)
        return self.writes_to(found, [value for value in found.inputs if self._is_memory(value)])

    def safe_to_change_aliasing(self, a: Values, b: Values) -> Verdict:
        """Whether nobody could tell if `a` and `b` shared memory, or no longer did: nothing writes them, and not both
        escape."""
        for value in (*self._values(a), *self._values(b)):
            written = self._has_writers(value)
            if written:
                return no(written.because, *written.witness)
        left = next((v for v in (self.escapes(value) for value in self._values(a)) if v), None)
        right = next((v for v in (self.escapes(value) for value in self._values(b)) if v), None)
        if left and right:
            return no(
                f"both can be reached from outside: {left.because}; {right.because}", *left.witness, *right.witness
            )
        return yes("nothing writes them, and the caller cannot see both")
