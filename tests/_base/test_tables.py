"""Tables in a terminal: every column is in sight, whatever the width."""

import pytest

import irscope as irs
from irscope._base.tables import Table
from tests.programs import ir

TEXT = ir("x | a = relu x; b = tanh a | b", "Float(4, 8)")


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


def test_a_notebook_s_table_cuts_no_sentence_and_has_short_numbers() -> None:
    made = Table({"ms": [393.363766], "gives up": ["a sentence that is longer than the fifty letters that pandas leaves of it"]})
    html = made._repr_html_()
    assert html is not None and "leaves of it" in html and ">393 ms<" in html
    long = Table({"kernel": ["cpp_fused_add" * 9]})._repr_html_()
    assert long is not None and "cpp_<wbr>fused_<wbr>add" in long, "a name without spaces may break, too"


def test_a_notebook_s_table_has_units_words_at_the_left_and_no_column_without_a_cell() -> None:
    cells = {"value": ["%a", "%b"], "bytes saved": [2097664, -512], "seconds": [1.73e-5, float("nan")], "trips": [None, None]}
    made = Table({**cells, "flops": [1179648, 7]}).rename_axis("group")
    html = str(made._repr_html_())
    assert ">2.1 MB<" in html and ">-512 B<" in html and ">17.3 µs<" in html and ">1,179,648<" in html
    assert "trips" not in html and 'text-align:left">value<' in html and 'text-align:right">flops<' in html and ">group<" in html
    by_two = made.reset_index().set_index(["value", "group"])._repr_html_() or ""
    assert 'text-align:left;white-space:nowrap">%a<' in by_two and "2.1 MB" in by_two and by_two.count("<th scope") == 7
    assert "2.1 MB" in repr(made) and made["bytes saved"].sum() == 2097152
    assert "and 940 more rows" in str(Table({"n": range(1000)})._repr_html_())


def test_a_wide_table_shows_what_a_notebook_has_room_for_and_folds_the_rest_beside_its_first_columns() -> None:
    cells = {"node": ["%a"], "line": ["/home/somebody/models/net.py:12:4"], **{f"amount {k}": [1234567] for k in range(12)}}
    html = str(Table(cells)._repr_html_())
    assert html.count("<table") == 2 and html.count(">%a<") == 2 and html.count(">1,234,567<") == 12
    assert ">net.py:12<" in html and "somebody" not in html and "<summary>more columns: amount" in html
    assert html.index("<details>") < html.rindex("<table")


def test_remarks_are_a_table_of_reasons_with_their_number() -> None:
    lines = [f"  %b{k} : Float(4) = aten::relu_(%x{k})" for k in range(3)]
    g = irs.parse("\n".join([f"graph({', '.join(f'%x{k} : Float(4)' for k in range(3))}):", *lines, "  return (%b0, %b1, %b2)"]))
    remarks = irs.functionalize(g).remarks
    assert len(remarks) == 3 and remarks[1].subject is g.value("b1")
    table = remarks.table()
    assert table["×"].tolist() == [3] and table["where"].tolist() == ["%b0 = aten::relu_"] and "is an input" in table["why"][0]
    assert repr(remarks).startswith("3× missed [input] %b0 = aten::relu_: ") and repr(type(remarks)()) == "()"
    assert "<table" in str(remarks._repr_html_())
