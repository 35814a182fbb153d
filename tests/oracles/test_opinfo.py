"""Torch's own samples of its own ops, each between pointwise ops, on views, oddly laid out and in place, by export and by script."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")
pytest.importorskip("expecttest", reason="torch.testing's samples need it")

from tests.oracles.counts import Counts  # noqa: E402

pytestmark = pytest.mark.torch

SHARES = 10
"""The parts of the long run, each a process of its own."""
ROUNDS = 6
"""Forty samples of each op at most, and one in each other element type."""


def counted(folder: Path, *options: str) -> Counts:
    """What a run came to, in a process that imports torch's database once and forks."""
    path = folder / "counts.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.oracles.opinfo_run", "--json", str(path), *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Counts.of(json.loads(path.read_text(encoding="utf-8")))


def test_a_slice(tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(tmp_path, "--rounds", "1", "--share", "7/23")
    tell(found)
    found.assert_sound(most_refused=0.002)
    assert found.ways["passed"] > 150


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_every_op(share: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = counted(tmp_path, "--rounds", str(ROUNDS), "--share", f"{share}/{SHARES}")
    tell(found)
    found.assert_sound(most_refused=0.002)
