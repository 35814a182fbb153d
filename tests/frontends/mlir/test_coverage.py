"""The page that says which ops are covered is the one that the code writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from irscope.frontends.mlir.coverage import table

PAGE = Path(__file__).parents[3] / "docs" / "coverage" / "mlir.md"


def test_the_page_is_current() -> None:
    pytest.importorskip("jaxlib")
    assert PAGE.read_text(encoding="utf-8") == table(), "python -m irscope.frontends.mlir.coverage > docs/coverage/mlir.md"
