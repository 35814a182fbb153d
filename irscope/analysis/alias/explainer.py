"""Phrases an alias db's reasons as sentences with witnesses, when they are read."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from irscope._base.nested import grouped
from irscope._base.results import Drawn, Verdict, no, yes
from irscope.analysis.alias.paths import Paths, Step
from irscope.analysis.alias.points_to import EVERYTHING, MIXED, Access, Label, OrderConflict, Place, PointsTo, Reachability, Write
from irscope.analysis.effects import Signatures
from irscope.analysis.views import ViewAliases
from irscope.ir import Graph, Node, Value
from irscope.ops.registry import functional_source
from irscope.ops.traits import MAY_COPY

# A verdict whose reason is computed only when it is read: finding a path costs more than the answer.


class LazyVerdict(Verdict, Drawn):
    """A verdict with a known answer and a deferred reason; created by `lazy`. Its picture is that of the memory it is about."""

    __slots__ = ("_asked", "_reason")
    _asked: tuple[Any, ...]
    """A function that finds the reason, and its arguments."""
    _reason: Verdict

    def _full(self) -> Verdict:
        try:
            return self._reason
        except AttributeError:  # nobody has read it
            found = self._asked[0](*self._asked[1:])
        assert isinstance(found, Verdict) and found.holds == self.holds, "a reason was found for the opposite answer"
        object.__setattr__(self, "_reason", found)
        return found

    @property
    def about(self) -> tuple[Any, tuple[Value, ...]]:
        """The db that answered, and the values that it was asked about."""
        return self._asked[1], tuple(each for each in self._asked[2:] if isinstance(each, Value))

    @property
    def because(self) -> str:
        return self._full().because

    @property
    def witness(self) -> tuple[Any, ...]:
        return self._full().witness

    @property
    def answer(self) -> str:
        return self._full().answer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and (self.holds, self.because, self.witness) == (other.holds, other.because, other.witness)

    def __hash__(self) -> int:
        return hash((self.holds, self.because))

    def __repr__(self) -> str:
        return repr(self._full())


_new: Final[Callable[[type[LazyVerdict]], LazyVerdict]] = object.__new__
_set_holds: Final[Any] = vars(Verdict)["holds"].__set__  # past the frozen `__init__`, which costs three times as much
_set_asked: Final[Any] = vars(LazyVerdict)["_asked"].__set__


def lazy(holds: bool, *reason: Any) -> LazyVerdict:
    """A verdict whose reason a function returns for some arguments, called at most once."""
    made = _new(LazyVerdict)
    _set_holds(made, holds)
    _set_asked(made, reason)
    return made


SAME_OBJECT: Final = "two inputs may be the same object"

_LONG = 3
"""Paths with more steps than this are described by their first and last steps."""


class Explainer:
    """Finds and phrases the reasons for one graph's answers."""

    def __init__(self, graph: Graph, points_to: PointsTo, reach: Reachability, views: Callable[[], ViewAliases]) -> None:
        """`views` are made when whether an op copies depends on strides."""
        self._graph, self._points_to, self._reach = graph, points_to, reach
        self.paths = Paths(graph, points_to, reach, views)
        self._signatures = Signatures()
        self._name, self._node = self.paths.name, self.paths.node_words

    # Verdicts

    def why_alias(self, a: Value, b: Value) -> Verdict:
        """The paths on which two values reach the same memory."""
        left, right, meeting = self.paths.between(a, b)
        return yes(self._joined(a, b, left, right, meeting), *_witness([*left, *right], a, b)).in_words("may alias", "no alias")

    def why_contain(self, a: Value, b: Value) -> Verdict:
        """The contents of one value, or of both, that the other reaches."""
        for holder, held in ((a, b), (b, a)):
            inside = self.paths.inner_meeting(holder, held)
            if inside is not None:
                steps = self._to_held(inside, held)
                words = self._sentence(steps) or f"%{self._name(holder)} holds {self.paths.describe(self._points_to.labels[inside])}"
                return yes(words, *_witness(steps, holder, held)).in_words("may contain an alias", "no alias")
        return yes(f"%{self._name(a)} and %{self._name(b)} may hold the same elements", a, b).in_words("may contain an alias", "no alias")

    def _to_held(self, inside: int, held: Value) -> list[Step]:
        """The steps from an element inside a container, and from a value, to where they meet."""
        other = self.paths.element(held)
        assert other is not None
        chain = self.paths.search(inside, self.paths.elements_below(other))
        return [*self.paths.edge_steps(chain), *self.paths.path(held, {chain[-1]})]

    def steps(self, a: Value, b: Value) -> list[Step]:
        """The path on which two values reach one memory, in the order of the reason; empty where that is no path."""
        if self.paths.element(a) is None or self.paths.element(b) is None:
            return []
        if self.paths.meets(a, b):
            left, right, _ = self.paths.between(a, b)
            return [*left, *right]
        for holder, held in ((a, b), (b, a)):
            inside = self.paths.inner_meeting(holder, held)
            if inside is not None:
                return self._to_held(inside, held)
        return []

    def _why_shared(self, a: Value, b: Value) -> Verdict:
        return self.why_alias(a, b) if self.paths.meets(a, b) else self.why_contain(a, b)

    def why_apart(self, a: Value, b: Value) -> Verdict:
        """The origins of the two different memories."""
        return no(f"they are different memory: {self.origin(a)}, {self.origin(b)}", a, b).in_words("may alias", "no alias")

    def why_must(self, a: Value, b: Value) -> Verdict:
        """The chain of views and casts that makes two values one memory, if there is one."""
        left, right = self.paths.certain(a), self.paths.certain(b)
        ends = [a, *(step.target for step in left)]
        for index, end in enumerate([b, *(step.target for step in right)]):
            if end in ends:
                steps = [*left[: ends.index(end)], *right[:index]]
                return yes(self._sentence(steps) or "they are one value", *_witness(steps, a, b)).in_words("must alias", "need not alias")
        if self.paths.element(a) is not None and self.paths.meets(a, b):
            return no(f"they may be the same memory: {self.why_alias(a, b).because}", a, b).in_words("must alias", "need not alias")
        return self.why_apart(a, b)

    def why_written(self, value: Value, write: Write) -> Verdict:
        """Which node writes the memory of a value, through which operand, and why that is the same memory."""
        node = write.node
        through = next((v for v in node.inputs if self.paths.is_at(v, write.element)), None)
        if through is None and self._is_any_input(write):
            return yes(f"{self._node(node)} waits for a task that the caller started, which may write any input", node, value)
        if through is None:
            return yes(f"{self._node(node)} may write anything that it was passed or that escaped before", node, value)
        writes = f"{self._node(node)} writes %{self._name(through)}"
        if through is value:
            return yes(writes, node, value)
        shared = self._why_shared(value, through)
        return yes(f"{writes}, and {shared.because}", node, value, *shared.witness)

    def obstacle_words(self, obstacle: OrderConflict) -> str:
        """Why one node must come after another."""
        earlier, later = self._node(obstacle.earlier), self._node(obstacle.later)
        if obstacle.kind == "data":
            assert obstacle.value is not None
            return f"{later} uses %{self._name(obstacle.value)}, which {earlier} makes"
        if obstacle.kind in ("effect", "random"):
            what = "have an effect on the world" if obstacle.kind == "effect" else "draw random numbers"
            return f"{earlier} and {later} both {what}, in this order"
        assert obstacle.accesses is not None
        return self.accesses_words(*obstacle.accesses)

    def accesses_words(self, first: Access, second: Access) -> str:
        """Two conflicting accesses, and why they are to the same memory."""
        if EVERYTHING in (first.place, second.place):
            waiting = first if first.place == EVERYTHING else second
            return f"{self._node(waiting.node)} waits for a task that may have written anything"
        a, b = first.value, second.value
        words = f"{self.access_words(first)} and {self.access_words(second)} afterwards"
        if a is None or b is None or a is b:
            return words
        shared = self._why_shared(a, b)
        return f"{words}, and {shared.because}"

    def access_words(self, access: Access, verb: str = "") -> str:
        """`aten::relu_ writes %b`."""
        doing = verb or ("writes" if self._does_write(access) else "reads")
        thing = f"%{self._name(access.value)}" if access.value is not None else self._unnamed(access)
        return f"{self._node(access.node)} {doing} {'the shape of ' if access.shape and doing == 'reads' else ''}{thing}"

    def _unnamed(self, access: Access) -> str:
        """The memory that a node accesses through none of its operands."""
        class_of, element_of = self._points_to.class_of, self._points_to.element_of
        own = next((v for v in access.node.inputs if v in element_of and class_of[element_of[v]] == access.place), None)
        if own is not None:
            return f"%{self._name(own)} and other operands"
        same = (w for w in self._writes_of.get(access.node, ()) if class_of[w.element] == access.place)
        return "any input" if any(map(self._is_any_input, same)) else "anything that escaped"

    def _is_any_input(self, write: Write) -> bool:
        """Whether a write is that of a task that the caller passed in."""
        label = self._points_to.labels[write.element]
        return isinstance(label, Place) and label.kind == "input" and label.name == MIXED.bucket

    def _does_write(self, access: Access) -> bool:
        element_class, node = self._points_to.class_of, access.node
        if all(element_class[write.element] != access.place for write in self._writes_of.get(node, ())):
            return False
        named = [node.inputs[index] for index, _ in self._signatures.of(node).writes if index < len(node.inputs)]
        return access.value is None or access.value in named or access.value not in node.inputs or not named

    @cached_property
    def _writes_of(self) -> Mapping[Node, Sequence[Write]]:
        return grouped((write.node, write) for write in self._points_to.writes)

    def origin(self, value: Value) -> str:
        """The origin of a value's memory in words: `%a is made by aten::mul`."""
        element = self.paths.element(value)
        steps = self.paths.certain(value)
        root = steps[-1].target if steps else value
        name = f"%{self._name(value)}"
        start = root if isinstance(root, Value) else value
        if start in self._graph.inputs:
            language = self._graph.functional
            why = f" of a program in {language}, whose values share no memory" if language else ""
            kind = self._kind_of_input(start)
            return (
                f"{name} is {'a' if kind[0] == 'p' else 'an'} {kind}{why}"
                if start is value
                else f"{name} is memory of the {kind} %{self._name(start)}{why}"
            )
        if element is not None and self._points_to.class_of[element] in self._points_to.targets:
            leaves = self._reach.leaves(self._points_to.class_of[element])
            words = ", ".join(self.paths.describe(self.paths.label_of(leaf)) for leaf in sorted(leaves)[:3])
            return f"{name} may only be {words}{f' or {len(leaves) - 3} more' if len(leaves) > 3 else ''}"
        made = self._graph.producer.get(start)
        copy = "a copy " if made is not None and made.op in MAY_COPY else ""
        by = "a block parameter" if made is None else f"{copy}made by {made.op}"
        language = "" if made is None else functional_source(made.op)
        by += f", and results of {language} ops are new" if language else ""
        return f"{name} is {by}" if start is value else f"{name} is memory of %{self._name(start)} ({by})"

    def _kind_of_input(self, value: Value) -> str:
        """`parameter` for an input of known storage, `argument` for one that a caller passes, `input` if that is unknown."""
        if value in self._graph.storages:
            return "parameter"
        return "argument" if self._graph.storages and value not in self._graph.bound else "input"

    # Phrases

    def _sentence(self, steps: Sequence[Step]) -> str:
        """The steps as one sentence; a long chain is shortened to its first and last steps."""
        words = list(dict.fromkeys(step.words for step in steps))
        if len(words) > _LONG:
            words = [words[0], f"{len(words) - 2:,} steps later {words[-1]}"]
        return ", and ".join(words)

    def _joined(self, a: Value, b: Value, left: list[Step], right: list[Step], meeting: Label) -> str:
        parts = [words for words in (self._sentence(left), self._sentence(right)) if words]
        roots = [steps[-1].target if steps else start for steps, start in ((left, a), (right, b))]
        if isinstance(meeting, Value) and roots[0] is not roots[1] and all(root in self._graph.storages for root in roots):
            parts.append(f"{' and '.join(map(self.paths.describe, roots))} are tied: both lie in one storage")
        elif isinstance(meeting, Place):
            if roots[0] is roots[1] and parts:
                pass  # both are views of one value, whose origin does not matter
            elif meeting.kind in ("input", "argument") and all(root in self.paths.inputs for root in roots):
                names = " and ".join(self.paths.describe(root) for root in roots)
                parts.append(f"{names} are both inputs, and {SAME_OBJECT}")
            elif not (parts and parts[-1].endswith(self.paths.describe(meeting))):
                there, ends = self.paths.describe(meeting), dict.fromkeys(map(self.paths.describe, roots))
                named = " and ".join(end for end in ends if end != there) or "both"
                is_one = meeting.kind == "input" and [root for root in roots if root in self.paths.inputs]
                parts.append(f"{named} {'is' if is_one and ' ' not in named else 'may be'} {there}")
        return ", and ".join(parts) or "they are one memory"


def _witness(steps: Sequence[Step], *ends: Value) -> tuple[Any, ...]:
    found: dict[Any, None] = dict.fromkeys(ends)
    for step in steps:
        for thing in (step.source, step.node, step.target):
            if thing is not None:
                found[thing] = None
    return tuple(found)
