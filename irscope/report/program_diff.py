"""The difference of two programs: what is kept, changed (and how), new and gone, in words and side by side."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from irscope._base.words import shortened
from irscope.analysis.dependence import dependences
from irscope.errors import new_table, public
from irscope.ir import Graph, Node, Value, graph_of
from irscope.ir.text import print_node
from irscope.ops.registry import effect_of
from irscope.report.matching import By, Match, is_group, origin
from irscope.report.words import depth_of
from irscope.transforms.fusion import Fusion

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["kept", "changed", "new", "gone"]

_LONGEST_CONSTANT = 60
_MOST_ARGUMENTS = 3
_MOST_WRITES = 16  # Whether the order of a node and of a write that it passed matters is asked of so many; of more, one is named unasked.


@dataclass(frozen=True, slots=True)
class Change:
    """A node of one program or of both."""

    kind: Kind
    before: Node | None
    after: Node | None
    """Both None where the arguments or results of the programs differ."""
    how: str
    """The difference in words; empty for a node that is kept, new or gone."""


@dataclass(frozen=True, eq=False)
class ProgramDiff:
    """The change of each node between two programs. Constants are part of the lines that read them."""

    first: Graph
    second: Graph
    matched_by: By
    """Programs derived from one program by passes are matched by id; others by what they compute."""
    changes: tuple[Change, ...]
    """In the order of the text; nodes that are gone are where they were."""
    fusions: tuple[Fusion, Fusion] | None = None
    """The two groupings, if both are."""

    @public
    def of(self, kind: Kind) -> tuple[Change, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.changes if change.kind == kind)

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of nodes that are kept, changed, new and gone."""
        return {kind: len(self.of(kind)) for kind in ("kept", "changed", "new", "gone")}

    @property
    def is_empty(self) -> bool:
        """Whether everything is kept."""
        return self.counts["kept"] == len(self.changes)

    def lines(self) -> Iterator[tuple[Kind, str, str, str]]:
        """Each change with its line in the first and second program (empty if there is none) and its description."""
        for change in self.changes:
            lines = _line(self.first, change.before), _line(self.second, change.after)
            if change.before is change.after is None:
                lines = _frame(self.first, self.second, change.how), _frame(self.second, self.first, change.how)
            yield change.kind, *lines, change.how

    def table(self) -> "pd.DataFrame":
        """One row for each node that is not kept: kind, how, line before, line after."""
        rows = [(kind, how, before.strip(), after.strip()) for kind, before, after, how in self.lines() if kind != "kept"]
        return new_table(rows, columns=["kind", "how", "before", "after"])

    def __str__(self) -> str:
        """Lines marked − for gone, + for new, and both for changed."""
        told = []
        for kind, before, after, how in self.lines():
            if kind == "kept":
                told.append(f"  {after}")
                continue
            told += [f"− {before}"] if before else []
            told += [f"+ {after}{f'    # {how}' if how else ''}"] if after else []
        return "\n".join(told)

    def __repr__(self) -> str:
        return f"<ProgramDiff: {', '.join(f'{count} {kind}' for kind, count in self.counts.items())}>"


@public
def diff(first: Any, second: Any) -> ProgramDiff:
    """Compare two programs: graphs, fusions by two policies, what another compiler decided, or two steps of a history
    (`history.graph_after(k)`).

    Raises ArgumentError if one is not a program. Linear, apart from sorting nodes that moved.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::relu(%x)
    ...   %b : Float(4) = aten::relu(%x)
    ...   %c : Float(4) = aten::mul(%a, %b)
    ...   return (%c)''')
    >>> print(irs.diff(g, irs.Pipeline("cse")(g).graph))
        %a : Float(4) = aten::relu(%x)
    −   %b : Float(4) = aten::relu(%x)
    −   %c : Float(4) = aten::mul(%a, %b)
    +   %c : Float(4) = aten::mul(%a, %a)    # reads %a instead of %b
    """
    fused = (getattr(given, "fusion", None) for given in (first, second))  # other compilers' groups; a model may have such a layer
    one, other = (own if isinstance(own, Fusion) else given for own, given in zip(fused, (first, second), strict=True))
    before, after = _graph(one), _graph(other)
    comparison = _Comparison(before, after)
    fusions = (one, other) if isinstance(one, Fusion) and isinstance(other, Fusion) else None
    return ProgramDiff(before, after, comparison.match.by, tuple(comparison.changes()), fusions)


def _graph(given: Any) -> Graph:
    inside = getattr(given, "graph", given)
    return graph_of(inside if isinstance(inside, Graph) else given, "diff")


class _Comparison:
    """Describes the differences of two matched programs."""

    def __init__(self, first: Graph, second: Graph) -> None:
        self.first, self.second = first, second
        self.match = Match(first, second)
        self.nodes = self.match.nodes
        self.order = _Order(first, second, self.nodes)

    def changes(self) -> Iterator[Change]:
        """The nodes of the second program in order, with removed nodes at their old position between nodes that kept their order."""
        if how := self._arguments():
            yield Change("changed", None, None, how)
        places = {node: place for place, node in enumerate(self.second.nodes())}
        gone = self._gone(places)
        old = {new: node for node, new in self.nodes.items()}
        for place, node in enumerate(places):
            yield from (Change("gone", each, None, "") for each in gone.get(place, ()))
            if node.op == "prim::Constant":
                continue
            if node not in old:
                yield Change("new", None, node, "")
            else:
                how = self._how(old[node], node)
                yield Change("changed" if how else "kept", old[node], node, how)
        yield from (Change("gone", each, None, "") for each in gone.get(len(places), ()))
        if how := self._other(self.first.outputs, self.second.outputs, "returns"):
            yield Change("changed", None, None, how)

    def _gone(self, places: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The removed nodes by the place in the second program where they would be."""
        anchors = _in_order([(node, places[self.nodes[node]]) for node in self.first.nodes() if node in self.nodes])
        gone: dict[int, list[Node]] = {}
        here = 0
        for node in self.first.nodes():
            if node in anchors:
                here = anchors[node] + 1
            elif node not in self.nodes and node.op != "prim::Constant":
                gone.setdefault(here, []).append(node)
        return gone

    def _arguments(self) -> str:
        before, after = self.first.inputs, self.second.inputs
        if len(before) != len(after) or not all(map(self.match.are_same, before, after)):
            return "takes other arguments" if len(before) == len(after) else f"takes {len(after)} arguments instead of {len(before)}"
        types = ((self.second.names[b], str(b.type), str(a.type)) for a, b in zip(before, after, strict=True))
        return next((f"takes %{name} of {now} instead of {then}" for name, now, then in types if now != then), "")

    def _how(self, before: Node, after: Node) -> str:
        """The difference between two matched nodes in words; empty if there is none."""
        if before.op != after.op:
            return f"was {before.op}"
        if {**before.attrs, "kernel": ""} != {**after.attrs, "kernel": ""}:  # a name that another compiler gave
            return "has other attributes"
        if how := self._moved(before, after):
            return how
        if is_group(before):
            return ""  # its operands and results are those of the nodes inside, which say what changed
        if how := self._other(before.inputs, after.inputs, "reads"):
            return how
        types = [(str(a.type), str(b.type)) for a, b in zip(before.outputs, after.outputs, strict=False)]
        if how := next((f"makes {b} instead of {a}" for a, b in types if a != b), ""):
            return how
        blocks = zip(before.blocks, after.blocks, strict=False)
        returned = (self._other(a.returns, b.returns, f"block {k} returns") for k, (a, b) in enumerate(blocks))
        return next(filter(None, returned), "") or self.order.how(before)

    def _moved(self, before: Node, after: Node) -> str:
        around, now = self.first.owner.get(self.first.block_of[before]), self.second.owner.get(self.second.block_of[after])
        if (self.nodes.get(around) if around is not None else None) is now:
            return ""
        left = f"{'moved' if now is not None else 'moved out'} from {_called(self.first, around)}" if around is not None else "moved"
        return f"{left} {'in' if around is None else ''}to {_called(self.second, now)}" if now is not None else left

    def _other(self, before: Sequence[Value], after: Sequence[Value], verb: str) -> str:
        """Says which value is another one; empty if all are the same."""
        other = next(((a, b) for a, b in zip(before, after, strict=False) if not self.match.are_same(a, b)), None)
        if other is not None:
            both = zip((self.first, self.second), other, strict=True)
            then, now = (_named(graph, origin(graph, value)) for graph, value in both)
            return f"{verb} {now} instead of {then}" if then != now else f"{verb} another {now}"
        return f"{verb} {len(after)} values instead of {len(before)}" if len(before) != len(after) else ""


class _Order:
    """Finds the nodes that are on another side of a write than before."""

    def __init__(self, first: Graph, second: Graph, nodes: Mapping[Node, Node]) -> None:
        self._graph = first
        self._writes = [node for node in first.nodes() if node in nodes and not node.blocks and effect_of(node) in ("in-place", "opaque")]
        self._before = {node: k for k, node in enumerate(first.nodes())}
        there = {node: k for k, node in enumerate(second.nodes())}
        self._after = {node: there[other] for node, other in nodes.items()}
        seen = _writes_before(first, set(self._writes))
        now = _writes_before(second, {nodes[node] for node in self._writes}) if self._writes else {}
        self._passed = {node: (seen[node], now[other]) for node, other in nodes.items() if self._writes and seen[node] != now[other]}
        """For each node that passed writes, their number before it in the first and in the second program."""

    def how(self, node: Node) -> str:
        """Which write a node passed, if their order matters; empty otherwise."""
        if node not in self._passed:
            return ""
        then, now = self._passed[node]
        passed = [write for write in self._writes[min(then, now) : max(then, now)] if write is not node] or self._writes[now : now + 1]
        passed = [write for write in passed if (self._before[write] < self._before[node]) != (self._after[write] < self._after[node])]
        for write in passed[:_MOST_WRITES]:
            pair = (write, node) if now < then else (node, write)
            block = self._graph.block_of[node]
            if self._graph.block_of[write] is not block or dependences(self._graph, block).reason(*pair):
                return self._words(write, then, now)
        return self._words(passed[_MOST_WRITES], then, now) if len(passed) > _MOST_WRITES else ""

    def _words(self, write: Node, then: int, now: int) -> str:
        return f"is now {'before' if now < then else 'after'} {_called(self._graph, write)}"


def _writes_before(graph: Graph, writes: Set[Node]) -> dict[Node, int]:
    count = 0
    found: dict[Node, int] = {}
    for node in graph.nodes():
        found[node] = count
        count += node in writes
    return found


def _in_order(found: list[tuple[Node, int]]) -> dict[Node, int]:
    """The longest increasing subsequence, by place."""
    ends: list[int] = []
    at: list[int] = []
    back = [-1] * len(found)
    for k, (_, place) in enumerate(found):
        length = bisect_left(ends, place)
        back[k] = at[length - 1] if length else -1
        if length == len(ends):
            ends.append(place)
            at.append(k)
        else:
            ends[length], at[length] = place, k
    kept: dict[Node, int] = {}
    k = at[-1] if at else -1
    while k >= 0:
        kept[found[k][0]] = found[k][1]
        k = back[k]
    return kept


def _called(graph: Graph, node: Node) -> str:
    name = f"%{graph.names[node.outputs[0]]}" if node.outputs else ""
    if is_group(node):
        return f"group {name}".rstrip()
    return f"{name} = {node.op}" if name else node.op


def _named(graph: Graph, value: Value) -> str:
    maker = graph.producer.get(value)
    return _literal(maker) if maker is not None and maker.op == "prim::Constant" else f"%{graph.names[value]}"


def _literal(constant: Node) -> str:
    text = print_node(constant, {constant.output: ""}).partition("prim::Constant[")[2].removesuffix("]()").removeprefix("value=")
    return shortened(text, _LONGEST_CONSTANT) or "None"


def _line(graph: Graph, node: Node | None) -> str:
    """The line of a node, with constants in the place of their names."""
    if node is None:
        return ""
    names = {value: graph.names[value] for value in (*node.inputs, *node.outputs)}
    for value in node.inputs:
        maker = graph.producer.get(value)
        if maker is not None and maker.op == "prim::Constant":
            names[value] = f"\0{_literal(maker)}"
    return "  " * (depth_of(graph, node) + 1) + print_node(node, names).replace("%\0", "")


def _frame(graph: Graph, other: Graph, how: str) -> str:
    """The heading with some of the arguments that the other program does not have like that, or the line of the results."""
    if how.startswith("takes"):
        mine, theirs = ([f"%{each.names[value]} : {value.type}" for value in each.inputs] for each in (graph, other))
        shown = [each for each in mine if each not in {*theirs}][:_MOST_ARGUMENTS] or mine[:_MOST_ARGUMENTS]
        more = [f"… and {len(mine) - len(shown)} more"] if len(mine) > len(shown) else []
        return f"graph({', '.join([*shown, *more])})"
    return f"  return ({', '.join(_named(graph, value) for value in graph.outputs)})"
