"""Small programs for surveys: functions without arguments, as a user gives them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from irscope.corpus.examine import examined
from irscope.corpus.records import failure, write_record
from irscope.corpus.sources import Settings, Source
from irscope.errors import IrscopeError

__all__ = ["InProcess", "chain", "crashes", "hangs", "hoards", "is_killed", "meets", "raises", "repeated"]


class InProcess:
    """Workers without processes and limits, for tests of what comes before and after; notes what it was asked to do."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def examine(self, sources: Sequence[Source], out: Path, settings: Settings) -> Iterator[tuple[Source, str]]:
        for source in sources:
            self.asked.append(source.name)
            try:
                record = examined(source, settings)
            except IrscopeError as error:
                record = failure(type(error).__name__, str(error))
            write_record(out, source, record)
            yield source, ""

    def each(self, work: Any, items: Sequence[Any]) -> Iterator[object]:
        return map(work, items)


def chain(*ops: str, size: int = 4, name: str = "x", scale: float = 0.5) -> str:
    """A text of pointwise ops in a row, and a product with a number."""
    lines, last = [], name
    for place, op in enumerate(ops):
        lines.append(f"  %{name}{place} : Float({size}) = aten::{op}(%{last})")
        last = f"{name}{place}"
    lines += [f"  %k : float = prim::Constant[value={scale!r}]()", f"  %end : Float({size}) = aten::mul(%{last}, %k)"]
    return "\n".join([f"graph(%{name} : Float({size})):", *lines, "  return (%end)"])


def repeated(op: str, count: int) -> str:
    return chain(*[op] * count)


def hangs() -> str:
    time.sleep(1000)
    return ""


def hoards() -> str:
    return str(bytearray(1 << 40))


def is_killed() -> str:
    """As by a system that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def meets(folder: Path, name: str, other: str) -> str:
    """Ends when another model has begun; its width says which process this one is a copy of."""
    (folder / name).write_text("begun")
    while not (folder / other).exists():
        time.sleep(0.01)
    return chain("relu", size=os.getsid(0))


def crashes() -> str:
    os.abort()


def leaves() -> str:
    os._exit(0)


def closes_everything() -> str:
    os.closerange(3, 200)
    return chain("relu")


def raises_half_a_letter() -> str:
    raise ValueError("half \ud800 of a pair")


def raises() -> str:
    raise RuntimeError("this model is not finished")
