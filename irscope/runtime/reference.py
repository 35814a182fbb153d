"""The NumPy interpreter: the reference semantics, op by op, against which every pass and every kernel is checked.

Views are NumPy views, in-place ops write their argument, containers are Python's, so aliasing behaves as in torch.
Blocks run on an explicit stack. With `precision="float64"` all floating inputs, constants, results and requested types
are float64, which makes the run a reference for rounding errors too. bfloat16 is held as float32 (NumPy has none).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from irscope._base.nested import Call, map_leaves, run
from irscope._base.words import plural
from irscope.errors import IrscopeError, RunError
from irscope.ir import Block, Graph, Node, Opaque, TensorData, TensorType, Type, Value, check_count, constant_value
from irscope.ir.text.printer import excerpt
from irscope.ops.registry import by_operands, op_of, schema_of
from irscope.ops.traits import ANOTHER_OBJECT, SHAPE_WRITERS
from irscope.ops.type_rules import DTYPE_CODES, FLOAT_DTYPES
from irscope.runtime.arrays import elements, lent_by_torch, python_function, unpacked
from irscope.runtime.foreign_ops import foreign_function, has_runner, plain_array

Precision = Literal["float64"] | None

_WIDE_CODES: Final = {code: 7 for code, name in DTYPE_CODES.items() if name in FLOAT_DTYPES} | {8: 10, 9: 10}
"""The numbers of float64 and complex128, by those of all floating-point and complex types."""


def run_reference(
    graph: Graph, *args: Any, precision: Precision = None, observe: Callable[[Value, Any], None] | None = None
) -> tuple[Any, ...]:
    """Returns the program's results, with NumPy arrays as tensors, for one argument per input that is not bound.

    NumPy arguments are not copied, and in-place ops write them, unless `precision` requests other types. `observe` is
    called with each value when it is computed, in a loop once per iteration. Raises ArgumentError for a wrong number of
    arguments, and RunError with the node at which the program failed.
    """
    free = graph.free_inputs
    check_count(graph, args)
    interpreter = _Interpreter(graph, precision, observe)
    for value, argument in (*zip(free, args, strict=True), *graph.bound.items()):
        interpreter.assign([value], [interpreter.taken(argument)])
    run(interpreter.block(graph.body))
    return tuple(interpreter.values[value] for value in graph.outputs)


class _Interpreter:
    """The values computed so far. A value inside a loop is that of the last iteration."""

    def __init__(self, graph: Graph, precision: Precision, observe: Callable[[Value, Any], None] | None) -> None:
        self.graph = graph
        self.observe = observe
        self.double = precision == "float64"
        self.values: dict[Value, Any] = {}

    def taken(self, argument: Any) -> Any:
        """Returns an argument or constant as the interpreter holds it: arrays for tensors, and new containers."""

        def held(leaf: Any) -> Any:
            if isinstance(leaf, TensorData):
                if leaf.array is None and leaf.original is None:
                    what = "a constant tensor's elements are not in the program"
                    raise RunError(what, hint="load the program from its source, not from a printed text")
                return self._floats((elements(leaf) if leaf.array is not None else plain_array(leaf.original)).copy())
            if isinstance(leaf, np.ndarray):
                return self._floats(leaf.astype(np.float32) if str(leaf.dtype) == "bfloat16" else leaf)
            return self._floats(plain_array(leaf)) if hasattr(leaf, "detach") else leaf

        return map_leaves(held, argument)

    def _floats(self, array: Any) -> Any:
        """Converts floating arrays to float64, and complex ones to complex128, in float64 mode."""
        if self.double and isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float16, np.complex64):
            return array.astype(np.result_type(array.dtype, np.float64))
        return array

    def block(self, block: Block) -> Call:
        for node in block.nodes:
            if node.op == "prim::Constant":
                self.assign(node.outputs, [self._constant(node)])
            elif node.op == "prim::If":
                branch = node.blocks[0 if self.values[node.inputs[0]] else 1]
                yield self.block(branch)
                self.assign(node.outputs, [self.values[value] for value in branch.returns])
            elif node.op == "prim::Loop":
                yield self._loop(node)
            elif node.blocks and not has_runner(node):
                yield self._group(node)
            else:
                self._node(node)

    def assign(self, names: Sequence[Value], found: Sequence[Any]) -> None:
        self.values.update(zip(names, found, strict=True))
        if self.observe is not None:
            for name, thing in zip(names, found, strict=True):
                self.observe(name, thing)

    def _loop(self, node: Node) -> Call:
        (body,) = node.blocks
        limit, condition, *carried = [self.values[value] for value in node.inputs]
        trip = 0
        while condition and trip < limit:
            self.assign(body.params, [trip, *carried])
            yield self.block(body)
            condition, *carried = [self.values[value] for value in body.returns]
            trip += 1
        self.assign(node.outputs, carried)

    def _group(self, node: Node) -> Call:
        """Runs a fusion group, or another node whose block's parameters stand for its inputs."""
        (body,) = node.blocks
        if len(body.params) != len(node.inputs) or len(body.returns) != len(node.outputs):
            raise self._error(node, f"the reference interpreter cannot run the block of {node.op}")
        self.assign(body.params, [self.values[value] for value in node.inputs])
        yield self.block(body)
        self.assign(node.outputs, [self.values[value] for value in body.returns])

    def _constant(self, node: Node) -> Any:
        payload = constant_value(node)
        if isinstance(payload, Opaque | Graph):
            return payload
        return self.taken(unpacked(payload, node.outputs[0].type, self.taken))

    def _node(self, node: Node) -> None:
        operands = [self.values[value] for value in node.inputs]
        found: Any
        if node.op.startswith(_ASSERTIONS) and node.op != "aten::_assert_async":
            found = ()
        elif (function := _SIMPLER.get(node.op) or python_function(node)) is not None:
            found = self._run(node, function, operands)
        else:
            self._check_bits(node)
            found = self._call(node, operands)
        outputs = node.outputs
        if len(outputs) == 1:
            result = self._result(found, outputs[0].type)
            if node.op in ANOTHER_OBJECT and result is operands[0]:
                result = result.view()
            elif node.op in SHAPE_WRITERS:
                self._replace(operands[0], result)
            self.assign(outputs, [result])
        elif outputs:
            if len(found) != len(outputs):
                raise self._error(node, f"{node.op} returned {plural(len(found), 'value')} for {plural(len(outputs), 'output')}")
            self.assign(outputs, [self._result(item, value.type) for item, value in zip(found, outputs, strict=True)])

    def _replace(self, old: Any, new: Any) -> None:
        """Puts an array in the place of another under all its names: NumPy's arrays keep their shape, torch's tensors do not."""

        def replaced(held: Any) -> Any:
            if isinstance(held, list | dict):  # which may be held under several names
                for key in range(len(held)) if isinstance(held, list) else held:
                    held[key] = replaced(held[key])
            return tuple(map(replaced, held)) if type(held) is tuple else new if held is old else held

        self.values = {value: replaced(held) for value, held in self.values.items()}

    def _result(self, found: Any, declared: Type) -> Any:
        if hasattr(found, "detach"):  # an attribute of a script's object
            found = plain_array(found)
        if isinstance(found, np.generic):
            found = np.asarray(found) if isinstance(declared, TensorType) else found.item()
        if self.double and isinstance(found, list | tuple) and type(found) is not list:
            return tuple(map(self._floats, found))
        if self.double and type(found) is list:
            for index, item in enumerate(found):  # the list itself may be aliased
                found[index] = self._floats(item)
            return found
        return self._floats(found)

    def _call(self, node: Node, operands: list[Any]) -> Any:
        called = by_operands(node, operands)
        op, schema = op_of(called), schema_of(called)
        if op is None or op.reference is None:  # by its own library, or by torch where it is installed
            function = foreign_function(node) or lent_by_torch(node, double=self.double)
            if function is None:
                raise self._error(node, f"there is no NumPy reference for {node.op}", "pip install torch, which has the op")
            return self._run(node, function, operands)
        if schema is None or schema.is_vararg:
            return self._run(node, op.reference, operands)
        named: dict[str, Any] = {}
        for index, argument in enumerate(schema.arguments):
            operand = operands[index] if index < len(operands) else argument.default
            if self.double and argument.name in ("dtype", "out_dtype") and schema.full_name != _BITS:
                operand = _WIDE_CODES.get(operand, operand)
            named[argument.name] = operand
        return self._run(node, partial(op.reference, **named), ())

    def _run(self, node: Node, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Calls what computes a node. Raises RunError with its place."""
        try:
            return function(*operands)
        except IrscopeError as error:
            raise self._error(node, error.what, error.hint) from error
        except Exception as error:
            raise self._error(node, f"{node.op} failed: {str(error) or type(error).__name__}") from error

    def _check_bits(self, node: Node) -> None:
        """Refuses a view as another element type where its bits are not those of the program's own type."""
        schema, declared = schema_of(node), node.inputs[0].type if node.inputs else None
        if schema is None or schema.full_name != _BITS or not isinstance(declared, TensorType):
            return
        if declared.dtype == "bfloat16":
            raise self._error(node, "the bits of bfloat16 elements are not known: they are computed in float32")
        if self.double and declared.dtype in FLOAT_DTYPES | {"complex64", "complex128"}:
            raise self._error(node, "it reads the bits of floats, which float64 has otherwise")

    def _error(self, node: Node, what: str, hint: str = "") -> RunError:
        return RunError(what, where=excerpt(self.graph, {node: "here"}), hint=hint)


_SIMPLER: Final[Mapping[str, Callable[..., Any]]] = {
    "aten::is_grad_enabled": lambda: False, "aten::set_grad_enabled": lambda *rest: (), "aten::requires_grad_": lambda x, *rest: x,
    "aten::wait": lambda x: x, "aten::warn": lambda *rest: (), "prim::data": lambda x: x,
}  # fmt: skip
"""Ops that do less here: nothing has a gradient, nothing is asynchronous, and what runs for comparison warns of nothing."""
_BITS: Final = "aten::view.dtype"
_ASSERTIONS: Final = ("aten::_assert", "aten::sym_constrain_range", "aten::_functional_assert")
"""Ops that check assumptions of the exporting compiler, such as element types, which float64 mode changes on purpose."""
