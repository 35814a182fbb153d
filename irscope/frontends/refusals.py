"""Files that are refused: those that hold no program that a frontend reads, by their first bytes, with the way to the program;
those that may hold code, unless the caller trusts them; and example arguments that do not fit."""

import os
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from irscope._base.loaded_code import cell_name
from irscope._base.words import plural
from irscope.errors import ArgumentError, LoadError
from irscope.ir import Graph

_START: Final = 1 << 16
_WEIGHTS: Final = "holds weights and no program"
_LOADED: Final = "load the model with its own library, and pass that with example arguments"
_POINTER: Final = b"version https://git-lfs"
_KINDS: Final[tuple[tuple[int, bytes, str, str], ...]] = (
    (0, b"GGUF", _WEIGHTS, _LOADED),
    (8, b'{"', _WEIGHTS, _LOADED),  # safetensors: the length of a JSON header, and the header
    (0, b"\x93NUMPY", "holds one array of NumPy's and no program", "np.load(path) reads it"),
    (4, b"TFL3", "is a model of TensorFlow Lite", "convert it to ONNX (tf2onnx), or load the model that it was made from"),
    (0, b"\x89HDF\r\n", "is an HDF5 file, as Keras writes them", "convert it to ONNX (tf2onnx), or load the model with its own library"),
    (257, b"ustar", "is an archive of files", "unpack it, and give one of its files"),
    (0, b"\x1f\x8b", "is a compressed file", "unpack it first"),
)  # fmt: skip
"""Where a mark stands, the mark, what such a file is, and what to do."""
_WEIGHT_SUFFIXES: Final = (".safetensors", ".gguf", ".ggml", ".npz", ".npy", ".ckpt")


def start_of(path: Path) -> bytes:
    """Returns the first bytes of a file; none if it cannot be read, which its frontend will say."""
    try:
        with path.open("rb") as file:
            return file.read(_START)
    except OSError:
        return b""


def first_line(error: Exception) -> str:
    """Returns the first line of what an error says, or its class if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def failed_at(error: Exception, library: ModuleType) -> tuple[str, str] | None:
    """Returns the innermost place outside of Python, irscope and a library at which it failed, and that line."""
    ours, its, python = Path(__file__).parents[1], Path(str(library.__file__)).parent, sysconfig.get_path("stdlib")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        is_python = frame.filename.startswith(python) and "site-packages" not in frame.filename
        if not is_python and not frame.filename.startswith((f"{ours}{os.sep}", f"{its}{os.sep}", "<")):
            return f"{cell_name(frame.filename)}:{frame.lineno}", frame.line or ""
    return None


def refuse_foreign(source: Path | str, start: bytes) -> None:
    """Raises LoadError for a file, or a text, of a known kind that no frontend reads."""
    if isinstance(source, Path):
        refuse_pointer(source, start)
    for at, mark, kind, hint in _KINDS:
        if start[at : at + len(mark)] == mark:
            raise LoadError(f"{repr(str(source)) if isinstance(source, Path) else 'the text'} {kind}", hint=hint)


def refuse_pointer(path: Path, start: bytes) -> None:
    """Raises LoadError for a text that Git LFS leaves in the place of a large file."""
    if start.startswith(_POINTER):
        what = f"{str(path)!r} is not the file itself but Git LFS's note of where it is"
        raise LoadError(what, hint="fetch it: git lfs pull, in its repository")


def way_in(path: Path) -> str:
    """Returns what to do with a file of an unknown suffix: a new name helps a text alone."""
    if path.suffix.lower() in _WEIGHT_SUFFIXES:
        return f"such a file {_WEIGHTS}: {_LOADED}"
    if b"\0" in start_of(path)[:4096]:
        return "it is no text: convert it to one of these with the tools that it comes from, or pass the loaded object"
    return "if its text is one of these, give the file that suffix, or pass the text"


def not_trusted(path: Path, why: str) -> LoadError:
    """Returns the error for a file that would run code of its author when it is loaded.

    >>> print(not_trusted(Path("m.pt2"), "its example inputs are a pickle"))
    'm.pt2' can run code when it is loaded, and is not trusted: its example inputs are a pickle   [code-is-trusted]
      hint: if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md
    """
    return LoadError(
        f"{str(path)!r} can run code when it is loaded, and is not trusted: {why}", rule="code-is-trusted",
        hint="if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md",
    )  # fmt: skip


def refuse_wrong_count(args: Sequence[object], graph: Graph) -> None:
    """Raises ArgumentError if there are example arguments, and not one for each free input."""
    if args and len(args) != len(graph.free_inputs):
        expected = ", ".join(f"%{graph.names[value]} : {value.type}" for value in graph.free_inputs)
        what = f"{plural(len(args), 'example argument')} for {plural(len(graph.free_inputs), 'input')}"
        raise ArgumentError(what, hint=f"pass {expected or 'none'}")
