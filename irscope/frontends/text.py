"""IR text, from a string or a file: TorchScript's format with the additions of irscope's printer."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from irscope.errors import ParseError, public
from irscope.files import read_text
from irscope.frontends.refusals import refuse_wrong_count
from irscope.ir import Graph, Module
from irscope.ir.text import is_module_text, parse_module
from irscope.ir.text import parse as read
from irscope.ops.node_check import verify

name: Final = "IR text"
suffixes: Final = (".ir", ".txt")


@public
def parse(text: str, *, file: str = "") -> Graph:
    """Returns the graph that a text describes, verified against its ops; `str(graph)` is the inverse.

    >>> g = parse('''
    ... graph(%x : Float(2, 3)):
    ...   %one : int = prim::Constant[value=1]()
    ...   %y : Float(2, 3) = aten::add(%x, %x, %one) # model.py:3:4
    ...   return (%y)''')
    >>> g.node("y").op, str(g.node("y").location), str(g.value("x").type)
    ('aten::add', 'model.py:3:4', 'Float(2, 3)')

    Raises ParseError with line, column and a caret where the text is not IR, and VerifyError where it is not a valid
    program (see `irs.verify`); `file` is the file name shown in a ParseError. Unknown ops are legal.
    """
    graph = read(text, file=file)
    verify(graph)
    return graph


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts any string (the registry has already turned file names into paths), and text files."""
    return isinstance(source, str) or (isinstance(source, Path) and source.suffix.lower() in suffixes)


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file begins as a graph or a module does."""
    text = start.decode("utf-8-sig", "replace")
    return is_module_text(text) or _GRAPH.match(text) is not None


_GRAPH: Final = re.compile(r"(?:\s|#[^\n]*\n)*graph\s*\(\s*[%)]")


def load(source: str | Path, args: Sequence[object], *, name: str | None = None) -> Graph | Module:
    """Returns the graph, or the module of graphs, that a text describes.

    Raises ParseError with the place, ArgumentError for the wrong number of example arguments.
    """
    text, file = (read_text(source, hint="IR files are plain UTF-8 text"), str(source)) if isinstance(source, Path) else (source, "")
    if not text.strip():
        raise ParseError("there is no text", line=1, column=1, file=file, hint="IR starts with graph(%x : Tensor):")
    if is_module_text(text):
        return parse_module(text, file=file)
    graph = read(text, file=file)
    refuse_wrong_count(args, graph)
    return replace(graph, name=name) if name else graph
