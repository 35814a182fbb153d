"""ONNX: `.onnx` files and `ModelProto` objects."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from irscope.errors import LoadError, MissingExtra
from irscope.files import read_file
from irscope.frontends.refusals import refuse_wrong_count
from irscope.ir import Graph, Node

name: Final = "ONNX model"
suffixes: Final = (".onnx",)
has_weights_elsewhere: Final = True
_HINT: Final = "the file is damaged, or not an ONNX model: export the model again"


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts an `.onnx` file or a ModelProto."""
    if isinstance(source, Path):
        return source.suffix.lower() in suffixes
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file consists of the fields of a ModelProto, one of them a graph: protobuf has no mark of its own."""
    if start[:1] and start[0] >> 3 not in _FIELDS:
        return False
    with suppress(OSError, IndexError), path.open("rb") as file:
        size, has_graph = file.seek(0, 2), False
        file.seek(0)
        while file.tell() < size:
            key = _varint(file)
            if _FIELDS.get(key >> 3) != key & 7:
                return False
            number, has_graph = _varint(file), has_graph or key >> 3 == _GRAPH
            if key & 7 == _LENGTH and file.seek(number, 1) > size:
                return False
        return has_graph
    return False


def _varint(file: BinaryIO) -> int:
    """Raises IndexError at the end of the file, and for a number of more than 64 bits."""
    number = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)[0]
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise IndexError


_LENGTH: Final = 2
_GRAPH: Final = 7
_FIELDS: Final = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""The wire type of each field of a ModelProto: a number, or bytes of a length."""


def load(source: Any, args: Sequence[Any], *, name: str | None = None, missing_weights: Literal["inputs"] | None = None) -> Graph:
    """Returns the model's graph: ops with an `aten::` meaning become `aten::` ops, others `onnx::` ops; weights are bound inputs.
    With `missing_weights="inputs"` those whose file is missing are inputs after the model's own.

    Raises LoadError, with the node, for a damaged model, ArgumentError for the wrong number of example arguments, and
    MissingExtra without the package.
    """
    return _imported(source, args, name, missing_weights)[0]


def load_by_node(source: Any, args: Sequence[Any] = ()) -> tuple[Graph, Any, Any, list[tuple[Node, ...]]]:
    """Returns what `load` does, the ModelProto, its graph with the calls of its own functions inlined, if onnx can do that, and the nodes
    that each node of that graph became."""
    graph, model, made = _imported(source, args)
    with suppress(Exception):  # of more than two GB, or a function with another version of an op
        flat = import_module("onnx.inliner").inline_local_functions(model) if model.functions else model
        if len(flat.graph.node) == len(made):
            return graph, model, flat.graph, [nodes for _, nodes in made]
    together: list[tuple[Node, ...]] = [()] * len(model.graph.node)
    for number, nodes in made:
        together[number] += nodes
    return graph, model, model.graph, together


def _imported(
    source: Any, args: Sequence[Any], name: str | None = None, missing_weights: Literal["inputs"] | None = None
) -> tuple[Graph, Any, list[tuple[int, tuple[Node, ...]]]]:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", extra="onnx", purpose="to load an ONNX model") from None
    from irscope.frontends.onnx.control import STRUCTURED
    from irscope.frontends.onnx.importer import MALFORMED, Importer

    folder, file = (source.parent, str(source)) if isinstance(source, Path) else (None, "")
    model = model_of(source, onnx) if isinstance(source, Path) else source
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise LoadError(f"{file or 'the ModelProto'!r} has no graph", hint=_HINT)
    try:
        title = name or model.graph.name or Path(file).stem
        title = title if name or (isinstance(title, str) and title.isidentifier()) else "graph"
        importer = Importer(model, STRUCTURED, folder, title, file, args, without_weights=missing_weights == "inputs")
        graph = importer.run()
    except MALFORMED as error:  # names that are not text, numbers where lists should be
        what = f"{file or 'the ModelProto'!r} is damaged ({type(error).__name__}: {str(error)[:200]})"
        raise LoadError(what, hint=_HINT) from error
    refuse_wrong_count(args, graph)
    return graph, model, importer.made


def model_of(path: Path, onnx: Any) -> Any:
    """Returns the ModelProto in a file, without elements in other files. Raises LoadError."""
    content = read_file(path).getvalue()
    try:
        return onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's DecodeError, of a package that need not be imported by name
        raise LoadError(f"{str(path)!r} is not an ONNX model: {str(error)[:200]}", hint=_HINT) from None
