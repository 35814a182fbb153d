"""Imports a whole file of MLIR: functions as graphs, executables as nested modules, globals and exports as symbols.

A module of only one function is a `Graph`. Everything else is a `Module` with the same nesting as in the file, except
for anonymous `builtin.module`s, whose symbols belong to the enclosing module (IREE keeps an executable's functions in
one). Workgroup-count regions of exports are graphs of their symbols, initialisers are graphs without a public name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from irscope._base.concurrency.restored import without_collector
from irscope._base.frozen import EMPTY
from irscope._base.trampoline import Call, run
from irscope.errors import CaptureError
from irscope.frontends.mlir.control.branches import read_branches
from irscope.frontends.mlir.control.loop_nests import LOOP_NESTS
from irscope.frontends.mlir.control.structured import CONTROL
from irscope.frontends.mlir.emit import Emitter
from irscope.frontends.mlir.functional import language_of
from irscope.frontends.mlir.meaning.table import MEANINGS
from irscope.frontends.mlir.parse.bindings import Bindings
from irscope.frontends.mlir.reader import BlockReader, Reading, node_name
from irscope.ir import Graph, Module, Symbol, TensorData
from irscope.ir.verify import verify

__all__ = ["import_module"]

_OWN_NAMES: Final = frozenset({"sym_name", "function_type", "sym_visibility"})


def import_module(operation: Any, bindings: Bindings, *, file: str = "", name: str = "") -> Graph | Module:
    """Returns the program of an MLIR module or of one function.

    Raises CaptureError, with op, file and line, for anything that has no counterpart.
    """
    reading = Reading(bindings, file, operation, {**CONTROL, **LOOP_NESTS}, MEANINGS, read_branches)
    return without_collector(_import, reading, operation, name)


def _import(reading: Reading, operation: Any, name: str) -> Graph | Module:
    if operation.name != "builtin.module":
        return _verified(run(_function(reading, operation)), name)
    made: Module = run(_module(reading, operation))
    graphs = list(made.graphs.values())
    if len(graphs) == 1 and not made.modules and not made.constants and len(made.symbols) <= 1:
        return _verified(graphs[0], name)
    for graph in _all_graphs(made):
        verify(graph)
    return Module(made.graphs, made.constants, name or made.name, made.modules, made.symbols, made.attrs)


def _verified(graph: Graph, name: str) -> Graph:
    verify(graph)
    return Graph(graph.body, name or graph.name, graph.bound, graph.distinct_inputs, graph.functional)


def _all_graphs(module: Module) -> list[Graph]:
    found, todo = list[Graph](), [module]
    while todo:
        here = todo.pop()
        found.extend(here.graphs.values())
        found.extend(symbol.body for symbol in here.symbols if symbol.body is not None)
        todo.extend(here.modules.values())
    return found


class _Content:
    """The contents of one module while it is read."""

    def __init__(self) -> None:
        self.graphs: dict[str, Graph] = {}
        self.constants: dict[str, Any] = {}
        self.modules: dict[str, Module] = {}
        self.symbols: list[Symbol] = []
        self.loose: list[Any] = []
        """Ops at the top level that are not symbols."""


def _module(reading: Reading, operation: Any) -> Call:
    """Reads a module, or an op that holds symbols, with everything inside."""
    content = _Content()
    yield _fill(reading, operation, content)
    if content.loose:
        content.graphs[_free("top", content.graphs)] = yield _loose(reading, content.loose)
    attrs = reading.attributes.of(operation, _OWN_NAMES)
    return Module(
        content.graphs, content.constants, _name_of(operation) or "module", content.modules, tuple(content.symbols),
        attrs,
    )  # fmt: skip


def _fill(reading: Reading, operation: Any, content: _Content) -> Call:
    for region in operation.regions:
        for block in region.blocks:
            for item in block.operations:
                yield _item(reading, item.operation, content)


def _item(reading: Reading, op: Any, content: _Content) -> Call:
    """Reads one op at the top level of a module."""
    name, attributes = _name_of(op), op.attributes
    if op.name == "builtin.module" and not name:
        yield _fill(reading, op, content)
    elif name and "function_type" in attributes:
        content.symbols.append(_symbol(reading, op, name, None, attrs=True))
        if len(op.regions) and len(op.regions[0].blocks):
            _add(content.graphs, name, (yield _function(reading, op)), op, reading)
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
    elif not _is_bare_end(op):
        content.loose.append(op)


def _is_bare_end(op: Any) -> bool:
    """Checks whether an op only ends a module, such as `hal.executable_end`."""
    return op.name.endswith(("_end", ".end")) and not len(op.operands) and not len(op.results) and not len(op.regions)


def _holds_symbols(op: Any) -> bool:
    """Checks whether an op is a symbol table: an executable, or a module with a name."""
    if op.name == "builtin.module":
        return True
    for region in op.regions:
        for block in region.blocks:
            for item in block.operations:
                inner = item.operation
                if inner.name == "builtin.module" or "sym_name" in inner.attributes:
                    return True
    return str(op.name).endswith(".executable")


def _symbol(reading: Reading, op: Any, name: str, body: Graph | None, *, attrs: bool = False) -> Symbol:
    visibility = op.attributes["sym_visibility"].value if "sym_visibility" in op.attributes else "public"
    kept: Mapping[str, Any] = reading.attributes.of(op, _OWN_NAMES) if attrs else EMPTY  # a module has its own
    return Symbol(name, node_name(op.name)[0], visibility, kept, body)


def _function(reading: Reading, op: Any) -> Call:
    """Reads a function's graph; parameters without names in the program are named as MLIR prints them."""
    name = _name_of(op) or "function"
    return (yield _region_graph(reading, op, name))


def _region_graph(reading: Reading, op: Any, name: str) -> Call:
    """Reads an op's first region with blocks as a graph of its own."""
    region = next((region for region in op.regions if len(region.blocks)), None)
    if region is None:
        raise CaptureError(f"{op.name} @{name} has no body", hint="load a module that defines it")
    emitter = Emitter(name)
    reader = BlockReader(reading, emitter)
    for index, argument in enumerate(region.blocks[0].arguments):
        place = reading.places(argument.location) if hasattr(argument, "location") else None
        title = place.name if place is not None and place.name else f"arg{index}"
        reader.values[argument] = emitter.build.input(title, reading.types(argument.type))
    returned = yield reader.region(region)
    graph = emitter.build.finish(returned)
    return Graph(graph.body, name, {}, functional=language_of(graph, reader.dialects))


def _loose(reading: Reading, operations: list[Any]) -> Call:
    """Reads ops outside of any function as one graph."""
    emitter = Emitter("top")
    reader = BlockReader(reading, emitter)
    for operation in operations:
        call = reader.op(operation)
        if call is not None:
            yield call
    return emitter.build.finish(())


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
