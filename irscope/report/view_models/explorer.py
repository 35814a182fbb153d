"""The view model of the whole explorer and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from irscope.report.view_models.details import Detail, KernelText
    from irscope.report.view_models.graph import GraphView
    from irscope.report.view_models.listing import Count, TableView, TextView
    from irscope.report.view_models.memory import BufferView, CopyView, LayoutView, MemoryView
    from irscope.report.view_models.profile import ProfileView, TimingView
    from irscope.report.view_models.same import ClassView, CoarserStep, RepeatView, SameView
    from irscope.report.view_models.teaching import StoryView
    from irscope.report.view_models.timeline import TimelineView

__all__ = ["ExplorerView", "PaneName", "ProgramStop", "VIEW_VERSION"]


VIEW_VERSION = 1
PaneName = Literal["text", "graph", "inspector", "tables", "timeline", "time", "classes", "memory"]


class ProgramStop(TypedDict):
    """One of the programs of a history."""

    label: str
    state: int
    """The number of steps that lead to it."""
    hint: str


class ExplorerView(TypedDict):
    """The view of `irs.explore`, or of a history."""

    version: int
    title: str
    headline: list[Count]
    text: TextView
    source: NotRequired[dict[str, list[str]]]
    """The lines of the user's Python source files that could be read."""
    graph: GraphView
    remarks: TableView
    classes: list[ClassView]
    timing: TimingView | None
    memory: NotRequired[MemoryView]
    """The memory plan; a live page requests it."""
    copies: NotRequired[list[CopyView]]
    """Nodes that only copy; for a large program the page requests them."""
    layouts: NotRequired[dict[int, LayoutView]]
    """The layout of each tensor, in a page without Python."""
    buffers: NotRequired[dict[int, BufferView]]
    """The buffers with the most views, by value."""
    repeats: NotRequired[dict[int, RepeatView]]
    """By box id, for a page without Python."""
    same: NotRequired[SameView]
    """The ladder of equal pieces; a live page requests it."""
    coarser: NotRequired[list[CoarserStep]]
    """The steps at which classes may merge, in a page without Python."""
    profile: NotRequired[ProfileView]
    """Where the time goes, if measured."""
    opens: NotRequired[str]
    """The table shown initially."""
    later: NotRequired[list[str]]
    """What the page requests after drawing the rest (`numbers`, `remarks`), or when it is opened (`timeline`, `timing`)."""
    story: NotRequired[StoryView]
    """A walk through the program, in a page without a kernel."""
    timeline: NotRequired[TimelineView]
    """What the passes did, step by step; missing if none changed anything."""
    programs: NotRequired[list[ProgramStop]]
    """The programs of the history, from the one as written to that of text and graph."""
    only_history: NotRequired[bool]
    """Whether only the steps are shown, without the tables below."""
    kernels: NotRequired[dict[str, str]]
    """Kernel sources by name, for precomputed details."""
    kernel_texts: NotRequired[dict[str, list[KernelText]]]
    """Machine code and facts by kernel name, for pages without Python: only of the kernels that most groups run."""
    alias_sets: NotRequired[list[list[int]]]
    """Alias sets by number, for precomputed details."""
    details: dict[int, Detail]
    """Precomputed details, for pages without Python; empty in a live widget, which requests each."""
