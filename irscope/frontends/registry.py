"""The registry of frontends: selects the one that reads a source, and reports sources that none reads.

A frontend is a module with the names of the `Frontend` protocol. Adding one takes that file and one line in `FRONTENDS`. A frontend's
module is imported only when the ones before it declined, and imports its own package (torch, …) only to load.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from textwrap import fill
from types import FunctionType, MethodType
from typing import Any, Final, Literal, Protocol, cast

from irscope._base.words import warn_caller
from irscope.errors import ArgumentError, CaptureError, LoadError
from irscope.frontends.refusals import refuse_foreign, start_of, way_in
from irscope.ir import Graph, Module, Origin
from irscope.ir.module import graphs_of
from irscope.ir.text import number_values

FRONTENDS: Final = (
    "irscope.frontends.mlir.source",
    "irscope.frontends.hlo",
    "irscope.frontends.jax",
    "irscope.frontends.text",
    "irscope.frontends.torch.script_source",
    "irscope.frontends.torch.export_source",
    "irscope.frontends.onnx.source",
    "irscope.frontends.tracing.source",
)
"""Modules in the order in which they are tried; the first that reads a source loads it."""


_TEXT: Final = "a string is IR text if it has several lines or a graph( in it, or ends in a brace, and otherwise the name of a file"


class Frontend(Protocol):
    """What a frontend module provides: it reads one kind of source."""

    name: str
    """What it reads, in a few words; shown in the error for a source that no frontend reads."""
    suffixes: tuple[str, ...]
    """File suffixes that it reads, with their dots. A frontend whose files may hold code also sets `may_run_code = True`,
    and its `load` then takes `trust`; one whose files name others that hold the weights sets `has_weights_elsewhere = True`, and its
    `load` takes `missing_weights`."""

    def reads(self, source: object, args: Sequence[object]) -> bool:
        """Checks whether `load` should be tried, cheaply and without heavy imports. Files arrive as a Path that
        exists, and go by their suffix: they are asked about only if no frontend knows their content.

        A frontend that reads files also has `recognizes(path, start)`, which goes by the content, of which `start` is the beginning."""

    def load(self, source: Any, args: Sequence[Any], *, name: str | None, **options: Any) -> Graph | Module:
        """Returns the whole program; example arguments are only checked against its inputs."""


def load(
    source: object, *args: object, name: str | None = None, trust: bool = False, missing_weights: Literal["inputs"] | None = None
) -> Graph | Module:
    """Returns the program in `source`: IR text, a file, a torch program, or a graph, which is returned as it is.

    A torch module or a Python function needs example arguments; the other sources check them if there are any. A function without
    parameters is called once to see with whose arrays it computes. A file that would run code of its author is refused, unless the caller
    allows it with `trust`. With `missing_weights="inputs"` weights in files that are not there become inputs.

    >>> load("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    <Graph 'graph': 1 node, 1 input, 1 output>
    """
    if missing_weights not in (None, "inputs"):
        raise ArgumentError(f"missing_weights is None or 'inputs', not {missing_weights!r}")
    if isinstance(source, Graph | Module):
        return source
    if is_path(source):
        source = _existing(Path(cast("str | Path", source)))
    frontend = frontend_of(source, args)
    options: dict[str, Any] = {"trust": trust} if getattr(frontend, "may_run_code", False) else {}
    if getattr(frontend, "has_weights_elsewhere", False):
        options["missing_weights"] = missing_weights
    elif missing_weights is not None:
        raise ArgumentError(f"missing_weights is for ONNX models and HLO, and this is read as {frontend.name}", hint="leave it out")
    made = frontend.load(source, args, name=name, **options)
    for graph in [made] if isinstance(made, Graph) else [graph for _, graph in graphs_of(made)]:
        number_values(graph)
    _tell_of_prints(source, made)
    return replace(made, origin=Origin(source)) if callable(source) and isinstance(made, Graph) else made


def _tell_of_prints(source: object, made: Graph | Module) -> None:
    """Warn of a function that prints: unless it was scripted, the program does not."""
    names = getattr(getattr(getattr(source, "forward", source), "__code__", None), "co_names", ())
    if "print" in names and isinstance(made, Graph) and not any(node.op == "prim::Print" for node in made.nodes()):
        warn_caller(
            f"{_kind(source)} calls print: the program that was loaded prints nothing, and all that was printed just now was of the capture"
        )


def frontend_of(source: object, args: Sequence[object]) -> Frontend:
    """Returns the frontend that reads a source. Raises LoadError."""
    if isinstance(source, Path):
        start = start_of(source)
        for frontend in _frontends():
            if hasattr(frontend, "recognizes") and frontend.recognizes(source, start):
                return frontend
        refuse_foreign(source, start)
    elif isinstance(source, str):
        refuse_foreign(source, source.lstrip()[:64].encode("utf-8", "replace"))
    shown = (_result_of(source),) if not args and _takes_nothing(source) else args
    for frontend in _frontends():
        if frontend.reads(source, shown):
            return frontend
    raise _unread(source, args)


def _takes_nothing(source: object) -> bool:
    """Checks whether a source is a function or method without parameters."""
    with suppress(ValueError, TypeError):  # a builtin may have no signature
        return isinstance(source, FunctionType | MethodType | partial) and not signature(source).parameters
    return False


def _result_of(function: Any) -> object:
    """Returns what a function without parameters returns: it goes by this, as others by their arguments."""
    try:
        return function()
    except Exception as error:
        what = f"{_kind(function)} raises {type(error).__name__} when it is called, without arguments: {error}"
        raise CaptureError(what, hint="a function that is loaded must run") from None


def is_path(source: object) -> bool:
    """Checks whether a source names a file: any Path, and any string of one line that is not IR.

    >>> is_path("model.mlir"), is_path("func.func @f() { return }")
    (True, False)
    """
    if not isinstance(source, str):
        return isinstance(source, Path)
    is_text = "\n" in source or "graph(" in source or source.rstrip().endswith("}")  # no program's suffix ends like this
    return bool(source.strip()) and not is_text


def _frontends() -> Iterator[Frontend]:
    for path in FRONTENDS:
        yield cast(Frontend, import_module(path))


def _existing(path: Path) -> Path:
    """Returns the path of a file, with the user's home in it. Raises LoadError if there is no such file."""
    try:
        path = path.expanduser()
    except RuntimeError:
        what = f"{str(path)!r} cannot be opened: there is no user {path.parts[0][1:]!r}, or none with a home"
        raise LoadError(what, hint=f"a file in a folder of that name is {f'./{path}'!r}") from None
    try:
        is_file, is_dir, is_there = path.is_file(), path.is_dir(), path.exists()
    except OSError as error:
        shown = str(path) if len(str(path)) < 100 else f"{str(path)[:100]}…"
        raise LoadError(f"{shown!r} cannot be opened: {error.strerror}", hint=_TEXT) from None
    if is_file:
        return path
    if is_dir:
        raise LoadError(f"{str(path)!r} is a folder, not a program", hint="give the file in it")
    if is_there:
        raise LoadError(f"{str(path)!r} is not a regular file but a pipe or a device", hint="give a file that holds a program")
    if not path.parent.is_dir():
        raise LoadError(f"there is no file {str(path)!r}", hint=f"there is no folder {str(path.parent)!r} either")
    beside = sorted(item.name for item in path.parent.iterdir() if item.is_file())
    if not path.suffix and path.name == str(path):
        raise LoadError(f"there is no file {str(path)!r}", hint=_TEXT)
    near = get_close_matches(path.name, beside)
    known = {suffix for frontend in _frontends() for suffix in frontend.suffixes}
    if path.suffix and path.suffix not in known:
        what = f"there is no file {str(path)!r}, and no frontend reads {path.suffix!r} files"
        raise LoadError(what, hint=f"the endings that are read are {', '.join(sorted(known))}")
    if not near:
        near = [item for item in beside if Path(item).suffix in known][:5]
    hint = f"in that folder: {', '.join(near)}" if near else "no file in that folder looks like a program"
    raise LoadError(f"there is no file {str(path)!r}", hint=hint)


def _unread(source: object, args: Sequence[object]) -> LoadError:
    named = [f"{f.name} ({', '.join(f.suffixes)})" if f.suffixes else f.name for f in _frontends()]
    known = fill("; ".join(named), 120)
    if isinstance(source, Path):
        unnamed = "a file without a suffix could be anything"
        what = f"no frontend reads {source.suffix!r} files" if source.suffix else unnamed
        return LoadError(f"{what}: {str(source)!r}", where=known, hint=way_in(source))
    if callable(source) and args:
        kinds = ", ".join(f"{type(arg).__module__}.{type(arg).__qualname__}" for arg in args)
        what = f"no frontend reads {_kind(source)} called with {kinds}"
        return LoadError(what, where=known, hint="pass NumPy arrays, or torch tensors for a torch function")
    if isinstance(source, type):
        return LoadError(f"{_kind(source)} is a class", hint=f"give an object of it: irs.load({source.__name__}(), x)")
    if callable(source):
        if _takes_nothing(source):
            return LoadError(f"{_kind(source)}, a function without parameters, returns no array", hint="return what it computes")
        return LoadError(
            f"a function needs example arguments, which give the types of its inputs; {_kind(source)} has none",
            hint="irs.load(function, np.zeros((2, 3)))",
        )
    hint = "give one of these, with example arguments for a model or a function"
    if any(map(callable, args)):
        hint = "the program comes first: irs.load(model, x)"
    if type(source).__module__.startswith("irscope."):  # a Fusion, Decisions, …
        hint = "it is no program, and shows itself at the end of a cell"
        if hasattr(source, "graph"):
            hint = "its program is .graph; what takes a program mostly takes it as it is, such as irs.explore, irs.fuse and irs.compile"
    return LoadError(f"no frontend reads {_kind(source)}", where=known, hint=hint)


def _kind(source: object) -> str:
    name = getattr(source, "__name__", None)
    kind = type(source)
    return f"{name!r}" if name and callable(source) else f"an object of type {kind.__module__}.{kind.__qualname__}"
