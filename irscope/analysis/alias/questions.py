"""Alias queries about one graph: which values may alias, hold the same memory, or escape to code outside the graph;
which nodes may write a value's memory, what a node reads and writes, and whether that matters.

Values of different regions cannot alias, which is known at once; others need a search of the points-to graph below them.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter

from irscope._base.nested import grouped
from irscope._base.results import Verdict, no, yes
from irscope.analysis.alias.explainer import Explainer, lazy
from irscope.analysis.alias.paths import Step
from irscope.analysis.alias.points_to import EVERYTHING, Accesses, Knowledge, Label, ModRef, PointsTo, Reachability
from irscope.analysis.views import ViewAliases
from irscope.errors import UnknownName, public
from irscope.ir import Graph, Node, TensorType, Value

Values = Value | str | Sequence[Value | str]


class Questions:
    """The queries of an `AliasDb` about sharing and writes, answered by the points-to graph; users construct an `AliasDb`."""

    graph: Graph
    _knowledge: Knowledge
    sealed: PointsTo
    """The points-to graph itself, for drawing it."""
    reach: Reachability
    """The reachability searches over the points-to graph."""

    # Names and places

    def _value(self, value: Value | str) -> Value:
        if not isinstance(value, Value):
            return self.graph.value(value)
        if value not in self.sealed.element_of and value not in self.graph.block_of:
            raise UnknownName(f"{value!r} is not a value of graph {self.graph.name!r}", hint="make an AliasDb of the graph it came from")
        return value

    def _values(self, values: Values) -> list[Value]:
        if isinstance(values, Iterable) and not isinstance(values, str):
            return [self._value(value) for value in values]
        return [self._value(values)]

    def _node(self, node: Node | str) -> Node:
        if not isinstance(node, Node):
            return self.graph.node(node)
        if node not in self.graph.block_of:
            raise UnknownName(f"{node!r} is not a node of graph {self.graph.name!r}", hint="make an AliasDb of the graph it came from")
        return node

    def _place(self, value: Value) -> int | None:
        """The class of a value; None if it is memory with no other name, or not memory."""
        element = self.sealed.element_of.get(value)
        return None if element is None else self.sealed.class_of[element]

    @public
    def is_memory(self, value: Value) -> bool:
        """Whether values of its type can be shared at all, unlike numbers or strings."""
        return self._knowledge.structures.of(value.type) is not None

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(self.graph, self.sealed, self.reach, lambda: self.views)

    @cached_property
    def _accesses(self) -> Accesses:
        return Accesses(self.graph, self.sealed, self.reach)

    # Sharing

    @public
    def may_alias(self, a: Values, b: Values) -> Verdict:
        """Whether some value of `a` and some value of `b` may be the same memory: one storage, one container object."""
        return self._first_yes(a, b, self._may_alias)

    @public
    def may_contain_alias(self, a: Values, b: Values) -> Verdict:
        """Whether `a` and `b` may share memory, directly or through anything they hold, at any depth."""
        return self._first_yes(a, b, self._may_contain_alias)

    def _first_yes(self, a: Values, b: Values, question: Callable[[Value, Value], Verdict]) -> Verdict:
        if a.__class__ is Value is b.__class__:
            return question(self._value(a), self._value(b))
        answer = no("there is nothing to compare").in_words("may alias", "no alias")
        for left in self._values(a):
            for right in self._values(b):
                answer = question(left, right)
                if answer:
                    return answer
        return answer

    def _may_alias(self, a: Value, b: Value) -> Verdict:
        if not (self.is_memory(a) and self.is_memory(b)):
            copied = b if self.is_memory(a) else a
            why = f"%{self.graph.names[copied]} is {copied.type}: such values are copied, never shared"
            return no(why, copied).in_words("may alias", "no alias")
        if a is b:
            return yes("they are one value", a).in_words("may alias", "no alias")
        left, right = self._place(a), self._place(b)
        if left is not None and right is not None and self.reach.meet(left, right):
            return lazy(True, Questions._explained, self, Explainer.why_alias, a, b)
        return lazy(False, Questions._explained, self, Explainer.why_apart, a, b)

    def _explained(self, why: Callable[[Explainer, Value, Value], Verdict], a: Value, b: Value) -> Verdict:
        return why(self._explainer, a, b)

    def _may_contain_alias(self, a: Value, b: Value) -> Verdict:
        direct = self._may_alias(a, b)
        left, right = self._place(a), self._place(b)
        if direct or left is None or right is None:
            return direct
        if self.reach.meet_inside(left, right):
            return lazy(True, Questions._explained, self, Explainer.why_contain, a, b)
        return direct

    @public
    def may_overlap(self, a: Values, b: Values) -> Verdict:
        """Whether some value of `a` and some value of `b` may have a byte in common: `may_alias`, except for tensors that occupy
        known, disjoint bytes of one buffer. The witness of such a no has both values and the bytes of each.

        >>> from irscope.ir.text.parser import parse
        >>> from irscope.analysis.alias.alias_db import AliasDb
        >>> g = parse('''graph(%x : Float(4, 6, strides=[6, 1])):
        ...   %0 : int = prim::Constant[value=0]()
        ...   %1 : int = prim::Constant[value=1]()
        ...   %a : Tensor = aten::select(%x, %0, %0)
        ...   %b : Tensor = aten::select(%x, %0, %1)
        ...   return (%a, %b)''')
        >>> db = AliasDb(g)
        >>> bool(db.may_alias("a", "b")), bool(db.may_overlap("a", "x"))
        (True, True)
        >>> print(db.may_overlap("a", "b"))
        no overlap: in the buffer of %x, %a covers bytes 0–23 and %b bytes 24–47
        """
        return self._first_yes(a, b, self._may_overlap)

    def _may_overlap(self, a: Value, b: Value) -> Verdict:
        shared = self._may_alias(a, b)
        both_tensors = isinstance(a.type, TensorType) and isinstance(b.type, TensorType)
        if not shared or not both_tensors or a is b:
            return shared
        overlapping = self.views.overlaps(a, b)
        return lazy(True, Questions._in_one_place, self, a, b) if overlapping else overlapping

    def _in_one_place(self, a: Value, b: Value) -> Verdict:
        return self._explainer.why_alias(a, b).in_words("may overlap", "no overlap")

    @public
    def lie_apart(self, a: Value, b: Value) -> bool:
        """Whether two tensors for which `may_alias` says yes have no byte in common."""
        both_tensors = isinstance(a.type, TensorType) and isinstance(b.type, TensorType)
        return both_tensors and a is not b and not self.views.overlaps(a, b)

    @cached_property
    def views(self) -> ViewAliases:
        """The placement of tensors in their buffers."""
        return ViewAliases(self.graph)

    @public
    def must_alias(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two values are always the same memory when both are bound: one is the other, or a view of it."""
        return self._explainer.why_must(self._value(a), self._value(b))

    @public
    def explain(self, a: Value | str, b: Value | str) -> Verdict:
        """The full answer about two values: whether they may alias, and if not, whether one may hold the other."""
        return self.may_contain_alias(a, b)

    @public
    def path(self, a: Value | str, b: Value | str) -> tuple[Step, ...]:
        """The steps on which two values reach one memory, as `explain` tells them; empty for a no, and for one value.

        >>> from irscope.ir.text.parser import parse
        >>> from irscope.analysis.alias.alias_db import AliasDb
        >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::t(%x)\\n  %b : Tensor = aten::relu_(%a)\\n  return (%b)")
        >>> [step.words for step in AliasDb(g).path("b", "x")]
        ['%b is %a after aten::relu_', '%a is a view of %x (aten::t)']
        """
        return tuple(self._explainer.steps(self._value(a), self._value(b)))

    @public
    def derived_from(self, value: Value | str) -> Step | None:
        """The step from a value to what it was made from, if it is not memory of its own."""
        return self._explainer.paths.step(self._value(value))

    @public
    def points_to(self, value: Value | str) -> tuple[Label, ...]:
        """The values and places that a value points to in one step; the value itself if it is memory of its own."""
        found = self._value(value)
        element, labels = self.sealed.element_of.get(found), self.sealed.labels
        if element is None:
            return (found,)
        return tuple(labels[target] for target in self.sealed.edges.get(element, ())) or (labels[element],)

    def locations(self, value: Value | str) -> tuple[Label, ...]:
        """The memory locations that a value may be, each named by the value or place with which it was created."""
        found = self._value(value)
        place = self._place(found)
        if place is None:
            return (found,) if self.is_memory(found) else ()
        return tuple(self._explainer.paths.label_of(leaf) for leaf in sorted(self.reach.leaves(place)))

    def alias_set(self, value: Value | str) -> tuple[Value, ...]:
        """All values of the graph that may alias this one, itself included, in order of definition."""
        found = self._value(value)
        place = self._place(found)
        if place is None:
            return (found,)
        held = self._held_by
        found_here = [numbered for other in self.reach.all_meeting(place) for numbered in held.get(other, ())]
        return tuple(other for _, other in sorted(found_here, key=itemgetter(0)))

    @public
    def same_alias_set(self, value: Value) -> Hashable:
        """A key that is equal for values with the same alias set and the same writers, so that both are computed once for all."""
        place = self._place(value)
        return value if place is None else self.reach.leaf_set(place)

    @cached_property
    def _held_by(self) -> Mapping[int, Sequence[tuple[int, Value]]]:
        """Maps a class to its values that are memory, with their positions in the order of definition."""
        class_of, numbered = self.sealed.class_of, enumerate(self.sealed.element_of.items())
        return grouped((class_of[element], (number, value)) for number, (value, element) in numbered if self.is_memory(value))

    def may_alias_wildcard(self, value: Value | str) -> Verdict:
        """Whether a value may be memory from outside: an input, or memory known to code that is not in the graph."""
        found = self._value(value)
        outside = self._outside(found, self.reach.meet)
        if outside is not None:
            name = f"%{self.graph.names[found]}"
            known = "which code outside the graph knows" if outside[0] == "%" else ""
            why = f"{name} is a tensor {known}" if outside == name else ", ".join(filter(None, (f"{name} may be {outside}", known)))
            return yes(why, found).in_words("may be from outside", "")
        return no(f"%{self.graph.names[found]} is memory that this graph makes", found).in_words("", "not from outside")

    def _outside(self, value: Value, meets: Callable[[int, int], bool]) -> str | None:
        """The first memory from outside that a value meets, in words."""
        place, paths = self._place(value), self._explainer.paths
        met = (outside for outside in sorted(self.sealed.outside) if place is not None and meets(place, outside))
        return next((paths.describe(paths.label_of(outside)) for outside in met), None)

    @public
    def escapes(self, value: Value | str) -> Verdict:
        """Whether code outside the graph can reach a value: through inputs, outputs, or calls."""
        return self._escapes(self._value(value)).in_words("escapes", "does not escape")

    def _escapes(self, found: Value) -> Verdict:
        for words, ends in (("an output", self.graph.outputs), ("an input", self.graph.inputs)):
            if found in ends and self.is_memory(found):
                return yes(f"it is {words}", found)
        for output in self.graph.outputs:
            shared = self._may_contain_alias(found, output) if self.is_memory(output) and self.is_memory(found) else None
            if shared:
                return yes(f"it can be reached from the output %{self.graph.names[output]}: {shared.because}", *shared.witness)
        outside = self._outside(found, self.reach.meet_inside)
        if outside == f"%{self.graph.names[found]}":  # known outside since it was passed on
            users = [use.user for use in self.graph.users.get(found, ())]
            taker = next((user for user in users if isinstance(user, Node) and self.accesses(user).side_effect is not None), None)
            outside = "code outside the graph" if taker is None else f"{self._explainer.paths.node_words(taker)}, which it is passed to"
        if outside is not None:
            known = ", which code outside the graph knows" if outside[0] == "%" else ""
            return yes(f"it can be reached from {outside}{known}", found)
        return no(f"no input, output or call can reach %{self.graph.names[found]}", found)

    # Writes

    @public
    def has_writers(self, subject: Value | Node | str) -> Verdict:
        """Whether some node, anywhere in the graph, may write the memory of a value, or of an operand or result of a
        node."""
        if subject.__class__ is Value:  # asked of every value of a program, so it avoids every unnecessary call
            element = self.sealed.element_of.get(subject)
            if element is not None:
                written = self.sealed.is_written[self.sealed.class_of[element]]
                return lazy(written != 0, Questions._why_written, self, subject)
            if subject in self.graph.block_of:
                return lazy(False, Questions._why_written, self, subject)
        if isinstance(subject, Node) or (isinstance(subject, str) and "::" in subject):
            node = self._node(subject)
            verdicts = (self._has_writers(value) for value in dict.fromkeys((*node.inputs, *node.outputs)))
            neither = no(f"nothing writes an operand or a result of {node.op}", node).in_words("written", "not written")
            return next((v for v in verdicts if v), neither)
        return self._has_writers(self._value(subject))

    def _has_writers(self, value: Value) -> Verdict:
        return lazy(self.is_written(value), Questions._why_written, self, value)

    def _why_written(self, value: Value) -> Verdict:
        place = self._place(value)
        if place is None or not self.sealed.is_written[place]:
            return no(f"no node writes memory that %{self.graph.names[value]} may be", value).in_words("written", "not written")
        for write in self.sealed.writes:
            if self.reach.meet(place, self.sealed.class_of[write.element]):
                return self._explainer.why_written(value, write).in_words("written", "not written")
        raise AssertionError(f"{value!r} is marked as written, and no write meets it")

    def is_written(self, value: Value | str) -> bool:
        """`has_writers` of a value as a plain bool, in constant time."""
        place = self._place(value) if isinstance(value, Value) else None
        if place is None:  # a name, or not memory, or not a value of this graph
            place = self._place(self._value(value))
        return place is not None and bool(self.sealed.is_written[place])

    @public
    def writers(self, value: Value | str) -> tuple[Node, ...]:
        """The nodes that may write the memory of a value, in textual order."""
        place = self._place(self._value(value))
        if place is None or not self.sealed.is_written[place]:
            return ()
        written = self._written
        found = [numbered for other in self.reach.all_meeting(place) for numbered in written.get(other, ())]
        return tuple(dict.fromkeys(node for _, node in sorted(found, key=itemgetter(0))))

    @cached_property
    def _written(self) -> Mapping[int, Sequence[tuple[int, Node]]]:
        """Maps a class to the nodes that write it, with the positions of the writes in textual order."""
        return grouped((self.sealed.class_of[write.element], (number, write.node)) for number, write in enumerate(self.sealed.writes))

    def accesses(self, node: Node | str) -> ModRef:
        """The memory that a node, its blocks included, reads and writes, if any node writes it; and its other effects."""
        return self._accesses.of(self._node(node))

    def reads(self, node: Node | str) -> tuple[Value, ...]:
        """The values through which a node, its blocks included, reads memory that some node writes."""
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
                if place is not None and (write.place == EVERYTHING or self.reach.meet(place, write.place)):
                    words = self._explainer.access_words(write, "writes")
                    words += "" if write.value is value else f", which %{self.graph.names[value]} may be"
                    return yes(words, write.node, value).in_words("writes it", "does not write it")
        return no(f"{found.op} writes none of that memory", found).in_words("writes it", "does not write it")

    def is_mutable(self, node: Node | str) -> Verdict:
        """Whether a node may write one of its own operands."""
        found = self._node(node)
        return self.writes_to(found, [value for value in found.inputs if self.is_memory(value)])

    @public
    def safe_to_change_aliasing(self, a: Values, b: Values) -> Verdict:
        """Whether making `a` and `b` share memory, or no longer share it, is unobservable: nothing writes them, and not both
        escape."""
        return self._safe_to_change_aliasing(a, b).in_words("safe", "not safe")

    def _safe_to_change_aliasing(self, a: Values, b: Values) -> Verdict:
        for value in (*self._values(a), *self._values(b)):
            written = self._has_writers(value)
            if written:
                return no(written.because, *written.witness)
        left, right = (next(((v, why) for v in self._values(each) if (why := self.escapes(v))), None) for each in (a, b))
        if left and right:
            told = "; ".join(f"%{self.graph.names[value]}, as {why.because}" for value, why in (left, right))
            return no(f"both can be reached from outside: {told}", *left[1].witness, *right[1].witness)
        return yes("nothing writes them, and the caller cannot see both")
