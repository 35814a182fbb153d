"""Every ONNX op with its attributes, optional inputs, element types and versions, judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

from tests.oracles.counts import Counts, counted

SHARES = 8
"""The parts of the long run, each a process of its own."""


RUN = "tests.oracles.onnx_sweep"


def test_a_slice(tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(RUN, tmp_path, "LSTM", "Sign", "Unique", "Upsample")
    tell(found)
    found.assert_sound(most_refused=0.0)
    assert found.ways["passed"] > 100


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_every_op(share: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(RUN, tmp_path, "--share", f"{share}/{SHARES}")
    tell(found)
    found.assert_sound(most_refused=0.02)


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_every_op_where_onnxruntime_is_not_installed(share: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    """Forms that ONNX's reference implementation does not compute are refused."""
    found = counted(RUN, tmp_path, "--share", f"{share}/{SHARES}", "--without-onnxruntime")
    tell(found)
    found.assert_sound(most_refused=0.1)
