"""What is said of one value or node, of a pair, and of memory."""

from typing import Literal, NotRequired, TypedDict

# The details of one record or a pair: aliases, fusion, neighbours, kernel.


class PathStep(TypedDict):
    """One step of the path on which two values reach one memory."""

    words: str
    node: int  # The node that makes it so; 0 for none.


class VerdictView(TypedDict):
    holds: bool
    because: str
    witness: list[int]
    steps: NotRequired[list[PathStep]]  # For two values that may share memory: the path on which they do.


class PointsToBox(TypedDict):
    """A name of a memory, or of one that it may be."""

    label: str
    kind: Literal["location", "outside", "name"]
    """`location` for the name with which a memory begins, `outside` for one that begins outside the program."""
    record: int
    x: float
    y: float
    width: float
    writes: bool  # Whether the op that makes it writes the memory.
    subject: bool


class PointsToArrow(TypedDict):
    """How a name came from another, what it may be or hold, or which memory a line writes."""

    kind: Literal["is", "may", "holds", "writes"]
    label: str  # The op; it begins at x and y.
    points: list[list[float]]  # The corners of its line; empty for an op alone.
    x: float
    y: float
    step: int  # The step of the path that it is; 0 for none.


class PointsToLine(TypedDict):
    """A line of the program in the margin."""

    number: int
    text: str
    y: float
    steps: list[int]  # The steps of the path that it is, counted from 1.
    node: int


class PointsToBand(TypedDict):
    """The lane of a memory."""

    x: float
    top: float
    bottom: float


class PointsToCone(TypedDict):
    """A frame around all that a value may be."""

    label: str
    x: float
    y: float
    width: float
    height: float


class PointsToView(TypedDict):
    """Memory locations and names in the order of time, placed: a line of the program is a row, a memory a column."""

    title: str
    boxes: list[PointsToBox]
    arrows: list[PointsToArrow]
    lines: list[PointsToLine]
    bands: list[PointsToBand]
    cones: list[PointsToCone]
    steps: list[PathStep]
    told: list[str]  # Sentences below the picture, a line each.
    legend: list[str]
    width: float
    height: float  # Without the sentences and the legend.


class AliasDetail(TypedDict):
    summary: str
    alias_set: list[int]
    shared_set: NotRequired[int]
    """In a stored detail: the index of its alias set in the view's `alias_sets`, where equal sets are stored once."""
    writers: list[int]
    shared_writers: NotRequired[int]  # In a stored detail with many writers: their index in the view's `alias_sets`.


class KernelDetail(TypedDict):
    name: str
    language: str
    source: str  # Empty in a stored detail: the view's `kernels` stores it once, by name, for all groups that run it.
    line_nodes: list[int]  # The node that each source line came from, 0 for none.
    shared_by: int  # Number of groups that run this kernel.
    launched: str  # The size of the iteration space, and what that means for the time.


class KernelText(TypedDict):
    """A kernel in one language, with facts about the device that runs it."""

    language: str  # `llvm`, `assembly`, `cuda`, `ptx` or `sass`.
    source: str  # Empty if the kernel's detail has the text.
    origins: list[int]
    """For each line, the line of the kernel's own text it came from, counted from 0, or -1; empty if `line_nodes`
    is used."""
    line_nodes: list[int]  # The node that each line came from, 0 for none.
    hot: list[int]  # The lines that run for every point of the iteration space.
    facts: list[list[str]]  # Label and value.
    because: str  # What bounds its speed, and why.
    trouble: str  # Why the text is not available here, and how to get it; empty if it is available.


class NeighbourView(TypedDict):
    """A neighbour of a fusion group, and why it is not part of it."""

    id: int
    feeds: bool  # Whether it is a producer for the group; otherwise it is a consumer.
    because: str


class Detail(TypedDict):
    """Everything the inspector shows about one record."""

    id: int
    kind: Literal["value", "node", "class"]
    title: str
    text: str  # Its line of IR; empty in a stored detail if the view's text has the line.
    location: str
    scope: str
    alias: AliasDetail | None
    fusion: str  # Which group it is in and why, or why it is in none; empty if nothing was fused.
    neighbours: NotRequired[list[NeighbourView]]  # The neighbours of a group.
    same: str  # Which class it is in; empty if none.
    kernel: KernelDetail | None
    time: str
    gone_after: NotRequired[int]  # For a record that a pass removed: the last state that contains it.


class PairDetail(TypedDict):
    """The answers about two records: may they alias, why not fused, are they the same."""

    ids: list[int]
    alias: VerdictView | None
    fusion: VerdictView | None
    same: VerdictView | None


# The memory plan, the layout of a value, the views of one buffer, and the copies.


class MemoryBar(TypedDict):
    """One allocation of a plan: a rectangle of addresses over time."""

    id: int  # The id of its value.
    label: str
    title: str  # Its description, in one sentence.
    category: str  # The category of its producer.
    start: int  # The moment at which it is allocated.
    end: int  # The last moment at which it is needed.
    low: int  # Its first address, in bytes from the bottom of the picture.
    bytes: int
    at_peak: bool


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
    peak: int  # Bytes.
    lower_bound: int
    needed: list[list[int]]  # The pairs (moment, live bytes) where the live bytes change.
    allocated: list[list[int]]


class BufferRow(TypedDict):
    """One value in the buffer."""

    id: int
    name: str
    depth: int  # The number of views between it and the root.
    op: str
    told: str  # Its layout in words.
    runs: list[list[float]]  # The ranges of its bytes, as fractions of the buffer's length.
    shared: list[list[float]]  # The ranges where it overlaps a value such that neither is a view of the other.


class BufferView(TypedDict):
    """A buffer with the values in it, each after its base."""

    root: str
    bytes: int
    window: int  # How many of them are drawn: all, or one period if the contents repeat.
    rows: list[BufferRow]
    left_out: int  # The number of views not listed.


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
    decided: bool  # Whether the layout is the same in every run.
    because: str
    axes: list[AxisView]
    root: int  # The value whose buffer it is in; 0 if known only at run time.
    buffer: BufferView | None  # The map of that buffer, if it has views; for a stored layout, see `buffers` of the view.
    others: list[str]  # For an argument, the layouts it could have instead.


class CopyView(TypedDict):
    """A node that copies a tensor to other memory and computes nothing."""

    id: int
    value: int
    label: str
    bytes: int  # -1 if known only at run time.
    because: str  # The view step that failed, and what would make it succeed.


class AssumedLayout(TypedDict):
    """The effect of another layout of an argument."""

    told: str
    views: list[CopyView]  # Nodes that copy now but would not then.
    copies: list[CopyView]  # Nodes that would copy then but do not now.
