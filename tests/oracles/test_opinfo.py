"""Torch's own samples of its own ops, each between pointwise ops, on views, oddly laid out and in place, by export and by script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")
pytest.importorskip("expecttest", reason="torch.testing's samples need it")

from tests.oracles.counts import Counts, counted  # noqa: E402

pytestmark = pytest.mark.torch

SHARES = 10
"""The parts of the long run, each a process of its own."""
ROUNDS = 6
"""Forty samples of each op at most, and one in each other element type."""


RUN = "tests.oracles.opinfo_run"


def test_a_slice(tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(RUN, tmp_path, "--rounds", "1", "--share", "7/23")
    tell(found)
    found.assert_sound(most_refused=0.002)
    assert found.ways["passed"] > 150


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_every_op(share: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(RUN, tmp_path, "--rounds", str(ROUNDS), "--share", f"{share}/{SHARES}")
    tell(found)
    found.assert_sound(most_refused=0.002)
