"""Every Python block of the README and of the short sessions runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [(ROOT / page).read_text() for page in ("README.md", "docs/sessions.md")]
BLOCKS = [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


def test_there_are_sessions_to_run() -> None:
    assert len(BLOCKS) >= 7


@pytest.mark.parametrize("block", BLOCKS)
def test_a_session_of_the_readme_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "torch" in block:
        pytest.importorskip("torch")
        pytest.importorskip("anywidget")
    if "irs.corpus" in block:
        pytest.importorskip("pyarrow")
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out
