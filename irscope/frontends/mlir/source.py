"""Recognises and loads MLIR sources: a file, a text, bytecode, or a module of MLIR's Python bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope.errors import LoadError
from irscope.files import read_file
from irscope.frontends.mlir.parse.bindings import BYTECODE, Bindings, bindings_of, narrowed
from irscope.ir import Graph, Module

if TYPE_CHECKING:
    from irscope.frontends.mlir.importer import ControlRule, Rule

__all__ = ["import_module", "is_mlir_text", "load", "name", "reads", "recognizes", "rules", "suffixes"]

name: Final = "MLIR, as text or bytecode"
suffixes: Final = (".mlir", ".mlirbc")

_START: Final = re.compile(
    r"""module(?:\s*$|\s*[@{]|\s+attributes\b)          # a module
    |[\#!][\w.$-]+\s*=                                # an alias
    |"?[a-z_]\w*\.[a-z_][\w.]*"?(?:\s+(?:\w+|"[^"]*")){0,3}\s*[(@{]  # an op at the top level
    |%[\w.$-]+(?::\d+)?\s*=\s*"?[a-z_]\w*\.[a-z_]     # one with results
    """,
    re.VERBOSE,
)


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts files by suffix, bytes that start like bytecode, text whose first line is MLIR, and modules of the
    bindings."""
    if isinstance(source, Path):
        return source.suffix.lower() in suffixes
    if isinstance(source, bytes):
        return source.startswith(BYTECODE) or is_mlir_text(source[:100_000].decode("utf-8", "replace"))
    return is_mlir_text(source) if isinstance(source, str) else bindings_of(source) is not None


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file begins as bytecode or MLIR's text does."""
    is_text = b"\0" not in start and path.suffix.lower() != ".py"
    return start.startswith(BYTECODE) or (is_text and is_mlir_text(start.decode("utf-8", "replace")))


def is_mlir_text(text: str) -> bool:
    """Checks whether the first line that is not a comment is MLIR.

    >>> is_mlir_text("// RUN: opt\\nmodule {\\n}"), is_mlir_text("graph(%x : Tensor):\\n  return (%x)")
    (True, False)
    """
    for line in text.splitlines():
        bare = line.strip()
        if bare and not bare.startswith("//"):
            return _START.match(bare) is not None
    return False


def load(source: Any, args: Sequence[Any], *, name: str | None = None) -> Graph | Module:
    """Returns a program of one function as a Graph, any other as a Module.

    Where extents are unknown, those of the arguments are inserted before the ops are translated, with what follows from them.

    Raises ParseError, LoadError and MissingExtra, with file and line.
    """
    from irscope.frontends.mlir.parse.parser_call import parse_module

    file = str(source) if isinstance(source, Path) else ""
    bindings = bindings_of(source)
    if bindings is None:
        content = _read(source)
        is_open = bool(args) or b"?" in content or b"shape." in content
        module, bindings = parse_module(content, file, list(map(_shape, args)) if is_open else None)
    else:
        module = narrowed(bindings, source, list(map(_shape, args))) if args else source
    try:
        return import_module(module.operation, bindings, file=file, name=name or "")
    except (RuntimeError, UnicodeDecodeError) as error:
        if "conversion error" not in str(error) and not isinstance(error, UnicodeDecodeError):
            raise
        raise LoadError(  # bytecode holds names as bytes, and Python's bindings return them as text
            f"{file or 'the module'} has a name or a string that is not UTF-8", hint="it is damaged: write the bytecode again"
        ) from None


def import_module(operation: Any, bindings: Bindings, *, file: str = "", name: str = "") -> Graph | Module:
    """Returns the program of an MLIR module or of one function.

    Raises CaptureError, with op, file and line, for anything that has no counterpart.
    """
    from irscope.frontends.mlir.control import read_branches
    from irscope.frontends.mlir.importer import Reading, import_program

    control, meanings = rules()
    return import_program(Reading(bindings, file, operation, control, meanings, read_branches), operation, name)


def rules() -> tuple[Mapping[str, ControlRule], Mapping[str, Rule]]:
    """Returns the rules by op: of those that become ifs and loops, and of those that become other ops."""
    from irscope.frontends.mlir import ops_arith, ops_pointwise, ops_reductions, ops_shaping
    from irscope.frontends.mlir.control import CONTROL
    from irscope.frontends.mlir.ops_linalg import LOOP_NESTS

    meanings = {**ops_pointwise.RULES, **ops_shaping.RULES, **ops_reductions.RULES, **ops_arith.RULES}
    return {**CONTROL, **LOOP_NESTS}, meanings


def _shape(argument: Any) -> list[int] | None:
    shape = getattr(argument, "shape", None)
    if not isinstance(shape, tuple | list) or not all(isinstance(extent, int) for extent in shape):
        return None
    return list(shape)


def _read(source: Path | str | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, str):
        return source.encode("utf-8", "surrogatepass")
    return read_file(source).getvalue()
