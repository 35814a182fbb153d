"""Parses text or bytecode to MLIR's own module, with errors that have a location, whatever the file holds.

MLIR's parser is C++ that trusts its input in places: some garbled files make it abort, and deep nesting overflows its
stack. So a file is parsed twice, first in a process that may crash (`irscope.frontends.mlir.parse.child`), then here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from irscope.errors import LoadError, ParseError
from irscope.frontends.mlir.parse.bindings import BYTECODE, Bindings, installed, narrowed, new_context, required
from irscope.frontends.mlir.parse.child import NOT_READY
from irscope.frontends.mlir.parse.torch_text import generic_form

__all__ = ["parse_module"]

_MESSAGE: Final = re.compile(r'(?:error: )?(?:"[^"\n]*":(\d+):(\d+): |loc\([^\n]*?\): )?(?:error: )?([^\n]*)')
_MEMORY: Final = 3 << 30
"""Bytes of address space for a small file; the libraries take half of them."""


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
    megabytes = len(content) >> 20
    limits = [str(_MEMORY + (megabytes << 26)), str(10 + 2 * megabytes)]
    command = [sys.executable, "-I", "-c", _SCRIPT, json.dumps(names), json.dumps(sys.path), _HOME, *limits, json.dumps(shapes)]
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=12 * int(limits[1]) + 60, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError(f"MLIR's parser does not finish with {file or 'this text'}", hint=_CUT) from None
    answer = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0 and answer in names:
        return answer
    if done.returncode == 1 and answer:
        raise _refused(answer, content, file)
    if done.returncode in (1, NOT_READY):
        why = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"])[-1]
        raise LoadError(
            f"MLIR's parser cannot be started, so that {file or 'this text'} is not read: {why}",
            hint="check its installation (import jaxlib.mlir.ir), and the limits of this process (ulimit -v, ulimit -t)",
        )
    status = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    raise LoadError(f"{file or 'this text'} makes MLIR's own parser crash with {status}", hint=_CUT)


_CUT: Final = "the file is damaged or is nested too deeply; write it again, or load a part of it"
_HOME: Final = str(Path(__file__).parent / "bindings.py")
_SCRIPT: Final = (Path(__file__).parent / "child.py").read_text(encoding="utf-8")


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
