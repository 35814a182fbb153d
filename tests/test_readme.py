"""Every Python block of the README runs."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_are_sessions_to_run() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("block", BLOCKS)
def test_a_session_of_the_readme_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "torch" in block:
        pytest.importorskip("torch")
        pytest.importorskip("anywidget")
    if "irs.corpus" in block:
        pytest.importorskip("pyarrow")
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out
