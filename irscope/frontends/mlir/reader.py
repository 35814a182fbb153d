"""Reads one function, or any region: MLIR's blocks become the IR's, op by op in order.

Each op is imported in one of three ways. Control flow (`scf.if`, `stablehlo.while`, …) becomes `prim::If` and
`prim::Loop`. An op with a rule becomes the nodes that the rule appends, which are `aten` ops that compute the same.
Every other op keeps its name, attributes, results and regions, so that it is visible, and the analyses assume that it
may do anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope._base.trampoline import Call
from irscope.errors import CaptureError
from irscope.frontends.mlir.emit import Emitter
from irscope.frontends.mlir.operation import Operation
from irscope.frontends.mlir.parse.bindings import Bindings
from irscope.frontends.mlir.read.attributes import AttributeReader
from irscope.frontends.mlir.read.places import PlaceReader
from irscope.frontends.mlir.read.properties import Properties
from irscope.frontends.mlir.read.resources import Resources
from irscope.frontends.mlir.read.types import TypeReader
from irscope.ir import BOOL, TensorType, Type, Value
from irscope.ir.builder import BlockBuilder

__all__ = ["BlockReader", "Reading", "node_name"]

_LEGAL = re.compile(r"[A-Za-z_]\w*\.[\w.]+")
_ENDS: Final = ("return", "yield", "terminator", "condition")
_HAND_ON: Final = ("yield", "terminator")
_SCALAR_BODIES: Final = ("stablehlo.", "mhlo.")
"""Dialects whose regions compute single elements: how a reduction combines, how a sort compares."""
_OWN_ENDS: Final = frozenset({"stablehlo.return", "mhlo.return", "vhlo.return_v1"})
"""The only terminators that regions of these dialects can have."""


class Reading:
    """State shared by all functions of one module: readers of types, attributes and locations."""

    def __init__(
        self, bindings: Bindings, file: str, root: Any, control: Mapping[str, Callable[[BlockReader, Any], Call]],
        meanings: Mapping[str, Callable[[Operation], Any]], branches: Callable[[BlockReader, Sequence[Any]], Call],
    ) -> None:  # fmt: skip
        self.control = control
        """Readers of the ops that become ifs and loops."""
        self.meanings = meanings
        """Rules of the ops that become other ops; `torch.*` is that of all other ops of a dialect."""
        self.in_executable = False
        """Whether the current function belongs to an executable, whose bodies are kept unchanged."""
        self.as_written = False
        """Whether the current region belongs to a kept op: its ops are kept, too, so that the op can be written out
        again."""
        self.branches = branches
        """The reader of a region of several blocks."""
        self.ir = bindings.ir
        self.file = file
        self.types = TypeReader(bindings.ir)
        self.attributes = AttributeReader(bindings.ir, Resources(root), Properties(bindings.ir, root))
        self.places = PlaceReader(bindings.ir, file)


def _is_same(made: Type, wanted: Type) -> bool:
    """Checks whether two types are equivalent: tensors of the same element type and extents, or a bool and its
    tensor."""
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

    def __init__(self, reading: Reading, emitter: Emitter, values: dict[Any, Value] | None = None) -> None:
        self.reading = reading
        self.e = emitter
        self.values: dict[Any, Value] = {} if values is None else values
        self.dialects: set[str] = set()
        """The dialects of the ops read so far."""

    def region(self, region: Any) -> Call:
        """Reads a region of one block or of structured branches into the open block; returns its results.

        Its block arguments must have values already.
        """
        blocks = list(region.blocks)
        if not blocks:
            return ()
        if len(blocks) == 1:
            return (yield self.block(blocks[0]))
        return (yield self.reading.branches(self, blocks))

    def block(self, block: Any) -> Call:
        """Reads the ops of one block; returns the operands of its terminator."""
        operations = list(block.operations)
        for index, op in enumerate(operations):
            operation = op.operation
            if index == len(operations) - 1 and self.is_end(operation):
                return self.operands(operation)
            call = self.op(operation)
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
            raise self.refused(operation, what, "MLIR's graph regions have no order; write definitions before uses") from None

    def op(self, operation: Any) -> Call | None:
        """Reads one op; returns a call to be made if it has regions to read."""
        name = operation.name
        self.dialects.add(name.partition(".")[0])
        e, reading = self.e, self.reading
        e.place = reading.places(operation.location)
        control = None if reading.as_written else reading.control.get(name)
        if control is not None:
            return control(self, operation)
        rule = None if reading.as_written else reading.meanings.get(name) or reading.meanings.get(f"{name.partition('.')[0]}.*")
        if rule is not None:
            types = [reading.types(result.type) for result in operation.results]
            given = Operation(name, operation, self.operands(operation), types, e, reading)
            try:
                made = rule(given)
            except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
                why = f"{name} has an unexpected form: {type(error).__name__}: {error}"
                raise self.refused(operation, why, "please report the program") from error
            if made is not None:
                values = (made,) if isinstance(made, Value) else made
                if any(value.type != type and not _is_same(value.type, type) for value, type in zip(values, types, strict=True)):
                    kinds = ", ".join(str(value.type) for value in values)
                    raise self.refused(operation, f"{name} was imported as {kinds}", "please report the program")
                self.bind(operation.results, values)
                return None
        if len(operation.regions):
            return self.foreign_with_regions(operation)
        self.foreign(operation, ())
        return None

    def bind(self, results: Any, made: Sequence[Value]) -> None:
        """Binds an op's results to values."""
        self.values.update(zip(results, made, strict=True))

    def foreign(self, operation: Any, blocks: Sequence[BlockBuilder]) -> None:
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
            raise self.refused(operation, f"{operation.name} jumps to other blocks", "use scf or structured cf")
        types = [reading.types(result.type) for result in operation.results]
        made = self.e.node(name, self.operands(operation), types, attrs, blocks)
        self.bind(operation.results, made)

    def _ends(self, operation: Any) -> tuple[str, ...]:
        """Returns each region's terminator if it does more than pass values on: a `return` may leave more than its
        region."""
        ends = []
        for region in operation.regions:
            last = [list(block.operations)[-1:] for block in region.blocks]
            names = {op.operation.name for ops in last for op in ops if self.is_end(op.operation)}
            ends.append(", ".join(sorted(n for n in names if n not in _OWN_ENDS and n.rpartition(".")[2] not in _HAND_ON)))
        return tuple(ends)

    def foreign_with_regions(self, operation: Any) -> Call:
        place, blocks, reading = self.e.place, [], self.reading
        outside = reading.as_written
        reading.as_written = outside or operation.name.startswith(_SCALAR_BODIES)
        for region in operation.regions:
            blocks += [(yield self.block_of(region))]
        reading.as_written = outside
        self.e.place = place
        self.foreign(operation, blocks)

    def block_of(self, region: Any, extra: Sequence[tuple[str, Any]] = ()) -> Call:
        """Reads a region as a block, with its arguments (after `extra` ones) as parameters."""
        arguments = list(region.blocks[0].arguments) if len(region.blocks) else []
        types = [*extra, *(("", self.reading.types(argument.type)) for argument in arguments)]
        with self.e.block(types) as inner:
            self.values.update(zip(arguments, inner.params[len(extra) :], strict=True))
            inner.returns((yield self.region(region)))
        return inner

    def refused(self, operation: Any, why: str, hint: str = "") -> CaptureError:
        """Returns the error for an op that has no counterpart, with its location."""
        place = self.reading.places(operation.location).location
        where = str(place) if place is not None else ""
        text = str(operation).splitlines()[0][:160] if not len(operation.regions) else operation.name
        hint = hint or "remove that part from the program"
        return CaptureError(f"{where + ': ' if where else ''}{why}", where=text, hint=hint)
