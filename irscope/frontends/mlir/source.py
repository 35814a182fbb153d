"""Recognises and loads MLIR sources: a file, a text, bytecode, or a module of MLIR's Python bindings.

Two packages ship the bindings, with one API. `iree.compiler.ir` reads the pretty form of every dialect used here. `jaxlib.mlir.ir` reads
the pretty form of StableHLO and of the upstream dialects it has registered, and any dialect's generic form.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope._base.isolated import IsolatedError, isolated
from irscope.errors import LoadError, MissingExtra, ParseError
from irscope.files import read_file
from irscope.ir import Graph, Module

if TYPE_CHECKING:
    from irscope.frontends.mlir.importer import ControlRule, Rule

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
    """Accepts files by suffix, bytes that start like bytecode, text whose first line is MLIR, and modules of the bindings."""
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
    file = str(source) if isinstance(source, Path) else ""
    bindings = bindings_of(source)
    if bindings is None:
        content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
        content = content if isinstance(content, bytes) else read_file(content).getvalue()
        is_open = bool(args) or b"?" in content or b"shape." in content
        module, bindings = parse_module(content, file, list(map(_shape, args)) if is_open else None)
    else:
        module = narrowed(bindings, source, list(map(_shape, args))) if args else source
    try:
        return import_mlir(module.operation, bindings, file=file, name=name or "")
    except (RuntimeError, UnicodeDecodeError) as error:
        if "conversion error" not in str(error) and not isinstance(error, UnicodeDecodeError):
            raise
        raise LoadError(  # bytecode holds names as bytes, and Python's bindings return them as text
            f"{file or 'the module'} has a name or a string that is not UTF-8", hint="it is damaged: write the bytecode again"
        ) from None


def import_mlir(
    operation: Any, bindings: "Bindings", *, file: str = "", name: str = "", is_live: Callable[[str], bool] = lambda _: False
) -> Graph | Module:
    """Returns the program of an MLIR module or of one function; `is_live` says which files hold code that is loaded in this process.

    Raises CaptureError, with op, file and line, for anything that has no counterpart.
    """
    from irscope.frontends.mlir.control import read_branches
    from irscope.frontends.mlir.importer import Reading, import_program

    return import_program(Reading(bindings.ir, file, operation, *rules(), read_branches, is_live), operation, name)


def rules() -> "tuple[Mapping[str, ControlRule], Mapping[str, Rule]]":
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


# The bindings that are installed, and what each of them needs before it reads.

BYTECODE: Final = b"ML\xefR"
"""The first bytes of bytecode."""
_PACKAGES: Final = {"iree": "iree.compiler.ir", "jaxlib": "jaxlib.mlir.ir"}
"""Maps a package's name to its module; the one that reads more dialects is first."""
_LEAST: Final = {"iree": ("iree-base-compiler", "3.12"), "jaxlib": ("jaxlib", "0.10.1")}
"""The first versions whose bindings have the classes of locations, by the name under which each is installed."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """The MLIR bindings of one package."""

    name: str
    """`"iree"` or `"jaxlib"`."""
    ir: Any
    """The module with Context, Module, Operation, and the classes of types, attributes and locations."""


def _is_old(name: str) -> bool:
    with suppress(PackageNotFoundError):  # built by somebody, or not there
        package, least = _LEAST[name]
        return _numbers(version(package)) < _numbers(least)
    return False


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _refuse_old(name: str) -> None:
    """Raises LoadError for an installed package that is older than what is read with it."""
    if _is_old(name):
        package, least = _LEAST[name]
        what = f"{package} {version(package)} is too old to read MLIR with: its bindings have no classes of locations"
        raise LoadError(what, hint=f"pip install '{'jax' if name == 'jaxlib' else package}>={least}'")


def installed() -> tuple[str, ...]:
    """Returns the names of the installed packages that are new enough, the one that reads more dialects first; imports neither."""
    found = []
    for name, module in _PACKAGES.items():
        with suppress(ImportError, ValueError):
            found += [name] if find_spec(module.rpartition(".")[0]) is not None and not _is_old(name) else []
    return tuple(found)


def required(name: str = "") -> Bindings:
    """Returns the bindings of this name, which are installed, or the best ones.

    Raises MissingExtra if there are none, LoadError for those that are too old, ImportError if those of this name do not load."""
    if name:
        _refuse_old(name)
        return Bindings(name, import_module(_PACKAGES[name]))
    for known in installed():
        with suppress(ImportError):
            return Bindings(known, import_module(_PACKAGES[known]))
    for known in _PACKAGES:
        _refuse_old(known)
    raise MissingExtra("iree-base-compiler", extra="mlir", purpose="to read MLIR (jaxlib, of the extra 'jax', will do too)")


def bindings_of(source: object) -> Bindings | None:
    """Returns the bindings that an operation or module belongs to; None for anything else. Raises LoadError for those that are too old."""
    home = type(source).__module__
    name = next((name for name in _PACKAGES if home.startswith(f"{name}.")), "")
    loaded = sys.modules.get(_PACKAGES[name]) if name else None
    if loaded is None or not hasattr(source, "operation"):
        return None
    _refuse_old(name)
    return Bindings(name, loaded)


def new_context(bindings: Bindings) -> Any:
    """Creates a context with all dialects of the package, which accepts unknown ones in generic form."""
    ir = bindings.ir
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    if bindings.name == "jaxlib":
        registry = ir.DialectRegistry()
        for register in _registrations("register_dialects"):
            register(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for register in _registrations("register_dialect", "register_mhlo_dialect"):
            register(context)
    return context


def narrowed(bindings: Bindings, module: Any, shapes: Sequence[Sequence[int] | None]) -> Any:
    """Returns the module for arguments of these extents (None: unknown), with all extents that follow from them as types; the
    module itself where upstream's passes cannot tell.

    They look at the function `main`, or at the only one, and only jaxlib's package has them.
    """
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    main = next((op for op in functions if op.attributes["sym_name"].value == "main" or len(functions) == 1), None)
    if main is None or bindings.name != "jaxlib" or not len(main.regions[0].blocks):
        return module
    inputs = [argument.type for argument in main.regions[0].blocks[0].arguments]
    types = [_narrow(bindings.ir, *pair) for pair in zip(inputs, shapes, strict=True)] if len(shapes) == len(inputs) else inputs
    made = module.operation.clone()
    refine = "stablehlo-refine-shapes"
    passes = f"func.func(shape-legalize-to-stablehlo),{refine},func.func(stablehlo-canonicalize-dynamism),{refine}"
    if types != inputs:
        passes = f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}},{passes}"
    try:
        import_module("jaxlib.mlir._mlir_libs._stablehlo").register_stablehlo_passes()
        manager = import_module("jaxlib.mlir.passmanager").PassManager
        manager.parse(f"builtin.module({passes})", module.context).run(made)
    except (ImportError, AttributeError, ValueError, RuntimeError, bindings.ir.MLIRError):
        return module
    return made


def _narrow(ir: Any, type: Any, shape: Sequence[int] | None) -> Any:
    """Returns a tensor's type with these extents in place of unknown ones; the type itself if they do not fit."""
    if shape is None or not isinstance(type, ir.RankedTensorType) or type.rank != len(shape):
        return type
    known = [None if type.is_dynamic_dim(axis) else type.get_dim_size(axis) for axis in range(type.rank)]
    if any(have not in (None, extent) for have, extent in zip(known, shape, strict=True)) or None not in known:
        return type
    with type.context, ir.Location.unknown():
        return ir.RankedTensorType.get(list(shape), type.element_type)


def _registrations(*functions: str) -> Iterator[Any]:
    """Yields the functions of these names in jaxlib's extension modules, which differ between versions."""
    for module in ("_jax_mlir_ext", "_stablehlo", "_chlo", "_mlirHlo", "_sdy", "_sdyMpmd"):
        with suppress(ImportError):
            loaded = import_module(f"jaxlib.mlir._mlir_libs.{module}")
            yield from (getattr(loaded, function) for function in functions if hasattr(loaded, function))


# Parses text or bytecode to MLIR's own module, with errors that have a location, whatever the file holds.
#
# MLIR's parser is C++ that trusts its input in places: some garbled files make it abort, and deep nesting overflows its
# stack. So a file is parsed twice, first in a copy of this process that may crash (`irscope._base.isolated`), then here.

_MESSAGE: Final = re.compile(r'(?:error: )?(?:"[^"\n]*":(\d+):(\d+): |loc\([^\n]*?\): )?(?:error: )?([^\n]*)')
_MEMORY: Final = 2 << 30
"""Bytes of memory for a small file; the libraries take most of them."""
_CUT: Final = "the file is damaged or is nested too deeply; write it again, or load a part of it"


def parse_module(content: bytes, file: str, shapes: Sequence[Sequence[int] | None] | None = None) -> tuple[Any, Bindings]:
    """Returns MLIR's module of a text or bytecode, and the bindings that read it; narrowed to arguments of these shapes.

    Raises ParseError with the parser's location, LoadError if it crashes or takes too long, MissingExtra without bindings.
    """
    names = installed()
    if not names:
        required()  # raises, with what to install
    if "iree" not in names and b"torch." in content and not content.startswith(BYTECODE):
        content = generic_form(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    reader = ""
    if shapes is not None and "jaxlib" in names:  # whose package alone has the passes that narrow
        with suppress(LoadError, ParseError):  # they crash, or the text is wrong, or of IREE's dialects
            reader = _reader_of(["jaxlib"], content, file, shapes)
    if not reader:
        reader, shapes = _reader_of(names, content, file, None), None
    bindings = required(reader)
    module = bindings.ir.Module.parse(content, new_context(bindings))
    return (module if shapes is None else narrowed(bindings, module, shapes)), bindings


def _reader_of(names: Sequence[str], content: bytes, file: str, shapes: Sequence[Sequence[int] | None] | None) -> str:
    """Returns the first of these packages that reads the content. Raises ParseError or LoadError."""
    with suppress(ImportError):
        required(names[0])  # here, so that it is imported once
    megabytes = len(content) >> 20
    try:
        found = isolated(lambda: _tried(names, content, shapes), seconds=10 + 2 * megabytes, memory=_MEMORY + (megabytes << 26))
    except IsolatedError as error:
        raise LoadError(f"{file or 'this text'} makes MLIR's own parser fail: it {error}", hint=_CUT) from None
    if "reader" in found:
        return str(found["reader"])
    if "refused" in found:
        raise _refused(found["refused"], content, file)
    hint = "check its installation (import jaxlib.mlir.ir), and the limits of this process (ulimit -v, ulimit -t)"
    raise LoadError(f"MLIR's parser cannot be started, so that {file or 'this text'} is not read: {found['missing']}", hint=hint)


def _tried(names: Sequence[str], content: bytes, shapes: Sequence[Sequence[int] | None] | None) -> dict[str, str]:
    """Parses on a thread with a small stack; returns the reader that succeeded, or the first one's complaint, or why none started."""
    found: dict[str, str] = {}

    def parse() -> None:
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

    run_on_small_stack(parse)
    return found


def run_on_small_stack(work: Callable[[], None]) -> None:
    """Runs work on a thread with less stack than any thread of the user has: what is parsed there can be parsed here."""
    threading.stack_size(4 << 20)
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


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


# Turns the pretty form of torch-mlir's ops into their generic form, which every MLIR parser reads, line by line.
#
# The pretty form of a dialect is read by its own package alone, which iree-base-compiler has and jaxlib has not. That of this dialect is
# regular: `%r = torch.aten.relu %x : A -> B`. A line of any other form stays as it is, and the parser says what it thinks of it.

_LINE: Final = re.compile(r"(\s*(?:%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=\s*)?)(torch\.[\w.]+)\s*(.*?)\s*$")
_OP: Final = re.compile(r"(%[\w$.#-]+(?:\s*,\s*%[\w$.#-]+)*)?\s*(\{.*\})?\s*:\s*(.*?)\s*(?:->|\bto\b)\s*(.*)")
_LOCATION: Final = re.compile(r'\s+loc\((?:[^"]|"[^"]*")*\)\s*$')
_LITERAL: Final = re.compile(r"\((.*)\)\s*:\s*(\S+)")
_CONSTANTS: Final = {"int": " : i64", "float": " : f64", "bool": "", "str": "", "device": ""}


def generic_form(text: str) -> str:
    """Returns the text with every op of torch-mlir in generic form."""
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    from irscope.frontends.mlir.types import apart

    at = _LOCATION.search(line)
    if at is not None and _LINE.match(line):
        return _line(line[: at.start()]) + at[0]
    found = _LINE.fullmatch(line)
    if found is None:
        return line
    results, name, rest = found.groups()
    kind = name.removeprefix("torch.constant.")
    if kind == "none":
        return f'{results}"{name}"() : () -> !torch.none'
    if kind in _CONSTANTS:
        return f'{results}"{name}"() {{value = {rest}{_CONSTANTS[kind]}}} : () -> !torch.{"Device" if kind == "device" else kind}'
    if name.endswith("tensor.literal"):
        literal = _LITERAL.fullmatch(rest)
        return line if literal is None else f'{results}"{name}"() {{value = {literal[1]}}} : () -> {literal[2]}'
    op = _OP.fullmatch(rest)
    if op is None:
        return line
    operands, attributes, given, made = op.groups()
    given = given if given.startswith("(") else f"({given})"
    made = f"({made})" if len(apart(made)) > 1 else made
    return f'{results}"{name}"({operands or ""}){f" {attributes}" if attributes else ""} : {given} -> {made}'
