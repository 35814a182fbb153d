"""What IREE decided: its executables, each with the ops of the program that it computes.

`iree-compile --compile-to=flow` stops when dispatches are formed: the program is a function that calls executables (`flow.dispatch`), each
with a body of `linalg` ops over tensors that it loads and stores. Here the calls are inlined, with the meanings that `irs.load` gives those
ops, and the nodes of each call are one kernel. The compiler runs as a process of its own, and its output is read as any MLIR.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope._base.nested import Call, run
from irscope._base.running import without_collector
from irscope._base.words import listed, plural
from irscope.codegen.kernel import NO_NODE, SourceText
from irscope.compilers.iree_beside import Compiled, Output, is_public, ran, vanished, walked
from irscope.compilers.iree_ops import MEANINGS, passed_on, segments
from irscope.compilers.ort import eager_call, exported, torch_model_of
from irscope.compilers.record import Decisions, Kernel, Program, program_of
from irscope.errors import ArgumentError, IrscopeError, LoadError, MissingExtra, ParseError, PassError
from irscope.files import read_file
from irscope.frontends import jax as jax_source
from irscope.frontends.emit import Refused
from irscope.frontends.mlir import source as mlir_source
from irscope.frontends.mlir.importer import BlockReader, Emitter, Operation, Reading, language_of, operations_in, shape_of
from irscope.frontends.mlir.ops_shaping import spread
from irscope.frontends.mlir.types import read_place
from irscope.frontends.onnx import source as onnx_source
from irscope.ir import Graph, Node, TensorData, TensorType, Value
from irscope.ir.invariants import verify
from irscope.ops.registry import schema_of
from irscope.ops.view_steps import tensor_bytes
from irscope.transforms.cleanup import remove_dead_nodes

compiler: Final = "iree"
name: Final = "MLIR (StableHLO, linalg, torch, …) as a file or text, an ONNX file, a JAX function or a torch model with arguments"
_DISPATCHED: Final = re.compile(rb'"?flow\.dispatch"? ?[@(]')
"""What a text holds that IREE has formed dispatches of already, by --compile-to=flow: it is read as it is."""
_FLAGS: Final = (
    "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host",
)  # fmt: skip
"""For this processor: without its name, IREE compiles for any of its family, and its times would be those of another program."""
_HALVES: Final = re.compile(r" = linalg\.\w*(?:mat|dot|conv)\w* .*-> tensor<[\dx?]*(b?f16)>")
"""A product that is added up in halves."""
_DECLARED: Final = re.compile(r"%(\w+): (tensor<[^>]*>)")
"""The arguments in IREE's declaration of a function, `sync func @f(%input0: tensor<8xf32>) -> …`."""
_IMPORT: Final = "hal.tensor.import"
_LOAD: Final = "iree_tensor_ext.dispatch.tensor.load"
_SHARING: Final = "iree-flow-deduplicate-executables"
_CALLED: Final = re.compile(r"\bflow\.dispatch (@[\w.$-]+(?:::@[\w.$-]+)*)")
_STORE: Final = "iree_tensor_ext.dispatch.tensor.store"


def reads(source: object, compiler: str | None) -> bool:
    """Accepts every source, if IREE is asked for: what it cannot be given is an error with what to give."""
    return compiler == "iree"


def decisions(
    source: Any, args: Sequence[Any], *, flags: Sequence[str] = _FLAGS, device: str = "local-task", measure: bool = False
) -> Decisions:  # fmt: skip
    """Returns what IREE makes of a program; `flags` of `iree-compile` say for which device.

    The compiled program runs on a `device` of IREE's runtime for CPUs: `local-task` has a thread for each core, `local-sync` one. With
    `measure` it is called with the arguments, and `k.ms` is the median time of a dispatch in some runs with one thread.

    Raises LoadError for a program that it does not take, MissingExtra without the package.
    """
    on_processor = any("llvm-cpu" in flag for flag in flags)
    if measure and not on_processor:
        what = "only a program for processors (llvm-cpu) is run here: with these flags no dispatch has a time"
        raise ArgumentError(what, hint="leave measure out, or flags")
    text, kind, lowered = _mlir_of(source, args, measure)
    if _DISPATCHED.search(text):
        if measure:
            raise ArgumentError("what IREE has formed dispatches of is only read", hint="give the program before it, or leave measure out")
        return Decisions(compiler, _read(text, {}))
    tools = _tools()
    path = source if isinstance(source, Path) and kind == "auto" else None
    compile = partial(_compiled, tools, text, path, kind, flags)
    code = Compiled(compile, device)
    programs = _read(*_flow(compile), text, path, kind)
    notes = reasons = tuple(code.why_not_run(flags))
    if not reasons:
        programs = tuple([replace(each, run=code.function(each.name)) for each in programs])
        threads = {"local-task": ", with a thread for each core", "local-sync": ", with one thread"}.get(device, "")
        notes = (f"IREE's own program runs on its device {device}{threads}",)
    eager, flat = eager_call(source), None
    if lowered is not None:
        written = jax_source.written_function(source)
        flat, eager = partial(_flat, lowered), None if written is None else _with_signs(jax_source.flat_call(lowered, written))
        programs = tuple([each if each.run is None else replace(each, run=_with_signs(each.run)) for each in programs])
    if measure:
        programs = (_timed(programs, code, args if flat is None else flat(*args)),)
    call = None
    if len(programs) == 1 and not reasons:
        own = code.function(programs[0].name)
        call = own if flat is None else lambda *args: own(*flat(*args))
    return Decisions(compiler, programs, version=_version(tools), notes=notes, call=call, eager=eager, flattened=flat)


def _flat(lowered: Any, *args: Any) -> tuple[Any, ...]:
    """Returns the arrays that a lowered function reads of its arguments, as IREE's types have them."""
    return tuple(map(_with_sign, jax_source.flattened(lowered, *args)))


def _with_sign(array: Any) -> Any:
    """Returns an array of unsigned numbers as one of the same bits with signs: IREE's types have no others."""
    dtype = getattr(array, "dtype", None)
    return np.asarray(array).view(dtype.name[1:]) if isinstance(dtype, np.dtype) and dtype.kind == "u" else array


def _with_signs(run: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose results are as the program of IREE has them."""

    def called(*args: Any) -> Any:
        made = run(*args)
        return tuple(map(_with_sign, made)) if isinstance(made, tuple) else _with_sign(made)

    return called


def _timed(programs: Sequence[Program], code: Compiled, args: Sequence[Any]) -> Program:
    """Returns the only program, whose kernels have times. Raises ArgumentError for other arguments than it takes."""
    if len(programs) != 1:
        hint = "leave measure out, or give a module with one public function"
        raise ArgumentError(f"IREE compiled {plural(len(programs), 'function')}, and one is measured", hint=hint)
    program = programs[0]
    inputs = program.graph.inputs
    if len(args) != len(inputs):
        what = f"{plural(len(args), 'argument')} to measure a program that takes {len(inputs)}"
        raise ArgumentError(what, hint=f"pass {listed([f'{value.name}: {value.type}' for value in inputs])}")
    times, said = code.times(program.name, args, program.kernels)
    kernels = tuple([replace(kernel, ms=ms) for kernel, ms in zip(program.kernels, times, strict=True)])
    return replace(program, kernels=kernels, notes=(*program.notes, *filter(None, (said,))))


def _flow(compile: Callable[[Sequence[str]], bytes]) -> tuple[bytes, Mapping[str, str]]:
    """Returns the program with its dispatches, as it is before those that are the same share one executable, whose ops have the places of
    the first; and the executable that each dispatch has at last."""
    with tempfile.TemporaryDirectory(prefix="irscope-iree-") as folder:
        dump = (f"--mlir-print-ir-before={_SHARING}", f"--mlir-print-ir-tree-dir={folder}")
        after = compile(("--compile-to=flow", "--mlir-print-debuginfo", *dump)).replace(b'"<stdin>":', b'"-":')
        dumped = [path.read_bytes().replace(b'"<stdin>":', b'"-":') for path in Path(folder).rglob(f"*{_SHARING}.mlir")]
    for before in dumped[:1]:
        old, new = (_CALLED.findall(text.decode()) for text in (before, after))
        last = dict(zip(old, new, strict=False))
        if len(old) == len(new) and all(last[one] == other for one, other in zip(old, new, strict=True)):
            return before, last
    return after, {}


def _read(
    flow: bytes, names: Mapping[str, str], before: bytes = b"", path: Path | None = None, kind: str = ""
) -> tuple[Program, ...]:  # fmt: skip
    """Returns the program of each function that can be called from outside, with what vanished of the program before it. `names` has the
    executables that dispatches have at last."""
    root, bindings = mlir_source.parse_module(flow, "IREE's output")
    with without_collector():
        try:
            reader = _Reader(root.operation, bindings, names)
            programs = tuple([reader.program(title, function) for title, function in reader.entries()])
            return programs if not before else tuple(_with_vanished(programs, root.operation, before, path, kind))
        except IrscopeError:
            raise
        except (LookupError, AttributeError, ValueError, TypeError, Refused) as error:
            what = f"IREE's output has another form than that of version 3.13 ({type(error).__name__}: {str(error)[:200]})"
            raise LoadError(what, hint="pip install 'iree-base-compiler==3.13.*'; if it is that one, please report the program") from None


def _with_vanished(programs: Sequence[Program], after: Any, before: bytes, path: Path | None, kind: str) -> Iterator[Program]:
    """Yields the programs with what vanished; with a note where the program before cannot be read here."""
    file, read, output = str(path) if path is not None else "", cache(mlir_source.parse_module), Output(after)
    for program in programs:
        try:
            root, bindings = read(before.replace(b'"<stdin>":', b'"-":'), file)
            places = cache(partial(read_place, bindings.ir, file))
            found = tuple(vanished(root.operation, output, program.name, program.graph, bindings, places, file))
        except (LoadError, ParseError) as error:
            note = f"what vanished is not known, since the program that IREE was given cannot be compared with its output: {error.what}"
            yield replace(program, notes=(*program.notes, note))
            continue
        if kind == "onnx":  # lines of a text that nobody sees
            found = tuple([replace(each, location=None) for each in found])
        yield replace(program, changes=(*program.changes, *found))


def _tools() -> Path:
    """Returns the folder of IREE's programs."""
    try:
        from iree.compiler.tools import binaries

        mlir_source.required("iree")
    except ImportError:
        raise MissingExtra("iree-base-compiler", extra="mlir", purpose="to see what IREE makes of a program") from None
    return Path(binaries.find_tool("iree-compile")).parent


def _version(tools: Path) -> str:
    said = subprocess.run([tools / "iree-compile", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\S+)", said)
    return found[1] if found else ""


# What is given to the compiler


def _mlir_of(source: Any, args: Sequence[Any], measure: bool) -> tuple[bytes, str, Any]:
    """Returns a program as MLIR, IREE's word for the kind of its ops, and what JAX lowered it to, if it is JAX's."""
    if isinstance(source, Path) and (source.suffix.lower() == ".onnx" or onnx_source.recognizes(source, read_file(source).getvalue()[:64])):
        _no_arguments(args, "an ONNX model", measure)
        _tools()
        return _imported_onnx(source), "onnx", None
    if isinstance(source, Path | str | bytes):
        _no_arguments(args, "a text of MLIR", measure)
        content = (
            read_file(source).getvalue()
            if isinstance(source, Path)
            else source
            if isinstance(source, bytes)
            else source.encode("utf-8", "surrogatepass")
        )
        if not content.startswith(mlir_source.BYTECODE) and not mlir_source.is_mlir_text(content.decode("utf-8", "replace")):
            raise LoadError("this is not MLIR", where=content[:200].decode("utf-8", "replace"), hint=f"give {name}")
        return content, "auto", None
    if mlir_source.bindings_of(source) is not None:
        return str(source.operation.get_asm(enable_debug_info=True)).encode(), "auto", None
    if torch_model_of(source) is not None:
        _tools()
        with tempfile.TemporaryDirectory(prefix="irscope-iree-") as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(exported(source, args).SerializeToString())
            return _imported_onnx(path), "onnx", None
    if jax_source.reads(source, args) or callable(source):
        lowered, _ = jax_source.lowered(source, args)
        text = lowered.as_text(dialect="stablehlo", debug_info=True).encode()
        return _without_shardings(text) if b" sdy." in text else text, "stablehlo", lowered
    kind = "a graph of irscope" if isinstance(source, Graph) else f"an object of type {type(source).__module__}.{type(source).__qualname__}"
    hint = f"give what it was made from: {name}"
    raise LoadError(f"iree-compile takes MLIR, and {kind} cannot be written as MLIR here", hint=hint)


def _without_shardings(text: bytes) -> bytes:
    """Returns a program without what says on which devices values are, which JAX writes of typed keys, and IREE does not read."""
    root, _ = mlir_source.parse_module(text, "JAX's program")
    for operation in list(walked(root.operation)):
        if operation.name == "sdy.sharding_constraint":
            operation.results[0].replace_all_uses_with(operation.operands[0])
        if operation.name in ("sdy.sharding_constraint", "sdy.mesh"):
            operation.erase()
    return str(root.operation.get_asm(enable_debug_info=True)).encode()


def _no_arguments(args: Sequence[Any], what: str, measure: bool) -> None:
    if args and not measure:
        hint = "leave them out, or pass measure=True"
        raise ArgumentError(f"{what} has the types of its inputs, and nothing runs: it takes no arguments", hint=hint)


def _imported_onnx(path: Path) -> bytes:
    """Returns an ONNX model as MLIR, by IREE's importer, which is a program of its own in its package."""
    with tempfile.TemporaryDirectory(prefix="irscope-iree-") as folder:
        made = Path(folder) / "model.mlir"
        command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(path), "-o", str(made)]
        ran(command, f"{str(path)!r} cannot be imported", _CHECK)
        return made.read_bytes()


def _compiled(
    tools: Path, content: bytes, path: Path | None, kind: str, flags: Sequence[str], until: Sequence[str] = ()
) -> bytes:  # fmt: skip
    """Returns the compiled program, or, with the options `until`, what it is until then; places in it are in the file of this path."""
    options = [f"--iree-input-type={kind}", *until, *flags, "-o", "-"]
    command = [str(tools / "iree-compile"), "-" if path is None else str(path), *options]
    return ran(command, "iree-compile does not take this program", _CHECK, content if path is None else b"")


_CHECK: Final = "check that iree-compile compiles it; flags= says for which device"


# Its output


class _Reader:
    """The reading of one module of the flow dialect: dispatches are inlined into the function that calls them."""

    def __init__(self, root: Any, bindings: mlir_source.Bindings, names: Mapping[str, str]) -> None:
        from irscope.frontends.mlir.control import read_branches

        control, meanings = mlir_source.rules()
        control = {
            **control, "flow.dispatch": self.dispatch, _STORE: self.store, "util.call": self.call,
            "flow.dispatch.tie_shape": self.tie_shape, "iree_tensor_ext.dispatch.tie_shape": self.tie_shape,
            _IMPORT: passed_on, "hal.tensor.export": passed_on, "hal.tensor.barrier": passed_on, "util.global.store": self.store_global,
        }  # fmt: skip
        self.slicing = meanings["tensor.extract_slice"]
        self.inserting = meanings["tensor.insert_slice"]
        self.names, self.callers = names, dict[str, Any]()
        """The executables that dispatches have at last; for one, the first dispatch."""
        self.functions: dict[str, Any] = {}
        self.globals, self.initializers = dict[str, Any](), list[Any]()
        self.initial: dict[str, Value] = {}
        """What the initializers store in globals, for the current program."""
        self.find_symbols(root, "")
        own = {**meanings, **MEANINGS, _LOAD: self.load, "util.global.load": self.load_global}
        own["flow.tensor.load"] = meanings["tensor.extract"]  # of a tensor of known extents, as each of its operands is an index
        self.reading = Reading(bindings.ir, "", root, control, own, read_branches)
        self.ir, self.emitter = bindings.ir, Emitter("main")
        self.tied: dict[Any, tuple[Any, list[Any]]] = {}
        """For an argument whose extents are known only at run time: the one that it is, and the extents."""
        self.called: dict[object, tuple[str, Any, tuple[Node, ...]]] = {}
        """The name, the function and the nodes of each dispatch of the current program. Of the test of a loop, which the program has before
        the loop, too, those at the end of its body."""

    def find_symbols(self, root: Any, path: str) -> None:
        """Notes functions as `@executable::@function`, and globals."""
        for operation in operations_in(root):
            title = operation.attributes["sym_name"].value if "sym_name" in operation.attributes else ""
            if operation.name in ("flow.executable", "builtin.module"):
                self.find_symbols(operation, f"{path}@{title}::" if operation.name == "flow.executable" else path)
            elif operation.name == "util.initializer":
                self.initializers.append(operation)
            elif "function_type" in operation.attributes and len(operation.regions) and len(operation.regions[0].blocks):
                self.functions[f"{path}@{title}"] = operation
            elif operation.name == "util.global":
                self.globals[title] = operation

    def entries(self) -> list[tuple[str, Any]]:
        """Returns the public functions that take the runtime's buffers: others only wait for one of these."""
        functions = [(title, op) for title, op in self.functions.items() if op.name == "util.func"]
        public = [(title, op) for title, op in functions if is_public(op)]
        taking = [(title, op) for title, op in public if any(item.operation.name == _IMPORT for item in op.regions[0].blocks[0].operations)]
        if not taking and len(public) != 1:
            names = listed([title for title, _ in public]) or "none"
            raise LoadError(f"no public function of IREE's output takes tensors; it has {names}", hint="export a function of tensors")
        return taking or public

    def program(self, title: str, function: Any) -> Program:
        self.emitter, self.called, self.initial = Emitter("main"), {}, {}
        reader = BlockReader(self.reading, self.emitter)
        fences = self.bind_inputs(reader, function)
        for each in self.initializers:
            run(reader.read_region(each.regions[0]))
        once, self.called = len(self.called), {}
        returned = run(reader.read_region(function.regions[0]))
        graph = self.emitter.build.finish(returned)
        inputs = tuple([value for value in graph.inputs if value in graph.users or value not in fences])
        body = replace(graph.body, params=inputs)
        graph = Graph(body, title.lstrip("@").removesuffix("$async"), {}, functional=language_of(graph, reader.dialects))
        verify(graph)
        graph = remove_dead_nodes(graph).after  # without the tensors that linalg's ops are given to write into
        notes = (f"{plural(once, 'dispatch', 'dispatches')} of constants, which run once and are no kernels here",) if once else ()
        return _program(graph, list(self.called.values()), self.reading.types, _text(function), notes)

    def bind_inputs(self, reader: BlockReader, function: Any) -> set[Value]:
        """Gives each argument an input with the name and type as which it is imported, one that nothing reads those of the function's
        declaration; returns those that the runtime waits for."""
        block = function.regions[0].blocks[0]
        imported = {each.operation.operands[0]: each.operation for each in block.operations if each.operation.name == _IMPORT}
        declared = dict(_DECLARED.findall(str(function.attributes["iree.reflection"]) if "iree.reflection" in function.attributes else ""))
        fences = set[Value]()
        for index, argument in enumerate(block.arguments):
            type = imported[argument].results[0].type if argument in imported else argument.type
            if argument not in imported and f"input{index}" in declared:
                type = self.ir.Type.parse(declared[f"input{index}"], function.context)
            place = self.reading.places(argument.location) if hasattr(argument, "location") else None
            title = place.name if place is not None and place.name else f"input{index}"
            made = reader.values[argument] = self.emitter.build.input(title, self.reading.types(type))
            if str(argument.type) == "!hal.fence":
                fences.add(made)
        return fences

    # Dispatches

    def dispatch(self, reader: BlockReader, operation: Any) -> Call:
        """Inlines the function of an executable: what it only reads are operands, what it only writes are results."""
        symbol = _symbol(operation)
        function = self.functions.get(symbol)
        if function is None:
            raise reader.refusal(operation, f"there is no executable {symbol}")
        workload, given = segments(operation)[:2]
        operands = [reader.values[value] for value in list(operation.operands)[workload : workload + given]]
        tied = _tied(operation)
        mark = self.emitter.build.mark()
        block = function.regions[0].blocks[0]
        arguments = list(block.arguments)
        writable = dict.fromkeys(arguments[len(operands) :])
        for argument, value in zip(arguments, operands, strict=False):
            reader.values[argument] = value
        places = self.reading.places
        if self.callers.setdefault(symbol, operation) != operation:  # the ops of a shared executable have the places of the first
            self.reading.places = lambda _: places(operation.location)
        yield reader.read_block(block)
        self.reading.places = places
        fresh = iter(writable)
        sources = [arguments[place] if place >= 0 else next(fresh, None) for place in tied]
        reader.bind(operation.results, [reader.values[source] for source in sources])
        key = operation if _is_in_test(operation) else object()
        self.called.pop(key, None)
        self.called[key] = self.names.get(symbol, symbol).rpartition("@")[2], function, self.emitter.build.since(mark)

    def tie_shape(self, reader: BlockReader, operation: Any) -> Call:
        """An argument of an executable, with the extents that are known only at run time."""
        source, *extents = operation.operands
        self.tied[operation.results[0]] = source, extents
        if source in reader.values:
            reader.bind(operation.results, [reader.values[source]])
        yield from ()

    def is_whole(self, operation: Any, argument: Any) -> bool:
        """Whether a load or store takes all of an argument whose extents are known only at run time."""
        *_, starts, sizes, steps = segments(operation)
        operands = list(operation.operands)
        given = operands[len(operands) - sizes - steps : len(operands) - steps]
        offsets = str(operation.attributes["static_offsets"]) if "static_offsets" in operation.attributes else ""
        is_moved = re.search(r"[1-9]", offsets.partition(":")[2])
        return argument in self.tied and self.tied[argument][1] == given and not starts and not steps and not is_moved

    def load(self, op: Operation) -> Value | None:
        """What an executable reads of an operand, all of it or a slice."""
        source = op.operands[0]
        if shape_of(source) == op.shape and len(op.operands) == 1 and not any(op.ints("static_offsets") or ()):
            return source
        if self.is_whole(op.handle, op.handle.operands[0]):
            return source
        return self.slicing(op)  # type: ignore[return-value]

    def store(self, reader: BlockReader, operation: Any) -> Call:
        """What an executable writes becomes the value of its argument, from here on."""
        part, target = operation.operands[0], operation.operands[1]
        made, shape = reader.values[part], _shape_in(str(target.type))
        e, is_whole = self.emitter, self.is_whole(operation, target)
        target = self.tied.get(target, (target,))[0]
        if not is_whole and (shape is None or shape_of(made) != shape):
            known = isinstance(made.type, TensorType) and made.type.dtype and shape is not None
            if not known:
                yield reader.keep_with_regions(operation)
                return
            before = reader.values.get(target)
            if before is None:
                assert isinstance(made.type, TensorType) and made.type.dtype is not None and shape is not None
                before = spread(e, e.scalar(0, made.type.dtype), shape)
            rest = [reader.values[value] for value in list(operation.operands)[2:]]
            whole = self.inserting(Operation(operation.name, operation, [made, before, *rest], [before.type], e, self.reading))
            if not isinstance(whole, Value):
                raise reader.refusal(operation, f"{operation.name} stores at places that are known only at run time")
            made = whole
        reader.values[target] = made

    def call(self, reader: BlockReader, operation: Any) -> Call:
        """Inlines a function of the program's own."""
        function = self.functions.get(str(operation.attributes["callee"]))
        if function is None:
            yield reader.keep_with_regions(operation)
            return
        arguments = function.regions[0].blocks[0].arguments
        reader.values.update(zip(arguments, reader.operands(operation), strict=True))
        reader.bind(operation.results, (yield reader.read_region(function.regions[0])))

    def store_global(self, reader: BlockReader, operation: Any) -> Call:
        """What an initializer computes; other stores are kept."""
        if operation.parent.operation.name != "util.initializer":
            yield reader.keep_with_regions(operation)
            return
        self.initial[str(operation.attributes["global"]).lstrip("@")] = reader.values[operation.operands[0]]

    def load_global(self, op: Operation) -> Value | None:
        """A constant of the program; other globals are read as they are."""
        title = str(op.attr("global")).lstrip("@")
        known = self.globals.get(title)
        if known is None or "is_mutable" in known.attributes:
            return None
        if title in self.initial:
            return self.initial[title]
        held = self.reading.attributes.of(known).get("initial_value")
        return op.e.constant(held, op.types[0]) if isinstance(held, TensorData) else None


def _is_in_test(operation: Any) -> bool:
    """Whether an op is in the test of a `scf.while`."""
    while (around := operation.parent) is not None:
        if around.name == "scf.while" and operation.block == around.operation.regions[0].blocks[0]:
            return True
        operation = around.operation
    return False


def _symbol(operation: Any) -> str:
    """Returns the first function that a dispatch names, `@executable::@function`."""
    found = re.findall(r"@[\w.$-]+(?:::@[\w.$-]+)*", str(operation.attributes["entry_points"]))
    return found[0] if found else ""


def _tied(operation: Any) -> list[int]:
    """Returns for each result the argument that it overwrites, or -1."""
    if "tied_operands" not in operation.attributes:
        return [-1] * len(operation.results)
    return [int(each) for each in re.findall(r"(-?\d+) : index", str(operation.attributes["tied_operands"]))]


def _shape_in(text: str) -> tuple[int, ...] | None:
    """Returns the extents of the tensor in the type of an executable's argument; None if one is not known."""
    found = re.search(r"tensor<((?:\d+x)*)(?:complex<\w+>|[^x?<>]+)>+$", text)
    return tuple(int(each) for each in found[1].split("x") if each) if found else None


def _program(
    graph: Graph, called: Sequence[tuple[str, Any, tuple[Node, ...]]], types: Any, text: str, notes: Sequence[str]
) -> Program:  # fmt: skip
    kernels = []
    there = {node.id: node for node in graph.nodes()}  # a loop from whose body something was removed is another node
    for title, function, nodes in called:
        own = _text(function)
        source = SourceText(own, "mlir", (NO_NODE,) * own.count("\n"), title)
        computing = tuple([there[node.id] for node in nodes if node.op != "prim::Constant" and node.id in there])
        kernels.append(Kernel(title, computing, False, source, bytes=_moved(function, own, types)))
    strange = dict.fromkeys(node.op for node in graph.nodes() if schema_of(node) is None and not node.op.startswith("prim::"))
    notes = [*notes, *(f"{op} is kept as it is, and has no meaning in irscope" for op in strange)]
    moving = Counter(re.findall(r"\bflow\.tensor\.(?:splat|update|slice|clone)\b", text))
    if moving:
        notes.append(f"IREE's runtime fills and copies outside of dispatches: {listed([f'{n} {op}' for op, n in moving.items()])}")
    single = Counter(re.findall(r"\barith\.(?!constant|index_cast)\w+", text))
    if single:
        notes.append(f"IREE's program computes single numbers around its dispatches: {listed([f'{n} {op}' for op, n in single.items()])}")
    texts = "".join(kernel.source.text for kernel in kernels if kernel.source is not None)
    halves = set(_HALVES.findall(texts))
    if halves:
        notes.append(f"IREE adds up products in {listed(sorted(halves))}, as its program says; irscope's kernels of its groups in f32")
    if "iree_linalg_ext.scatter" in texts:
        notes.append("IREE's scatter does not ask whether a place is inside of the tensor: one that is not is other memory, or a crash")
    try:
        return program_of(graph, kernels, compiler=compiler, silence="formed dispatches without a word on others", notes=tuple(notes))
    except PassError as error:
        raise LoadError(f"IREE's executables are read as groups that cannot run: {error.what}", hint="please report the program") from None


def _text(function: Any) -> str:
    return str(function.get_asm(enable_debug_info=False, large_elements_limit=16, use_local_scope=True)) + "\n"


def _moved(function: Any, text: str, types: Any) -> int | None:
    """Returns the bytes of the tensors that an executable loads and stores; None where an extent is unknown, or only a part is read of
    what it loads: irscope's count has the part."""
    if re.search(r"\btensor\.extract|linalg_ext\.(gather|scatter)", text):
        return None
    total = 0
    for operation in operations_in(function):
        if operation.name in (_LOAD, _STORE):
            moved = tensor_bytes(types((operation.results or operation.operands)[0].type))
            if not isinstance(moved, int):
                return None
            total += moved
    return total
