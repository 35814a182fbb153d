"""Tables that print whole: a terminal that is too narrow for all columns gets them in several bands, none behind `…`; numbers are
as long as one reads them."""

from __future__ import annotations

import shutil
from collections.abc import Container, Mapping, Sequence
from typing import Any

import pandas as pd

from irscope._base.words import in_markup

_MOST_ROWS = 60
_LEAST_CELL = 20
_LONGEST_CELL = 300
"""The most letters of a cell in a notebook, where it wraps."""


class Table(pd.DataFrame):
    """A DataFrame; what is computed from one is one, too.

    >>> print(Table({"value": ["%a"], "made by": ["aten::relu"], "ms": [393.363766]}))
      value     made by  ms
    0    %a  aten::relu 393
    """

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __repr__(self) -> str:
        rows = {"max_rows": _MOST_ROWS} if len(self) > _MOST_ROWS else {}
        width = shutil.get_terminal_size().columns
        options: dict[str, Any] = {"line_width": width, "max_colwidth": max(_LEAST_CELL, width - _LEAST_CELL), **rows}
        text: str = self.to_string(show_dimensions=bool(rows), float_format=short, **options)
        return text

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_colwidth", _LONGEST_CELL, "display.float_format", short, "display.max_columns", None):
            made: str | None = super()._repr_html_()  # type: ignore[misc]
            return made


def words_html(cells: Mapping[str, Sequence[str]], sentences: Container[str] = ()) -> str:
    """Columns of words and numbers as HTML, the first as heads of the rows: sentences are at the left and wrap, the rest does not."""

    def cell(title: str, text: str) -> str:
        style = "text-align:left" if title in sentences else "text-align:right;white-space:nowrap"
        return f'<td style="{style}">{in_markup(text)}</td>'

    first, *titles = cells
    sides = ((title, "left" if title in sentences else "right") for title in cells)
    heads = "".join(f'<th scope="col" style="text-align:{side};white-space:nowrap">{in_markup(title)}</th>' for title, side in sides)
    rows = ""
    for k, label in enumerate(cells[first]):
        head = f'<th scope="row" style="white-space:nowrap">{in_markup(label)}</th>'
        rows += f"<tr>{head}{''.join(cell(title, cells[title][k]) for title in titles)}</tr>"
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def short(number: float) -> str:
    """A number of a table in three digits, or more where it is that large.

    >>> short(393.363766), short(0.30000000000000004), short(28711.2), short(2.5e-7), short(0.0)
    ('393', '0.3', '28,711', '2.5e-07', '0')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
