"""TorchScript: scripted and traced functions and modules, and files saved by `torch.jit.save`."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from irscope._base.isolated import IsolatedError, isolated
from irscope._base.loaded_code import loaded_files
from irscope.errors import ArgumentError, IrscopeError, LoadError, VerifyError
from irscope.files import read_file
from irscope.frontends.torch.capture import alone
from irscope.frontends.torch.modes import modes_of
from irscope.frontends.torch.script_file.look import reason_to_distrust
from irscope.frontends.torch.script_inline import inline_function, inline_module, inlined_graph
from irscope.frontends.torch.values import require_torch, tied_names
from irscope.frontends.trust import not_trusted
from irscope.ir import Graph, Value
from irscope.ops.check import verify

__all__ = ["ZIP", "is_exported", "load", "may_run_code", "members_of", "name", "reads", "recognizes", "suffixes"]

name: Final = "TorchScript"
suffixes: Final = (".pt", ".pth", ".ts", ".jit")
may_run_code: Final = True


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts a scripted function or module, or a file with a TorchScript suffix that is not a `torch.export`
    program."""
    if isinstance(source, Path):
        return source.suffix.lower() in suffixes and not is_exported(members_of(source))
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.jit.ScriptFunction | torch.jit.ScriptModule)


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file is an archive or pickle of torch's, but not of `torch.export.save`: those without a program are refused."""
    if not start.startswith(ZIP):
        return start.startswith(_OLD_PICKLE)
    members = members_of(path)
    return any(member.endswith(_MARKS) or "/code/" in member for member in members) and not is_exported(members)


ZIP: Final = b"PK\x03\x04"
_OLD_PICKLE: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The beginning of what `torch.save` wrote before torch 1.6."""
_PACKAGE: Final = "/.data/extern_modules"
_MARKS: Final = ("/data.pkl", _PACKAGE)


def load(source: Any, args: Sequence[Any], *, name: str | None = None, trust: bool = False) -> Graph:
    """Returns the program with all calls inlined; parameters and buffers are inputs named by their paths, bound to the
    tensors.

    A file whose classes run code when they are loaded is loaded only with `trust`: see `script_file.code`.
    A file that is not trusted is read twice, first in a process that may crash.

    Raises LoadError for a file that is not TorchScript, ArgumentError for the wrong number of arguments.
    """
    torch = require_torch("to load TorchScript")
    if isinstance(source, Path):
        return _from_file(torch, source, args, name or source.stem, trust)
    return alone(lambda: _imported(torch, source, args, name, loaded_files() if _is_made_here(torch, source) else frozenset()))


def _imported(torch: Any, source: Any, args: Sequence[Any], name: str | None, live: AbstractSet[str]) -> Graph:
    """Returns the graph of a program; `live` are the files whose code is loaded in this process."""
    is_live: Callable[[str], bool] = live.__contains__
    if isinstance(source, torch.jit.ScriptFunction):
        graph, schema = inline_function(inlined_graph(source), name or source.name, is_live), source.schema
    else:
        method = _entry(source, args)
        graph = _inlined(source._c, method, name or source.original_name, is_live)
        graph = replace(graph, tied=tied_names(graph.bound, source.state_dict(keep_vars=True)))
        schema = source._c._get_method(method).schema
    if args:
        graph = _with_defaults(graph, schema, args)
    modes = modes_of(source)
    return replace(graph, modes=modes) if modes is not None else graph


def _inlined(module: Any, method: str, name: str, is_live: Callable[[str], bool]) -> Graph:
    """Returns the graph of a method. A trace keeps the types of the arguments that it was made with, also after `model.half()`; where
    the parameters contradict them, they are left out."""
    graph = inline_module(module, method, name, is_live)
    try:
        verify(graph)
    except VerifyError as error:
        if error.rule == "result-type":
            return inline_module(module, method, name, is_live, without_types=True)
    return graph


def _is_made_here(torch: Any, source: Any) -> bool:
    """Checks whether a program was scripted or traced in this process; one from `torch.jit.load` has the locations of
    its file."""
    if isinstance(source, torch.jit.ScriptFunction):
        return True
    here = torch.jit._state._python_cu
    types = [module._c._type() for module in source.modules() if isinstance(module, torch.jit.ScriptModule)]
    return all(here.get_class(type.qualified_name()) == type for type in types)


def _entry(source: Any, args: Sequence[Any]) -> str:
    """Returns the name of the method to load: `forward`, or the overload of it that takes the example arguments
    (nn.LSTM has two)."""
    methods: list[str] = source._c._method_names()
    if "forward" in methods:
        return "forward"
    overloads = sorted(method for method in methods if method.startswith("forward__"))
    if not overloads:
        what = f"the scripted module {source.original_name!r} has no method forward"
        raise LoadError(what, hint=f"its methods: {', '.join(methods) or 'none'}")
    fitting = [method for method in overloads if _takes(source._c._get_method(method).schema, args)]
    return (fitting or overloads)[0]


def _takes(schema: Any, args: Sequence[Any]) -> bool:
    """Checks whether an overload takes these arguments, by their number and by which are tensors."""
    declared = schema.arguments[1:]
    needed = sum(1 for argument in declared if not argument.has_default_value())
    tensor = require_torch("to load TorchScript").Tensor
    same = all(isinstance(arg, tensor) == (str(a.type) == "Tensor") for arg, a in zip(args, declared, strict=False))
    return needed <= len(args) <= len(declared) and same


def _with_defaults(graph: Graph, schema: Any, args: Sequence[Any]) -> Graph:
    """Binds the last inputs, for which there are no example arguments, to their defaults."""
    free = graph.free_inputs
    declared = [argument for argument in schema.arguments if argument.name != "self"][-len(free) :] if free else []
    needed = sum(1 for argument in declared if not argument.has_default_value())
    if not needed <= len(args) <= len(free):
        expected = ", ".join(f"{argument.name}: {argument.type}" for argument in declared)
        count = f"{needed}" if needed == len(free) else f"{needed} to {len(free)}"
        what = f"{len(args)} example arguments for a program that takes {count}"
        raise ArgumentError(what, hint=f"pass {expected or 'none'}")
    rest: dict[Value, Any] = {free[index]: declared[index].default_value for index in range(len(args), len(free))}
    return replace(graph, bound={**graph.bound, **rest}) if rest else graph


def members_of(path: Path) -> list[str]:
    """Returns the names in an archive; none for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return []


def is_exported(members: Sequence[str]) -> bool:
    """Checks whether these are the names in an archive of `torch.export.save`."""
    if any(member.endswith(_PACKAGE) for member in members):
        return False
    return any("exported_program" in member or "/models/" in f"/{member}" for member in members)


def _from_file(torch: Any, path: Path, args: Sequence[Any], name: str, trust: bool) -> Graph:
    _refuse_foreign(path, members_of(path))
    if trust:
        return _read(torch, path, str(path), args, name)
    data = read_file(path)

    def work() -> Graph:
        why = _reason_to_distrust(torch, path, data)
        if why:
            raise not_trusted(path, why)
        return _read(torch, path, data, args, name)

    def trial() -> None:
        with suppress(IrscopeError):  # raised again below
            work()

    megabytes = len(data.getbuffer()) >> 20
    try:
        isolated(trial, seconds=_SECONDS * (1 + megabytes), memory=_MEMORY + 3 * (megabytes << 20))
    except IsolatedError as error:
        raise LoadError(
            f"{str(path)!r} is a damaged file, or needs too many resources: torch's reader {error}",
            hint="save it again with torch.jit.save; if you trust it, trust=True lets torch read it without limits",
        ) from None
    return work()


def _refuse_foreign(path: Path, members: Sequence[str]) -> None:
    """Raises LoadError for a file of torch's that holds no TorchScript."""
    if any(member.endswith(_PACKAGE) for member in members):
        held = next((member.split("/")[1:] for member in members if member.endswith(".pkl") and "/.data/" not in member), ["…", "…"])
        called = f"load_pickle({'.'.join(held[:-1])!r}, {held[-1]!r})"
        raise LoadError(
            f"{str(path)!r} is an archive of torch.package: Python code and pickles, not a program",
            hint=f"if you trust it: irs.load(torch.package.PackageImporter({str(path)!r}).{called}, x)",
        )
    is_pickle = False
    with suppress(OSError), path.open("rb") as file:
        is_pickle = file.read(len(_OLD_PICKLE)) == _OLD_PICKLE
    if is_pickle or (members and not any(f"/{member}".count("/code/") for member in members)):
        raise LoadError(
            f"{str(path)!r} holds tensors or a pickled object, not a program",
            hint="torch.save keeps no code: use torch.jit.script(model).save(…) or torch.export.save(…)",
        )


_SECONDS: Final = 4
"""Processor seconds for a file's first megabyte, and for each more; torch takes 2 s for one of pure code."""
_MEMORY: Final = 1 << 30
"""Bytes of memory that reading a small file may take."""


def _read(torch: Any, path: Path, data: Any, args: Sequence[Any], name: str) -> Graph:
    try:
        return _imported(torch, torch.jit.load(data, map_location="cpu"), args, name, frozenset())
    except IrscopeError:
        raise
    except Exception as error:  # torch reads some of it lazily
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> LoadError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0]
    what = f"{str(path)!r} is not a TorchScript file, or a damaged one: {first[:300]}"
    return LoadError(what, hint="save it again with torch.jit.save")


def _reason_to_distrust(torch: Any, path: Path, data: Any) -> str:
    try:
        found = reason_to_distrust(torch._C.PyTorchFileReader(data))
    except Exception as error:
        raise _damaged(path, error) from None
    data.seek(0)
    return found
