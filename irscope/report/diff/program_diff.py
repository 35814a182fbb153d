"""The difference of two programs: what is kept, changed (and how), new and gone, in words and side by side."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from irscope._base.concurrency.cached import cached_property
from irscope.ir import Graph, Node, graph_of
from irscope.ir.text import print_node
from irscope.report.diff.matching import By, match

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Change", "ProgramDiff", "diff"]

Kind = Literal["kept", "changed", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Change:
    """A node of one program or of both."""

    kind: Kind
    before: Node | None
    after: Node | None
    how: str
    """The difference in words; empty for a node that is kept, new or gone."""


@dataclass(frozen=True, eq=False)
class ProgramDiff:
    """The change of each node between two programs."""

    first: Graph
    second: Graph
    matched_by: By
    """Programs derived from one program by passes are matched by id; others by what they compute."""
    changes: tuple[Change, ...]
    """In the order of the text; nodes that are gone are where they were."""

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
            yield change.kind, _line(self.first, change.before), _line(self.second, change.after), change.how

    def table(self) -> pd.DataFrame:
        """One row for each node that is not kept: kind, how, line before, line after."""
        import pandas as pd

        rows = [(kind, how, before.strip(), after.strip()) for kind, before, after, how in self.lines() if kind != "kept"]
        return pd.DataFrame(rows, columns=["kind", "how", "before", "after"])

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


def diff(first: Any, second: Any) -> ProgramDiff:
    """Compare two programs: graphs, fusions by two policies, or two steps of a history (`history.graph_after(k)`).

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
    before, after = (_graph(given) for given in (first, second))
    pairs, by = match(before, after)
    places = {node: place for place, node in enumerate(after.nodes())}
    return ProgramDiff(before, after, by, tuple(_ordered(before, after, pairs, places)))


def _graph(given: Any) -> Graph:
    inside = getattr(given, "graph", given)
    return graph_of(inside if isinstance(inside, Graph) else given, "diff")


def _ordered(before: Graph, after: Graph, pairs: dict[Node, Node], places: dict[Node, int]) -> Iterator[Change]:
    """The nodes of the second program in order, with removed nodes at their old position between nodes that kept their order."""
    anchors = _in_order([(node, places[pairs[node]]) for node in before.nodes() if node in pairs])
    gone: dict[int, list[Node]] = {}
    here = 0
    for node in before.nodes():
        if node in anchors:
            here = anchors[node] + 1
        elif node not in pairs:
            gone.setdefault(here, []).append(node)
    old = {new: node for node, new in pairs.items()}
    for place, node in enumerate(after.nodes()):
        yield from (Change("gone", each, None, "") for each in gone.get(place, ()))
        if node not in old:
            yield Change("new", None, node, "")
        else:
            how = _how(before, after, old[node], node, pairs)
            yield Change("changed" if how else "kept", old[node], node, how)
    yield from (Change("gone", each, None, "") for each in gone.get(len(places), ()))


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


def _how(first: Graph, second: Graph, before: Node, after: Node, pairs: dict[Node, Node]) -> str:
    """The difference between two matched nodes in words; empty if there is none."""
    if before.op != after.op:
        return f"was {before.op}"
    if before.attrs != after.attrs:
        return "has other attributes"
    around, now = first.owner.get(first.block_of[before]), second.owner.get(second.block_of[after])
    if (pairs.get(around) if around is not None else None) is not now:
        return f"is in the {_called(second, now)}" if now is not None else f"was in the {_called(first, around)}"
    reads = [(first.names[a], second.names[b]) for a, b in zip(before.inputs, after.inputs, strict=False)]
    other = next(((a, b) for a, b in reads if a != b), None)
    if other is not None or len(before.inputs) != len(after.inputs):
        return f"reads %{other[1]} instead of %{other[0]}" if other is not None else "reads another number of values"
    types = [(str(a.type), str(b.type)) for a, b in zip(before.outputs, after.outputs, strict=False)]
    return next((f"makes {b} instead of {a}" for a, b in types if a != b), "")


def _called(graph: Graph, group: Node | None) -> str:
    assert group is not None, "who asks has looked"
    word = "fusion group" if group.op.endswith("Group") else group.op
    return f"{word} that makes %{graph.names[group.outputs[0]]}" if group.outputs else word


def _line(graph: Graph, node: Node | None) -> str:
    if node is None:
        return ""
    depth, here = 1, node
    while (owner := graph.owner.get(graph.block_of[here])) is not None:
        depth, here = depth + 2, owner
    return "  " * depth + print_node(node, graph.names)
