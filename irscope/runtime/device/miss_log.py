"""The log of kernel cache misses, with the difference of each from the nearest kernel that was compiled before.

A line for each compiled kernel is appended to a file beside the objects; the nearest kernel is searched on request.
Nothing depends on that file: an incomplete line is skipped, and a file that grows too long is started again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from irscope._base.words import plural
from irscope.codegen.kernel import KernelSpec
from irscope.codegen.kernel.comparing import LEVELS, skeleton, spec_difference
from irscope.errors import new_table

if TYPE_CHECKING:
    import pandas as pd

    from irscope.runtime.device.kernel_cache import ObjectStore, StoreSummary

_COMPILED: Final = "compiled"
_MOST: Final = 4 << 20
"""Bytes after which the file is started again."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One kernel that had to be compiled."""

    kernel: str
    nearest: str
    """The most similar kernel; empty if there is none."""
    differs: str
    """The difference from it, in words."""
    seconds: float
    """The time to compile it."""


class MissLog:
    """The compiled kernels and misses in the directory of a store; `irs.cache()` is the user's."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def note(self, spec: KernelSpec, seconds: float) -> None:
        """Records a kernel that was compiled."""
        line = json.dumps({"kernel": spec.name, "text": str(spec), "seconds": seconds})
        self.store.add_note(_COMPILED, f"{line}\n".encode(), most=_MOST)

    def summary(self) -> StoreSummary:
        """Returns how many kernels are kept, their bytes, and how often they were found."""
        return self.store.summary()

    def misses(self) -> list[Miss]:
        """Returns all misses, the latest last, each with the nearest kernel before it."""
        found: list[Miss] = []
        known: dict[str, tuple[str, str]] = {}
        for written in self.store.read_note(_COMPILED).decode("utf-8", "replace").splitlines():
            with suppress(KeyError, TypeError, ValueError):  # an incomplete line
                line = json.loads(written)
                name, text, seconds = str(line["kernel"]), str(line["text"]), float(line["seconds"])
                marks = [f"{level} {skeleton(text, level)}" for level in LEVELS]
                nearest, near = next((known[mark] for mark in marks if mark in known), ("", ""))
                differs = spec_difference(text, near) if near else "nothing like it was compiled before"
                if near == text:
                    differs = "the same kernel, for another processor, compiler or size of results, or thrown away"
                found.append(Miss(name, nearest, differs, seconds))
                for mark in marks:
                    known.setdefault(mark, (name, text))
        return found

    def table(self) -> pd.DataFrame:
        """Returns one row for each kernel that was compiled, whether the cache was empty or not."""
        columns = ["kernel", "nearest", "differs", "compile ms"]
        rows = [[miss.kernel, miss.nearest, miss.differs, 1e3 * miss.seconds] for miss in self.misses()]
        return new_table(rows, columns=columns)

    def __repr__(self) -> str:
        now = self.summary()
        return f"<cache of {plural(now.entries, 'kernel')}: loaded {plural(now.hits, 'time')}, {now.misses} times not found>"
