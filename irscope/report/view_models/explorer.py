"""The view model of the whole explorer and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from irscope.report.view_models.details import BufferView, CopyView, Detail, KernelText, LayoutView, MemoryView, PointsToView
    from irscope.report.view_models.profile import ProfileView, TimingView
    from irscope.report.view_models.program import Count, GraphView, TableView, TextView, TimelineView
    from irscope.report.view_models.same import ClassView, CoarserStep, RepeatView, SameView

# A card of a quiz, and a story.


class CardOption(TypedDict):
    """One option of a question."""

    name: str
    text: str
    record: int  # The value or node it represents; 0 for none.


class CardRemark(TypedDict):
    """The comment on an option after an answer."""

    name: str
    mark: Literal["right", "wrong", "missed"]
    because: str
    witness: list[int]


class CardJudgement(TypedDict):
    """The judgement of an answer."""

    right: bool
    points: float
    picks: list[str]
    remarks: list[CardRemark]


class CardView(TypedDict):
    """A question of a quiz, shown beside its program; the right answer is absent until the user has answered."""

    title: str
    kind: str
    number: int  # Counted from 0.
    done: list[Literal["", "right", "wrong"]]  # The result of each question of the quiz.
    summary: str
    prompt: str
    note: str
    how: str
    several: bool  # Whether several options may be chosen.
    subject: int  # The value or node the question is about; 0 for none.
    options: list[CardOption]
    judged: CardJudgement | None


class StoryStep(TypedDict):
    """One view of a story: selection, state, open boxes, colour, and a sentence about it."""

    text: str  # Markdown.
    selection: list[int]
    step: int | None  # The state of the history; None leaves it as it is.
    open: list[int] | None  # The open boxes; None leaves them as they are.
    colour: str
    pane: str  # The only pane shown; empty for all.


class StoryView(TypedDict):
    """A recorded walk through a program."""

    title: str
    steps: list[StoryStep]
    problems: list[str]  # Names in steps that the program does not have.
    at: int  # The step shown; -1 before the first.


# What if: the branches of the timeline, the difference of two, and the errors of an edited text.


class BranchView(TypedDict):
    """One of the ways to fuse a program that were tried."""

    name: str
    parent: int  # The parent branch; -1 for the first.
    step: int  # The step of the parent's history where it starts.
    steps: int  # The number of steps in its own history.
    kernels: int  # Like the numbers below, 0 while there is only one branch.
    calls: int  # Ops run by the library.
    moved: str  # The memory traffic; a formula where extents are unknown.
    micros: float  # Estimated at a memory bandwidth of 20 GB/s; -1 where the traffic is a formula.
    measured: float  # Milliseconds per call with irscope's kernels; -1 if not measured.
    own: float
    """Milliseconds per call of the program as another compiler compiled it; -1 if not measured, or if the groups are no compiler's."""
    matched: str  # How many ops of the first branch are ops of this one, if it is another program; empty if it is the same.
    matching: str  # How they were matched, and which were not.
    refused: list[str]  # Requested merges that would be wrong, each with its reason.
    code: str  # Python code that creates it.


class BranchesView(TypedDict):
    """The branches of an explorer's timeline."""

    branches: list[BranchView]
    shown: int
    policies: list[str]
    inputs: list[str]  # Arguments of the program that could be in channels-last layout.
    distinct: bool  # Whether the program shown assumes that all inputs are distinct memory.
    can_measure: bool
    read_only: str  # Why the text cannot be edited in the page; empty if it can be.
    edits: bool  # Whether the page opens with the editor.


class BreakView(TypedDict):
    """A place where another compiler stopped."""

    reason: str
    explanation: str
    file: str  # Empty if it is not known.
    line: int
    function: str


class DecidedView(TypedDict):
    """What another compiler decided."""

    compiler: str  # Its name and version.
    programs: list[str]  # The programs that it compiled, a line each.
    shown: int  # The number of the program that is shown.
    breaks: list[BreakView]
    notes: list[str]
    guards: list[str]  # What must hold for the program to be used again.
    kernels: TableView
    vanished: TableView  # The ops that it took out, and into what.
    buffers: dict[str, int]  # Nodes by that compiler's names for what it keeps of them.
    unrun: dict[int, str]  # For nodes that no kernel computes: why.


class OwnMemoryView(TypedDict):
    """What another compiler's program allocates, by its own word."""

    compiler: str
    told: str
    moments: list[str]  # What runs, in order.
    curve: list[list[int]]  # The pairs (number of what runs, bytes held) where the bytes change.
    peak: int
    peak_moment: int
    allocations: TableView


class PaintView(TypedDict):
    """A number for each of some boxes, as a colour."""

    name: str
    values: dict[int, float]  # By box id; a box around others has the largest of theirs.
    least: float
    most: float


PairKind = Literal["same", "here", "there", "unmatched"]
ComparedKind = Literal["same", "here", "there", "both", "unmatched"]


class PairMark(TypedDict):
    """An op, one that reads its result, and which of two groupings has them in one kernel."""

    producer: int
    consumer: int
    kind: PairKind


class ComparedView(TypedDict):
    """Two groupings of one program as colours: what is the same in both, only here, only there."""

    here: str
    there: str
    matched: str  # How many ops of the two are matched, how, and which are not.
    kinds: dict[int, ComparedKind]  # By box id.
    pairs: list[PairMark]
    counts: dict[str, int]  # The numbers of pairs of each kind.


class ChangedLine(TypedDict):
    """A line that differs between two programs."""

    kind: Literal["changed", "new", "gone"]
    before: str
    after: str
    how: str
    node: int  # The node in the second program; 0 for none.
    old: int  # The node in the first program; 0 for none.


class BranchDiff(TypedDict):
    """The difference between two branches."""

    counts: dict[str, int]  # The numbers of nodes kept, changed, new and gone.
    matched_by: str
    lines: list[ChangedLine]
    left_out: int
    compared: ComparedView


class StoredBranches(TypedDict):
    """The branches beside another compiler's groups, in a page without Python."""

    branches: list[BranchView]
    shown: int
    diffs: dict[int, BranchDiff]  # By the number of each other branch: how the one shown differs from it.


class EditTrouble(TypedDict):
    """Why a text is not a valid program."""

    message: str
    hint: str
    line: int  # Counted from 1; 0 if no single line is at fault.
    column: int  # Counted from 1.


VIEW_VERSION = 1
PaneName = Literal["text", "graph", "inspector", "tables", "timeline", "time", "classes", "memory", "points-to"]


class ProgramStop(TypedDict):
    """One of the programs of a history."""

    label: str
    state: int  # The number of steps that lead to it.
    hint: str


class ExplorerView(TypedDict):
    """The view of `irs.explore`, or of a history."""

    version: int
    title: str
    headline: list[Count]
    text: TextView
    source: NotRequired[dict[str, list[str]]]  # The lines of the user's Python source files that could be read.
    graph: GraphView
    remarks: TableView
    classes: list[ClassView]
    timing: TimingView | None
    memory: NotRequired[MemoryView]  # The memory plan; a live page requests it.
    own_memory: NotRequired[OwnMemoryView]  # What the compiler whose groups these are allocates itself, if it says so.
    points_to: NotRequired[PointsToView]  # The memory of the whole program; a live page requests it, and that of a selection.
    copies: NotRequired[list[CopyView]]  # Nodes that only copy; for a large program the page requests them.
    layouts: NotRequired[dict[int, LayoutView]]  # The layout of each tensor, in a page without Python.
    buffers: NotRequired[dict[int, BufferView]]  # The buffers with the most views, by value.
    repeats: NotRequired[dict[int, RepeatView]]  # By box id, for a page without Python.
    same: NotRequired[SameView]  # The ladder of equal pieces; a live page requests it.
    coarser: NotRequired[list[CoarserStep]]  # The steps at which classes may merge, in a page without Python.
    decided: NotRequired[DecidedView]  # What another compiler decided, if the groups are its.
    branches: NotRequired[StoredBranches]  # irscope's own groups and other compilers', in a page without Python.
    paint: NotRequired[PaintView]  # Numbers that the user gave to nodes, as a meaning of colours.
    differences: NotRequired[TableView]  # The pairs of ops that it or irscope computes in one kernel, and the other does not.
    compared: NotRequired[ComparedView]  # Which of its pairs irscope's own grouping has, too.
    profile: NotRequired[ProfileView]  # Where the time goes, if measured.
    opens: NotRequired[str]  # The table shown initially.
    later: NotRequired[list[str]]
    """What the page requests after drawing the rest (`numbers`, `remarks`), or when it is opened (`timeline`, `timing`)."""
    story: NotRequired[StoryView]  # A walk through the program, in a page without a kernel.
    timeline: NotRequired[TimelineView]  # What the passes did, step by step; missing if none changed anything.
    programs: NotRequired[list[ProgramStop]]  # The programs of the history, from the one as written to that of text and graph.
    only_history: NotRequired[bool]  # Whether only the steps are shown, without the tables below.
    kernels: NotRequired[dict[str, str]]  # Kernel sources by name, for precomputed details.
    kernel_texts: NotRequired[dict[str, list[KernelText]]]
    """Machine code and facts by kernel name, for pages without Python: only of the kernels that most groups run."""
    alias_sets: NotRequired[list[list[int]]]  # Alias sets by number, for precomputed details.
    details: dict[int, Detail]  # Precomputed details, for pages without Python; empty in a live widget, which requests each.
