"""The registry of readers: selects the one for a compiler or its output, and says what is missing where there is none.

A reader is a module with the names of the `Reader` protocol. Adding one takes that file and one line in `READERS`. It imports the
package of its compiler only in `decisions`.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final, Protocol, cast, overload

from irscope.compilers.record import Decisions
from irscope.errors import ArgumentError, LoadError, public
from irscope.frontends.registry import is_path
from irscope.ir import Graph

READERS: Final[Mapping[str, str]] = {
    "irscope.compilers.inductor.source": "inductor",
    "irscope.compilers.inductor.trace_log": "inductor",
    "irscope.compilers.ort": "onnxruntime",
    "irscope.compilers.iree": "iree",
    "irscope.compilers.xla": "xla",
}
"""Modules, each with the name of its compiler, in the order in which they are asked; the first that reads a source does."""


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


@overload
def decisions(source: object, *args: object, compiler: str | None = None, **options: Any) -> Decisions: ...
@overload
def decisions(source: object, *args: object, compiler: Sequence[str], **options: Any) -> tuple[Decisions, ...]: ...
@public
def decisions(source: object, *args: object, compiler: Any = None, **options: Any) -> Any:
    """What another compiler decided about a program: its kernels, what each computes, its reasons, and what it recomputes or adds.

    `source` is the result of `torch.compile` (with arguments to call it with), or the output of a compiler: see the page on compilers in
    the documentation. For a program that is not compiled yet, `compiler` names the one to ask. The program is compiled once more, beside
    yours: what you have compiled stays as it is, and so do your arguments. The result has `.programs`, one for each graph that was
    compiled, with `.kernels`, `.graph`, `.fusion` and `.why_not`; where there is only one, `d.kernels` and so on are its own. `d.fusion` is
    taken wherever a Fusion is: `irs.explore`, `irs.compile`, `irs.compare`, `irs.dedup`. Several compilers are asked one after the other,
    `compiler=("inductor", "onnxruntime")`: the result is a tuple, which `irs.explore` shows as branches beside each other.

    Raises LoadError for what no reader takes, and MissingExtra for a compiler that is not installed.
    """
    readers = [cast(Reader, import_module(path)) for path in READERS]
    is_one = compiler is None or isinstance(compiler, str)
    asked = list(compiler) if not is_one and isinstance(compiler, Iterable) else [compiler]
    _check_names(asked)  # before one of them takes minutes
    if not is_one:
        return tuple([decisions(source, *args, compiler=each, **options) for each in asked])
    source = _existing(source)
    for reader in readers:
        if (compiler is None or compiler == reader.compiler) and reader.reads(source, compiler):
            _check_options(reader, options)
            return reader.decisions(source, args, **options)
    kind = repr(str(source)) if isinstance(source, Path) else f"an object of type {type(source).__module__}.{type(source).__qualname__}"
    takes = "\n".join(f"{reader.compiler}: {reader.name}" for reader in readers if compiler in (None, reader.compiler))
    hint = "give one of these"
    if callable(source) and compiler is None:
        hint = 'irs.decisions(torch.compile(model), x), or name one: compiler="xla" in Python, --compiler xla in a shell'
    elif isinstance(source, Path) and (source.suffix == ".gz" or (source.is_dir() and any(source.glob("*.gz")))):
        hint = "it is packed: unpack it with gunzip, and give what comes out"
    elif isinstance(source, Graph) and compiler is None:
        hint = 'irs.decisions(graph, *args, compiler="iree") compiles a graph; irs.fuse(graph) shows what irscope decides'
    elif hasattr(source, "dtype"):
        hint = "this is a result: give what was called, and its arguments: irs.decisions(f, x)"
    raise LoadError(f"no reader takes {kind}", where=takes, hint=hint)


def _check_names(asked: Sequence[Any]) -> None:
    known = list(dict.fromkeys(READERS.values()))
    if not asked:
        raise ArgumentError("no compiler is named", hint=f"choose some of {', '.join(known)}")
    for each in asked:
        if each is not None and each not in known:
            near = get_close_matches(str(each).lower(), known, n=1)
            hint = f"did you mean {near[0]!r}? there are {', '.join(known)}" if near else f"choose one of {', '.join(known)}"
            raise ArgumentError(f"there is no reader for the compiler {each!r}", hint=hint)


def _check_options(reader: Reader, options: Iterable[str]) -> None:
    parameters = signature(reader.decisions).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return  # it says itself what it does not take
    known = [key for key, each in parameters.items() if each.kind is each.KEYWORD_ONLY]
    strange = next((key for key in options if key not in known), None)
    if strange is not None:
        hint = f"it has {', '.join(known)}; arguments of the program go by position" if known else "leave it out"
        raise ArgumentError(f"{reader.compiler} is read without an option {strange!r}", hint=hint)


def _existing(source: object) -> object:
    """A string of one line, or a path, as a Path. Raises LoadError if there is nothing of that name."""
    if not is_path(source):
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
