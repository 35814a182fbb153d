"""Why a kernel was not found: what the nearest one differs by that some process compiled before.

A line for each kernel that was compiled, and a line for each that was missed, are added to two files beside the objects. They
are read to be shown, and nothing depends on them: a line that is not whole is passed over, and files that grow too long start
anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from irscope._base.concurrency.turns import Rank, Turn
from irscope._base.words import plural
from irscope.codegen.kernel import KernelSpec
from irscope.codegen.kernel.spec_difference import LEVELS, skeleton, spec_difference
from irscope.errors import loading

if TYPE_CHECKING:
    import pandas as pd

    from irscope.runtime.device.kernel_cache import ObjectStore, StoreSummary

__all__ = ["Miss", "MissLog"]

_COMPILED: Final = "compiled"
_MISSED: Final = "missed"
_MOST: Final = 4 << 20
"""Bytes after which a file starts anew."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One kernel that had to be compiled."""

    kernel: str
    nearest: str
    """The kernel that is most like it; empty if none is."""
    differs: str
    """By what, in words."""
    seconds: float
    """How long it took to compile."""


class MissLog:
    """What was compiled, and missed, in the directory of a store; `irs.cache()` is the user's.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from irscope.runtime.device import ObjectStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = MissLog(ObjectStore(Path(folder) / "objects"))
    ...     print(log.summary().entries, list(log.table()))
    0 ['kernel', 'nearest', 'differs', 'compile ms']
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._known: dict[str, tuple[str, str]] | None = None
        self._turn = Turn(Rank.BOOKS)

    def note(self, spec: KernelSpec, seconds: float) -> None:
        """A kernel was compiled: write down what it is, and what it was near to."""
        self._turn.run(lambda: self._note(spec, seconds))

    def summary(self) -> StoreSummary:
        """How many kernels are kept, their bytes, and how often they were found."""
        return self.store.summary()

    def misses(self) -> list[Miss]:
        """All that were missed, the latest last."""
        found = []
        for line in self._lines(_MISSED):
            with suppress(KeyError, TypeError, ValueError):
                found.append(
                    Miss(str(line["kernel"]), str(line["nearest"]), str(line["differs"]), float(line["seconds"]))
                )
        return found

    def table(self) -> pd.DataFrame:
        """One row for each kernel that was compiled although something was in the cache, or nothing was."""
        with loading("pandas"):
            import pandas as pd

        columns = ["kernel", "nearest", "differs", "compile ms"]
        rows = [[miss.kernel, miss.nearest, miss.differs, 1e3 * miss.seconds] for miss in self.misses()]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        now = self.summary()
        return f"<cache of {plural(now.entries, 'kernel')}: loaded {plural(now.hits, 'time')}, {now.misses} times not found>"

    def _note(self, spec: KernelSpec, seconds: float) -> None:
        text = str(spec)
        marks = {level: f"{level} {skeleton(text, level)}" for level in LEVELS}
        known = self._catalogue()
        near = next((known[mark] for mark in marks.values() if mark in known), None)
        if near is None:
            miss = Miss(spec.name, "", "nothing like it was compiled before", seconds)
        elif near[1] == text:
            miss = Miss(
                spec.name,
                near[0],
                "the same kernel, for another processor, compiler or size of results, or thrown away",
                seconds,
            )
        else:
            miss = Miss(spec.name, near[0], spec_difference(text, near[1]), seconds)
        for mark in marks.values():
            known.setdefault(mark, (spec.name, text))
        self._add(_COMPILED, {"kernel": spec.name, "text": text})
        self._add(_MISSED, asdict(miss))

    def _catalogue(self) -> dict[str, tuple[str, str]]:
        """A kernel for each skeleton of what was compiled."""
        if self._known is None:
            self._known = {}
            for line in self._lines(_COMPILED):
                name, text = str(line.get("kernel", "")), str(line.get("text", ""))
                for level in LEVELS:
                    self._known.setdefault(f"{level} {skeleton(text, level)}", (name, text))
        return self._known

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        data = self.store.read_note(name)
        for line in data.decode("utf-8", "replace").splitlines():
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def _add(self, name: str, line: dict[str, Any]) -> None:
        self.store.add_note(name, (json.dumps(line) + "\n").encode(), most=_MOST)
