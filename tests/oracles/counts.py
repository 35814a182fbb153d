"""What an oracle says of many programs, counted, and one table of it for all oracles.

A program ends in one way only. `passed`: judged, and right. `torch`: torch's own capture refuses it or makes another program
of it; never a pass. `refused`: an error class of irscope's said no, counted by its name. `wrong`, `hang`, `foreign`,
`crash`: what must not be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.errors import IrscopeError

WAYS: Final = ("passed", "torch", "refused", "wrong", "hang", "foreign", "crash")
"""How a program may end."""
BAD: Final = ("wrong", "hang", "foreign", "crash")
"""A number or a stride that is not eager's; over five seconds; an exception that is not one of `irscope.errors`; a dead process."""
_KEPT: Final = 200
"""Findings that are kept word by word."""


@dataclass
class Counts:
    """How the programs of one oracle ended.

    >>> found = Counts("files")
    >>> found.add("passed")
    >>> found.add("refused", "ParseError: line 1, column 2", "a.ir")
    >>> (found.programs, found.ways["passed"], dict(found.refusals))
    (2, 1, {'ParseError': 1})
    """

    oracle: str
    ways: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Refusals by the name of the error class."""
    findings: list[tuple[str, str, str]] = field(default_factory=list)
    """The way, the program and what was said, of whatever is not a pass."""
    show: bool = False
    """Whether findings are printed as they come, and how far the run is."""

    @property
    def programs(self) -> int:
        return sum(self.ways.values())

    def add(self, way: str, said: str = "", program: str = "") -> None:
        """Count a program. What is said of a refusal begins with the name of its class."""
        assert way in WAYS, way
        self.ways[way] += 1
        if way == "refused":
            self.refusals[said.partition(":")[0]] += 1
        if way != "passed" and (way in BAD or len(self.findings) < _KEPT):
            self.findings.append((way, program, said))
        if self.show and way not in ("passed", "torch"):
            print(f"{way}: {program}: {' '.join(said.split())[:700]}", flush=True)
        if self.show and self.programs % 200 == 0:
            print(f"-- {self.programs} programs, {time.process_time():.0f} s here, now {program}", flush=True)

    def merge(self, other: Counts) -> None:
        self.ways += other.ways
        self.refusals += other.refusals
        self.findings += other.findings

    def bad(self) -> list[tuple[str, str, str]]:
        """The findings that must not be."""
        return [finding for finding in self.findings if finding[0] in BAD]

    def assert_sound(self, *, most_refused: float = 1.0) -> None:
        """Raises AssertionError where anything was wrong, hung, died or raised what is not ours, or too much was refused."""
        bad = self.bad()
        lines = [f"{way}: {program}: {said}" for way, program, said in bad[:20]]
        assert not bad, f"{len(bad)} of {self.programs} programs\n" + "\n".join(lines)
        refused = [f"{program}: {said}" for way, program, said in self.findings if way == "refused"]
        share = self.ways["refused"] / max(1, self.programs)
        assert share <= most_refused, f"{share:.1%} refused\n" + "\n".join(refused[:20])

    def plain(self) -> dict[str, Any]:
        """The same as JSON takes it, of many findings those that must not be before the others."""
        ways, refusals = dict(self.ways), dict(self.refusals)
        findings = sorted(self.findings, key=lambda finding: finding[0] not in BAD)[:_KEPT]
        return {"oracle": self.oracle, "ways": ways, "refusals": refusals, "findings": findings}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Counts:
        found = [(str(way), str(program), str(said)) for way, program, said in plain["findings"]]
        return Counts(plain["oracle"], Counter(plain["ways"]), Counter(plain["refusals"]), found)


def outcome(error: Exception) -> tuple[str, str]:
    """How a program ends that raises, and what is said of it."""
    said = f"{type(error).__name__}: {error}"[:500]
    return "wrong" if isinstance(error, AssertionError) else "refused" if isinstance(error, IrscopeError) else "foreign", said


def difference(got: Any, wanted: Any, near: Callable[[Any, Any], Any]) -> str:
    """What differs between two arrays; empty where nothing does. Element types and shapes are equal, and so are numbers, or
    `near(got, wanted)` where they are not whole; a NaN is like another."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    right = np.asarray(got == wanted if wanted.dtype.kind in "biuOUS" else near(got, wanted))
    if right.all():
        return ""
    at = tuple(map(int, np.unravel_index(int(np.argmin(right)), right.shape)))
    return f"{got[at]!r}, not {wanted[at]!r}, at {at}: {right.size - int(right.sum())} of {right.size}"


def parser(about: str | None) -> argparse.ArgumentParser:
    """The options that every sweep takes by hand."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--share", type=_share, default=(0, 1), help="which part of the programs, such as 3/16")
    made.add_argument("--json", type=Path, help="where the counts go")
    made.add_argument("--show", action="store_true", help="print what is not a pass, as it comes")
    return made


def _share(text: str) -> tuple[int, int]:
    part, _, of = text.partition("/")
    return int(part), int(of)


def report(found: Counts, path: Path | None) -> None:
    """Print the table of a sweep, and write its counts."""
    if path is not None:
        path.write_text(json.dumps(found.plain()), encoding="utf-8")
    print("\n".join(table([found])))


def counted(module: str, folder: Path, *options: str) -> Counts:
    """What a run came to, in a process that imports the judge once and forks; the module writes its counts with `--json`."""
    path = folder / "counts.json"
    command = [sys.executable, "-W", "ignore", "-m", module, "--json", str(path), *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Counts.of(json.loads(path.read_text(encoding="utf-8")))


def table(counts: Iterable[Counts]) -> list[str]:
    """The lines of a Markdown table, one row for each oracle.

    >>> for line in table([Counts("names", Counter(passed=3, refused=1), Counter(ParseError=1))]):
    ...     print(line)
    | oracle | programs | run | passed | torch refuses | we refuse | wrong | hang | foreign | crash |
    |---|---|---|---|---|---|---|---|---|---|
    | names | 4 | 3 | 3 | 0 | 1: ParseError 1 | 0 | 0 | 0 | 0 |
    """
    rows: dict[str, Counts] = {}
    for found in counts:
        rows.setdefault(found.oracle, Counts(found.oracle)).merge(found)
    head = ["oracle", "programs", "run", "passed", "torch refuses", "we refuse", "wrong", "hang", "foreign", "crash"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, found in sorted(rows.items()):
        ways = found.ways
        errors = ", ".join(f"{error} {count}" for error, count in found.refusals.most_common())
        refused = f"{ways['refused']}: {errors}" if errors else ways["refused"]
        run = ways["passed"] + ways["wrong"]
        cells = [name, found.programs, run, ways["passed"], ways["torch"], refused, *(ways[way] for way in BAD)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines
