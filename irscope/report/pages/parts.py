"""The page of the explorer: its parts, what each costs, and the answers to what it asks.

`PARTS` is the one table. A live page begins with the parts that cost little for its program and asks for the others: after its first
picture, or when a pane is opened. A page without Python has all of them stored. A new pane is one function and one row.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import Any, Final

from irscope._base.loaded_code import lines_below, loaded_lines
from irscope._base.running import counted
from irscope._base.words import shortened
from irscope.analysis.memory_plan import memory_plan
from irscope.errors import UnknownName
from irscope.ir import Graph, Node, Value
from irscope.report import panes
from irscope.report import view_models as vm
from irscope.report.pages.branches import Branches
from irscope.report.pages.details import HistoryInspection, Inspection, stored_details
from irscope.report.pages.exploration import MOST_BESIDE, Exploration, id_of_name
from irscope.report.pages.headline import headline, history_headline, quick_headline
from irscope.report.pages.program_index import ProgramIndex
from irscope.report.pages.side_by_side import side_by_side
from irscope.report.panes.profile_view import timing_view
from irscope.report.panes.program_view import graph_view, text_view
from irscope.report.timeline import program_stops, timeline_view
from irscope.report.words import names_in
from irscope.runtime.profile import Profile
from irscope.transforms.base import History
from irscope.transforms.fusion import fuse

Fields = Mapping[str, Any]  # Fields of an `ExplorerView`, or of a message.
Answer = Callable[[Fields], Fields]  # Answers a message of a page with the fields of the reply.


class Page:
    """What an explorer shows, and its answers to the messages of the page, by kind."""

    exploration: Exploration | None = None  # The program of this process that is shown, if there is one.

    def __init__(self, view: vm.ExplorerView, inspection: HistoryInspection, resolve: Callable[[Any], int]) -> None:
        """`resolve` returns the id of a record by what a user calls it."""
        self.view = view
        self.resolve = resolve
        self.last_step = inspection.history.count or None
        """The number of steps of the history, if it is known and not 0."""
        self.answers: dict[str, Answer] = {
            "inspect": inspection.answer,
            "points_to": lambda ask: {"points_to": inspection.points_to([int(id) for id in ask["ids"]], ask.get("state"))},
        }


class Cost(IntEnum):
    """What a part of a page costs. A page begins with the parts up to some cost."""

    LITTLE = 0  # Of any program at once.
    EACH_GROUP = 1  # A look at each group: later, where there are many.
    WHOLE_PROGRAM = 2  # A walk over the program: later, where it is large.
    MOMENT = 3  # A live page asks for it after its first picture.
    PANE = 4  # A live page asks for it when its pane is opened.
    STORED = 5  # For pages without Python; a live page asks about one record at a time.
    EVERY_ANSWER = 6  # The same, but about every value and node: in large programs only for those who ask for it.
    MEASURED = 7  # Takes the processor for itself for seconds: only when somebody asks.


class ProgramPage(Page):
    """The page of an exploration, which begins with the parts up to a cost; by default as a live page of that program does."""

    exploration: Exploration

    def __init__(self, exploration: Exploration, held: Cost | None = None) -> None:
        self.exploration = exploration
        if held is None:
            held = Cost.WHOLE_PROGRAM if is_sent_whole(exploration.graph) else _held_of_large(exploration)
        self.held = held
        self.index = ProgramIndex(exploration.graph, exploration.queries)
        self.inspection = Inspection(exploration)
        view = vm.ExplorerView()  # type: ignore[typeddict-item]
        for make in counted([make for make, cost in PARTS.values() if cost <= self.held], "drawing"):
            view |= make(self)
        super().__init__(view, self.inspection, exploration.resolve)
        inspection = self.inspection
        self.answers |= {
            **self.index.answers(),
            "kernel": lambda ask: {"kernel": inspection.kernel_text(int(ask["id"]), str(ask["language"]))},
            "part": lambda ask: {"part": self.part(str(ask["name"]))},
            "heat": lambda ask: {"heat": {} if self.heat is None else self.heat.of([int(id) for id in ask["ids"]])},
            "same": lambda ask: self.same.answer(ask),
            "layout": lambda ask: {"layout": inspection.layout(int(ask["id"]))},
            "assumed": lambda ask: {"assumed": inspection.assumed(int(ask["id"]), str(ask["layout"]))},
            "memory": lambda ask: {"memory": inspection.memory(int(ask["state"]))},
        }

    @property
    def is_whole(self) -> bool:
        """Whether the page holds the text and graph of the whole program."""
        return self.held >= Cost.WHOLE_PROGRAM

    def part(self, name: str) -> Fields:
        """A part that the page asks for later, as fields of its view. Raises UnknownName."""
        if name in _WARM_UPS:
            _WARM_UPS[name](self)
            return {}
        found = PARTS.get(name)
        if found is None or (found[1] is Cost.MEASURED and not self.exploration.can_measure):
            raise UnknownName(f"a view has no part {name!r}", hint=f"the parts are {', '.join([*_WARM_UPS, *PARTS])}")
        return found[0](self)

    def measure(self, profile: Profile) -> Fields:
        """Show a profile from now on; returns that part. Raises ArgumentError for a profile of another program."""
        self.exploration = self.exploration.with_profile(profile)
        self.inspection.show(self.exploration)
        vars(self).pop("heat", None)
        return _profile(self)

    def painted(self, values: Mapping[int, float], name: str) -> vm.PaintView:
        """Numbers of records, by id, as a meaning of colours; boxes around them have the largest."""
        found = dict(values)
        for box in reversed(self.view["graph"]["boxes"]):  # children before those around them
            inside = [found[id] for id in (box["id"], *box["values"]) if id in found]
            if inside:
                found[box["id"]] = max(inside)
                if box["parent"] and box["parent"] not in values:
                    found[box["parent"]] = max(found.get(box["parent"], inside[0]), *inside)
        return vm.PaintView(name=name, values=found, least=min(values.values()), most=max(values.values()))

    # What several parts, or a part and the answers, are made of

    @cached_property
    def text(self) -> vm.TextView:
        return text_view(self.exploration.graph)

    @cached_property
    def classes(self) -> list[vm.ClassView]:
        return panes.class_views(self.exploration.dedup)

    @cached_property
    def timeline(self) -> vm.TimelineView | None:
        return timeline_view(self.exploration.fusion.history, self.text)

    @cached_property
    def same(self) -> panes.SameViews:
        """Which groups are equal, by each relation."""
        return panes.SameViews(self.exploration.dedup, self.exploration.records)

    @cached_property
    def heat(self) -> panes.Heat | None:
        """The heat of the boxes by the profile, if there is one."""
        profile = self.exploration.profile
        if profile is None:
            return None
        tree = self.index.tree  # a walk over the program, which a page without a profile does not pay for
        around = [tree.ids[box] if box >= 0 else 0 for box in tree.parent.tolist()]
        return panes.Heat(profile, list(zip(tree.ids, around, strict=True)), self.exploration.way)


# The parts


def _beginning(page: ProgramPage) -> Fields:
    """What every page begins with; fields that other parts fill are empty."""
    exploration, index, graph = page.exploration, page.index, page.exploration.graph
    return vm.ExplorerView(
        version=vm.VIEW_VERSION, title=shortened(graph.name, 200), headline=quick_headline(exploration),
        text=page.text if page.is_whole else index.first_text(), source=_sources(exploration),
        graph=graph_view(graph, exploration.class_of, exploration.hottest) if page.is_whole else index.first_graph(exploration.hottest),
        remarks=panes.no_remarks(), classes=[],
        timing=timing_view(exploration.comparison) if exploration.comparison is not None else None, kernels={}, details={},
    )  # fmt: skip


def _numbers(page: ProgramPage) -> Fields:
    counts = headline(page.exploration, page.inspection)
    return {"headline": [_UNANSWERED, *counts] if page.held is Cost.STORED else counts, "classes": page.classes}


def _remarks(page: ProgramPage) -> Fields:
    exploration = page.exploration
    return {"remarks": panes.remarks_table(exploration.fusion.history, exploration.names, None if page.is_whole else _MOST_REMARKS)}


def _decided(page: ProgramPage) -> Fields:
    decisions, program = page.exploration.decisions, page.exploration.decided
    if decisions is None or program is None:
        return {}
    beside: dict[str, Any] = {}
    if len(program.graph.position) <= MOST_BESIDE:
        ours = fuse(program.graph)
        compared = side_by_side(program.fusion, ours, (program.compiler, "irscope greedy"))
        beside = {"differences": panes.differences_table(program.fusion, ours), "compared": compared.view(page.index.tree)}
    return {"decided": panes.decided_view(decisions, page.exploration.chosen), **beside, "opens": "Kernels"}


def _branches(page: ProgramPage) -> Fields:
    """The strip that a live page asks about row by row."""
    if page.exploration.decisions is None:
        return {}
    branches = Branches(page.exploration)
    return {"branches": branches.stored()} if len(branches) > 1 else {}


def _profile(page: ProgramPage) -> Fields:
    exploration, heat = page.exploration, page.heat
    if exploration.profile is None or heat is None:
        return {}
    files = {node.location.file for node in exploration.graph.nodes() if node.location is not None}
    return {"profile": heat.put(panes.profile_view(exploration.profile, exploration.records), files, whole=page.is_whole), "opens": "Time"}


def _later(page: ProgramPage) -> Fields:
    """What a live page asks for by itself."""
    held = min(page.held, Cost.WHOLE_PROGRAM)
    names = [*(() if page.is_whole else _WARM_UPS), *(name for name, (_, cost) in PARTS.items() if held < cost <= Cost.MOMENT)]
    return {"later": [*names, "timing"] if page.exploration.can_measure else names}


def _same(page: ProgramPage) -> Fields:
    exploration = page.exploration
    if len(exploration.dedup.classes) < 2 and exploration.same is None:
        return {}
    return {"same": page.same.stored(), "coarser": panes.with_coarser_steps(page.classes, exploration.dedup)}


def _answers(page: ProgramPage) -> Fields:
    """The answers about every record."""
    layouts, buffers = page.exploration.layouts.stored()
    answered, kernels = _answered_ahead(page.exploration, page.inspection)
    texts = _machine_code(page.exploration, page.inspection)
    details, alias_sets = stored_details(page.text, page.timeline, answered, page.exploration.fusion.history)
    return {
        "layouts": layouts, "buffers": buffers, "kernels": kernels, "kernel_texts": texts, "details": details, "alias_sets": alias_sets,
    }  # fmt: skip


def _memory(exploration: Exploration) -> Fields:
    plan, program = memory_plan(exploration.graph), exploration.decided
    own = {"own_memory": panes.own_memory_view(program, program.memory, plan)} if program is not None and program.memory is not None else {}
    return {"memory": panes.memory_view(plan, exploration.records), **own}


PARTS: Final[dict[str, tuple[Callable[[ProgramPage], Fields], Cost]]] = {
    "beginning": (_beginning, Cost.LITTLE),
    "numbers": (_numbers, Cost.EACH_GROUP),
    "remarks": (_remarks, Cost.EACH_GROUP),
    "timeline": (lambda page: {} if page.timeline is None else {"timeline": page.timeline}, Cost.WHOLE_PROGRAM),
    "programs": (lambda page: {"programs": stops} if (stops := program_stops(page.exploration.fusion.history)) else {}, Cost.LITTLE),
    "decided": (_decided, Cost.LITTLE),
    "profile": (_profile, Cost.LITTLE),
    "later": (_later, Cost.LITTLE),
    "opened": (lambda page: {} if page.exploration.same is None else {"opens": "Classes"}, Cost.LITTLE),
    "same": (_same, Cost.STORED),
    "branches": (_branches, Cost.STORED),
    "repeats": (lambda page: {"repeats": page.index.repeats()}, Cost.STORED),
    "memory": (lambda page: _memory(page.exploration), Cost.PANE),
    "points_to": (lambda page: {"points_to": page.inspection.points_to(())}, Cost.PANE),
    "copies": (lambda page: {"copies": page.exploration.layouts.copies()}, Cost.MOMENT),
    "answers": (_answers, Cost.EVERY_ANSWER),
    "timing": (lambda page: {"timing": timing_view(page.exploration.measured)}, Cost.MEASURED),
}
"""The parts of a page by the name by which a live one asks: what makes its fields, and what that costs."""

_WARM_UPS: Final[dict[str, Callable[[ProgramPage], object]]] = {
    "search": lambda page: page.exploration.queries.prepare(),
    "questions": lambda page: page.inspection.prepare(),
}
"""Parts without data: a page of a large program asks for them so that its first query, selection and question are quick."""


def explorer_view(exploration: Exploration, *, details: bool = False, answers: bool | None = None, whole: bool = True) -> vm.ExplorerView:
    """The view of an exploration, as a live page begins with it, or with `details` as a page without Python holds it.

    With `answers=False` such a page has text, graph, tables and steps, but nothing about single values and nodes; by default that is
    so above a size, and the page says it. A live view that is not `whole` is that of a large program.
    """
    if not details:
        return ProgramPage(exploration, Cost.WHOLE_PROGRAM if whole else _held_of_large(exploration)).view
    if answers is None:
        answers = len(exploration.graph.position) <= _MOST_ANSWERED
    return ProgramPage(exploration, Cost.EVERY_ANSWER if answers else Cost.STORED).view


def history_page(history: History) -> Page:
    """The page of `irs.timeline`."""

    def resolve(record: Any) -> int:
        if isinstance(record, int):
            return record
        if isinstance(record, Value | Node):
            return record.id
        return id_of_name(history.final, record)

    return Page(history_view(history), HistoryInspection(history), resolve)


def history_view(history: History, *, details: bool = False) -> vm.ExplorerView:
    """The view of a history. `details` precomputes the answers about single records, for a page without a kernel."""
    graph = history.final
    text = text_view(graph)
    timeline = timeline_view(history, text)
    inspection = HistoryInspection(history)
    view = vm.ExplorerView(
        version=vm.VIEW_VERSION, title=shortened(graph.name, 200), headline=history_headline(history, timeline), text=text,
        graph=graph_view(graph), remarks=panes.remarks_table(history, names_in(history)), classes=[], timing=None, only_history=True,
        details={},
    )  # fmt: skip
    if timeline is not None:
        view["timeline"] = timeline
        view["programs"] = program_stops(history)
    if details:
        stored = stored_details(text, timeline, map(inspection.detail, inspection.records), history)
        view["details"], view["alias_sets"] = stored
    return view


_MOST_ANSWERED = 50_000
"""The largest program, in nodes, for which a page without a kernel has every answer: about 250 bytes of file and 3 KB of JSON each."""
_UNANSWERED = vm.Count(
    label="answers about single values", value="no", selects=[],
    hint="left out of this file: explore, or write_report(…, answers=True), has them",
)  # fmt: skip
_SENT_WHOLE = 2500  # The largest program, in nodes, that is sent to a page at once; for larger ones the page asks for what it shows.
_FEW_GROUPS = 300
_MOST_REMARKS = 2000  # The most rows in the table; queries find the rest.


def is_sent_whole(graph: Graph) -> bool:
    """Whether the whole program is sent to a live page at once."""
    names = sum(len(node.outputs) for node in islice(graph.nodes(), _SENT_WHOLE + 1))
    return len(graph.position) <= _SENT_WHOLE and names <= 4 * _SENT_WHOLE


def _held_of_large(exploration: Exploration) -> Cost:
    return Cost.EACH_GROUP if len(exploration.fusion.groups) <= _FEW_GROUPS else Cost.LITTLE


def _answered_ahead(exploration: Exploration, inspection: Inspection) -> tuple[list[vm.Detail], dict[str, str]]:
    """The details of every record and the kernel sources, each stored once. Only the detail of a group itself has a kernel."""
    made = exploration.fusion.groups
    if not is_sent_whole(exploration.graph):  # in a large program, the kernel of one group per class
        made = tuple(alike[0] for alike in exploration.alike())
        inspection.kernels_of = frozenset(made)
    groups = {node.id for node in made}
    details = [inspection.detail(id) for id in counted(exploration.records, "answers for the page")]
    sources: dict[str, str] = {}
    for detail in details:
        kernel = detail["kernel"]
        if kernel is None or detail["id"] not in groups:
            detail["kernel"] = None
        else:
            sources[kernel["name"]] = kernel["source"]
            detail["kernel"] = vm.KernelDetail(**kernel | {"source": ""})
    return details, sources


_MOST_MACHINE_CODE = 12


def _machine_code(exploration: Exploration, inspection: Inspection) -> dict[str, list[vm.KernelText]]:
    """Facts and assembly of the kernels that most groups run. Each costs a compilation and about 30 KB of the page."""
    first: dict[str, Node] = {}
    runs: Counter[str] = Counter()
    for alike in exploration.alike():
        if specs := inspection.kernels.specs(alike[0]):
            first.setdefault(specs[0].name, alike[0])
            runs[specs[0].name] += len(alike)
    return {
        name: [inspection.kernel_text(first[name].id, language) for language in ("llvm", "assembly")]
        for name, _ in counted(runs.most_common(_MOST_MACHINE_CODE), "kernels for the page")
    }


_MOST_SOURCE_FILES = 8
_MOST_SOURCE_LINES = 4000


def _sources(exploration: Exploration) -> dict[str, list[str]]:
    """The user's source files that most nodes came from: those of code loaded in this process, and those in the folder named for it.

    A file that IR text merely names is never opened: pages are made to be shared.
    """
    places = [node.location for node in exploration.graph.nodes() if node.location is not None]
    live = {place.file for place in places if place.live}
    files = Counter(place.file for place in places if place.live or exploration.sources is not None)
    found = {}
    for file, _ in files.most_common(_MOST_SOURCE_FILES):
        lines = lines_below(exploration.sources, file) if exploration.sources is not None else []
        if not lines and file in live:
            lines = loaded_lines(file)
        if 0 < len(lines) <= _MOST_SOURCE_LINES:
            found[file] = lines
    return found
