"""What may share memory in a program, asked: every answer is a verdict with its reason and the path that proves it.

Questions cost what they look at: two values of different regions are told apart at once, others by a search of the part
of the points-to graph below them. The argument for the answers is in `irscope.analysis.alias.points_to`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import plural
from irscope.analysis.alias import moves, table
from irscope.analysis.alias.accesses import EVERYTHING, Accesses, NodeAccesses
from irscope.analysis.alias.calls import callees_of, summaries
from irscope.analysis.alias.crossing import Obstacle, WorkingSet
from irscope.analysis.alias.dot import points_to_dot
from irscope.analysis.alias.explain import Explainer
from irscope.analysis.alias.extension import CannotFollow
from irscope.analysis.alias.follow import Knowledge, Record, follow
from irscope.analysis.alias.reach import Reach
from irscope.analysis.alias.sealed import Label, PointsTo
from irscope.analysis.alias.structure import Structures
from irscope.analysis.alias.verdicts import lazy
from irscope.analysis.alias.walk import build
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.arguments import graph_of
from irscope.ir.core import Graph, Module, Node, Value

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AliasDb"]

Values = Value | str | Sequence[Value | str]

_FOLLOWED: Final = no("the edits were followed")


class AliasDb:
    """Aliases and writes of one graph.

    Any two inputs may be the same object, unless `distinct_inputs` promises that they share no memory. A call is unseen
    code, unless `callees` (a Module, or graphs by name) has what it runs. Wherever a value or node is asked for, its
    printed name will do; an unknown one raises UnknownName.

    >>> from irscope.ir.parser import parse
    >>> g = parse('''graph(%x : Tensor, %i : int):
    ...   %a : Tensor = aten::neg(%x)
    ...   %b : Tensor = aten::select(%a, %i, %i)
    ...   %c : Tensor = aten::relu_(%b)
    ...   return (%a)''')
    >>> db = AliasDb(g)
    >>> print(db.may_alias("a", "b"))
    yes, because %b is a view of %a (aten::select)
    >>> print(db.may_alias("a", "x"))
    no, because they are different memory: %a is made by aten::neg, %x is an input
    >>> print(db.has_writers("a"))
    yes, because aten::relu_ writes %b, and %b is a view of %a (aten::select)

    >>> helper = parse('graph(%p : Tensor):\\n  %q : Tensor = aten::neg(%p)\\n  return (%q)')
    >>> g = parse('''graph(%x : Tensor):
    ...   %f : Function = prim::Constant[name="helper"]()
    ...   %a : Tensor = prim::CallFunction(%f, %x)
    ...   return (%a)''')
    >>> bool(AliasDb(g).may_alias("a", "x")), bool(AliasDb(g, callees={"helper": helper}).may_alias("a", "x"))
    (True, False)
    """

    def __init__(
        self, graph: Graph, *, distinct_inputs: bool = False, callees: Module | Mapping[str, Graph] | None = None
    ) -> None:
        self.graph = graph = graph_of(graph, "AliasDb")
        self.callees = callees_of(callees)
        self.distinct_inputs = distinct_inputs or graph.distinct_inputs
        self.was_rebuilt: Verdict = no("it was made from the graph alone, and follows nothing")
        """Of a db that follows another: whether the edits were such that the graph was walked anew, and why."""
        self._structures = Structures()
        self._points_to: PointsTo = build(
            graph,
            self._structures,
            distinct_inputs=self.distinct_inputs,
            callees=summaries(graph, self.callees, self._structures),
        )
        self._reach = Reach(self._points_to)

    def follow(self, record: Record) -> AliasDb:
        """The db of the graph after a pass, made from this one in time linear in the edits; this one stays as it is.

        It answers as `AliasDb(record.after)` does. Ifs, loops, calls and objects that come or go, and values whose other
        names cannot be told apart, are answered by building anew: see `was_rebuilt`.

        >>> from irscope.ir.parser import parse
        >>> from irscope.ir.rewriter import Rewriter
        >>> from irscope.transforms.base import PassRecord
        >>> g = parse('''graph(%x : Tensor):
        ...   %a : Tensor = aten::neg(%x)
        ...   %b : Tensor = aten::neg(%x)
        ...   %t : Tensor = aten::t(%b)
        ...   return (%a, %t)''')
        >>> rewriter = Rewriter(g)
        >>> rewriter.replace(g.value("b"), g.value("a"), reason="the same computation")
        >>> rewriter.erase(g.node("b"), reason="nobody reads it")
        >>> db = AliasDb(g)
        >>> next_db = db.follow(PassRecord("cse", g, rewriter.finish(), rewriter.edits))
        >>> bool(db.may_alias("a", "t")), str(next_db.may_alias("a", "t"))
        (False, 'yes, because %t is a view of %a (aten::t)')
        """
        if record.before is not self.graph:
            raise ArgumentError(
                f"the record starts from another graph than the one this AliasDb is of ({self.graph.name!r})",
                hint="follow the records of a history in order, each with the db of the graph before it",
            )
        if record.after is self.graph:
            return self
        try:
            if record.before.distinct_inputs != record.after.distinct_inputs:
                raise CannotFollow("what is promised of the inputs changed")
            points_to, reach = follow(self._points_to, self._reach, self._knowledge, record)
        except CannotFollow as why:
            rebuilt = AliasDb(record.after, distinct_inputs=self.distinct_inputs, callees=self.callees)
            rebuilt.was_rebuilt = yes(str(why))
            return rebuilt
        found = AliasDb.__new__(AliasDb)
        found.graph, found.distinct_inputs, found.callees = record.after, self.distinct_inputs, self.callees
        found.was_rebuilt = _FOLLOWED
        found._points_to, found._reach, found._structures = points_to, reach, self._structures
        found.__dict__["_knowledge"] = self._knowledge
        return found

    @cached_property
    def _knowledge(self) -> Knowledge:
        return Knowledge()

    # Names and places

    def _value(self, value: Value | str) -> Value:
        if not isinstance(value, Value):
            return self.graph.value(value)
        if value not in self._points_to.element_of and value not in self.graph.block_of:
            raise UnknownName(
                f"{value!r} is not a value of graph {self.graph.name!r}",
                hint="make an AliasDb of the graph it came from",
            )
        return value

    def _values(self, values: Values) -> list[Value]:
        if isinstance(values, Iterable) and not isinstance(values, str):
            return [self._value(value) for value in values]
        return [self._value(values)]

    def _node(self, node: Node | str) -> Node:
        if not isinstance(node, Node):
            return self.graph.node(node)
        if node not in self.graph.block_of:
            raise UnknownName(
                f"{node!r} is not a node of graph {self.graph.name!r}", hint="make an AliasDb of the graph it came from"
            )
        return node

    def _place(self, value: Value) -> int | None:
        """The class of a value; None when it is memory that no other name can have, or not memory."""
        element = self._points_to.element_of.get(value)
        return None if element is None else self._points_to.class_of[element]

    def _is_memory(self, value: Value) -> bool:
        return self._structures.of(value.type) is not None

    @cached_property
    def _index(self) -> dict[Node, int]:
        return {node: index for block in self.graph.blocks() for index, node in enumerate(block.nodes)}

    @cached_property
    def _accesses(self) -> Accesses:
        return Accesses(self.graph, self._points_to, self._reach)

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(self.graph, self._points_to, self._reach)

    # Sharing

    def may_alias(self, a: Values, b: Values) -> Verdict:
        """Whether some value of `a` and some value of `b` may be the same memory: one storage, one container object."""
        if a.__class__ is Value is b.__class__:
            return self._may_alias(self._value(a), self._value(b))
        return self._first_yes(a, b, self._may_alias)

    def may_contain_alias(self, a: Values, b: Values) -> Verdict:
        """Whether `a` and `b` may share memory, themselves or through anything that they hold, at any depth."""
        if a.__class__ is Value is b.__class__:
            return self._may_contain_alias(self._value(a), self._value(b))
        return self._first_yes(a, b, self._may_contain_alias)

    def _first_yes(self, a: Values, b: Values, question: Callable[[Value, Value], Verdict]) -> Verdict:
        answer = no("there is nothing to compare")
        for left in self._values(a):
            for right in self._values(b):
                answer = question(left, right)
                if answer:
                    return answer
        return answer

    def _may_alias(self, a: Value, b: Value) -> Verdict:
        if not (self._is_memory(a) and self._is_memory(b)):
            copied = b if self._is_memory(a) else a
            return no(f"%{self.graph.names[copied]} is {copied.type}: such values are copied, never shared", copied)
        if a is b:
            return yes("they are one value", a)
        left, right = self._place(a), self._place(b)
        if left is not None and right is not None and self._reach.meet(left, right):
            return lazy(True, AliasDb._why_alias, self, a, b)
        return lazy(False, AliasDb._why_apart, self, a, b)

    def _why_alias(self, a: Value, b: Value) -> Verdict:
        return self._explainer.why_alias(a, b)

    def _why_apart(self, a: Value, b: Value) -> Verdict:
        return self._explainer.why_apart(a, b)

    def _why_contain(self, a: Value, b: Value) -> Verdict:
        return self._explainer.why_contain(a, b)

    def _may_contain_alias(self, a: Value, b: Value) -> Verdict:
        direct = self._may_alias(a, b)
        left, right = self._place(a), self._place(b)
        if direct or left is None or right is None:
            return direct
        if self._reach.meet_inside(left, right):
            return lazy(True, AliasDb._why_contain, self, a, b)
        return direct

    def must_alias(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two values are certainly the same memory whenever both are bound: one is the other, or a view of
        it."""
        return self._explainer.why_must(self._value(a), self._value(b))

    def explain(self, a: Value | str, b: Value | str) -> Verdict:
        """The full answer about two values: may they alias, and if not, may one hold the other."""
        return self.may_contain_alias(a, b)

    def points_to(self, value: Value | str) -> tuple[Label, ...]:
        """What a value may be, one step on: values and places; itself if it is memory of its own."""
        found = self._value(value)
        element = self._points_to.element_of.get(found)
        return (
            self._explainer.next_labels(element) or (self._points_to.labels[element],)
            if element is not None
            else (found,)
        )

    def locations(self, value: Value | str) -> tuple[Label, ...]:
        """The memories that a value may be, each named by the value or place that it came into being with."""
        found = self._value(value)
        place = self._place(found)
        if place is None:
            return (found,) if self._is_memory(found) else ()
        return tuple(self._explainer.label_of(leaf) for leaf in sorted(self._reach.leaves(place)))

    def alias_set(self, value: Value | str) -> tuple[Value, ...]:
        """All values of the graph that may be the same memory as this one, itself included, in order of definition."""
        found = self._value(value)
        place = self._place(found)
        if place is None:
            return (found,)
        meeting = self._reach.all_meeting(place)
        element_of, class_of = self._points_to.element_of, self._points_to.class_of
        return tuple(
            other for other, element in element_of.items() if class_of[element] in meeting and self._is_memory(other)
        )

    def may_alias_wildcard(self, value: Value | str) -> Verdict:
        """Whether a value may be memory from outside: an input, or what code that is not in the graph may know."""
        found = self._value(value)
        place = self._place(found)
        for outside in sorted(self._points_to.outside) if place is not None else ():
            assert place is not None
            if self._reach.meet(place, outside):
                label = self._explainer.label_of(outside)
                return yes(f"%{self.graph.names[found]} may be {self._explainer.describe_place(label)}", found)
        return no(f"%{self.graph.names[found]} is memory that this graph makes", found)

    def escapes(self, value: Value | str) -> Verdict:
        """Whether code outside the graph can get at a value: through inputs, outputs, or calls."""
        found = self._value(value)
        for output in self.graph.outputs:
            shared = (
                self._may_contain_alias(found, output) if self._is_memory(output) and self._is_memory(found) else None
            )
            if shared:
                return yes(
                    f"it can be reached from the output %{self.graph.names[output]}: {shared.because}", *shared.witness
                )
        place = self._place(found)
        for outside in sorted(self._points_to.outside) if place is not None else ():
            assert place is not None
            if self._reach.meet_inside(place, outside):
                return yes(
                    f"it can be reached from {self._explainer.describe_place(self._explainer.label_of(outside))}", found
                )
        return no(f"no input, output or call can reach %{self.graph.names[found]}", found)

    # Writes

    def has_writers(self, subject: Value | Node | str) -> Verdict:
        """Whether some node, anywhere in the graph, may write the memory of a value, or of an operand or result of a
        node."""
        if subject.__class__ is Value:  # asked of every value of a program: nothing is called that need not be
            element = self._points_to.element_of.get(subject)
            if element is not None:
                written = self._points_to.is_written[self._points_to.class_of[element]]
                return lazy(written != 0, AliasDb._why_written, self, subject)
            if subject in self.graph.block_of:
                return lazy(False, AliasDb._why_written, self, subject)
        if isinstance(subject, Node) or (isinstance(subject, str) and "::" in subject):
            node = self._node(subject)
            verdicts = (self._has_writers(value) for value in dict.fromkeys((*node.inputs, *node.outputs)))
            return next((v for v in verdicts if v), no(f"nothing writes an operand or a result of {node.op}", node))
        return self._has_writers(self._value(subject))

    def _has_writers(self, value: Value) -> Verdict:
        return lazy(self.is_written(value), AliasDb._why_written, self, value)

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
        meeting = self._reach.all_meeting(place)
        class_of = self._points_to.class_of
        return tuple(
            dict.fromkeys(write.node for write in self._points_to.writes if class_of[write.element] in meeting)
        )

    def accesses(self, node: Node | str) -> NodeAccesses:
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

    # Order

    def obstacle(self, earlier: Node, later: Node) -> Obstacle | None:
        """What keeps two nodes of one block in their order, if anything does."""
        alone = WorkingSet(self, towards_end=True)
        alone.add(earlier)
        return alone.obstacle(later)

    def can_move_before(self, node: Node | str, point: Node | str) -> Verdict:
        """Whether `node` can be brought to stand directly before `point`; the witness lists the nodes that move
        along."""
        return moves.can_move(self, self._node(node), self._node(point), before=True)

    def can_move_after(self, node: Node | str, point: Node | str) -> Verdict:
        """Whether `node` can be brought to stand directly after `point`; the witness lists the nodes that move
        along."""
        return moves.can_move(self, self._node(node), self._node(point), before=False)

    def index_of(self, node: Node) -> int:
        """The node's place in its block."""
        return self._index[node]

    @property
    def sealed(self) -> PointsTo:
        """The points-to graph itself, for drawing it."""
        return self._points_to

    @property
    def reach(self) -> Reach:
        """The searches that the answers rest on."""
        return self._reach

    def region(self, place: int) -> int:
        """The region of a class: accesses in two regions never collide; `EVERYTHING` is a region of its own."""
        return place if place == EVERYTHING else self._reach.region[place]

    def node_words(self, node: Node) -> str:
        """A node in a sentence: `aten::mul (%c)`."""
        return self._explainer.node_words(node)

    def label_of(self, place: int) -> Label:
        """The value or place that a class is named by."""
        return self._explainer.label_of(place)

    def is_memory(self, value: Value) -> bool:
        """Whether values of its type can be shared at all: not numbers, strings and the like."""
        return self._is_memory(value)

    def place_words(self, label: Label) -> str:
        """A value by its name, a place in words: `what %list holds`."""
        return self._explainer.describe_label(label)

    def obstacle_words(self, obstacle: Obstacle) -> str:
        """Why one node must come after another, as a sentence."""
        return self._explainer.obstacle_words(obstacle)

    # Tables

    def table(self, values: Iterable[Value | str] | None = None) -> pd.DataFrame:
        """One row a value that is memory: name, type, alias set, locations, writers; long lists by their first items.

        `alias_set`, `locations` and `writers` give them whole. Linear in the program: where nearly everything may be
        everything, rows after the first ones give upper bounds (`up to 5000 values`).
        """
        import pandas as pd

        wanted = self.graph.values() if values is None else map(self._value, values)
        found = table.rows(self, [value for value in wanted if self._is_memory(value)])
        return pd.DataFrame(found, columns=list(table.COLUMNS))

    def to_graphviz(self, values: Values | None = None) -> str:
        """The points-to graph in Graphviz's language, of some values and what they may be and hold, or of all.

        >>> from irscope.ir.parser import parse
        >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::neg(%x)\\n  %b : Tensor = aten::t(%a)\\n  return (%b)")
        >>> print(AliasDb(g).to_graphviz("b"))
        digraph {
          node [shape=box style=rounded fontname="Helvetica" fontsize=10]
          c1 [label="%a\\n%b"]
        }
        """
        starts = None
        if values is not None:
            starts = {place for place in map(self._place, self._values(values)) if place is not None}
        return points_to_dot(self._points_to, self._reach, self._explainer.describe_label, starts)

    def __repr__(self) -> str:
        sealed = self._points_to
        counts = f"{plural(len(sealed.labels), 'element')}, {plural(len(sealed.writes), 'write')}"
        return f"<AliasDb of {self.graph.name!r}: {counts}>"
