"""One program with all its analyses and measurements: the data behind the views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope.analysis.alias import AliasDb
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import Graph, Node, Value
from irscope.report.pages.side_by_side import Correspondence
from irscope.report.panes import LayoutViews
from irscope.report.queries import Queries
from irscope.report.states import Gone, gone_records
from irscope.report.words import names_in, records_of, value_of
from irscope.transforms.dedup import Dedup, dedup
from irscope.transforms.fusion import Fusion, GivenFusion

if TYPE_CHECKING:
    from irscope.compilers.record import Decisions, Program
    from irscope.runtime.measure import Comparison
    from irscope.runtime.profile import Profile

MOST_BESIDE: Final = 10_000  # The largest program of another compiler, in nodes, that irscope fuses too before it is shown.
_KEPT = ("dedup", "db", "layouts", "names", "class_of", "queries")  # Cached results that do not depend on measurements.


@dataclass(frozen=True)
class Exploration:
    """A fused program, its alias db, its equivalence classes, and its measurements if it was run.

    All views show the graph with its fusion groups: values keep their identity through fusion.
    """

    fusion: Fusion
    comparison: Comparison | None = None
    sources: Path | None = None
    """A folder whose files may be shown where nodes name them; None: only sources of code loaded in this process."""
    profile: Profile | None = None  # The profile of its nodes, if measured.
    measure: Callable[[], Comparison] | None = None  # Runs the program and its fusion side by side; called when times are first shown.
    same: Dedup | None = None  # The classes to show, if not those of `dedup(fusion)`.
    arguments: tuple[Any, ...] = ()  # Example arguments, if any were given.
    decisions: Decisions | None = None  # What another compiler decided, if the groups are its.
    chosen: int = 0  # The number of the program among those that it compiled.
    beside: tuple[Decisions, ...] = ()  # What other compilers decided about the same program, to be shown beside it.

    def with_profile(self, profile: Profile) -> Exploration:
        """The same program with a profile; cached analyses are kept. Raises ArgumentError for the profile of another
        program."""
        known = {name: found for name, found in vars(self).items() if name in _KEPT}
        made = replace(self, profile=profile)
        vars(made).update(known)
        if made.way is None:
            what = f"this is a profile of {profile.name!r}, whose nodes are not those of the program that is shown"
            raise ArgumentError(what, hint="irs.explore(profile) shows the program that was measured")
        return made

    @cached_property
    def way(self) -> str | None:
        """The way of the profile whose nodes are those of the program shown, or None."""
        profile = self.profile
        for label in (profile.main, "op by op") if profile is not None else ():
            rows = profile.rows(label) if profile is not None and label in profile.ways else []
            here = sum(row.self_time.median for row in rows if row.node.id in self.records)
            if rows and 2 * here >= sum(row.self_time.median for row in rows):
                return label
        return None

    @property
    def hottest(self) -> int:
        """The id of the node that takes most of the time, by the profile; 0 without one."""
        if self.profile is None or self.way is None:
            return 0
        rows = [row for row in self.profile.rows(self.way) if row.node.id in self.records]
        return max(rows, key=lambda row: row.self_time.median).node.id if rows else 0

    @property
    def decided(self) -> Program | None:
        """The program as another compiler grouped it, if the groups shown are its."""
        return None if self.decisions is None else self.decisions.programs[self.chosen]

    @property
    def graph(self) -> Graph:
        """The program with its groups."""
        return self.fusion.graph

    @property
    def can_measure(self) -> bool:
        """Whether the program could be measured and has not been."""
        return self.comparison is None and self.measure is not None

    @cached_property
    def measured(self) -> Comparison:
        """The times, measured when first asked for."""
        assert self.measure is not None, "who asks has looked whether it can be measured"
        return self.measure()

    @cached_property
    def dedup(self) -> Dedup:
        """The equivalence classes of the groups. Computed on first use, as are the properties below."""
        return dedup(self.fusion) if self.same is None else self.same

    @cached_property
    def db(self) -> AliasDb:
        """What may share memory, in the program with its groups."""
        return AliasDb(self.graph)

    @cached_property
    def layouts(self) -> LayoutViews:
        """The memory layout of each tensor in the program with its groups."""
        return LayoutViews(self.graph)

    @property
    def records(self) -> Mapping[int, Value | Node]:
        """Every value and node by id; selections refer to these ids."""
        return records_of(self.graph)

    @cached_property
    def names(self) -> Mapping[Value, str]:
        """The name of each value of the history, the same in every state."""
        return names_in(self.fusion.history)

    @cached_property
    def gone(self) -> Mapping[int, Gone]:
        """Records that passes removed, by id: a selection may name one, and sees it as it was."""
        return gone_records(self.fusion.history)

    @cached_property
    def class_of(self) -> Mapping[Node, int]:
        """The number of each group's equivalence class."""
        return {member: group.index for group in self.dedup.classes for member in group.members if isinstance(member, Node)}

    @cached_property
    def queries(self) -> Queries:
        """The query index of the program with its groups."""
        return Queries(self.graph, self.fusion.history, lambda: self.dedup, lambda: self.db, self.buffers)

    @cached_property
    def buffers(self) -> Mapping[str, Node]:
        """The nodes by the names of another compiler for what it keeps of them: `buf0`."""
        named = {} if self.decided is None else self.decided.buffers
        return {name: made for name, nodes in named.items() if isinstance(made := self.records.get(nodes[-1].id), Node)}

    def alike(self) -> Iterator[list[Node]]:
        """The groups that `fuse` created, as lists of groups equal up to names, in program order."""
        for group in self.dedup.classes:
            made = [member for member in group.members if isinstance(member, Node) and self.fusion.made(member)]
            if made:
                yield made

    def resolve(self, name: Any) -> int:
        """The id of a record given as an id, a Value, a Node, or a printed name. Raises UnknownName.

        The record may be of an earlier state; a name is looked up in the program shown first, and among another compiler's buffers.
        """
        if isinstance(name, Integral):  # pandas has its own integer types
            return int(name)
        if isinstance(name, Value | Node):
            if name.id not in self.records and name.id not in self.gone:
                what = f"{name!r} is not in the program that is shown"
                raise UnknownName(what, hint="it is of another graph")
            return name.id
        if not isinstance(name, str):
            raise UnknownName(f"{name!r} names nothing in a program", hint="give a Value, a Node, a printed name or an id")
        try:
            return id_of_name(self.graph, name)
        except UnknownName:
            if name in self.buffers:
                return self.buffers[name].id
            initial = self.fusion.history.initial
            if name.lstrip("%") not in {*initial.names.values()} and "::" not in name:
                raise
            return id_of_name(initial, name)

    def records_of(self, ids: Iterable[int]) -> list[Value | Node]:
        """The values and nodes of some ids, without boxes that stand for none."""
        here = self.records  # what is gone is asked of all graphs of the history: only for an id that is not here
        return [here[id] if id in here else self.gone[id].record for id in ids if id in here or id in self.gone]

    def known_as(self, id: int, before: Exploration, match: Correspondence | None = None) -> list[int]:
        """The ids here of a record of another exploration: its own; those that are matched, if it is another compiler's program; or else
        that of a record of the same name."""
        if id in self.records or id in self.gone:
            return [id]
        record = next(iter(before.records_of([id])), None)
        if match is not None:
            node = before.graph.producer.get(record) if isinstance(record, Value) else record
            inside = () if node is None else before.fusion._inside(node) or (node,)
            known = before.fusion
            return match.ids([(known._source(each) if isinstance(known, GivenFusion) else each).id for each in inside])
        value = None if record is None else value_of(record)
        names = [graph.names[value] for graph in (before.graph, before.fusion.original) if value is not None and value in graph.names]
        for name in names:
            try:
                found = self.graph.value(name)
            except UnknownName:
                continue
            maker = self.graph.producer.get(found)
            return [maker.id if isinstance(record, Node) and maker is not None else found.id]
        return []


def id_of_name(graph: Graph, name: str) -> int:
    """The id of the value, or of the node, of a printed name. Raises UnknownName."""
    return graph.node(name).id if "::" in name else graph.value(name).id
