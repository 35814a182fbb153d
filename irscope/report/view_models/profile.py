"""Where the time goes: timing bars, heat, icicle, timeline, roofline."""

from typing import NotRequired, TypedDict


class Measured(TypedDict):
    """One bar of the timing chart, in milliseconds."""

    label: str
    median: float
    low: float
    high: float
    compile: float
    kernels: int
    error: str  # Against a float64 run, in words: a number, what is wrong with the results, or nothing.
    note: str


class TimingView(TypedDict):
    bars: list[Measured]
    caption: str
    warnings: list[str]  # What a reader must know before the numbers.


class TimedNode(TypedDict):
    """One node of a profile, in milliseconds of one run."""

    id: int
    label: str
    op: str
    line: str  # `file:line`, empty where it is not known.
    ms: float
    low: float
    high: float
    share: float  # The share of all nodes' time.
    of_copy: float | None  # Relative to the speed of a copy of as many bytes.
    of_peak: float | None  # Relative to the processor's peak arithmetic.
    megabytes: float


class IcicleBox(TypedDict):
    """A module, line or op as wide as its time."""

    label: str
    depth: int
    start: float  # Its offset, as a fraction of the whole.
    share: float
    selects: list[int]


class TimedSpan(TypedDict):
    """One instruction of a run, in milliseconds from its start."""

    id: int
    label: str
    lane: str
    """`host`: host code; `kernels`: ops and kernels; `thread 2` and so on: further threads of a generated kernel, from its start until
    the last of them is done; `stream`: work of a GPU stream."""
    start: float
    duration: float


class RoofMark(TypedDict):
    id: int
    label: str
    intensity: float  # Operations per byte.
    gflops: float
    share: float


class TimedWay(TypedDict):
    """The profile of a program run one way."""

    label: str
    ms: float
    low: float
    high: float
    nodes: list[TimedNode]  # Slowest first.
    icicle: list[IcicleBox]
    spans: list[TimedSpan]
    memory: list[list[float]]  # Pairs (milliseconds, bytes live from then on).
    marks: list[RoofMark]


class HeatLine(TypedDict):
    """A line of the user's source with its cost."""

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
    """One piece of advice."""

    text: str
    selects: list[int]


class ProfileView(TypedDict):
    """Where the time goes. Selections are records of the program shown."""

    title: str
    verdict: str
    warnings: list[str]  # What a reader must know before the numbers.
    caption: str
    ways: list[TimedWay]  # The last is shown initially.
    groups: list[TimedGroup]
    lines: list[HeatLine]
    helps: list[HelpView]
    bandwidth: float  # GB/s of a copy of 64 MiB; 0 if unknown.
    peak: float  # 10^9 additions and multiplications per second; 0 if unknown.
    heat: NotRequired[dict[int, list[float]]]
    """The cost of records and boxes, for colours: share of the time, bytes moved, bytes live, and the share of the roofline (-1 if
    unknown). A page that has only part of a program requests it."""
    most: NotRequired[list[float]]  # The maximum of each over all records.
    source_heat: NotRequired[dict[str, dict[int, list[float]]]]  # The same for lines of source files.
