"""Imports a whole file of MLIR: functions as graphs, executables as nested modules, globals and exports as symbols.

Each op is imported in one of three ways. Control flow (`scf.if`, `stablehlo.while`, …) becomes `prim::If` and `prim::Loop`. An op with a
rule becomes the nodes that the rule appends, which are `aten` ops that compute the same. Every other op keeps its name, attributes, results
and regions, so that it is visible, and the analyses assume that it may do anything.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from typing import Any, Final

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.nested import Call, run
from irscope._base.running import without_collector
from irscope.errors import CaptureError
from irscope.frontends import emit
from irscope.frontends.emit import CODES, Place, Refused
from irscope.frontends.mlir.types import AttributeReader, attribute_of, bfloat16_bits, read_place, read_type
from irscope.ir import BOOL, DEVICE, ClassType, Graph, Module, Symbol, TensorData, TensorType, Type, Value
from irscope.ir.builder import BlockBuilder, ModuleBuilder
from irscope.ir.invariants import verify
from irscope.ir.module import scope_of_call, verify_module
from irscope.ops.registry import effect_of, functional_source
from irscope.ops.type_rules import static_shape

# The emitter of MLIR's rules: constants and conversions of tensors of known extents, and what is known of their elements.


def dtype_of(value: Value) -> str:
    """Returns the element type of a tensor value; empty if the IR does not have it."""
    return value.type.dtype or "" if isinstance(value.type, TensorType) else ""


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Returns the extents of a tensor value; None unless all are known."""
    return static_shape(value.type)


def extents_of(value: Value) -> tuple[int, ...]:
    """Returns the extents of a tensor value of a static op, or one that the caller has checked: all are known."""
    shape = shape_of(value)
    assert shape is not None
    return shape


class Emitter(emit.Emitter):
    """Appends to the innermost open block, and remembers what bounds the elements."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.bounds: dict[Value, tuple[float, float]] = {}
        """Lower and upper bounds of all elements of a value that are not NaN."""
        self.counts: dict[Value, int] = {}
        """The dimension along which a tensor counts 0, 1, 2, …."""
        self.numbers: dict[Value, tuple[Value, int, int]] = {}
        """For a tensor that counts a loop's turns: the same as an `int`, and the least and the largest that it becomes."""

    def cast(self, value: Value, dtype: str) -> Value:
        """Converts the elements; returns the value itself if they have this type."""
        return value if dtype_of(value) == dtype else self.op("prims::convert_element_type", value, CODES[dtype])

    def scalar(self, number: float, dtype: str) -> Value:
        """Returns a constant tensor of rank 0."""
        made = np.array(bfloat16_bits(number), np.uint16) if dtype == "bfloat16" else np.array(number, dtype)
        return self.constant(TensorData(dtype, (), made), TensorType(dtype, (), ()))

    @property
    def device(self) -> Value:
        """The device of a new tensor: the CPU, which a runtime takes for its own device."""
        return self.constant("cpu", DEVICE)


# One op of MLIR as a rule sees it: imported operands, result types, and attributes in the form needed.


class Operation:
    """The op that a rule reads; `e` is the emitter that it appends to."""

    __slots__ = ("_reading", "e", "handle", "name", "operands", "types")

    def __init__(self, name: str, handle: Any, operands: Sequence[Value], types: Sequence[Type], e: Emitter, reading: Any) -> None:
        self.name = name
        """The op's MLIR name, such as `stablehlo.add`."""
        self.handle = handle
        """The bindings' own object."""
        self.operands = tuple(operands)
        self.types = tuple(types)
        self.e = e
        self._reading = reading

    @property
    def type(self) -> TensorType:
        """The type of the only result, which must be a tensor."""
        (type,) = self.types
        assert isinstance(type, TensorType)
        return type

    @property
    def dtype(self) -> str:
        """The element type of the first result; empty if the IR does not have it."""
        type = self.types[0] if self.types else None
        return type.dtype or "" if isinstance(type, TensorType) else ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the first result; only for ops of which `is_static` is true."""
        shape = static_shape(self.types[0])
        assert shape is not None
        return shape

    @property
    def is_static(self) -> bool:
        """Whether operands and results are tensors of known extents and element types."""
        types = [*self.types, *(value.type for value in self.operands)]
        return all(isinstance(type, TensorType) and type.is_static for type in types)

    def of(self, operands: Sequence[Value], dtype: str) -> "Operation":
        """Returns the op on other operands, with a result of this element type."""
        type = TensorType(dtype, self.type.shape, () if self.type.shape == () else None)
        return Operation(self.name, self.handle, operands, [type], self.e, self._reading)

    def on(self, operands: Sequence[Value]) -> "Operation":
        """Returns the op on the same operands in another order."""
        return Operation(self.name, self.handle, operands, self.types, self.e, self._reading)

    def attr(self, name: str) -> Any:
        """Returns an attribute as the bindings' object, or its text if they cannot build one; None if the op does not have it."""
        return attribute_of(self.handle, name)

    def payload(self, name: str) -> Any:
        """Returns an attribute as a node carries it; None if the op does not have it."""
        attribute = self.attr(name)
        return None if attribute is None else self._reading.attributes.read(attribute)

    def text(self, name: str) -> str:
        """Returns an attribute's MLIR text; empty if the op does not have it."""
        attribute = self.attr(name)
        return "" if attribute is None else str(attribute)

    def number(self, name: str, default: int = 0) -> int:
        """Returns an integer attribute."""
        attribute = self.attr(name)
        return default if attribute is None else int(attribute.value)

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Returns a list of integers in any of its forms: `array<i64: 1, 2>`, `dense<[1, 2]>`, `[1, 2]`."""
        payload = self.payload(name)
        if isinstance(payload, TensorData):
            array = payload.array
            return None if array is None else tuple(int(item) for item in np.asarray(array).reshape(-1))
        if isinstance(payload, tuple) and all(isinstance(item, int) for item in payload):
            return payload
        if isinstance(payload, str) and payload.startswith("array<"):
            inside = payload[payload.find(":") + 1 : -1] if ":" in payload else ""
            words = [word.strip() for word in inside.split(",") if word.strip()]
            return tuple({"true": 1, "false": 0}[word] if word in ("true", "false") else int(word) for word in words)
        return None

    @property
    def regions(self) -> list[Any]:
        return list(self.handle.regions)


Rule = Callable[[Operation], Value | Sequence[Value] | None]
"""Appends ops that compute what an op does, and returns its results; None if this one (its element type, an attribute, unknown
extents) has no faithful counterpart, and then it has appended nothing."""


def producer(value: Any, name: str) -> Any:
    """Returns the op that produces a value of MLIR, if it has this name."""
    owner = getattr(value, "owner", None)
    operation = getattr(owner, "operation", owner)
    return operation if getattr(operation, "name", "") == name else None


def called_function(operation: Any) -> Any:
    """Returns the function that a `func.call` calls, if its module has it."""
    name, outer = attribute_of(operation, "callee"), operation.parent
    while outer is not None and outer.operation.name != "builtin.module":
        outer = outer.operation.parent
    if outer is None or name is None:
        return None
    functions = (each for each in operations_in(outer.operation) if each.name == "func.func")
    return next((each for each in functions if f"@{_name_of(each)}" == str(name)), None)


def operations_in(operation: Any) -> Iterator[Any]:
    """Yields the ops of all blocks of an op."""
    return (item.operation for region in operation.regions for block in region.blocks for item in block.operations)


# Reads one function, or any region: MLIR's blocks become the IR's, op by op in order.

_LEGAL = re.compile(r"[A-Za-z_]\w*\.[\w.]+")
_ENDS: Final = ("return", "yield", "terminator", "condition")
_HAND_ON: Final = ("yield", "terminator")
_SCALAR_BODIES: Final = ("stablehlo.", "mhlo.")
"""Dialects whose regions compute single elements: how a reduction combines, how a sort compares."""
_OWN_ENDS: Final = frozenset({"stablehlo.return", "mhlo.return", "vhlo.return_v1"})
"""The only terminators that regions of these dialects can have."""


ControlRule = Callable[["BlockReader", Any], Call]
"""Reads an op that becomes ifs and loops, or a nest of loops over tensors, with its regions."""


class Reading:
    """State shared by all functions of one module: rules, and readers of types, attributes and locations."""

    def __init__(
        self, ir: Any, file: str, root: Any, control: Mapping[str, ControlRule], meanings: Mapping[str, Rule],
        branches: "Callable[[BlockReader, Sequence[Any]], Call]", is_live: Callable[[str], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self.control, self.meanings = control, meanings
        """Readers of the ops that become ifs and loops, and rules of those that become other ops; `torch.*` is that of all others of a
        dialect."""
        self.branches = branches
        """The reader of a region of several blocks."""
        self.in_executable = False
        """Whether the current function belongs to an executable, whose bodies are kept unchanged."""
        self.as_written = False
        """Whether the current region belongs to a kept op: its ops are kept, too, so that the op can be written out again."""
        self.is_absolute = False
        """Whether the scopes of ops in a function are whole paths, and not in that of its call."""
        self.types: Callable[[Any], Type] = cache(partial(read_type, ir))
        self.places: Callable[[Any], Place] = cache(partial(read_place, ir, file, is_live=is_live))
        self.attributes = AttributeReader(ir, root)


def _is_same(made: Type, wanted: Type) -> bool:
    """Checks whether two types are equivalent: tensors of the same element type and extents, or a bool and its tensor."""
    if isinstance(made, TensorType) and isinstance(wanted, TensorType):
        return made.dtype == wanted.dtype and made.shape == wanted.shape
    return made == BOOL and isinstance(wanted, TensorType) and wanted.dtype == "bool"


def node_name(name: str) -> tuple[str, str]:
    """Returns the IR's name of an op, and its MLIR name if that does not follow from it.

    >>> node_name("flow.dispatch.tensor.load"), node_name("my-ops.a$b"), node_name("bare")
    (('flow::dispatch.tensor.load', ''), ('my_ops::a_b', 'my-ops.a$b'), ('builtin::bare', 'bare'))
    """
    if _LEGAL.fullmatch(name) and not name.endswith("."):
        return name.replace(".", "::", 1), ""
    plain = re.sub(r"[^\w.]", "_", name).strip(".")
    space, dot, rest = plain.partition(".")
    space = space if space and not space[0].isdigit() else f"_{space}"
    return (f"{space}::{rest}" if dot else f"builtin::{plain or '_'}"), name


class BlockReader:
    """Reads blocks into an emitter; `values` maps MLIR's values to the IR's."""

    def __init__(self, reading: Reading, emitter: Emitter) -> None:
        self.reading = reading
        self.e = emitter
        self.values: dict[Any, Value] = {}
        self.dialects: set[str] = set()
        """The dialects of the ops read so far."""
        self.opened: tuple[str, ...] = ()
        """The functions that are being read in the place of their calls, and the scope of the innermost one."""
        self.scope = ""

    def read_region(self, region: Any) -> Call:
        """Reads a region of one block or of structured branches into the open block; returns its results.

        Its block arguments must have values already.
        """
        blocks = list(region.blocks)
        if not blocks:
            return ()
        if len(blocks) == 1:
            return (yield self.read_block(blocks[0]))
        return (yield self.reading.branches(self, blocks))

    def read_block(self, block: Any) -> Call:
        """Reads the ops of one block; returns the operands of its terminator."""
        operations = list(block.operations)
        for index, op in enumerate(operations):
            operation = op.operation
            if index == len(operations) - 1 and self.is_end(operation):
                return self.operands(operation)
            call = self.read_op(operation)
            if call is not None:
                yield call
        return ()

    def is_end(self, operation: Any) -> bool:
        """Checks whether an op only passes its operands out of its block."""
        name = operation.name
        plain = name.rpartition(".")[2] in _ENDS and not len(operation.regions) and not len(operation.results)
        return plain and not self.reading.attributes.has_any(operation)

    def operands(self, operation: Any) -> tuple[Value, ...]:
        values = self.values
        try:
            return tuple([values[operand] for operand in operation.operands])
        except KeyError:
            what = f"{operation.name} uses a value that comes later or from outside of its function"
            raise self.refusal(operation, what, "MLIR's graph regions have no order; write definitions before uses") from None

    def read_op(self, operation: Any) -> Call | None:
        """Reads one op; returns a call to be made if it has regions to read."""
        name = operation.name
        self.dialects.add(name.partition(".")[0])
        e, reading = self.e, self.reading
        e.place = reading.places(operation.location)
        if self.scope:
            e.place = e.place._replace(scope=f"{self.scope}.{e.place.scope}".strip("."))
        if name == "func.call" and e.numbers and not reading.as_written and (body := self.counted_callee(operation)) is not None:
            return self.inline(operation, body)
        control = None if reading.as_written else reading.control.get(name)
        return control(self, operation) if control is not None else self.read_plainly(operation)

    def read_plainly(self, operation: Any) -> Call | None:
        """Reads an op by its rule, or keeps it."""
        name, reading, e = operation.name, self.reading, self.e
        rule = None if reading.as_written else reading.meanings.get(name) or reading.meanings.get(f"{name.partition('.')[0]}.*")
        if rule is not None:
            types = [reading.types(result.type) for result in operation.results]
            given = Operation(name, operation, self.operands(operation), types, e, reading)
            try:
                made = rule(given)
            except (ArithmeticError, AssertionError, AttributeError, LookupError, Refused, TypeError, ValueError) as error:
                why = f"{name} has an unexpected form: {type(error).__name__}: {error}"
                raise self.refusal(operation, why, "please report the program") from error
            if made is not None:
                values = (made,) if isinstance(made, Value) else made
                if any(value.type != type and not _is_same(value.type, type) for value, type in zip(values, types, strict=True)):
                    kinds = ", ".join(str(value.type) for value in values)
                    raise self.refusal(operation, f"{name} was imported as {kinds}", "please report the program")
                self.bind(operation.results, values)
                return None
        if len(operation.regions):
            return self.keep_with_regions(operation)
        self.keep(operation, ())
        return None

    def counted_callee(self, operation: Any) -> Any:
        """Returns the region of a function that is called with a counter of a loop or a whole constant, as a divisor is: read in its
        place, it can use the numbers. None for every other call, and for functions that call themselves."""
        given = [value for operand in operation.operands if (value := self.values.get(operand)) is not None]
        whole = [
            value for value in given if (known := self.e.known.get(value)) is not None and not known.shape and known.dtype.kind in "iu"
        ]
        if not whole and not any(value in self.e.numbers for value in given):
            return None
        function = called_function(operation)
        is_new = function is not None and _name_of(function) not in self.opened
        return function.regions[0] if is_new and len(function.regions[0].blocks) == 1 else None

    def inline(self, operation: Any, region: Any) -> Call:
        """Reads a function's region in the place of its call."""
        outside, place, name, reading = (self.opened, self.scope), self.e.place, _name_of(region.owner), self.reading
        title = scope_of_call(name, reading.places(operation.location).name)
        self.opened, self.scope = (*self.opened, name), "" if reading.is_absolute else f"{place.scope}.{title}".strip(".")
        self.values.update(zip(region.blocks[0].arguments, self.operands(operation), strict=True))
        made = yield self.read_region(region)
        (self.opened, self.scope), self.e.place = outside, place
        self.bind(operation.results, made)

    def bind(self, results: Any, made: Sequence[Value]) -> None:
        """Binds an op's results to values."""
        self.values.update(zip(results, made, strict=True))

    def keep(self, operation: Any, blocks: Sequence[BlockBuilder]) -> None:
        """Appends an op under its own name; up to two more attributes keep what the node's form does not show."""
        reading = self.reading
        name, original = node_name(operation.name)
        attrs: Mapping[str, Any] = reading.attributes.of(operation)
        if original:
            attrs = FrozenDict({**attrs, "mlir_name": original})
        ends = self._ends(operation) if blocks else ()
        if any(ends):
            attrs = FrozenDict({**attrs, "mlir_ends": ends})
        if len(operation.successors):
            raise self.refusal(operation, f"{operation.name} jumps to other blocks", "use scf or structured cf")
        types = [reading.types(result.type) for result in operation.results]
        made = self.e.node(name, self.operands(operation), types, attrs, blocks)
        self.bind(operation.results, made)

    def _ends(self, operation: Any) -> tuple[str, ...]:
        """Returns each region's terminator if it does more than pass values on: a `return` may leave more than its region."""
        ends = []
        for region in operation.regions:
            last = [list(block.operations)[-1:] for block in region.blocks]
            names = {op.operation.name for ops in last for op in ops if self.is_end(op.operation)}
            ends.append(", ".join(sorted(n for n in names if n not in _OWN_ENDS and n.rpartition(".")[2] not in _HAND_ON)))
        return tuple(ends)

    def keep_with_regions(self, operation: Any) -> Call:
        place, blocks, reading = self.e.place, [], self.reading
        outside = reading.as_written
        reading.as_written = outside or operation.name.startswith(_SCALAR_BODIES)
        for region in operation.regions:
            arguments = list(region.blocks[0].arguments) if len(region.blocks) else []
            with self.e.block([("", reading.types(argument.type)) for argument in arguments]) as inner:
                self.values.update(zip(arguments, inner.params, strict=True))
                inner.returns((yield self.read_region(region)))
            blocks.append(inner)
        reading.as_written = outside
        self.e.place = place
        self.keep(operation, blocks)

    def refusal(self, operation: Any, why: str, hint: str = "") -> CaptureError:
        """Returns the error for an op that has no counterpart, with its location."""
        place = self.reading.places(operation.location).location
        where = str(place) if place is not None else ""
        text = str(operation).splitlines()[0][:160] if not len(operation.regions) else operation.name
        hint = hint or "remove that part from the program"
        return CaptureError(f"{where + ': ' if where else ''}{why}", where=text, hint=hint)


# Decides whether an imported program is functional; then its language is named, and the alias db relies on that.

_STRUCTURE = ("prim::Constant", "prim::If", "prim::Loop", "prim::ListConstruct", "prim::FusionGroup", "func::call")


def language_of(graph: Graph, dialects: Set[str]) -> str:
    """Returns `StableHLO` or `MLIR` if every value is a tensor or number and no op writes; otherwise an empty text.

    Tensors of MLIR are values: an op on them creates new ones. The ops they are mapped to here (`aten` views included) preserve that, as
    long as none of them writes. An unknown op, or a type that may refer to memory, makes the program not functional.
    """
    if any(value.type.__class__ is ClassType for value in graph.values()):
        return ""
    for node in graph.nodes():
        op = node.op
        if op not in _STRUCTURE and not functional_source(op) and effect_of(node) not in ("pure", "view"):
            return ""
    return "StableHLO" if dialects & {"stablehlo", "chlo"} else "MLIR"


# A module of only one function is a `Graph`. Everything else is a `Module` with the same nesting as in the file, except
# for anonymous `builtin.module`s, whose symbols belong to the enclosing module (IREE keeps an executable's functions in
# one). Workgroup-count regions of exports are graphs of their symbols, initialisers are graphs without a public name.

_OWN_NAMES: Final = frozenset({"sym_name", "function_type", "sym_visibility"})


def import_program(reading: Reading, operation: Any, name: str) -> Graph | Module:
    """Returns the program of an MLIR module or of one function. Raises CaptureError as `import_mlir` does."""
    with without_collector():
        if operation.name != "builtin.module":
            return _verified(run(_region_graph(reading, operation, _name_of(operation) or "function")), name)
        made: Module = run(_module(reading, operation))
        graphs = list(made.graphs.values())
        if len(graphs) == 1 and not made.modules and not made.constants and len(made.symbols) <= 1:
            return _verified(graphs[0], name)
        verify_module(made)
    return Module(made.graphs, made.constants, name or made.name, made.modules, made.symbols, made.attrs)


def _verified(graph: Graph, name: str) -> Graph:
    verify(graph)
    return Graph(graph.body, name or graph.name, graph.bound, graph.distinct_inputs, graph.functional)


def _module(reading: Reading, operation: Any) -> Call:
    """Reads a module, or an op that holds symbols, with everything inside."""
    content = ModuleBuilder(_name_of(operation) or "module", reading.attributes.of(operation, _OWN_NAMES))
    loose: list[Any] = []  # ops at the top level that are not symbols
    yield _fill(reading, operation, content, loose)
    if loose:  # they are one graph
        emitter = Emitter("top")
        reader = BlockReader(reading, emitter)
        for item in loose:
            if (call := reader.read_op(item)) is not None:
                yield call
        content.graphs[_free("top", content.graphs)] = emitter.build.finish(())
    return content.finish()


def _fill(reading: Reading, operation: Any, content: ModuleBuilder, loose: list[Any]) -> Call:
    for inner in operations_in(operation):
        yield _item(reading, inner, content, loose)


def _item(reading: Reading, op: Any, content: ModuleBuilder, loose: list[Any]) -> Call:
    """Reads one op at the top level of a module."""
    name, attributes = _name_of(op), op.attributes
    if op.name == "builtin.module" and not name:
        yield _fill(reading, op, content, loose)
    elif name and "function_type" in attributes:
        content.symbols.append(_symbol(reading, op, name, None, attrs=True))
        if len(op.regions) and len(op.regions[0].blocks):
            _add(content.graphs, name, (yield _region_graph(reading, op, name)), op, reading)
    elif name and _holds_symbols(op):
        content.symbols.append(_symbol(reading, op, name, None))
        outside = reading.in_executable
        reading.in_executable = outside or op.name != "builtin.module"
        _add(content.modules, name, (yield _module(reading, op)), op, reading)
        reading.in_executable = outside
    elif name:
        body = (yield _region_graph(reading, op, name)) if any(len(r.blocks) for r in op.regions) else None
        symbol = _symbol(reading, op, name, body, attrs=True)
        content.symbols.append(symbol)
        value = next((v for v in symbol.attrs.values() if isinstance(v, TensorData)), None)
        if value is not None:
            content.constants[name] = value
    elif op.name.endswith(".initializer") and len(op.regions):
        content.graphs[_free("initializer", content.graphs)] = yield _region_graph(reading, op, "initializer")
    elif not op.name.endswith(("_end", ".end")) or len(op.operands) or len(op.results) or len(op.regions):
        loose.append(op)  # others only end a module, such as `hal.executable_end`


def _holds_symbols(op: Any) -> bool:
    """Checks whether an op is a symbol table: an executable, or a module with a name."""
    if op.name == "builtin.module" or op.name.endswith(".executable"):
        return True
    return any(inner.name == "builtin.module" or "sym_name" in inner.attributes for inner in operations_in(op))


def _symbol(reading: Reading, op: Any, name: str, body: Graph | None, *, attrs: bool = False) -> Symbol:
    visibility = op.attributes["sym_visibility"].value if "sym_visibility" in op.attributes else "public"
    kept: Mapping[str, Any] = reading.attributes.of(op, _OWN_NAMES) if attrs else EMPTY  # a module has its own
    return Symbol(name, node_name(op.name)[0], visibility, kept, body)


def _region_graph(reading: Reading, op: Any, name: str) -> Call:
    """Reads an op's first region with blocks as a graph; parameters without names are named as MLIR prints them."""
    region = next((region for region in op.regions if len(region.blocks)), None)
    if region is None:
        raise CaptureError(f"{op.name} @{name} has no body", hint="load a module that defines it")
    emitter = Emitter(name)
    reader = BlockReader(reading, emitter)
    for index, argument in enumerate(region.blocks[0].arguments):
        place = reading.places(argument.location) if hasattr(argument, "location") else None
        title = place.name if place is not None and place.name else f"arg{index}"
        reader.values[argument] = emitter.build.input(title, reading.types(argument.type))
    returned = yield reader.read_region(region)
    graph = emitter.build.finish(returned)
    return Graph(graph.body, name, {}, functional=language_of(graph, reader.dialects))


def _name_of(op: Any) -> str:
    attributes = op.attributes
    return str(attributes["sym_name"].value) if "sym_name" in attributes else ""


def _add(table: dict[str, Any], name: str, made: Any, op: Any, reading: Reading) -> None:
    if name in table:
        place = reading.places(op.location).location
        raise CaptureError(f"{place}: there are two symbols @{name} in one module", hint="rename one of them")
    table[name] = made


def _free(name: str, table: Mapping[str, Any]) -> str:
    """Returns the name, with a number appended if it is taken."""
    number = 0
    while (candidate := f"{name}_{number}" if number else name) in table:
        number += 1
    return candidate
