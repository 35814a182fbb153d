"""Programs in HLO, XLA's own IR: the text of a dump, or its `.hlo.pb`, optimized or not, with each of XLA's fusions as a group.

XLA's converter, which jaxlib has, says what the ops mean in StableHLO, and keeps a fusion as an `mhlo.fusion` with a region, in loops,
too. It forgets the names of instructions. So each instruction's name is put first in place of the name of what it was made from,
which is what the converter takes for the location of its ops; values then have the names that XLA's dumps, logs and profiles have.

A text leaves out the elements of large constants. They are replaced by calls of a function that nobody has, which become constants of
which only the size is known: such a program can be looked at, and refuses to run, unless they are made inputs (`missing_weights`). A
serialised module has them all.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from irscope._base.isolated import IsolatedError, isolated
from irscope._base.loaded_code import cell_name
from irscope._base.nested import Call
from irscope.errors import IrscopeError, LoadError, MissingExtra, ParseError
from irscope.files import read_file, read_text
from irscope.frontends.emit import Place, Refused
from irscope.frontends.hlo_text import HloText, is_hlo_text, parse_hlo
from irscope.frontends.mlir.control import read_branches
from irscope.frontends.mlir.importer import BlockReader, ControlRule, Operation, Reading, Rule, import_program
from irscope.frontends.mlir.ops_pointwise import FLOATS
from irscope.frontends.mlir.ops_reductions import contracted, largest
from irscope.frontends.mlir.ops_shaping import permuted, reshaped
from irscope.frontends.mlir.source import Bindings, new_context, required, rules, run_on_small_stack
from irscope.frontends.mlir.types import attribute_of, operations_under, split_name
from irscope.frontends.refusals import refuse_wrong_count
from irscope.ir import CONTROL_FLOW, Block, Graph, Location, Module, Node, TensorData, Value, make_block, make_node, make_value, new_id
from irscope.ir.module import inlined
from irscope.ir.types import TensorType, Type

name: Final = "HLO, as text or .hlo.pb"
suffixes: Final = (".hlo", ".hlo.pb")
has_weights_elsewhere: Final = True

NEEDS: Final = "jax>=0.10.1"
"""The version whose converter this was written for; an older one is refused if it lacks what is asked of it."""


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts files by suffix, and text that begins a module."""
    if isinstance(source, Path):
        return source.name.lower().endswith(suffixes)
    return isinstance(source, str) and is_hlo_text(source)


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file begins as the text of a module does, or is named as a serialised one."""
    if is_serialised(path):
        return True
    return b"\0" not in start and is_hlo_text(start.decode("utf-8", "replace"))


def is_serialised(path: Path) -> bool:
    """Checks by its name whether a file is a module as XLA serialises it."""
    return path.name.lower().endswith(".hlo.pb")


def load(
    source: str | Path, args: Sequence[Any], *, name: str | None = None, missing_weights: Literal["inputs"] | None = None
) -> Graph:  # fmt: skip
    """Returns the module's entry as a graph, with calls inlined and each fusion as a `prim::FusionGroup`. With
    `missing_weights="inputs"` constants whose elements a text leaves out are inputs after the program's own.

    Raises ParseError with the line, LoadError if XLA's own parser refuses the text, MissingExtra without jaxlib.
    """
    if isinstance(source, Path) and is_serialised(source):
        proto, _, module = read_proto(source)
        graph = graph_of_proto(Converter(), proto, module, name=name)
    else:
        text, file = (read_text(source, kind="HLO text"), str(source)) if isinstance(source, Path) else (source, "")
        graph = graph_of_text(text, parse_hlo(text, file=file), name=name)
    graph = graph if missing_weights is None else with_constants_as_inputs(graph)
    refuse_wrong_count(args, graph)
    return graph


_TILES: Final = re.compile(r"\{([\d,]*):[A-Z*#][^{}]*\}")
"""How a TPU cuts a tensor into tiles, and which memory it is in, behind a layout: XLA's converter refuses a call with them."""


def graph_of_text(text: str, module: HloText, *, name: str | None = None) -> Graph:
    """Returns the graph of a text that has been read."""
    xla = Converter()
    text = _TILES.sub(lambda found: f"{{{found[1]}}}" if found[1] else "", _without_elided(text.lstrip("\ufeff"), module))
    answer = _isolated(lambda: _tried(xla, lambda: xla.proto_of(text)), len(text), module.file or "this text")
    if answer:
        raise _refused(answer, module)
    return graph_of_proto(xla, xla.proto_of(text), module, name=name)


def read_proto(path: Path) -> tuple[bytes, str, HloText]:
    """Returns the serialised module in a file, a HloProto or a HloModuleProto, with its text. Raises LoadError if it is neither."""
    xla, content = Converter(), read_file(path, hint="XLA writes one with --xla_dump_to=FOLDER --xla_dump_hlo_as_proto").getvalue()
    hint = "the file is damaged, or of a newer XLA than that of the installed jaxlib"
    try:
        fields = list(_fields(content))
        inside = next((field for number, _, field in fields if number == 1), b"")
        is_module = any(number == _ENTRY for number, _, _ in fields)  # a HloProto has a module first, and then its buffers
        proto = content if is_module else inside
        list(_fields(proto))
    except (AssertionError, IndexError):
        raise LoadError(f"{str(path)!r} is not serialised HLO", hint=hint) from None
    said = _isolated(lambda: {"text": xla.text_of(proto), "answer": _tried(xla, lambda: proto)}, len(proto) << 2, str(path))
    if said["answer"]:
        raise _refused(said["answer"], HloText("", "", "", {}, str(path)))
    return proto, said["text"], parse_hlo(said["text"], file=str(path))


def _isolated(work: Callable[[], Any], size: int, what: str) -> Any:
    """Returns the result of work on a text of a size, of which XLA's own parser may make a crash. Raises LoadError."""
    try:
        return isolated(work, seconds=20 + (size >> 18), memory=_MEMORY + (size << 6))
    except IsolatedError as error:
        hint = "it is damaged, or of a newer XLA than that of the installed jaxlib"
        raise LoadError(f"{what} makes XLA's own parser fail: it {error}", hint=hint) from None


def graph_of_proto(xla: "Converter", proto: bytes, module: HloText, *, name: str | None = None) -> Graph:
    """Returns the graph of a serialised module, of which `module` is the text: values have its names, and the user's lines."""
    bindings = required("jaxlib")
    try:
        code = bindings.ir.Module.parse(xla.stablehlo(with_own_names(proto)), new_context(bindings))
    except IrscopeError:
        raise
    except Exception as error:  # classes of jaxlib's own
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        what = f"jaxlib does not say in StableHLO what the ops of {module.file or module.name or 'this program'} mean: {said}"
        raise LoadError(what, hint="irscope reads it with jaxlib 0.10; if that is the version, please report the program") from None
    _spell_as_stablehlo(bindings.ir, code)
    try:
        made = import_program(_reading(bindings, code.operation, module), code.operation, "")
    except (ArithmeticError, AssertionError, AttributeError, LookupError, Refused, TypeError, ValueError) as error:
        if isinstance(error, IrscopeError):
            raise
        what = f"{module.file or 'this text'} has HLO of an unexpected form: {type(error).__name__}: {error}"
        raise LoadError(what, hint="the text is damaged; if XLA wrote it so, please report it") from error
    graph = inlined(made, "main", absolute=True) if isinstance(made, Module) else made
    title = re.sub(r"\W", "_", name or module.name)
    return replace(graph, name=title if title.isidentifier() else "hlo", functional="StableHLO" if graph.functional else "")


class Converter:
    """XLA's own parser and its way to StableHLO, of the installed jaxlib."""

    def __init__(self) -> None:
        """Raises MissingExtra without jaxlib, and LoadError if its version has not what is needed."""
        try:
            version = import_module("jaxlib.version").__version__
        except ImportError:
            raise MissingExtra("jaxlib", extra="jax", purpose="to know what HLO's ops mean") from None
        try:
            required("jaxlib")
            jax = import_module("jaxlib._jax")
            own = jax if hasattr(jax, "hlo_module_from_text") else import_module("jaxlib._hlo")  # since 0.10.2
            self._parse, self._module = own.hlo_module_from_text, own.HloModule.from_serialized_hlo_module_proto
            self.stablehlo = jax.mlir.hlo_to_stablehlo
        except (ImportError, AttributeError) as error:
            what = f"jaxlib {version} has no way from HLO to StableHLO that irscope knows: {error}"
            raise LoadError(what, hint=f"pip install '{NEEDS}'; if it is newer than that, please report it") from None

    def proto_of(self, text: str) -> bytes:
        """Returns the serialised module of a text; raises what jaxlib raises."""
        made: bytes = self._parse(text).as_serialized_hlo_module_proto()
        return made

    def text_of(self, proto: bytes) -> str:
        """Returns the text of a serialised module; raises what jaxlib raises."""
        return str(self._module(proto).to_string())


_MEMORY: Final = 2 << 30


def _tried(xla: Converter, proto: Callable[[], bytes]) -> str:
    """Converts a module on a thread with a small stack; returns the complaint, or nothing."""
    found = ["it did not start"]

    def convert() -> None:
        try:
            bindings = required("jaxlib")
            bindings.ir.Module.parse(xla.stablehlo(with_own_names(proto())), new_context(bindings))
            found[0] = ""
        except BaseException as error:
            found[0] = str(error) or type(error).__name__

    run_on_small_stack(convert)
    return found[0]


_PLACE: Final = re.compile(r"(?:line |parsing line )?(\d+):(\d+)")


def _refused(answer: str, module: HloText) -> LoadError | ParseError:
    """Returns the error for what XLA's parser, or its converter, said."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    said = next((line for line in errors if not line.endswith(":")), errors[0] if errors else lines[0] if lines else answer)
    found = _PLACE.search(said)
    what = re.sub(r"^.*?error:\s*", "", said)[:300].rstrip(":")
    hint = "XLA's own parser says so; it may be older than the XLA that wrote the text"
    if found is None:
        return LoadError(f"XLA cannot read {module.file or 'this text'}: {what}", hint=hint)
    return ParseError(what, line=int(found[1]), column=int(found[2]), file=module.file, hint=hint)


# Constants whose elements the text leaves out.

_TARGET: Final = "irscope.elided"
_LEFT_OUT: Final = re.compile(r"\bconstant\(\s*\{\s*\.\.\.\s*\}\s*\)")


def _without_elided(text: str, module: HloText) -> str:
    """Returns the text with a call in place of each constant whose elements are left out: XLA would read them as other numbers."""
    elided = [each for _, each in module.instructions() if each.is_elided]
    if not elided:
        return text
    lines = text.split("\n")
    for each in elided:
        made, count = _LEFT_OUT.subn(f'custom-call(), custom_call_target="{_TARGET}"', lines[each.line - 1])
        if count != 1:
            what = f"the constant %{each.name} has no elements, and a form that is not known"
            raise ParseError(what, line=each.line, column=1, file=module.file, hint="write the dump with --xla_dump_large_constants")
        lines[each.line - 1] = made
    return "\n".join(lines)


def _custom_call(otherwise: Rule, op: Operation) -> Any:
    """A constant of which only the size is known, or what the call means otherwise."""
    if op.text("call_target_name").strip('"') != _TARGET or op.operands:
        return otherwise(op)
    return op.e.constant(TensorData(op.dtype, op.shape, None), op.type)


def with_constants_as_inputs(graph: Graph) -> Graph:
    """Returns the graph with an input, after its own, for each constant of which only the size is known.

    A group does not see the values around it: it is handed what it needs.
    """
    inputs: list[Value] = []

    def is_missing(node: Node) -> bool:
        value = node.attrs.get("value") if node.op == "prim::Constant" else None
        return isinstance(value, TensorData) and value.array is None

    def block_of(block: Block, taken: list[Value]) -> Block:
        nodes = []
        for node in block.nodes:
            if is_missing(node):
                taken.append(node.output)
                continue
            mine = list[Value]() if node.op == "prim::FusionGroup" else taken
            is_read = node.op == "prim::FusionGroup" or node.op in CONTROL_FLOW
            blocks = tuple([block_of(inner, mine) for inner in node.blocks]) if is_read else node.blocks
            given = node.inputs
            if mine is not taken and mine:
                outside = [make_value(new_id(), value.type, value.name) for value in mine]
                taken += outside
                inner = blocks[0]
                given, blocks = (*given, *outside), (make_block(inner.id, (*inner.params, *mine), inner.nodes, inner.returns),)
            nodes.append(make_node(node.id, node.op, given, node.outputs, node.attrs, blocks, node.location, node.scope))
        return make_block(block.id, block.params, tuple(nodes), block.returns)

    body = block_of(graph.body, inputs)
    return replace(graph, body=make_block(body.id, (*body.params, *inputs), body.nodes, body.returns))


# Instructions keep their names: each gets, as the name of what it was made from, its own and that of its computation.
#
# A serialised message is a sequence of fields: a number that says which field and how it is written, and its content.

_ENTRY: Final = 2
_COMPUTATIONS: Final = 3
_INSTRUCTIONS: Final = 2
_NAME: Final = 1
_OPCODE: Final = 2
_SHAPE: Final = 3
_METADATA: Final = 7
_OP_NAME: Final = 2
"""Numbers of fields in XLA's `hlo.proto`, which are never given to another."""


_AT_ONCE: Final = {b"all-reduce-start": b"all-reduce", b"all-reduce-done": b"opt-barrier"}
"""What an all-reduce of several tensors is called whose end is not waited for: the converter has none that begins here and ends there."""
_TUPLE: Final = 13


def with_own_names(module: bytes) -> bytes:
    """Returns a serialised module in which the metadata of an instruction are `computation/instruction`, and nothing else."""
    made = bytearray()
    for number, field, content in _fields(module):
        made += _written(number, _with_names_inside(content)) if number == _COMPUTATIONS else field
    return bytes(made)


def _with_names_inside(computation: bytes) -> bytes:
    made, path = bytearray(), b""
    fields = list(_fields(computation))
    for number, _, content in fields:
        path = content if number == _NAME else path
    for number, field, content in fields:
        if number != _INSTRUCTIONS:
            made += field
            continue
        inside = list(_fields(content))
        named = next((content for number, _, content in inside if number == _NAME), b"")
        is_tuple = any(number == _SHAPE and _element_type(content) == _TUPLE for number, _, content in inside)
        inside = [(number, _spelled(number, field, content) if is_tuple else field, content) for number, field, content in inside]
        kept = b"".join(field for number, field, _ in inside if number != _METADATA)
        made += _written(number, kept + _written(_METADATA, _written(_OP_NAME, path + b"/" + named)))
    return bytes(made)


def _element_type(shape: bytes) -> int:
    """Returns the number of the type of a shape's elements, its field 2."""
    return next((_varint(field, 1)[0] for number, field, _ in _fields(shape) if number == 2 and not field[0] & 7), 0)


def _spelled(number: int, field: bytes, content: bytes) -> bytes:
    return _written(_OPCODE, _AT_ONCE[content]) if number == _OPCODE and content in _AT_ONCE else field


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields the number of each field, all of its bytes, and the content if it is a text or a message."""
    at, size = 0, len(message)
    while at < size:
        start = at
        key, at = _varint(message, at)
        kind, begin = key & 7, at
        if kind == 0:
            _, at = _varint(message, at)
        elif kind == 2:
            length, begin = _varint(message, at)
            at = begin + length
        else:
            assert kind in (1, 5)  # eight bytes and four; XLA's own messages have no others
            at += 8 if kind == 1 else 4
        yield key >> 3, message[start:at], message[begin:at] if kind == 2 else b""


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns a number of seven bits a byte, the lowest first, and the position behind it."""
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | message[at] << shift, at + 1


def _written(number: int, content: bytes) -> bytes:
    """Returns a field that is a text or a message."""
    made, length = bytearray(), len(content)
    for value in (number << 3 | 2, length):
        while value > 0x7F:
            made.append(value & 0x7F | 0x80)
            value >>= 7
        made.append(value)
    return bytes(made) + content


# Ops of XLA that StableHLO does not have.


def _reading(bindings: Bindings, operation: Any, module: HloText) -> Reading:
    control, meanings = rules()
    known = {f"mhlo.{each}": meanings[f"chlo.{each}"] for each in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh")}
    own: Mapping[str, Rule] = {
        "mhlo.copy": lambda op: op.e.op("clone", op.operands[0], None, type=op.type),
        "mhlo.bitcast": _bitcast,
        "mhlo.add_dependency": lambda op: op.operands[0],
        "stablehlo.custom_call": partial(_custom_call, meanings["stablehlo.custom_call"]),
    }
    functions = {str(op.attributes["sym_name"].value): op.operation for op in operation.regions[0].blocks[0].operations}
    pending, calls = _Pending(functions), _Calls(bindings.ir, functions)
    others: Mapping[str, ControlRule] = {
        "mhlo.fusion": _Fusions(), "mhlo.async_start": pending.begin, "mhlo.async_update": pending.wait, "mhlo.async_done": pending.end,
        "stablehlo.async_start": pending.begin, "stablehlo.async_done": pending.end,
        "stablehlo.get_tuple_element": calls.part, "stablehlo.custom_call": calls.call,
    }  # fmt: skip
    meanings = {**meanings, **known, **own}
    reading = Reading(bindings.ir, module.file, operation, {**control, **others}, meanings, read_branches)
    reading.places, reading.is_absolute = _places(bindings.ir, module), True
    return reading


def _spell_as_stablehlo(ir: Any, module: Any) -> None:
    """Writes a bitcast to elements of another type as StableHLO does: what is kept with its region must be text that JAX runs."""
    for operation in [each for each in operations_under(ir, module.operation) if each.name == "mhlo.bitcast"]:
        (given,), (made,) = operation.operands, operation.results
        if given.type.element_type != made.type.element_type and list(given.type.shape) == list(made.type.shape):
            with operation.location, ir.InsertionPoint(operation):
                other = ir.Operation.create("stablehlo.bitcast_convert", results=[made.type], operands=[given])
            made.replace_all_uses_with(other.results[0])
            operation.erase()


def _plainly(reader: BlockReader, operation: Any) -> Call:
    inner = reader.read_plainly(operation)
    if inner is not None:
        yield inner


class _Calls:
    """Reads custom calls. What one returns as a tuple is several results here."""

    def __init__(self, ir: Any, functions: Mapping[str, Any]) -> None:
        self._ir = ir
        self._functions = functions
        self._parts: dict[Any, Sequence[Value]] = {}

    def call(self, reader: BlockReader, operation: Any) -> Call:
        """Reads a call: products and largest elements as what they are, any other that returns a tuple as one with several results."""
        results = list(operation.results)
        is_tuple = len(results) == 1 and isinstance(results[0].type, self._ir.TupleType)
        made = self._ir.TupleType(results[0].type) if is_tuple else None
        inside = [result.type for result in results] if made is None else [made.get_type(index) for index in range(made.num_types)]
        types = [reader.reading.types(type) for type in inside]
        given = reader.operands(operation)
        parts = self._largest(reader, operation, given, types) or self._product(reader, operation, given, types)
        if is_tuple:
            attrs = reader.reading.attributes.of(operation)
            self._parts[results[0]] = parts or reader.e.node("stablehlo::custom_call", given, types, attrs)
        elif parts:
            reader.bind(results, parts)
        else:
            yield from _plainly(reader, operation)

    def part(self, reader: BlockReader, operation: Any) -> Call:
        """Reads what takes one element of a tuple."""
        parts, index = self._parts.get(operation.operands[0]), int(operation.attributes["index"].value)
        if parts is None:
            yield from _plainly(reader, operation)
        elif index >= len(parts):
            raise reader.refusal(operation, "a product's second result is memory that it works in, and holds nothing to read")
        else:
            reader.bind(operation.results, [parts[index]])

    def _product(self, reader: BlockReader, operation: Any, given: Sequence[Value], types: Sequence[Type]) -> Sequence[Value]:
        """A matrix product of cuBLAS, and what it is added to; nothing for one that is scaled or followed by more, or for another call."""
        if operation.attributes["call_target_name"].value not in ("__cublas$gemm", "__cublas$lt$matmul"):
            return ()
        try:
            config = json.loads(str(operation.attributes["backend_config"].value))["gemm_backend_config"]
            said = config["dot_dimension_numbers"]
            lists = [f"{side}_{kind}_dimensions" for kind in ("batch", "contracting") for side in ("lhs", "rhs")]
            axes = [[int(axis) for axis in said.get(key, ())] for key in lists]
            scales = [float(config.get(key, default)) for key, default in (("alpha_real", 1), ("alpha_imag", 0), ("beta", 0))]
            is_plain = scales[:2] == [1, 0] and scales[2] in (0, 1) and config.get("epilogue", "DEFAULT") == "DEFAULT"
        except (AttributeError, KeyError, TypeError, ValueError):
            return ()
        if not is_plain or len(given) != 2 + bool(scales[2]) or not isinstance(types[0], TensorType):
            return ()
        op = Operation(operation.name, operation, given[:2], types[:1], reader.e, reader.reading)
        if not op.is_static or op.dtype not in FLOATS:
            return ()
        made = contracted(op, (axes[0], axes[1]), (axes[2], axes[3]))
        return (reader.e.op("add", made, given[2]) if scales[2] else made,)

    def _largest(self, reader: BlockReader, operation: Any, given: Sequence[Value], types: Sequence[Type]) -> Sequence[Value]:
        """The largest elements of the last dimension, equal ones in their order, and their places; nothing for another call."""
        if operation.attributes["call_target_name"].value != "TopK" or len(given) != 1 or len(types) != 2:
            return ()
        called = [self._functions.get(str(each.value)) for each in operation.attributes["called_computations"]]
        compares = [op for op in called[0].regions[0].blocks[0].operations if op.operation.name == "stablehlo.compare"] if called[0] else []
        first, places = types
        if not compares or " GT>" not in str(compares[-1].attributes["comparison_direction"]):
            return ()
        if not isinstance(first, TensorType) or not isinstance(places, TensorType) or not first.is_static or not first.shape:
            return ()
        count = first.shape[-1]
        assert isinstance(count, int)  # static
        return largest(reader.e, given[0], count, places)


class _Pending:
    """What begins here and ends there is read where it ends: nothing between sees the result."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._begun: dict[Any, tuple[Any, Sequence[Value], Place]] = {}

    def begin(self, reader: BlockReader, operation: Any) -> Call:
        """Keeps the function that is called, or itself if it has what runs, its operands, and where."""
        is_own = len(operation.regions) > 0
        called = operation if is_own else self._functions.get(str(operation.attributes["called_computation"].value))
        if called is None or not len(called.regions[0].blocks):
            raise reader.refusal(operation, f"{operation.name} calls a function that the module does not have")
        self._begun[operation.results[0]] = called, reader.operands(operation), reader.e.place
        yield from ()

    def wait(self, reader: BlockReader, operation: Any) -> Call:
        """Hands on what was begun."""
        self._begun[operation.results[0]] = self._found(reader, operation)
        yield from ()

    def end(self, reader: BlockReader, operation: Any) -> Call:
        """Reads the function in its place."""
        called, given, place = self._found(reader, operation)
        region, places = called.regions[0], reader.reading.places
        if (
            "sym_name" in called.attributes and called.attributes["sym_name"].value == "copy_"
        ):  # XLA's converter makes a function of a copy, without a name
            reader.e.place = place
            made: Sequence[Value] = [reader.e.op("clone", given[0], None, type=reader.reading.types(operation.results[0].type))]
        else:
            reader.values.update(zip(region.blocks[0].arguments, given, strict=True))
            reader.reading.places = lambda location: found if (found := places(location)) != Place() else place
            made = yield reader.read_region(region)  # which the text need not have: `slice-start(…)`
            reader.reading.places = places
        reader.bind(operation.results, made)

    def _found(self, reader: BlockReader, operation: Any) -> tuple[Any, Sequence[Value], Place]:
        found = self._begun.get(operation.operands[0])
        if found is None:
            raise reader.refusal(operation, f"{operation.name} ends what did not begin in its computation")
        return found


def _places(ir: Any, module: HloText) -> Callable[[Any], Place]:
    """Returns the reader of places: the location of an op is the path of its instruction, which has a name, and the user's line."""
    instructions = {f"{computation}/{each.name}": each for computation, each in module.instructions()}
    is_unique = len({each.name for each in instructions.values()}) == len(instructions)

    @cache
    def of(path: str) -> Place:
        instruction = instructions.get(path)
        if instruction is None:
            return Place()
        said = module.provenance(instruction)
        frame = next((frame for frame in said.frames if frame.file), None)
        location = None if frame is None else Location(cell_name(frame.file), frame.line, frame.column)
        return Place(location, instruction.name if is_unique else path.replace("/", "."), split_name(said.names[0])[1])

    def place(location: Any) -> Place:
        while isinstance(location, ir.FusedLoc):
            location = next((part for part in location.locations if not isinstance(part, ir.UnknownLoc)), None)
        return of(str(location.name_str) if isinstance(location, ir.NameLoc) else "")

    return place


class _Fusions:
    """Reads `mhlo.fusion` as a group; one inside of another is a part of that."""

    def __init__(self) -> None:
        self._is_inside = False

    def __call__(self, reader: BlockReader, operation: Any) -> Call:
        e, given = reader.e, reader.operands(operation)
        (region,) = operation.regions
        arguments = list(region.blocks[0].arguments)
        if self._is_inside:
            reader.values.update(zip(arguments, given, strict=True))
            reader.bind(operation.results, (yield reader.read_region(region)))
            return
        place, pairs = e.place, list(zip(arguments, given, strict=True))
        numbers = {argument: known for argument, value in pairs if (known := _number(reader, value)) is not None}
        passed = [(argument, value) for argument, value in pairs if argument not in numbers]
        self._is_inside = True
        with e.block([("", value.type) for _, value in passed], alone=True) as block:
            reader.values.update(zip([argument for argument, _ in passed], block.params, strict=True))
            reader.values.update({argument: e.constant(*number) for argument, number in numbers.items()})
            block.returns((yield reader.read_region(region)))
        self._is_inside = False
        e.place = place
        types = [reader.reading.types(result.type) for result in operation.results]
        kind = re.search(r"fusion_kind k(\w+)", str(attribute_of(operation, "fusion_kind")))
        attrs = {"kind": kind[1].lower() if kind is not None else "fusion"}
        reader.bind(operation.results, e.node("prim::FusionGroup", [value for _, value in passed], types, attrs, (block,)))


def _number(reader: BlockReader, value: Value) -> tuple[TensorData, TensorType] | None:
    """Returns what makes a constant of one element again: a group does not see those around it, and its rules must know it."""
    known, type = reader.e.known.get(value), value.type
    if known is None or known.size != 1 or not isinstance(type, TensorType) or type.shape != ():
        return None
    return TensorData(type.dtype or "", (), np.asarray(known).reshape(())), type


def _bitcast(op: Operation) -> Value | None:
    """The same bytes under another shape and layout: to the order in memory, reshaped, and back. All of it are views."""
    value, shape = op.operands[0], op.shape
    given = value.type
    assert isinstance(given, TensorType) and given.is_static and given.shape is not None
    if given.dtype != op.dtype:
        return None
    old, new = _major_to_minor(op, "source_layout", len(given.shape)), _major_to_minor(op, "result_layout", len(shape))
    value = reshaped(op.e, permuted(op.e, value, old), [shape[axis] for axis in new])
    return permuted(op.e, value, [new.index(axis) for axis in range(len(new))])


def _major_to_minor(op: Operation, attribute: str, rank: int) -> list[int]:
    """Returns the order of the dimensions in memory. A layout lists them the other way round, as `dense<[1, 0]> : tensor<2xindex>`."""
    text = op.text(attribute).partition(":")[0]
    layout = [int(number) for number in re.findall(r"\d+", text)] if text else list(reversed(range(rank)))
    if sorted(layout) != list(range(rank)):
        raise ValueError(f"{attribute} is {text}")
    return layout[::-1]
