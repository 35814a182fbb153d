"""Tables that print whole: a terminal that is too narrow for all columns gets them in several bands, none behind `…`."""

from __future__ import annotations

import shutil
from typing import Any

import pandas as pd

_MOST_ROWS = 60
_LEAST_CELL = 20


class Table(pd.DataFrame):
    """A DataFrame; what is computed from one is one, too.

    >>> print(Table({"value": ["%a"], "made by": ["aten::relu"]}))
      value     made by
    0    %a  aten::relu
    """

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __repr__(self) -> str:
        rows = {"max_rows": _MOST_ROWS} if len(self) > _MOST_ROWS else {}
        width = shutil.get_terminal_size().columns
        options: dict[str, Any] = {"line_width": width, "max_colwidth": max(_LEAST_CELL, width - _LEAST_CELL), **rows}
        text: str = self.to_string(show_dimensions=bool(rows), **options)
        return text
