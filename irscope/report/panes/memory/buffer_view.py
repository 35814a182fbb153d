"""A buffer and its views as a map of bytes: which value covers which bytes, and where unrelated views overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from irscope.analysis.views import ByteSet, Layout, ViewAliases
from irscope.ir import Value
from irscope.report.view_models import AxisView, BufferRow, BufferView

__all__ = ["buffer_view", "buffers_with_views", "layout_view"]

_CELLS: Final = 560
_MOST_ROWS: Final = 40
_FINE: Final = 16
"""Cells of the map that one repetition needs to be distinguishable."""
_MOST_RUNS: Final = 50_000
"""Sets with more runs than this are drawn as the interval around them."""


def layout_view(layout: Layout) -> list[AxisView]:
    """The axes of a tensor in memory order, slowest first, with the known facts of each."""
    strides = layout.strides or ("?",) * len(layout.shape)
    flags = layout.flags or ("gap",) * len(layout.shape)
    return [
        {"axis": axis, "extent": str(layout.shape[axis]), "stride": str(strides[axis]), "flag": flag}
        for axis, flag in zip(layout.order, flags, strict=True)
    ]


def buffers_with_views(views: ViewAliases, most: int = 6) -> list[Value]:
    """The roots of the buffers with the most views, in textual order."""
    counts: dict[Value, int] = {}
    for value in views.tensors():
        root = views.root(value)
        if root is not None and views.kind(value) == "view" and _extent(views, root):
            counts[root] = counts.get(root, 0) + 1
    best = set(sorted(counts, key=lambda root: -counts[root])[:most])
    return [value for value in views.graph.values() if value in best]


def _extent(views: ViewAliases, root: Value) -> int:
    """The bytes of the buffer up to the last byte covered by a view."""
    covered = views.bytes(root)
    return covered.stop if isinstance(covered, ByteSet) else 0


def buffer_view(views: ViewAliases, root: Value | str) -> BufferView:
    """The map of one buffer, without values whose bytes are known only at run time."""
    root = views.graph.value(root)
    names = views.graph.names
    sets = {
        value: covered
        for value in views.tensors()
        if views.root(value) is root and isinstance(covered := views.bytes(value), ByteSet)
    }
    shown = list(sets)[:_MOST_ROWS]
    length = max((sets[value].stop for value in shown), default=0)
    window = _window([sets[value] for value in shown], length)
    cells = {value: _cells(_first_part(sets[value], window, length), window) for value in shown}
    chains = {value: set(views.chain(value)) for value in shown}
    rows: list[BufferRow] = []
    for value in shown:
        met = np.zeros(_CELLS, bool)
        for other in shown:
            if other not in chains[value] and value not in chains[other] and views.overlaps(value, other):
                met |= cells[value] & cells[other]
        producer = views.graph.producer.get(value)
        rows.append({
            "id": value.id, "name": f"%{names[value]}", "depth": len(chains[value]) - 1,
            "op": "" if producer is None else producer.op, "told": str(views.layout(value)),
            "runs": _runs(cells[value]), "shared": _runs(met),
        })  # fmt: skip
    return {"root": f"%{names[root]}", "bytes": length, "window": window, "rows": rows, "left_out": len(sets) - len(shown)}


def _window(sets: Sequence[ByteSet], length: int) -> int:
    """The number of bytes to draw: only the first period if all sets repeat periodically, too often to be visible."""
    steps = {covered.steps[0] for covered in sets if covered.counts}
    step = steps.pop() if len(steps) == 1 else 0
    if not step or length % step or length // step * _FINE < _CELLS:
        return length
    return step if all(_repeats(covered, step, length) for covered in sets) else length


def _repeats(covered: ByteSet, step: int, length: int) -> bool:
    if covered.is_interval:
        return covered.is_empty or (covered.start == 0 and covered.stop == length)
    return covered.counts[0] == length // step and covered.stop - (covered.counts[0] - 1) * step <= step


def _first_part(covered: ByteSet, window: int, length: int) -> ByteSet:
    if window == length:
        return covered
    return ByteSet(covered.start, min(covered.width, window), covered.counts[1:], covered.steps[1:])


def _cells(covered: ByteSet, length: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The cells of the map that contain a byte of the set."""
    found = np.zeros(_CELLS, bool)
    if covered.is_empty or not length:
        return found
    size = covered.size
    many = size is None or size // covered.width > _MOST_RUNS
    for start, stop in [(covered.start, covered.stop)] if many else covered.runs():
        found[start * _CELLS // length : -(-stop * _CELLS // length)] = True
    return found


def _runs(cells: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[list[float]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
    return [[int(a) / _CELLS, int(b) / _CELLS] for a, b in edges.reshape(-1, 2)]
