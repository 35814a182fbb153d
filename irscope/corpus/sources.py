"""The programs that a survey examines, their names, and the keys that identify their results.

A source's key is a digest of the source (a file's place, size and time; a function's name, arguments and code) and of the settings.
A changed file, another policy or another version of irscope have another key: a result is never taken for that of another source.
"""

import hashlib
import inspect
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from numbers import Number
from pathlib import Path
from typing import Any, Final

from irscope import __version__
from irscope.errors import ArgumentError, LoadError, MissingExtra
from irscope.frontends.registry import FRONTENDS, frontend_of, is_path
from irscope.ir import Graph, Module

_ACCEPTED: Final = "give files, folders, or functions that build a model"
_NOT_LOOKED_FOR: Final = (".txt",)
"""Suffixes that a folder search skips, as other files have them too; such a file is read if it is named."""


@dataclass(frozen=True)
class Settings:
    """The treatment and the limits of each model."""

    policy: str = "greedy"
    trust: bool = False
    seconds: int = 300
    """Seconds of processor time for each model."""
    memory: int = 8 << 30
    """Bytes for each model."""


@dataclass(frozen=True)
class Source:
    """One model to examine."""

    name: str
    key: str
    """Thirty-two hexadecimal digits; the name of its result's file."""
    path: str = ""
    """The path of a file; empty for a function or program."""
    pickled: bytes = field(default=b"", repr=False)
    """The function that builds it, or the program itself."""
    size: float = 0
    """A guess of how its time compares: the bytes of a file or a program, the product of a function's numbers."""


def sources_of(sources: Any, settings: Settings) -> list[Source]:
    """Returns the sources that a user names: a folder, a file, a function without arguments that returns what `irs.load` takes, a
    program, a list of these, or a dictionary by name. Names are made distinct. Raises LoadError or ArgumentError."""
    if sources is None or isinstance(sources, Number | bytes):
        raise ArgumentError(f"{sources!r} is nothing to survey", hint=_ACCEPTED)
    found: list[Source] = []
    taken: dict[str, int] = {}
    listed = list(_items(sources))
    alike = Counter(Path(source).name for name, source in listed if not name and is_path(source))
    for name, source in listed:
        if not name and is_path(source) and alike[Path(source).name] > 1:
            name = "/".join(Path(source).parts[-2:])
        for made in _list(name, source, settings):
            made = replace(made, name=made.name.encode("utf-8", "backslashreplace").decode())  # as tables and pages show it
            count = taken[made.name] = taken.get(made.name, 0) + 1
            if count > 1:
                again = f"{made.name} #{count}"
                made = replace(made, name=again, key=_digest(made.key, again))
            found.append(made)
    if not found:
        raise ArgumentError("there is nothing to survey", hint=_ACCEPTED)
    return found


def _items(sources: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(sources, Mapping):
        yield from ((str(name), source) for name, source in sources.items())
    elif isinstance(sources, str | Path | tuple | Graph | Module) or callable(sources) or not isinstance(sources, Iterable):
        yield "", sources
    else:
        yield from (("", source) for source in sources)


def _list(name: str, source: Any, settings: Settings) -> Iterator[Source]:
    if is_path(source):
        path = Path(source).expanduser()
        if path.is_dir():
            yield from (_file(f"{name}/{inside}" if name else str(inside), path / inside, settings) for inside in _files(path))
            return
        if not path.exists():
            raise LoadError(f"there is no file or folder {str(path)!r}", hint="a survey reads folders, files and functions")
        yield _file(name or path.name, path, settings)
        return
    if not callable(source) and not isinstance(source, str | tuple | Graph | Module):
        frontend_of(source, ())  # raises before a folder is made
    name = name or _name_of(source)
    key = _digest("object", name, _code(source), _settings_text(settings))
    pickled = _pickle(source, name)
    yield Source(name, key, pickled=pickled, size=_size(source, pickled))


def _size(source: Any, pickled: bytes) -> float:
    if isinstance(source, partial):
        given = (*source.args, *source.keywords.values())
        return float(math.prod(abs(value) for value in given if type(value) in (int, float) and value))
    return 0 if inspect.isfunction(source) else len(pickled)


def _file(name: str, path: Path, settings: Settings) -> Source:
    place = path.resolve()
    what = place.stat()
    key = _digest("file", str(place), str(what.st_size), str(what.st_mtime_ns), name, _settings_text(settings))
    return Source(name, key, str(place), size=what.st_size)


def _files(folder: Path) -> list[Path]:
    """Returns the programs below a folder, by their suffixes, sorted by name."""
    suffixes = {suffix for home in FRONTENDS for suffix in import_module(home).suffixes} - {*_NOT_LOOKED_FOR}
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file()]
    if not found:
        hint = f"looked for {', '.join(sorted(suffixes))}, in folders inside too"
        raise LoadError(f"the folder {str(folder)!r} holds no programs", hint=hint)
    return sorted(found)


def _name_of(source: Any) -> str:
    """Returns a name for a source that is not a file: a function's, with its arguments."""
    if isinstance(source, partial):
        given = [*map(_short, source.args), *(f"{name}={_short(value)}" for name, value in source.keywords.items())]
        return f"{_name_of(source.func)}({', '.join(given)})"
    if isinstance(source, tuple) and source:
        return _name_of(source[0])
    name = getattr(source, "__qualname__", None) or getattr(source, "name", None) or type(source).__name__
    return str(name).removeprefix("<locals>.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 and " at 0x" not in text else type(value).__name__


def _code(source: Any) -> str:
    """Returns the text that distinguishes a function from others of its name, if it can be read."""
    if isinstance(source, partial):
        return f"{_code(source.func)}{source.args!r}{source.keywords!r}"
    if isinstance(source, Graph | Module | str):
        return str(source)
    try:
        return inspect.getsource(source)
    except (OSError, TypeError):
        return ""


def _pickle(source: Any, name: str) -> bytes:
    try:
        dumps: Callable[[Any], bytes] = import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    try:
        return dumps(source)
    except Exception as error:
        if dumps is pickle.dumps:
            raise MissingExtra("cloudpickle", extra="corpus", purpose=f"to hand {name!r} to other processes") from None
        what = f"{name!r} cannot be handed to other processes: {type(error).__name__}: {error}"
        raise ArgumentError(what, hint="give a function that builds it, or write it to a file") from None


def _settings_text(settings: Settings) -> str:
    return f"{settings.policy} {settings.trust} {__version__}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
