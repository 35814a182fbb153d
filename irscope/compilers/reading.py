"""The registry of readers: selects the one for a compiler or its output, and says what is missing where there is none.

A reader is a module with the names of the `Reader` protocol. Adding one takes that file and one line in `READERS`. It imports the package
of its compiler only in `decisions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final, Protocol, cast

from irscope.compilers.record import Decisions
from irscope.errors import ArgumentError, LoadError

READERS: Final[tuple[str, ...]] = (
    "irscope.compilers.inductor",
    "irscope.compilers.trace_log",
    "irscope.compilers.ort",
    "irscope.compilers.iree",
    "irscope.compilers.xla",
)
"""Modules in the order in which they are asked; the first that reads a source does."""


class Reader(Protocol):
    """What a module provides that reads the decisions of one compiler."""

    compiler: str
    """The name of the compiler, as in `irs.decisions(…, compiler=…)`."""
    name: str
    """What it reads, in a few words; shown in the error for a source that no reader takes."""

    def reads(self, source: object, compiler: str | None) -> bool:
        """Checks whether the source is output of its compiler, or a program for it to compile, cheaply and without heavy imports.
        Strings of one line and paths of what exists arrive as a Path. `compiler` is what the user asked for, if anything."""

    def decisions(self, source: Any, args: Sequence[Any], **options: Any) -> Decisions:
        """Returns what the compiler decided; `args` are example arguments. Raises MissingExtra if its package is not installed."""


def decisions(source: object, *args: object, compiler: str | None = None, **options: Any) -> Decisions:
    """What another compiler decided about a program: its kernels, what each computes, its reasons, and what it recomputes or adds.

    `source` is the result of `torch.compile` (with arguments to call it with), or the output of a compiler: see the page on compilers in
    the documentation. For a program that is not compiled yet, `compiler` names the one to ask. The program is compiled once more, beside
    yours: what you have compiled stays as it is, and so do your arguments. The result has `.programs`, one for each graph that was
    compiled, with `.kernels`, `.graph`, `.fusion` and `.why_not`; where there is only one, `d.kernels` and so on are its own. `d.fusion` is
    taken wherever a Fusion is: `irs.explore`, `irs.compile`, `irs.compare`, `irs.dedup`.

    Raises LoadError for what no reader takes, and MissingExtra for a compiler that is not installed.
    """
    readers = list(_readers())
    known = list(dict.fromkeys(reader.compiler for reader in readers))
    if compiler is not None and compiler not in known:
        raise ArgumentError(f"there is no reader for the compiler {compiler!r}", hint=f"choose one of {', '.join(known)}")
    source = _existing(source)
    for reader in readers:
        if (compiler is None or compiler == reader.compiler) and reader.reads(source, compiler):
            _check_options(reader, options)
            return reader.decisions(source, args, **options)
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    what = f"no reader takes {str(source)!r}" if isinstance(source, Path) else f"no reader takes an object of type {kind}"
    takes = "\n".join(f"{reader.compiler}: {reader.name}" for reader in readers if compiler in (None, reader.compiler))
    raise LoadError(what, where=takes, hint="give one of these")


def _check_options(reader: Reader, options: Iterable[str]) -> None:
    parameters = signature(reader.decisions).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return  # it says itself what it does not take
    known = [key for key, each in parameters.items() if each.kind is each.KEYWORD_ONLY]
    strange = next((key for key in options if key not in known), None)
    if strange is not None:
        hint = f"it has {', '.join(known)}" if known else "leave it out"
        raise ArgumentError(f"{reader.name}: {reader.compiler} is read without an option {strange!r}", hint=hint)


def _readers() -> Iterator[Reader]:
    for path in READERS:
        yield cast(Reader, import_module(path))


def _existing(source: object) -> object:
    """A string of one line, or a path, as a Path. Raises LoadError if there is nothing of that name."""
    is_name = isinstance(source, str) and "\n" not in source and source.strip() != ""
    if not isinstance(source, Path) and not is_name:
        return source
    path = Path(cast("str | Path", source))
    try:
        path = path.expanduser()
        is_there = path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise LoadError(f"{str(path)[:200]!r} cannot be opened: {error}") from None
    if not is_there:
        raise LoadError(f"there is no file or folder {str(path)[:200]!r}", hint="a compiler's output is a text of several lines, or a file")
    return path
