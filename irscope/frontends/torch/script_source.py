"""TorchScript: scripted and traced functions and modules, and files saved by `torch.jit.save`."""

import ast
import io
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from irscope._base.isolated import IsolatedError, isolated
from irscope._base.loaded_code import loaded_files
from irscope.errors import ArgumentError, IrscopeError, LoadError, VerifyError
from irscope.files import read_file
from irscope.frontends.refusals import first_line, not_trusted, start_of
from irscope.frontends.torch.capture import CAPTURE_LOCK, modes_of
from irscope.frontends.torch.script_importer import inline_function, inline_module, inlined_graph
from irscope.frontends.torch.types import require_torch, tied_names
from irscope.ir import Graph, Value
from irscope.ops.node_check import verify

name: Final = "TorchScript"
suffixes: Final = (".pt", ".pth", ".ts", ".jit")
may_run_code: Final = True


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts a scripted function or module, or a file with a TorchScript suffix that is not a `torch.export` program."""
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
    """Returns the program with all calls inlined; parameters and buffers are inputs named by their paths, bound to the tensors.

    A file whose classes run code when they are loaded is loaded only with `trust`: see `acts_when_loaded`.
    A file that is not trusted is read twice, first in a process that may crash.

    Raises LoadError for a file that is not TorchScript, ArgumentError for the wrong number of arguments.
    """
    torch = require_torch("to load TorchScript")
    if isinstance(source, Path):
        return _from_file(torch, source, args, name or source.stem, trust)
    with CAPTURE_LOCK:
        return _imported(torch, source, args, name, loaded_files() if _is_made_here(torch, source) else frozenset())


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
    return replace(graph, modes=modes_of(source).holding(source, graph.bound.values()))


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
    """Checks whether a program was scripted or traced in this process; one from `torch.jit.load` has the locations of its file."""
    if isinstance(source, torch.jit.ScriptFunction):
        return True
    here = torch.jit._state._python_cu
    types = [module._c._type() for module in source.modules() if isinstance(module, torch.jit.ScriptModule)]
    return all(here.get_class(type.qualified_name()) == type for type in types)


def _entry(source: Any, args: Sequence[Any]) -> str:
    """Returns the name of the method to load: `forward`, or the overload of it that takes the example arguments (nn.LSTM has two)."""
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
        return _read(torch, path, None, args, name)
    data = read_file(path)

    def trial() -> None:
        with suppress(IrscopeError):  # raised again below
            _read(torch, path, data, args, name)

    megabytes = len(data.getbuffer()) >> 20
    try:
        with CAPTURE_LOCK:  # the copy would wait for a thread that it has not
            isolated(trial, seconds=_SECONDS * (1 + megabytes), memory=_MEMORY + 3 * (megabytes << 20))
    except IsolatedError as error:
        what = f"{str(path)!r} is a damaged file, or needs too many resources: torch's reader {error}"
        hint = "save it again with torch.jit.save; if you trust it, trust=True lets torch read it without limits"
        raise LoadError(what, hint=hint) from None
    return _read(torch, path, data, args, name)


def _refuse_foreign(path: Path, members: Sequence[str]) -> None:
    """Raises LoadError for a file of torch's that holds no TorchScript."""
    if any(member.endswith(_PACKAGE) for member in members):
        held = next((member.split("/")[1:] for member in members if member.endswith(".pkl") and "/.data/" not in member), ["…", "…"])
        called = f"load_pickle({'.'.join(held[:-1])!r}, {held[-1]!r})"
        hint = f"if you trust it: irs.load(torch.package.PackageImporter({str(path)!r}).{called}, x)"
        raise LoadError(f"{str(path)!r} is an archive of torch.package: Python code and pickles, not a program", hint=hint)
    if start_of(path).startswith(_OLD_PICKLE) or (members and not any(f"/{member}".count("/code/") for member in members)):
        hint = "torch.save keeps no code: use torch.jit.script(model).save(…) or torch.export.save(…)"
        raise LoadError(f"{str(path)!r} holds tensors or a pickled object, not a program", hint=hint)


_SECONDS: Final = 4
"""Processor seconds for a file's first megabyte, and for each more; torch takes 2 s for one of pure code."""
_MEMORY: Final = 1 << 30
"""Bytes of memory that reading a small file may take."""


def _read(torch: Any, path: Path, data: io.BytesIO | None, args: Sequence[Any], name: str) -> Graph:
    """Returns the program in a file; `data` is its content if it is not trusted, and then checked before torch reads it."""
    try:
        if data is not None:
            why = reason_to_distrust(torch._C.PyTorchFileReader(data))
            if why:
                raise not_trusted(path, why)
            data.seek(0)
        return _imported(torch, torch.jit.load(str(path) if data is None else data, map_location="cpu"), args, name, frozenset())
    except IrscopeError:
        raise
    except Exception as error:  # torch reads some of it lazily
        what = f"{str(path)!r} is not a TorchScript file, or a damaged one: {first_line(error).partition('. ')[0][:300]}"
        raise LoadError(what, hint="save it again with torch.jit.save") from None


# Checks all records of a saved TorchScript program with torch's own reader: another reader might see different content.

_HELD: Final = {"data.pkl": "data/", "constants.pkl": "constants/"}
"""Pickles, and the folders of their tensors' records."""
_TABLES: Final = ".debug_pkl"


def reason_to_distrust(reader: Any) -> str:
    """Returns why a file may do more than load data, from its records in a `torch._C.PyTorchFileReader`; empty if it is only data.

    Raises ValueError, or an error of torch or `pickle`, for a damaged file.
    """
    names = set(reader.get_all_records())
    if "model.json" in names:
        return "it is in the format before torch 1.2"
    for name in sorted(names):
        if name.startswith("code/") and name.endswith(".py"):
            why = acts_when_loaded(reader.get_record(name))
            if why:
                return why
        elif name.endswith(_TABLES):
            if not is_source_table(reader.get_record(name)):
                raise ValueError(f"{name} refers to source texts that are not in it")
        elif name in _HELD:
            tensors = {each.removeprefix(_HELD[name]): each for each in names if each.startswith(_HELD[name])}
            check_storages(reader.get_record(name), {key: int(reader.get_record_size(each)) for key, each in tensors.items()})
    return ""


_BYTES: Final = {
    f"{kind}Storage": size
    for size, kinds in {
        1: "Bool Byte Char QInt8 QUInt8 QUInt4x2 QUInt2x4 Float8_e5m2 Float8_e5m2fnuz Float8_e4m3fn Float8_e4m3fnuz Float8_e8m0fnu "
        "Float4_e2m1fn_x2 Bits1x8 Bits2x4 Bits4x2 Bits8",
        2: "BFloat16 Half Short UInt16 Bits16", 4: "Float Int UInt32 QInt32 ComplexHalf",
        8: "ComplexFloat Double Long UInt64", 16: "ComplexDouble",
    }.items()
    for kind in kinds.split()
}  # fmt: skip
"""The bytes of an element of each type of storage."""


# The code that a saved TorchScript program runs while it is loaded, before it is called.
#
# TorchScript has no access to Python, except to files (`torch.save`, `torch.from_file`). Its importer runs `__setstate__` of the classes
# that have one, and evaluates default arguments and the values in class bodies. A file without these is only data until the program is run.


def acts_when_loaded(source: bytes) -> str:
    """Returns what one source file of an archive does when it is loaded; empty if nothing."""
    if b"__setstate__" in source:
        return "one of its classes has a __setstate__, which runs when it is loaded"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "its code cannot be checked"
    for statement in tree.body:
        body = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for value in _evaluated(body):
            if not _is_literal(value):
                return f"it evaluates {ast.unparse(value)[:60]} when it is loaded"
    return ""


def _evaluated(body: Iterable[ast.stmt]) -> Iterable[ast.expr]:
    """Yields the expressions of a class body that are evaluated on loading; an unexpected statement yields a name, which is refused."""
    for statement in body:
        match statement:
            case ast.FunctionDef(args=given):
                yield from given.defaults
                yield from (default for default in given.kw_defaults if default is not None)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="__annotations__"))]):
                pass  # the type of an attribute whose name is not a Python identifier
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.Expr(value=value):
                yield value
            case ast.AnnAssign() | ast.Import() | ast.Pass():
                pass
            case _:
                yield ast.Name(type(statement).__name__.lower())


def _is_literal(value: ast.expr) -> bool:
    pending = [value]
    while pending:
        match pending.pop():
            case ast.Constant() | ast.Attribute(value=ast.Name(id="CONSTANTS")):  # the latter is one of the file's own tensors
                pass
            case ast.List(elts=items) | ast.Tuple(elts=items):
                pending += items
            case ast.Dict(keys=keys, values=items):
                pending += [*(key for key in keys if key is not None), *items]
            case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Name(id="annotate"), args=[_, inner], keywords=[]):
                pending.append(inner)
            case _:
                return False
    return True


# Checks the pickles of a saved TorchScript program: tensors must fit their records, and source locations their table.
#
# Torch's reader (2.13) trusts two numbers of a file that it should not. A tensor's storage has as many elements as its
# pickle says, even if the record that holds them is shorter: reads past its end return other memory of the process. And
# texts of source locations are taken from a table at any index. Here both are compared with the actual sizes.
#
# Python's unpickler reads the pickle here with nothing to call: every global is inert. Torch's unpickler has fewer opcodes, and each does
# to the stack and the memo what Python's does; where torch pops from an empty stack, or reads the index of a global as an integer, Python
# raises, or finds no `int`. So every storage that torch would create is among those checked here.

_LISTS: Final = "torch.jit._pickle"
_FORMAT: Final = "FORMAT_WITH_STRING_TABLE"


class _Inert:
    """Replaces every global of a pickle, and does nothing."""

    def __new__(cls, *_: object) -> "_Inert":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.storages: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        if module == _LISTS:
            return lambda *args: args[0] if args else None  # a list of elements of one type
        return type(name, (_Inert,), {}) if name.endswith("Storage") else _Inert

    def persistent_load(self, pid: Any) -> Any:
        self.storages.append(pid)
        return _Inert()


def check_storages(content: bytes, sizes: Mapping[str, int]) -> None:
    """Raises ValueError if a storage of a pickle is longer than its record, and an error of `pickle` for an invalid pickle.

    `sizes` has the bytes of each key's record.
    """
    reader = _Reader(content)
    reader.load()
    for pid in reader.storages:
        match pid:
            case ("storage", type() as kind, str() as key, str(), count, *_) if type(count) is int:
                if kind.__name__ not in _BYTES:
                    raise ValueError(f"it has a tensor in a {kind.__name__}, which torch does not write")
                wanted, there = count * _BYTES[kind.__name__], sizes.get(key, 0)
                if not 0 <= wanted <= there:
                    raise ValueError(f"its tensor {key!r} has {wanted} bytes, of which {there} are in the file")
            case _:
                raise ValueError("it has a tensor without a storage")


def is_source_table(content: bytes) -> bool:
    """Checks whether a record is a valid list of source locations, with every text in its table.

    >>> is_source_table(pickle.dumps((), protocol=2)), is_source_table(pickle.dumps(((),), protocol=2))
    (False, False)
    """
    found = _Reader(content).load()
    match found:
        case (str() as version, tuple(texts), tuple(lines)) if version == _FORMAT:
            known = len(texts) if all(isinstance(text, str) for text in texts) else 0
        case tuple(lines) if lines:
            known = 0  # the format without a table: the locations hold their texts
        case _:
            return False
    return all(_is_place(line, known) for line in lines)


def _is_place(line: object, known: int) -> bool:
    match line:
        case (int(), ((list(pieces), int() as file, int()), int(), int()), *_) if known:
            return 0 <= file < known and all(type(piece) is int and 0 <= piece < known for piece in pieces)
        case (int(), ((str(), str() | None, int()), int(), int()), *_):
            return not known
    return False
