"""The JSON that every display draws: text, SVG, standalone HTML and the widgets read these and nothing else.

Records of a graph (values, nodes, blocks) go by their ids, which are unique over all three and never reused, so that a
selection is a list of ids in every view. Boxes that stand for no record (modules of the user's model) have negative ids.
The TypeScript side's `schema.d.ts` is generated from this file.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = [
    "AliasDetail",
    "AssumedLayout",
    "AxisView",
    "BesideLine",
    "BesideView",
    "Box",
    "BranchView",
    "BranchesView",
    "BufferRow",
    "BufferView",
    "CardJudgement",
    "CardOption",
    "CardRemark",
    "CardView",
    "BranchDiff",
    "ChangedLine",
    "ClassView",
    "EditTrouble",
    "Column",
    "CopyView",
    "CostView",
    "Count",
    "Detail",
    "EarlierAlias",
    "EarlierLine",
    "Edge",
    "ExplorerView",
    "Found",
    "GoneLine",
    "GraphView",
    "HeatLine",
    "HelpView",
    "HoleLine",
    "IcicleBox",
    "KernelDetail",
    "KernelText",
    "LadderStep",
    "LayoutView",
    "Level",
    "MadeGroup",
    "Measured",
    "MemoryBar",
    "NeighbourView",
    "MemorySection",
    "MemoryView",
    "PairDetail",
    "PaneName",
    "PassView",
    "Place",
    "PointsToView",
    "ProfileView",
    "ProgramStop",
    "RoofMark",
    "SameCard",
    "SameClass",
    "SameStep",
    "SameView",
    "StepView",
    "StoryStep",
    "StoryView",
    "TableView",
    "TextView",
    "TimedGroup",
    "TimedNode",
    "TimedSpan",
    "TimedWay",
    "TimelineView",
    "TimingView",
    "VerdictView",
    "Word",
    "VIEW_VERSION",
]

VIEW_VERSION = 1


class Count(TypedDict):
    """One number of the head line; a click selects what it counts."""

    label: str
    value: str
    selects: list[int]
    hint: str


class TextView(TypedDict):
    """IR text, one entry a line; names in it (`%41`) are looked up in `names`."""

    lines: list[str]
    nodes: list[int]
    """The node that each line prints; 0 where a line prints none."""
    names: dict[str, int]
    """Printed name without `%` to value id."""
    locations: dict[int, str]
    """Node id to `file:line:column`."""
    first: NotRequired[int]
    """Where `lines` begin, of a text that is given page by page."""
    total: NotRequired[int]
    """How many lines that text has."""


PaneName = Literal["text", "graph", "inspector", "tables", "timeline", "time", "classes", "memory"]
BoxKind = Literal["op", "group", "block", "module", "repeat", "stretch", "input", "output"]


class Box(TypedDict):
    """A rectangle of the graph view: a node, a fusion group, a block, a module of the user's model, modules that are alike, or a
    stretch of a long program."""

    id: int
    parent: int
    """The box around it; 0 at the top."""
    kind: BoxKind
    label: str
    detail: str
    """Second line: result type, or what a closed box contains."""
    category: str
    """Op category, for the colour."""
    values: list[int]
    """Ids of the values that the box makes."""
    writes: bool
    """Whether it writes memory in place."""
    equivalence_class: int
    """Number of its class, -1 for none."""
    size: int
    """Number of ops inside, 1 for an op."""
    copies: NotRequired[int]
    """Of a box for modules that are alike, how many they are."""
    holds: NotRequired[bool]
    """Whether there is something in it that may be asked for."""
    crosses: NotRequired[int]
    """1 if it reads what is made outside of the box around it, 2 if it makes what is read there, 3 for both; only where the
    edges of a view are those of single levels."""


class Edge(TypedDict):
    """A value on its way from one innermost box to another."""

    source: int
    target: int
    value: int


class GraphView(TypedDict):
    boxes: list[Box]
    """Each after its parent, siblings in program order."""
    edges: list[Edge]
    closed: list[int]
    """Boxes that are drawn closed at first."""
    levels: NotRequired[list[int]]
    """Of a graph that is given level by level, the boxes whose inside is given, 0 for the outermost level. Its edges join
    boxes of one level."""
    kinds: NotRequired[list[str]]
    """Of such a graph, the op categories that it has, and `in-place` if something writes in place."""


class Level(TypedDict):
    """What is directly in one box."""

    around: int
    boxes: list[Box]
    edges: list[Edge]


class Place(TypedDict):
    """Where a record is, for a page that does not hold the whole program."""

    id: int
    line: int
    """The line that prints or declares it; -1 for none."""
    path: list[int]
    """The boxes around it, the outermost first, and the one that stands for it."""
    title: str
    values: list[int]
    """What a node makes."""


class Found(TypedDict):
    """What a query found."""

    ids: list[int]
    """All of it, in program order."""
    shown: list[int]
    """The first few."""
    titles: list[str]
    lines: list[str]
    """Their lines of text."""
    trouble: str
    """Why the query means nothing; empty if it does."""


class Column(TypedDict):
    key: str
    label: str
    kind: Literal["text", "number", "record"]


class TableView(TypedDict):
    columns: list[Column]
    rows: list[list[str | float | None]]
    selects: list[list[int]]
    """What a click on each row selects."""


class ClassView(TypedDict):
    """One equivalence class."""

    index: int
    label: str
    members: list[int]
    representative: int
    text: list[str]
    """IR of the representative."""
    coarser: NotRequired[list[int]]
    """For each of the `coarser` steps of the view, the number of the class that it is in by that step."""


class CoarserStep(TypedDict):
    """A step of the ladder after the one that the classes are of."""

    step: str
    gives_up: str


class LadderStep(TypedDict):
    """What one body for each class of a relation saves, and gives up."""

    step: str
    pieces: int
    classes: int
    largest: int
    """Members of the largest class."""
    ops: int
    bytes: int
    """Of text."""
    seconds: float
    """Of compiling."""
    measured: bool
    """Whether the seconds are measured; estimated otherwise."""
    gives_up: str


class CostView(TypedDict):
    """What one body for a class saves and costs, before anything is applied."""

    bodies: int
    ops: int
    bytes: int
    seconds: float
    parameters: int
    lost: list[str]
    slowdown: float
    """At most, estimated, as a part of the pieces' run time."""


class SameCard(TypedDict):
    """A class by one step."""

    label: str
    detail: str
    """What its first member gives, and where it is."""
    count: int
    ops: int
    """Of one member."""
    members: list[str]
    """The first ones."""
    selects: list[list[int]]
    """What each of them selects."""
    cost: CostView | None
    """None where it is told when the class is asked for."""


class SameStep(TypedDict):
    """The classes of one step, the largest first."""

    cards: list[SameCard]
    left_out: int
    """Further classes."""


class HoleLine(TypedDict):
    """One place in which members of a class may differ."""

    place: str
    kind: str
    told: str
    """The parameter that says it, or what it follows from; `equal everywhere`."""
    varies: bool
    values: list[str]
    """What stands there in each member that the table shows."""
    node: int


class Word(TypedDict):
    """A piece of a line."""

    text: str
    value: int
    """The value that it names; 0 for none."""
    hole: int
    """The line of the hole table that says what else may stand there; -1 for none."""


class BesideLine(TypedDict):
    """A line of one piece and the line of the other that corresponds to it; empty where there is none."""

    left: list[Word]
    right: list[Word]
    left_node: int
    right_node: int


class BesideView(TypedDict):
    """Two pieces side by side."""

    left: str
    right: str
    because: str
    """What they differ in, or why they are the same."""
    lines: list[BesideLine]
    left_out: int


class SameClass(TypedDict):
    """A class in full."""

    members: list[str]
    """Those of the hole table."""
    holes: list[HoleLine]
    """Those that vary first."""
    holes_left_out: int
    cost: CostView | None
    """None for a class of one."""
    advice: str
    """The step that is recommended for it, and why."""
    beside: BesideView | None
    """The first member and the second."""


class SameView(TypedDict):
    """Which pieces are the same, step by step; a page without Python holds the largest classes."""

    step: str
    """The step that is shown first."""
    note: str
    """What the pieces are."""
    ladder: list[LadderStep]
    steps: dict[str, SameStep]
    """By the step's name; a live page asks for them."""
    classes: dict[str, SameClass]
    """By the step's name and the place in it, `constants 3`; a live page asks for them."""


class VaryingView(TypedDict):
    """One thing that differs between modules that are alike."""

    kind: str
    """`constant`, `type`, `value` (from outside), or `chain`: what the one before makes."""
    where: str
    """The op and its operand or result, and how many places vary with it."""
    name: str
    """What a value is called behind the name of its module, `query.weight`; empty if it has no such name."""
    values: list[str]
    """What each of them has there, in their order."""


class PlaceView(TypedDict):
    """One of several modules that are alike, and its box."""

    label: str
    box: int


class RepeatView(TypedDict):
    """Modules that are alike, which are drawn as one box."""

    label: str
    """`29 nodes ×12`."""
    sentence: str
    """What differs between them."""
    places: list[PlaceView]
    """In program order."""
    places_left_out: int
    varying: list[VaryingView]
    """Constants first, then types, then what they are handed."""
    left_out: int


class Measured(TypedDict):
    """One bar of the timing chart, in milliseconds."""

    label: str
    median: float
    low: float
    high: float
    compile: float
    kernels: int
    error: float | None
    note: str


class TimingView(TypedDict):
    bars: list[Measured]
    caption: str


class TimedNode(TypedDict):
    """One node of a profile, in milliseconds of one run."""

    id: int
    label: str
    op: str
    line: str
    """`file:line`, empty where it is not known."""
    module: str
    ms: float
    low: float
    high: float
    share: float
    """Of all nodes."""
    of_copy: float | None
    """Of the speed of a copy of as many bytes."""
    of_peak: float | None
    """Of the processor's arithmetic."""
    megabytes: float
    live_megabytes: float
    group: int
    """The fusion group that it is, or is part of; 0 for none."""


class IcicleBox(TypedDict):
    """A module, line or op as wide as its time."""

    label: str
    depth: int
    start: float
    """Of the whole, from 0."""
    share: float
    selects: list[int]


class TimedSpan(TypedDict):
    """One instruction of a run, in milliseconds from its start."""

    id: int
    label: str
    lane: str
    """`host`: what the processor does alone; `kernels`: ops and kernels; `thread 2` and so on: further threads of a kernel of ours, from
    its start until the last of them is done; `stream`: what a stream of a GPU does."""
    start: float
    duration: float


class RoofMark(TypedDict):
    id: int
    label: str
    intensity: float
    """Arithmetic for a byte."""
    gflops: float
    share: float


class TimedWay(TypedDict):
    """A program as it ran one way."""

    label: str
    ms: float
    low: float
    high: float
    nodes: list[TimedNode]
    """The slowest first."""
    icicle: list[IcicleBox]
    spans: list[TimedSpan]
    memory: list[list[float]]
    """Milliseconds and bytes: what is alive from then on."""
    marks: list[RoofMark]


class HeatLine(TypedDict):
    """A line of the user's source with what it takes."""

    file: str
    line: int
    text: str
    ms: float
    share: float
    selects: list[int]


class TimedGroup(TypedDict):
    """A fusion group: its nodes one by one, and its kernel, in milliseconds."""

    id: int
    label: str
    before: float
    after: float
    verdict: str


class HelpView(TypedDict):
    """What would help."""

    text: str
    rule: str
    gain: float
    """Milliseconds."""
    selects: list[int]


class ProfileView(TypedDict):
    """Where the time goes. What is selected are records of the program that is shown."""

    title: str
    verdict: str
    caption: str
    ways: list[TimedWay]
    """The last one is shown first."""
    groups: list[TimedGroup]
    lines: list[HeatLine]
    helps: list[HelpView]
    bandwidth: float
    """GB/s of a copy of 64 MiB; 0 where it is not known."""
    peak: float
    """10^9 additions and multiplications a second; 0 where it is not known."""
    heat: NotRequired[dict[int, list[float]]]
    """What records and boxes take, for colours: the share of the time, bytes moved, bytes alive, and the share of what memory and
    arithmetic allow, -1 where that is not known. A page that holds a part of a program asks for it."""
    most: NotRequired[list[float]]
    """The largest of each, of records."""
    source_heat: NotRequired[dict[str, dict[int, list[float]]]]
    """The same of the lines of source files."""


class MemoryBar(TypedDict):
    """One memory of a plan: a rectangle of addresses by moments."""

    id: int
    """Of its value."""
    label: str
    title: str
    """What there is to say of it, in one sentence."""
    category: str
    """Of the op that makes it."""
    start: int
    """The moment at which it is made."""
    end: int
    """The last moment at which it is needed."""
    low: int
    """Its first address, in bytes from the bottom of the picture."""
    bytes: int
    at_peak: bool
    line: str
    """`file:line`, empty where it is not known."""


class MemorySection(TypedDict):
    """A stretch of addresses: the arenas, the results, or what has memory of its own."""

    label: str
    low: int
    bytes: int


class MemoryView(TypedDict):
    """A memory plan: where each memory lies, and when."""

    title: str
    caption: str
    bars: list[MemoryBar]
    sections: list[MemorySection]
    moments: int
    peak_moment: int
    peak: int
    """Bytes."""
    lower_bound: int
    needed: list[list[int]]
    """Moment and bytes wherever what is needed changes."""
    allocated: list[list[int]]


class BufferRow(TypedDict):
    """One value that lies in the buffer."""

    id: int
    name: str
    depth: int
    """How many views lead to it from the root."""
    op: str
    told: str
    """Its layout in words."""
    runs: list[list[float]]
    """Where its bytes are, as parts of the buffer's length."""
    shared: list[list[float]]
    """Where it meets a value that it is no view of, nor the other way round."""


class BufferView(TypedDict):
    """A buffer with the values that lie in it, each after the one that it is a view of."""

    root: str
    bytes: int
    rows: list[BufferRow]
    left_out: int
    """How many further views there are."""


class AxisView(TypedDict):
    """One axis of a tensor, in memory order."""

    axis: int
    extent: str
    stride: str
    flag: str


class LayoutView(TypedDict):
    """Where a tensor lies, and how."""

    id: int
    kind: Literal["view", "copy", "input"]
    decided: bool
    """Whether every run agrees."""
    because: str
    layout: str
    """In words; empty where not even the number of axes is known."""
    axes: list[AxisView]
    root: int
    """The value whose buffer it lies in; 0 where that is only known at the run."""
    buffer: BufferView | None
    """The map of that buffer, if views lie in it; a stored layout has it in `buffers` of the view."""
    others: list[str]
    """Of an argument, the layouts that it might have instead."""


class CopyView(TypedDict):
    """A node that moves a tensor to other memory and computes nothing."""

    id: int
    value: int
    label: str
    bytes: int
    """-1 where they are only known at the run."""
    because: str
    """Which step failed, and what would make it a view."""


class AssumedLayout(TypedDict):
    """What would be if an argument lay otherwise."""

    told: str
    views: list[CopyView]
    """Nodes that copy now and would not then."""
    copies: list[CopyView]
    """Nodes that would copy then and do not now."""


class VerdictView(TypedDict):
    holds: bool
    because: str
    witness: list[int]


class PointsToView(TypedDict):
    """The part of the points-to graph around one value."""

    labels: list[str]
    kinds: list[Literal["value", "content", "location", "wildcard"]]
    records: list[int]
    """Value id of each element, 0 for none."""
    edges: list[list[int]]
    """Pairs of positions in `labels`: the first may point to the second."""
    contains: list[list[int]]
    """Pairs: the first is a container that holds the second."""


class AliasDetail(TypedDict):
    summary: str
    alias_set: list[int]
    shared_set: NotRequired[int]
    """In a stored detail: where the view's `alias_sets` has the alias set, once for all that have the same."""
    writers: list[int]
    shared_writers: NotRequired[int]
    """In a stored detail of many writers: where the view's `alias_sets` has them."""
    points_to: PointsToView


class KernelDetail(TypedDict):
    name: str
    language: str
    source: str
    """Empty in a stored detail: the view's `kernels` has it by name, once for all groups that run it."""
    line_nodes: list[int]
    """The node that each source line came from, 0 for none."""
    shared_by: int
    """Number of groups that run this kernel."""
    launched: str
    """Over how much the group runs it, and what that means for its time."""


class KernelText(TypedDict):
    """A kernel in one language, and what is known of it on the device that runs it."""

    language: str
    """`llvm`, `assembly`, `cuda`, `ptx` or `sass`."""
    source: str
    """Empty for the text that the kernel's detail has."""
    origins: list[int]
    """For each line, the line of the kernel's own text that it came from, counted from 0, or -1; empty where
    `line_nodes` tells."""
    line_nodes: list[int]
    """The node that each line came from, 0 for none."""
    hot: list[int]
    """The lines that run for every point."""
    facts: list[list[str]]
    """Label and value."""
    because: str
    """What sets its pace, and why."""
    trouble: str
    """Why there is no such text here, and what would bring it; empty if there is."""


class NeighbourView(TypedDict):
    """What stands next to a fusion group, and why it is not in it."""

    id: int
    feeds: bool
    """Whether the group reads what it makes; otherwise it reads what the group makes."""
    because: str


class Detail(TypedDict):
    """Everything the inspector shows about one record."""

    id: int
    kind: Literal["value", "node", "class"]
    title: str
    text: str
    """Its line of IR; empty in a stored detail of what the view's text prints."""
    location: str
    scope: str
    alias: AliasDetail | None
    fusion: str
    """Which group it is in and why, or why it is in none; empty when nothing was fused."""
    neighbours: NotRequired[list[NeighbourView]]
    """Of a group, what stands next to it."""
    same: str
    """Which class it is in; empty when there is none."""
    kernel: KernelDetail | None
    time: str
    gone_after: NotRequired[int]
    """Of a record that a pass took away: the last state of the program that has it."""


class PairDetail(TypedDict):
    """The answers about two records: may they alias, why not fused, are they the same."""

    ids: list[int]
    alias: VerdictView | None
    fusion: VerdictView | None
    same: VerdictView | None


class PassView(TypedDict):
    """One pass of a history, as a stretch of steps."""

    name: str
    first: int
    """How many steps came before it."""
    steps: int
    seconds: float


class StepView(TypedDict):
    """One thing that a pass did. Step 1 leads from state 0, the program as it was loaded, to state 1."""

    did: str
    """What was done, as a sentence without a full stop: `merged %a and %b`."""
    because: str
    """The reason, or empty where a whole pass is one step."""
    rule: str
    nodes: list[int]
    """The nodes that it is about."""
    saved: int
    """Bytes of memory traffic that it avoids, 0 where that is not known."""
    group: int
    """The fusion group whose parts it joined, 0 for none."""


class MadeGroup(TypedDict):
    """A fusion group that the steps of a history made."""

    id: int
    nodes: list[int]
    """What steps put into it; the copies of constants that came along are left out."""
    inside: list[int]
    """The values that only it has, which stand for others: its inputs, its results and copied constants."""
    outside: list[int]
    """Those others, in the same order."""


class GoneLine(TypedDict):
    """A line that the text had in earlier states: a node that a pass removed."""

    node: int
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    above: int
    """The line of the text that it stood above."""
    since: int
    """The first state that has it."""
    until: int
    """The first state that has it no more."""
    became: int
    """The value that is read instead of its first result, 0 for none."""


class EarlierLine(TypedDict):
    """What a line of the text said before a pass rewrote its node."""

    node: int
    """0 for the line with which the program returns."""
    text: str
    values: list[int]
    """What the names in it stand for, in order."""
    until: int
    """The first state that does not say so any more."""


class CardOption(TypedDict):
    """What may be picked of a question."""

    name: str
    text: str
    record: int
    """The value or node that it is; 0 for none."""


class CardRemark(TypedDict):
    """What is said of an option after an answer."""

    name: str
    mark: Literal["right", "wrong", "missed"]
    because: str
    witness: list[int]


class CardJudgement(TypedDict):
    """What an answer is worth."""

    right: bool
    points: float
    picks: list[str]
    remarks: list[CardRemark]


class CardView(TypedDict):
    """A question of a quiz, beside the views of its program; without its right answer until one was given."""

    title: str
    kind: str
    number: int
    """Counted from 0."""
    done: list[Literal["", "right", "wrong"]]
    """How each question of the quiz was answered."""
    summary: str
    prompt: str
    note: str
    how: str
    several: bool
    """Whether more than one option may be picked."""
    subject: int
    """The value or node that is asked about; 0 for none."""
    options: list[CardOption]
    judged: CardJudgement | None


class StoryStep(TypedDict):
    """One view of a story: what is selected, which state, what is open, what colour means, and a sentence about it."""

    text: str
    """In Markdown."""
    selection: list[int]
    step: int | None
    """The state of the history; None leaves it as it is."""
    open: list[int] | None
    """Boxes that are open; None leaves them as they are."""
    colour: str
    pane: str
    """The one pane that is shown; empty for all."""


class StoryView(TypedDict):
    """A recorded walk through a program."""

    title: str
    steps: list[StoryStep]
    problems: list[str]
    """What steps name that the program does not have."""
    at: int
    """The step that is shown; -1 before the first."""


class EarlierAlias(TypedDict):
    """What was known of a value's memory before a pass changed that; for a page without a kernel."""

    value: int
    alias: AliasDetail
    until: int
    """The first state for which this does not hold any more."""


class TimelineView(TypedDict):
    """What happened to a program step by step, told on its last state: there every node has its final place, and what
    a state has not yet joined or made is drawn as such. So nothing moves between steps."""

    passes: list[PassView]
    steps: list[StepView]
    groups: list[MadeGroup]
    """In program order, which numbers them."""
    since: dict[int, int]
    """For a node that some step made, the first state that has it."""
    gone: list[GoneLine]
    """In the order of the text."""
    earlier: list[EarlierLine]
    """By node, the earliest first."""
    names: dict[int, str]
    """What values were called that are not in the text any more, but that a name inside a group stands for."""
    earlier_aliases: NotRequired[list[EarlierAlias]]
    """By value, the earliest first; what merges leave as it is, is told by the details of the last state."""
    kept: dict[int, int]
    """For a value that needs no memory any more because only its group reads it, the first state where this is so."""


class BranchView(TypedDict):
    """One way to fuse a program, beside the others that were tried."""

    name: str
    parent: int
    """The branch that it departs from; -1 for the first."""
    step: int
    """Where it departs in that one's history."""
    steps: int
    """How many steps its own history has."""
    kernels: int
    """As the numbers below, 0 as long as there is only one branch."""
    calls: int
    """Ops that the library runs."""
    bytes: int
    micros: float
    """At a memory bandwidth of 20 GB/s."""
    measured: float
    """Milliseconds of a call; -1 where nobody measured."""
    refused: list[str]
    """What was wanted and would be wrong, each with its reason."""
    code: str
    """Python that makes it."""


class BranchesView(TypedDict):
    """The branches of an explorer's timeline."""

    branches: list[BranchView]
    shown: int
    policies: list[str]
    inputs: list[str]
    """Arguments of the program that could lie in memory with their channels last."""
    distinct: bool
    """Whether the program that is shown takes all inputs for distinct memory."""
    can_measure: bool
    can_edit: bool
    edits: bool
    """Whether the text is being written at first."""


class ChangedLine(TypedDict):
    """A line that two programs do not share."""

    kind: Literal["changed", "new", "gone"]
    before: str
    after: str
    how: str
    node: int
    """In the second program; 0 for none."""
    old: int
    """In the first program; 0 for none."""


class BranchDiff(TypedDict):
    """What is different between two branches."""

    counts: dict[str, int]
    """Nodes that are kept, changed, new and gone."""
    matched_by: str
    lines: list[ChangedLine]
    left_out: int


class EditTrouble(TypedDict):
    """Why a text is no program."""

    message: str
    hint: str
    line: int
    """Counted from 1; 0 where no line is to blame."""
    column: int
    """Counted from 1."""


class ProgramStop(TypedDict):
    """One of the programs that a history goes through."""

    label: str
    state: int
    """How many steps lead to it."""
    hint: str


class ExplorerView(TypedDict):
    """The whole of `irs.explore`, or of a history."""

    version: int
    title: str
    headline: list[Count]
    text: TextView
    source: NotRequired[dict[str, list[str]]]
    """The user's Python source files, line by line, where they could be read."""
    graph: GraphView
    remarks: TableView
    classes: list[ClassView]
    timing: TimingView | None
    memory: NotRequired[MemoryView]
    """The memory plan; a live page asks for it."""
    copies: NotRequired[list[CopyView]]
    """What is copied and nothing else; of a large program a page asks for it."""
    layouts: NotRequired[dict[int, LayoutView]]
    """Of each tensor, in a page without Python."""
    buffers: NotRequired[dict[int, BufferView]]
    """The buffers that most views lie in, by their values."""
    repeats: NotRequired[dict[int, RepeatView]]
    """By the id of the box, for a page without Python."""
    same: NotRequired[SameView]
    """The ladder of equal pieces; a live page asks for it."""
    coarser: NotRequired[list[CoarserStep]]
    """The steps by which classes may meet, in a page without Python."""
    profile: NotRequired[ProfileView]
    """Where the time goes, if that was measured."""
    opens: NotRequired[str]
    """The table that is shown at first."""
    later: NotRequired[list[str]]
    """What the page asks for once it has drawn the rest: `numbers`, `remarks`; and when somebody wants it: `timeline`, `timing`."""
    story: NotRequired[StoryView]
    """A walk through the program, in a page without a kernel."""
    timeline: NotRequired[TimelineView]
    """What the passes did, step by step; missing where none did anything."""
    programs: NotRequired[list[ProgramStop]]
    """Which programs there are to look at, the one as it was written first; the last is the one of text and graph."""
    only_history: NotRequired[bool]
    """Whether the steps are the subject: the tables below are left out."""
    kernels: NotRequired[dict[str, str]]
    """Kernel sources by name, for precomputed details."""
    kernel_texts: NotRequired[dict[str, list[KernelText]]]
    """Machine code and facts by the kernel's name, for pages without a kernel: of those that most groups run."""
    alias_sets: NotRequired[list[list[int]]]
    """Alias sets by number, for precomputed details."""
    details: dict[int, Detail]
    """Precomputed details, for pages without a kernel; empty in a live widget, which asks for each."""
