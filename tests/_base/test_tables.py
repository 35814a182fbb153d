"""Tables in a terminal: every column is in sight, whatever the width."""

import pytest

import irscope as irs
from irscope._base.tables import Table

TEXT = """graph(%x : Float(4, 8)):
  %a : Float(4, 8) = aten::relu(%x)
  %b : Float(4, 8) = aten::tanh(%a)
  return (%b)"""


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_column_is_hidden_and_no_line_is_longer_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    f = irs.fuse(irs.parse(TEXT))
    for frame in (f.table(), irs.dedup(f).ladder(), irs.memory_plan(f).table(), irs.AliasDb(f.graph).table(), f.table().T):
        text = repr(frame)
        assert isinstance(frame, Table)
        assert all(str(column) in text for column in frame.columns)
        assert max(map(len, text.splitlines())) <= width + 20
        assert width < 120 or "..." not in text


def test_a_long_table_shows_its_ends_and_counts_its_rows() -> None:
    text = repr(Table({"n": range(1000)}))
    assert len(text.splitlines()) < 70 and "[1000 rows x 1 columns]" in text and "999" in text
