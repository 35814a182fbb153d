"""Measurements as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irscope.report.view_models import Measured, TimingView

if TYPE_CHECKING:
    from irscope.runtime.measure import Comparison

__all__ = ["timing_view"]


def timing_view(comparison: Comparison) -> TimingView:
    """One bar per competitor, in milliseconds."""
    bars = [
        Measured(
            label=row.label, median=row.median, low=row.low, high=row.high, compile=row.compile, kernels=row.kernels,
            error=f"{comparison.error_words(row)} {row.wrong}".rstrip(), note=row.note,
        )
        for row in comparison.rows
    ]  # fmt: skip
    return TimingView(bars=bars, caption=comparison.caption, warnings=list(comparison.warnings))
