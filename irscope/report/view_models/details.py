"""What is said of one value or node, of a pair, and of memory."""

from typing import Literal, NotRequired, TypedDict

# The details of one record or a pair: aliases, fusion, neighbours, kernel.


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
    """In a stored detail: the index of its alias set in the view's `alias_sets`, where equal sets are stored once."""
    writers: list[int]
    shared_writers: NotRequired[int]
    """In a stored detail with many writers: their index in the view's `alias_sets`."""
    points_to: PointsToView


class KernelDetail(TypedDict):
    name: str
    language: str
    source: str
    """Empty in a stored detail: the view's `kernels` stores it once, by name, for all groups that run it."""
    line_nodes: list[int]
    """The node that each source line came from, 0 for none."""
    shared_by: int
    """Number of groups that run this kernel."""
    launched: str
    """The size of the iteration space, and what that means for the time."""


class KernelText(TypedDict):
    """A kernel in one language, with facts about the device that runs it."""

    language: str
    """`llvm`, `assembly`, `cuda`, `ptx` or `sass`."""
    source: str
    """Empty if the kernel's detail has the text."""
    origins: list[int]
    """For each line, the line of the kernel's own text it came from, counted from 0, or -1; empty if `line_nodes`
    is used."""
    line_nodes: list[int]
    """The node that each line came from, 0 for none."""
    hot: list[int]
    """The lines that run for every point of the iteration space."""
    facts: list[list[str]]
    """Label and value."""
    because: str
    """What bounds its speed, and why."""
    trouble: str
    """Why the text is not available here, and how to get it; empty if it is available."""


class NeighbourView(TypedDict):
    """A neighbour of a fusion group, and why it is not part of it."""

    id: int
    feeds: bool
    """Whether it is a producer for the group; otherwise it is a consumer."""
    because: str


class Detail(TypedDict):
    """Everything the inspector shows about one record."""

    id: int
    kind: Literal["value", "node", "class"]
    title: str
    text: str
    """Its line of IR; empty in a stored detail if the view's text has the line."""
    location: str
    scope: str
    alias: AliasDetail | None
    fusion: str
    """Which group it is in and why, or why it is in none; empty if nothing was fused."""
    neighbours: NotRequired[list[NeighbourView]]
    """The neighbours of a group."""
    same: str
    """Which class it is in; empty if none."""
    kernel: KernelDetail | None
    time: str
    gone_after: NotRequired[int]
    """For a record that a pass removed: the last state that contains it."""


class PairDetail(TypedDict):
    """The answers about two records: may they alias, why not fused, are they the same."""

    ids: list[int]
    alias: VerdictView | None
    fusion: VerdictView | None
    same: VerdictView | None


# The memory plan, the layout of a value, the views of one buffer, and the copies.


class MemoryBar(TypedDict):
    """One allocation of a plan: a rectangle of addresses over time."""

    id: int
    """The id of its value."""
    label: str
    title: str
    """Its description, in one sentence."""
    category: str
    """The category of its producer."""
    start: int
    """The moment at which it is allocated."""
    end: int
    """The last moment at which it is needed."""
    low: int
    """Its first address, in bytes from the bottom of the picture."""
    bytes: int
    at_peak: bool
    line: str
    """`file:line`; empty if unknown."""


class MemorySection(TypedDict):
    """A range of addresses: the arenas, the results, or separate allocations."""

    label: str
    low: int
    bytes: int


class MemoryView(TypedDict):
    """A memory plan: the address and live range of each allocation."""

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
    """The pairs (moment, live bytes) where the live bytes change."""
    allocated: list[list[int]]


class BufferRow(TypedDict):
    """One value in the buffer."""

    id: int
    name: str
    depth: int
    """The number of views between it and the root."""
    op: str
    told: str
    """Its layout in words."""
    runs: list[list[float]]
    """The ranges of its bytes, as fractions of the buffer's length."""
    shared: list[list[float]]
    """The ranges where it overlaps a value such that neither is a view of the other."""


class BufferView(TypedDict):
    """A buffer with the values in it, each after its base."""

    root: str
    bytes: int
    window: int
    """How many of them are drawn: all, or one period if the contents repeat."""
    rows: list[BufferRow]
    left_out: int
    """The number of views not listed."""


class AxisView(TypedDict):
    """One axis of a tensor, in memory order."""

    axis: int
    extent: str
    stride: str
    flag: str


class LayoutView(TypedDict):
    """The memory layout of a tensor."""

    id: int
    kind: Literal["view", "copy", "input"]
    decided: bool
    """Whether the layout is the same in every run."""
    because: str
    layout: str
    """The layout in words; empty if not even the rank is known."""
    axes: list[AxisView]
    root: int
    """The value whose buffer it is in; 0 if known only at run time."""
    buffer: BufferView | None
    """The map of that buffer, if it has views; for a stored layout, see `buffers` of the view."""
    others: list[str]
    """For an argument, the layouts it could have instead."""


class CopyView(TypedDict):
    """A node that copies a tensor to other memory and computes nothing."""

    id: int
    value: int
    label: str
    bytes: int
    """-1 if known only at run time."""
    because: str
    """The view step that failed, and what would make it succeed."""


class AssumedLayout(TypedDict):
    """The effect of another layout of an argument."""

    told: str
    views: list[CopyView]
    """Nodes that copy now but would not then."""
    copies: list[CopyView]
    """Nodes that would copy then but do not now."""
