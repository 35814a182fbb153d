"""The whole explorer, and the parts that it has."""

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
