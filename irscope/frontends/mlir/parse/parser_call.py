"""Parses text or bytecode to MLIR's own module, with errors that have a location, whatever the file holds.

MLIR's parser is C++ that trusts its input in places: some garbled files make it abort, and deep nesting overflows its
stack. So a file is parsed twice, first in a copy of this process that may crash (`irscope._base.isolated`), then here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from irscope._base.isolated import IsolatedError, isolated
from irscope.errors import LoadError, ParseError
from irscope.frontends.mlir.parse.bindings import BYTECODE, Bindings, installed, narrowed, new_context, required
from irscope.frontends.mlir.parse.torch_text import generic_form

__all__ = ["parse_module"]

_MESSAGE: Final = re.compile(r'(?:error: )?(?:"[^"\n]*":(\d+):(\d+): |loc\([^\n]*?\): )?(?:error: )?([^\n]*)')
_MEMORY: Final = 2 << 30
"""Bytes of memory for a small file; the libraries take most of them."""
_STACK: Final = 4 << 20
"""Bytes of stack of the copy; less than any thread of the user has, so that a file that is parsed there can be parsed here."""
_CUT: Final = "the file is damaged or is nested too deeply; write it again, or load a part of it"


def parse_module(
    content: bytes, file: str, shapes: Sequence[Sequence[int] | None] | None = None
) -> tuple[Any, Bindings]:
    """Returns MLIR's module of a text or bytecode, and the bindings that read it; narrowed to arguments of these shapes.

    Raises ParseError with the parser's location, LoadError if it crashes or takes too long, MissingExtra without
    bindings.
    """
    names = installed()
    if not names:
        required()  # raises, with what to install
    if "iree" not in names and b"torch." in content and not content.startswith(BYTECODE):
        content = generic_form(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    reader = ""
    if shapes is not None:
        with suppress(LoadError):  # upstream's passes crash, or the text is wrong
            reader = _reader_of(names, content, file, shapes)
    if not reader:
        reader, shapes = _reader_of(names, content, file, None), None
    bindings = required(reader)
    module = bindings.ir.Module.parse(content, new_context(bindings))
    return (module if shapes is None else narrowed(bindings, module, shapes)), bindings


def _reader_of(
    names: Sequence[str], content: bytes, file: str, shapes: Sequence[Sequence[int] | None] | None
) -> str:
    """Returns the first of these packages that reads the content. Raises ParseError or LoadError."""
    with suppress(ImportError):
        required(names[0])  # here, so that it is imported once
    megabytes = len(content) >> 20
    try:
        found = isolated(
            lambda: _tried(names, content, shapes), seconds=10 + 2 * megabytes, memory=_MEMORY + (megabytes << 26)
        )
    except IsolatedError as error:
        raise LoadError(f"{file or 'this text'} makes MLIR's own parser fail: it {error}", hint=_CUT) from None
    if "reader" in found:
        return str(found["reader"])
    if "refused" in found:
        raise _refused(found["refused"], content, file)
    raise LoadError(
        f"MLIR's parser cannot be started, so that {file or 'this text'} is not read: {found['missing']}",
        hint="check its installation (import jaxlib.mlir.ir), and the limits of this process (ulimit -v, ulimit -t)",
    )


def _tried(names: Sequence[str], content: bytes, shapes: Sequence[Sequence[int] | None] | None) -> dict[str, str]:
    """Parses on a thread with a small stack; returns the reader that succeeded, or the first one's complaint, or why none started."""
    found: dict[str, str] = {}
    threading.stack_size(_STACK)
    worker = threading.Thread(target=_parse, args=(names, content, shapes, found))
    worker.start()
    worker.join()
    return found


def _parse(names: Sequence[str], content: bytes, shapes: Sequence[Sequence[int] | None] | None, found: dict[str, str]) -> None:
    for name in names:
        try:
            bindings = required(name)
            context = new_context(bindings)
        except BaseException as error:
            found.setdefault("missing", f"{name}: {type(error).__name__}: {error}".replace("\n", " "))
            continue
        try:
            module = bindings.ir.Module.parse(content, context)
            if shapes is not None:
                narrowed(bindings, module, shapes)
        except BaseException as error:
            found.setdefault("refused", str(error) or type(error).__name__)
        else:
            found["reader"] = name
            return


def _refused(answer: str, content: bytes, file: str) -> LoadError | ParseError:
    """Returns the error for the parser's first message."""
    lines = [line for line in answer.splitlines() if line.strip() and not line.startswith("Unable to parse")]
    found = _MESSAGE.match(lines[0].strip() if lines else answer)
    assert found is not None  # the pattern matches any text
    line, column, what = int(found.group(1) or 1), int(found.group(2) or 1), found.group(3).strip()
    notes = [note.strip().removeprefix("note: ") for note in lines[1:3]]
    notes = [note for note in notes if not note.startswith(("see current operation", '"', "}"))]
    if content.startswith(BYTECODE):
        hint = "write the bytecode again with the tool's newest version"
        return ParseError(what or "not MLIR bytecode", line=1, column=1, file=file, hint=hint)
    try:
        text = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        what = f"{file or 'this'} is neither MLIR text nor bytecode: byte {error.start} is not UTF-8"
        return LoadError(what, hint="the file is damaged, or not MLIR: export it again")
    source = text[line - 1].replace("\t", " ") if 0 < line <= len(text) else ""
    shown = source if len(source) <= 160 else ""
    hint = "; ".join(re.sub(r'^"-":\d+:\d+: ', "", note) for note in notes if note)
    if "not found for custom op" in what or "Dialect" in what:
        hint = "iree-base-compiler reads the pretty form of more dialects; generic form is read of every one"
    return ParseError(what or "not MLIR", line=line, column=column, source_line=shown, file=file, hint=hint)
