"""Damaged files of every kind: an error of irscope's own, or a program that works; soon, with little memory, and alive.

Files are read in processes that may die of them (`tests/oracles/watched.py`). The whole, 2,000 of each kind:

    .venv/bin/python -m pytest tests/oracles/test_mutated_files.py -m long -q

`tests/oracles/files_run.py` runs any number of one kind.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracles.counts import Counts
from tests.oracles.damaged_files import KINDS
from tests.oracles.files_run import survey as surveyed

SLICE, LONG, CHUNK = 4, 2000, 100
NEEDED = {"pt": "torch", "pt2": "torch", "onnx": "onnx", "mlir": "jax", "mlirbc": "jax", "ir": "numpy"}


def survey(kind: str, first: int, count: int) -> Counts:
    """What became of so many damaged files."""
    found = Counts("files")
    for ended in surveyed(kind, first, count):
        found.add(ended.way, ended.said, ended.program)
    return found


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str, tell: Callable[[Counts], None]) -> None:
    pytest.importorskip(NEEDED[kind])
    found = survey(kind, 0, SLICE)
    tell(found)
    found.assert_sound()


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(SLICE, LONG, CHUNK))
def test_many_damaged_files(kind: str, first: int, tell: Callable[[Counts], None]) -> None:
    pytest.importorskip(NEEDED[kind])
    found = survey(kind, first, min(CHUNK, LONG - first))
    tell(found)
    found.assert_sound()
