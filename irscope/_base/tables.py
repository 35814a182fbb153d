"""Tables that print whole: a terminal that is too narrow for all columns gets them in several bands, none behind `…`; numbers are
as long as one reads them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from math import isnan, nan
from numbers import Integral, Real
from typing import Any

import pandas as pd

from irscope._base.words import byte_count, in_markup, time_words

_MOST_ROWS = 60
_LEAST_CELL = 20
_LONGEST_LINE = 30
"""The most letters of a cell that does not wrap in a notebook."""
_LONGEST_CELL = 300
"""The most letters of a cell in a notebook, where it wraps."""
_WIDEST = 118
"""The letters beside each other for which a notebook has room in a window of 1280 pixels; a column's padding is two."""
_PLACE = re.compile(r"(?:.*[/\\])?([^/\\:]+:\d+)(?::\d+)?")


class Table(pd.DataFrame):
    """A DataFrame; what is computed from one is one, too.

    >>> print(Table({"value": ["%a"], "made by": ["aten::relu"], "ms": [393.363766]}))
      value     made by     ms
    0    %a  aten::relu 393 ms
    """

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __repr__(self) -> str:
        rows = {"max_rows": _MOST_ROWS} if len(self) > _MOST_ROWS else {}
        width = shutil.get_terminal_size().columns
        options: dict[str, Any] = {"line_width": width, "max_colwidth": max(_LEAST_CELL, width - _LEAST_CELL), **rows}
        kinds = zip(self.columns, (dtype.kind for dtype in self.dtypes), strict=True)
        units = {title: writer for title, kind in kinds if (writer := _writer(title)) is not _cell or kind == "i"}
        text: str = self.to_string(show_dimensions=bool(rows), float_format=short, formatters=units, **options)
        return text

    def _repr_html_(self) -> str | None:
        keys = ["" if name is None else str(name) for name in self.index.names]
        if self.columns.nlevels > 1 or len({*keys, *map(str, self.columns)}) < len(keys) + len(self.columns) or not len(self.columns):
            made: str | None = super()._repr_html_()  # type: ignore[misc]
            return made
        shown = self.head(_MOST_ROWS)
        cells = {key: list(map(_cell, shown.index.get_level_values(level))) for level, key in enumerate(keys)}
        for title in shown.columns:
            column = list(map(_writer(title), shown[title].tolist()))
            if any(column) or not len(shown):  # what no row has would only push others out of sight
                cells[str(title)] = column
        long = [title for title, column in cells.items() if max(map(len, column), default=0) > _LONGEST_LINE]
        words = [title for title, column in cells.items() if any(text[:1] == "%" or text[:1].isalpha() for text in column)]
        more = len(self) - len(shown)
        told = {*words, *long}
        first, *rest = _bands(cells, told, long)
        made = words_html(first, told, long)
        if rest:
            hidden = ", ".join(title for title in cells if title not in first)
            further = "".join(words_html(band, told, long) for band in rest)
            made += f"<details><summary>more columns: {in_markup(hidden)}</summary>{further}</details>"
        return made + (f"<p>and {more:,} more rows</p>" if more else "")


def _writer(title: object) -> Callable[[Any], str]:
    """How the cells of a column are written: amounts of memory and times, as its title says, with a unit."""
    words = str(title).replace("_", " ").split()
    unit = next(filter(_TIMES.__contains__, words), "")
    return _bytes if "bytes" in words else partial(_time, _TIMES[unit]) if unit else _place if words == ["line"] else _cell


def _place(cell: Any) -> str:
    text = _cell(cell)
    found = _PLACE.fullmatch(text)
    return found[1] if found else text  # without its folders, which push other columns out of sight


def _bytes(cell: Any) -> str:
    amount = float(cell) if isinstance(cell, Real) else nan
    return _cell(cell) if isnan(amount) else f"-{byte_count(-amount)}" if amount < 0 else byte_count(amount)


_TIMES = {"seconds": 1e9, "s": 1e9, "ms": 1e6, "µs": 1e3}
"""The nanoseconds of the units in titles."""


def _time(unit: float, cell: Any) -> str:
    amount = float(cell) if isinstance(cell, Real) else nan
    return _cell(cell) if isnan(amount) else time_words(unit * amount)


def _cell(cell: Any) -> str:
    if cell is None or cell is pd.NA or (isinstance(cell, float) and isnan(cell)):
        return ""
    text = short(cell) if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, Integral) and abs(int(cell)) >= 10_000 else str(cell)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def _bands(cells: Mapping[str, Sequence[str]], words: Container[str], wrapped: Container[str]) -> list[dict[str, Sequence[str]]]:
    """The columns in tables that a notebook has room for: the first two in each; the last, if it is a verdict or a note, in the first."""
    first, *titles = cells

    def letters(title: str) -> int:
        most = _LONGEST_LINE // 2 if title in wrapped else max(map(len, cells[title]), default=0)
        return 2 + max(most, *map(len, title.split() or [""]))

    if sum(map(letters, cells)) <= _WIDEST or len(titles) < 3:
        return [dict(cells)]
    kept = titles[-1:] if titles[-1] in words else []
    bands, used = [dict[str, Sequence[str]]()], sum(map(letters, kept))
    for title in (first, *(title for title in titles if title not in kept)):
        if used + letters(title) > _WIDEST and len(bands[-1]) > 2:
            bands.append({key: cells[key] for key in (first, titles[0])})
            used = letters(first) + letters(titles[0])
        bands[-1][title] = cells[title]
        used += letters(title)
    bands[0].update({title: cells[title] for title in kept})
    if len(bands) == 2 and len(bands[1]) == 3:  # one column more is not worth a second table
        bands[0].update(bands.pop())
    return bands


def words_html(cells: Mapping[str, Sequence[str]], words: Container[str] = (), wrapped: Container[str] | None = None) -> str:
    """Columns of words and numbers as HTML, the first as heads of the rows: words are at the left, and wrap, or those alone of them
    that are `wrapped`."""

    def cell(title: str, text: str) -> str:
        side = "left" if title in words else "right"
        wraps = title in (words if wrapped is None else wrapped)
        shown = in_markup(text).replace("_", "_<wbr>") if wraps else in_markup(text)  # the name of a kernel has no spaces
        return f'<td style="text-align:{side}{"" if wraps else ";white-space:nowrap"}">{shown}</td>'

    first, *titles = cells
    sides = ((title, "left" if title in words else "right") for title in cells)
    heads = "".join(f'<th scope="col" style="text-align:{side}">{in_markup(title)}</th>' for title, side in sides)
    rows = ""
    for k, label in enumerate(cells[first]):
        head = f'<th scope="row" style="text-align:{"left" if first in words else "right"};white-space:nowrap">{in_markup(label)}</th>'
        rows += f"<tr>{head}{''.join(cell(title, cells[title][k]) for title in titles)}</tr>"
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def short(number: float) -> str:
    """A number of a table in three digits, or more where it is that large.

    >>> short(393.363766), short(0.30000000000000004), short(28711.2), short(2.5e-7), short(0.0)
    ('393', '0.3', '28,711', '2.5e-07', '0')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
