"""Where the time goes: bars of ways to run, heat, icicle, timeline, roofline."""

from __future__ import annotations

from typing import NotRequired, TypedDict

__all__ = [
    "HeatLine",
    "HelpView",
    "IcicleBox",
    "Measured",
    "ProfileView",
    "RoofMark",
    "TimedGroup",
    "TimedNode",
    "TimedSpan",
    "TimedWay",
    "TimingView",
]


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
