"""One way to read a file that others made, and one way to write a file.

*Reading.* A file is read once, whole, so that the bytes that were checked are the bytes that are used: it cannot change in between.
Pipes and devices, which may never end, are refused. Whatever is wrong with a file, or with the JSON in it, is a LoadError.

*Writing.* A file is written beside its place and then renamed, so that a full disk or an interrupt leaves the old one, and readers see
all of it or nothing. Whatever prevents it is an ArgumentError.
"""

import errno
import io
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from irscope.errors import ArgumentError, LoadError


def as_path(path: str | Path) -> Path:
    """Returns the path that a user names. Raises ArgumentError for what names no file."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"a file is named by a text or a Path, not by {type(path).__name__}", hint="give its name, such as 'out.json'")
    return Path(path)


def read_file(path: str | Path, *, hint: str = "check who may read it") -> io.BytesIO:
    """Returns the bytes of a regular file. Raises LoadError."""
    shown = repr(str(as_path(path)))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LoadError(f"{shown} is not a regular file", hint="give a file, not a folder, a pipe or a device")
            return io.BytesIO(file.read())
    except OSError as error:
        raise LoadError(f"{shown} cannot be read: {error.strerror or error}", hint=hint) from None
    except ValueError as error:  # a name with a null byte, or one that the system cannot encode
        raise LoadError(f"{shown} cannot be read: {error}", hint="give the name of a file") from None
    except MemoryError:
        raise LoadError(f"{shown} cannot be read: there is not enough memory for its bytes", hint="give the process more memory") from None


def read_text(path: str | Path, *, hint: str = "give a file of UTF-8 text that you may read", kind: str = "text") -> str:
    """Returns the text of a regular file in UTF-8. Raises LoadError, in which `kind` says what the file should be."""
    try:
        return read_file(path, hint=hint).getvalue().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LoadError(f"{str(path)!r} is not {kind}: byte {error.start} is not UTF-8", hint=hint) from None


def read_json(path: str | Path, *, hint: str, kind: str) -> Any:
    """Returns what the JSON in a regular file says. Raises LoadError, in which `kind` says what the file should be."""
    return parse_json(read_text(path, hint=hint, kind=kind), f"{str(path)!r} is not {kind}", hint=hint)


def parse_json(text: str, what: str, *, hint: str) -> Any:
    """Returns what a JSON text says. Raises LoadError, which begins with `what`, also for numbers and nesting beyond Python's limits.

    >>> parse_json("[" * 100_000, "the text is not a story", hint="give a story")
    Traceback (most recent call last):
    irscope.errors.LoadError: the text is not a story: it is nested too deeply
      hint: give a story
    """
    try:
        return json.loads(text)
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:
        why = str(error).partition(";")[0]
    raise LoadError(f"{what}: {why}", hint=hint)


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Writes a text, in UTF-8, or bytes; returns the path. What UTF-8 cannot express (half of a surrogate pair) is escaped.

    Raises ArgumentError; the old file is then as it was.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    path = as_path(path)
    try:
        _replace(Path(path), data)
    except OSError as error:
        hint = "give the name of a file, in a folder that exists" if error.errno not in _FULL else "make room; the old file is as it was"
        raise ArgumentError(f"{str(path)!r} cannot be written: {error.strerror or error}", hint=hint) from None
    except ValueError as error:  # a name with a null byte, or one that the system cannot encode
        raise ArgumentError(f"{str(path)!r} cannot be written: {error}", hint="give the name of a file") from None
    return Path(path)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file as a whole or not at all. Raises OSError or ValueError.

    A link stays, and what it points to is replaced. What is not a regular file (a device, a pipe), or lies in a folder in which no
    file may be created, is written in place.
    """
    path = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(data)
            return
    ours = path.with_name(f".irscope-{os.urandom(6).hex()}")
    try:
        try:
            ours.write_bytes(data)
        except PermissionError:
            path.write_bytes(data)
            return
        with suppress(FileNotFoundError):
            ours.chmod(stat.S_IMODE(path.stat().st_mode))
        ours.replace(path)
    finally:
        with suppress(OSError):
            ours.unlink(missing_ok=True)


_FULL: Final = frozenset(getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EFBIG"))
