"""Imports torch's FX graph of an exported program: every argument of every op becomes a value, as in TorchScript.

An FX node leaves out arguments that have their default, and carries numbers inside itself; here they become `prim::Constant` nodes in
schema order. An op with several returns is one node with several outputs, so the `getitem` nodes vanish. The signature of a functionalised
program (`run_decompositions`) lists which results update a buffer or an input; those become `aten::copy_` at the end.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from irscope._base.loaded_code import cell_name
from irscope.errors import CaptureError
from irscope.frontends.emit import CODES, Emitter
from irscope.frontends.torch.types import dtype_name, payload_of, require_torch, tensor_data, tensor_type, tied_names
from irscope.ir import ANY, BOOL, DEVICE, FLOAT, INT, NONE, TENSOR, Graph, ListType, Location, Node, OptionalType, TensorType, Type, Value
from irscope.ir.builder import payload_type
from irscope.ir.module import nested_paths
from irscope.ir.text import parse_type

_PYTHON_OPS: Final[Mapping[Callable[..., Any], str]] = {
    operator.add: "aten::add", operator.sub: "aten::sub", operator.mul: "aten::mul", operator.truediv: "aten::div",
    operator.floordiv: "aten::floordiv", operator.mod: "aten::remainder", operator.pow: "aten::pow",
    operator.eq: "aten::eq", operator.ne: "aten::ne", operator.lt: "aten::lt", operator.le: "aten::le",
    operator.gt: "aten::gt", operator.ge: "aten::ge", operator.neg: "aten::neg", operator.not_: "aten::__not__",
    operator.and_: "aten::__and__", operator.or_: "aten::__or__",
    operator.lshift: "aten::__lshift__", operator.rshift: "aten::__rshift__", operator.abs: "prim::abs",
    math.ceil: "aten::ceil", math.floor: "aten::floor", math.trunc: "aten::Int", math.sqrt: "aten::sqrt",
}  # fmt: skip
"""Arithmetic on sizes, which FX represents as calls of Python's own functions."""
SYMBOLIC_OPS: Final = {
    "sym_not": "aten::__not__", "sym_max": "prim::max", "sym_min": "prim::min", "sym_float": "aten::Float",
    "sym_int": "aten::Int", "sym_size": "aten::size", "sym_stride": "aten::stride", "sym_numel": "aten::numel",
    "sym_storage_offset": "aten::storage_offset",
}  # fmt: skip
MEMORY_FORMATS: Final = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
LAYOUTS: Final = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")


def import_traced(module: Any, name: str, names: Mapping[str, str]) -> tuple[Graph, dict[Any, tuple[Node, ...]]]:
    """Returns the graph of a plain FX GraphModule that was traced in this process, and the nodes that each FX call became.

    Every placeholder is an input of the graph, under its own name or that in `names`. Raises CaptureError for a node without a
    counterpart in the IR.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    kind = SimpleNamespace(kind=SimpleNamespace(name="USER_INPUT"), arg=None)
    signature = SimpleNamespace(input_specs=[kind] * len(placeholders), output_specs=[])
    importer = _Import(SimpleNamespace(graph_module=module, graph_signature=signature, state_dict={}, constants={}), name, lambda _: True)
    importer.names = names
    env = importer.inputs(placeholders)
    graph = importer.build.finish(importer.body(module, env))
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    return graph, {node: _makers(graph, env[node]) for node in calls} | _without_results(graph, calls)


def call_target(node: Any) -> Any:
    """Returns what an FX node calls, also where a token keeps the call in its place."""
    return node.args[1] if getattr(node.target, "__name__", "") == "with_effects" else node.target


def _without_results(graph: Graph, calls: Sequence[Any]) -> dict[Any, tuple[Node, ...]]:
    """The nodes of the calls that make nothing, such as a check of errors; both sides have those of an op in program order."""
    found: dict[Any, tuple[Node, ...]] = {}
    schemas = {node: getattr(call_target(node), "_schema", None) for node in calls}
    silent = {node: schema.name for node, schema in schemas.items() if schema is not None and not schema.returns}
    for op in dict.fromkeys(silent.values()):
        made, asked = [node for node in graph.nodes() if node.op == op], [node for node, name in silent.items() if name == op]
        found |= {node: (each,) for node, each in zip(asked, made, strict=True)} if len(made) == len(asked) else {}
    return found


def _makers(graph: Graph, made: Any) -> tuple[Node, ...]:
    """The nodes that make the results of one FX call; an unpacked list is made by the node that makes the list."""
    found = dict.fromkeys(graph.producer[value] for value in (made if isinstance(made, tuple) else (made,)) if value in graph.producer)
    lists = [graph.producer[node.inputs[0]] for node in found if node.op == "prim::ListUnpack"]
    return tuple(dict.fromkeys((*lists, *found)))


def import_exported(program: Any, name: str, is_live: Callable[[str], bool] = lambda _: False, *, had_gradients: bool = False) -> Graph:
    """Returns the graph of an ExportedProgram, not decomposed. Raises CaptureError for a node without a counterpart in the IR.

    `is_live` says which of the files it refers to hold code that is loaded in this process; `had_gradients`, that it may have been exported
    while torch records gradients, as a program here does not run.
    """
    importer = _Import(program, name, is_live)
    if had_gradients:
        importer.unsure = _behind_learned_masks(program, importer.torch)
    return importer.run()


def _behind_learned_masks(program: Any, torch: Any) -> set[Any]:
    """The FX nodes of an attention whose mask depends on a parameter, and of all that follows: for such a mask torch takes another kernel
    while it records gradients, whose result has other strides (torch 2.13)."""
    attention, parameters = torch.ops.aten.scaled_dot_product_attention.default, program.graph_signature.inputs_to_parameters
    learned, unsure = set[Any](), set[Any]()

    def walk(module: Any, is_learned: bool, is_unsure: bool) -> None:
        """Look at a module of the program; the flags say so of any of the operands of a branch, and hold for all."""
        for node in module.graph.nodes:
            is_input = node.op == "placeholder"
            if node.name in parameters or (is_input and is_learned) or not learned.isdisjoint(node.all_input_nodes):
                learned.add(node)
            mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
            follows = not unsure.isdisjoint(node.all_input_nodes) or (is_input and is_unsure)
            if follows or (node.target == attention and mask in learned):
                unsure.add(node)
            for given in node.all_input_nodes:
                if given.op == "get_attr" and isinstance(branch := operator.attrgetter(given.target)(module), torch.fx.GraphModule):
                    walk(branch, node in learned, node in unsure)
                    if not unsure.isdisjoint(branch.graph.output_node().all_input_nodes):
                        unsure.add(node)

    walk(program.graph_module, False, False)
    return unsure


class _Import:
    """The import of one program: the value of each FX node, and the constants so far."""

    def __init__(self, program: Any, name: str, is_live: Callable[[str], bool]) -> None:
        self.is_live = is_live
        self.torch = require_torch("to load an exported program")
        self.program = program
        self.signature = program.graph_signature
        self.emit = Emitter(name)
        self.build = self.emit.build
        self.bound: dict[Value, Any] = {}
        self.names: Mapping[str, str] = {}
        """The names of inputs, where these are not those of their placeholders."""
        self.unsure: set[Any] = set()
        """The FX nodes whose results may have other strides than their examples."""
        self.torch_folder = str(Path(str(self.torch.__file__)).parent)

    def run(self) -> Graph:
        module = self.program.graph_module
        env = self.inputs([node for node in module.graph.nodes if node.op == "placeholder"])
        guard_arguments(self.emit, env, self.signature, module)
        by_name = {node.name: value for node, value in env.items() if isinstance(value, Value)}
        returned = self.body(module, env)
        outputs = []
        for spec, value in zip(self.signature.output_specs, returned, strict=True):
            kind = spec.kind.name
            if kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION"):
                target = by_name[spec.target] if kind == "USER_INPUT_MUTATION" else self.held[spec.target]
                self.build.node("aten::copy_", (target, value, self.constant(False)), (target.type,))
            elif kind != "TOKEN":
                outputs.append(value)
        graph = self.with_paths(self.build.finish(outputs, bound=self.bound))
        return replace(graph, tied=tied_names(self.bound, self.program.state_dict))

    def with_paths(self, graph: Graph) -> Graph:
        """Adds the program's paths to the inputs in nested arguments; keyword arguments come last."""
        shape = getattr(getattr(self.program, "call_spec", None), "in_spec", None)
        if shape is None:
            return graph
        numbers = list(range(shape.num_leaves))
        try:
            args, kwargs = self.torch.utils._pytree.tree_unflatten(numbers, shape)
        except Exception:  # user-defined containers, which may reject numbers
            return graph
        return replace(graph, argument_paths=nested_paths((*args, *kwargs.values()), len(graph.free_inputs)))

    def inputs(self, placeholders: Sequence[Any]) -> dict[Any, Any]:
        """Adds the inputs: parameters and buffers once per tensor, under their path; the rest under their own names."""
        env: dict[Any, Any] = {}
        self.held: dict[str, Value] = {}
        by_tensor: dict[int, Value] = {}
        for node, spec in zip(placeholders, self.signature.input_specs, strict=True):
            if spec.kind.name == "USER_INPUT":
                example = node.meta.get("val", getattr(spec.arg, "value", None))
                env[node] = self.build.input(self.names.get(node.name, node.name), self.type(example))
                continue
            held = self.program.state_dict.get(spec.target)
            held = self.program.constants.get(spec.target) if held is None else held
            value = by_tensor.get(id(held))
            if value is None:
                type = tensor_type(held) if isinstance(held, self.torch.Tensor) else ANY
                value = by_tensor[id(held)] = self.build.input(spec.target, type)
                self.bound[value] = held
            env[node] = self.held[spec.target] = value
        return env

    def body(self, module: Any, env: dict[Any, Any]) -> tuple[Value, ...]:
        """Appends a module's nodes to the open block, and returns its results."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                env[node] = operator.attrgetter(node.target)(module)
            elif node.op == "call_function":
                env[node] = self.call(node, env)
            elif node.op == "output":
                flat = node.args[0] if isinstance(node.args[0], list | tuple) else (node.args[0],)
                return tuple(self.value(item, ANY, env) for item in flat)
        return ()

    def call(self, node: Any, env: dict[Any, Any]) -> Any:
        """Imports one FX call, and returns its results: a value, a tuple of them, or None."""
        target = node.target
        if target is operator.getitem:
            held = env[node.args[0]]
            return held[node.args[1]] if isinstance(held, tuple) else self.plain(node, "aten::__getitem__", env)
        if target in _PYTHON_OPS:
            return self.plain(node, _PYTHON_OPS[target], env)
        if target is round and node.args[1:] in ((), (None,)):  # Python returns an int, torch's op a float
            rounded = self.append(node, "aten::round", [self.value(node.args[0], ANY, env)], (FLOAT,))
            return self.append(node, "aten::Int", rounded, (INT,))[0]
        if isinstance(target, self.torch._ops.OpOverload):
            if is_wrong_bound(node):
                return None
            rule = _RULES.get(target._schema.name)
            if rule is not None and (made := rule(self, node, env)) is not None:
                return made
            symbolic = SYMBOLIC_OPS.get(target._schema.name.rpartition("::")[2])
            return self.plain(node, symbolic, env) if symbolic else self.overload(node, env)
        name = getattr(target, "__name__", str(target))
        if name in SYMBOLIC_OPS:
            return self.plain(node, SYMBOLIC_OPS[name], env)
        if name == "sym_sum":
            total, *rest = (self.value(item, INT, env) for item in node.args[0])
            return reduce(lambda before, item: self.append(node, "aten::add", [before, item], (INT,))[0], rest, total)
        if isinstance(target, self.torch._ops.HigherOrderOperator):
            return self.higher_order(node, name, env)
        raise self.refused(node, f"it calls {name}")

    def plain(self, node: Any, op: str, env: dict[Any, Any]) -> Value:
        """Appends an op with positional arguments and one result."""
        inputs = [self.value(item, ANY, env) for item in node.args]
        return self.append(node, op, inputs, (self.type(node.meta.get("val")),))[0]

    def overload(self, node: Any, env: dict[Any, Any]) -> Any:
        """Appends an op of torch's registry, with every argument of its schema."""
        schema, val = node.target._schema, node.meta.get("val")
        inputs = []
        for index, argument in enumerate(schema.arguments):
            named = node.kwargs.get(argument.name, argument.default_value)
            given = node.args[index] if index < len(node.args) else named
            if index == 0 and isinstance(given, int | float | complex) and str(argument.type) == "Tensor":
                given = self.as_tensor(given, node.args[1:])
            inputs.append(self.value(given, parse_type(str(argument.type)), env))
        if not schema.returns:
            self.append(node, schema.name, inputs, ())
            return None
        type_of = self.type_without_strides if node in self.unsure else self.type
        if len(schema.returns) > 1:
            # a gradient that a mask leaves out is None to Python, and a tensor by the schema
            return self.append(node, schema.name, inputs, tuple(TENSOR if v is None else type_of(v) for v in val))
        if not isinstance(val, list | tuple):
            return self.append(node, schema.name, inputs, (type_of(val),))[0]
        (made,) = self.append(node, schema.name, inputs, (ListType(TENSOR),))
        return self.append(node, "prim::ListUnpack", (made,), tuple(type_of(item) for item in val))

    def as_tensor(self, number: complex, others: Iterable[Any]) -> Any:
        """Returns a number as a tensor of the type that it has in common with the operands after it."""
        dtype = self.torch.result_type(number, number)
        for other in others:
            held = other.meta.get("val") if isinstance(other, self.torch.fx.Node) else None
            dtype = self.torch.result_type(number, held) if isinstance(held, self.torch.Tensor) else dtype
        return self.torch.tensor(number, dtype=dtype)

    def append(self, node: Any, op: str, inputs: Sequence[Value], types: Sequence[Type]) -> tuple[Value, ...]:
        several = len(types) != 1 or op == "prim::ListUnpack"
        names = [f"{node.name}.{index}" for index in range(len(types))] if several else [node.name]
        called = node.meta.get("result_names") or {}  # names given by a frontend
        names = [called.get(index, name) for index, name in enumerate(names)]
        return self.build.node(op, inputs, types, names=names, location=self.location(node), scope=_scope(node))

    def value(self, given: Any, type: Type, env: Mapping[Any, Any]) -> Value:
        """Returns an argument as a value of the graph; `type` is its type in the schema."""
        if isinstance(given, self.torch.fx.Node):
            held = env[given]
            if isinstance(held, Value):
                return held
            if isinstance(held, tuple):
                return self.build.op("prim::ListConstruct", *held, type=ListType(TENSOR))
            return self.constant(held)
        if isinstance(given, list | tuple) and any(isinstance(item, self.torch.fx.Node) for item in given):
            element = _element(type)
            items = [self.value(item, element, env) for item in given]
            return self.build.op("prim::ListConstruct", *items, type=ListType(INT if element == ANY else element))
        return self.constant(given, type)

    def constant(self, payload: Any, type: Type = ANY) -> Value:
        """Returns a constant, one per block; `type` decides where a payload could have several types (an empty list)."""
        if isinstance(payload, self.torch.Tensor):
            return self.build.constant(tensor_data(payload), type=tensor_type(payload))
        wanted = type.element if isinstance(type, OptionalType) else type
        return self.emit.constant(*_payload(payload, wanted))

    def higher_order(self, node: Any, name: str, env: dict[Any, Any]) -> Any:
        """Imports ops that run a graph: a branch becomes `prim::If`, a region of another gradient mode is inlined."""
        if name == "cond":
            return self.cond(node, env)
        args = list(node.args)
        if name == "wrap_with_set_grad_enabled":
            return self.inline(args[1], args[2:], env)
        if name == "wrap_with_autocast" and not args[2]:
            return self.inline(args[4], args[5:], env)
        if name == "wrap_with_autocast":
            hint = "if you trust who made the file, trust=True decomposes it; or save program.run_decompositions({})"
            raise self.refused(node, "it runs under autocast", hint)
        if name == "with_effects":
            return self.ordered(node, env)
        raise self.refused(node, f"it is the higher-order op {name}", "write that part of the model with plain ops, or leave it out")

    def ordered(self, node: Any, env: dict[Any, Any]) -> Any:
        """Imports an op that AOTAutograd keeps in its place by a token, such as a check of errors: the token is no value of ours."""
        _, target, *args = node.args
        val = node.meta["val"][1:]
        val = val[0] if len(target._schema.returns) == 1 else val
        facts = {name: getattr(node, name, None) for name in ("name", "op", "stack_trace", "kwargs")}
        made = self.call(SimpleNamespace(**facts, target=target, args=tuple(args), meta={**node.meta, "val": val}), env)
        return ((), *(made if isinstance(made, tuple) else () if made is None else (made,)))

    def inline(self, module: Any, operands: Iterable[Any], env: dict[Any, Any]) -> tuple[Value, ...]:
        return self.applied(env[module], [self.value(item, ANY, env) for item in operands])

    def cond(self, node: Any, env: dict[Any, Any]) -> tuple[Value, ...]:
        predicate, *branches = node.args[:3]
        operands = [self.value(item, ANY, env) for item in node.args[3]]
        condition = self.value(predicate, BOOL, env)
        if isinstance(condition.type, TensorType):
            condition = self.build.op("aten::Bool", condition, type=BOOL)
        blocks = []
        for branch in branches:
            with self.emit.block() as block:
                block.returns(self.applied(env[branch], operands))
            blocks.append(block)
        type_of = self.type_without_strides if node in self.unsure else self.type
        types = [type_of(item) for item in node.meta["val"]]
        names = [f"{node.name}.{i}" for i in range(len(types))]
        return self.build.node("prim::If", (condition,), types, blocks, names=names, location=self.location(node), scope=_scope(node))

    def applied(self, module: Any, operands: Sequence[Value]) -> tuple[Value, ...]:
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        return self.body(module, dict(zip(placeholders, operands, strict=True)))

    def type_without_strides(self, val: Any) -> Type:
        found = self.type(val)
        return replace(found, strides=None) if isinstance(found, TensorType) else found

    def type(self, val: Any) -> Type:
        """Returns the type of FX's example of a value: a fake tensor, a symbolic number, a plain one."""
        if isinstance(val, self.torch.Tensor):
            shape = tuple(_extent(dim) for dim in val.shape)
            strides = tuple(val.stride()) if val.layout == self.torch.strided else (None,)
            known = all(type(stride) is int for stride in strides)
            return TensorType(dtype_name(val.dtype), shape, strides if known else None, str(val.device))
        for kind, symbolic in ((BOOL, "SymBool"), (INT, "SymInt"), (FLOAT, "SymFloat")):
            if isinstance(val, getattr(self.torch, symbolic)):
                return kind
        if isinstance(val, list | tuple):
            return ListType(self.type(val[0])) if val else ListType(INT)
        return payload_type(val)

    def location(self, node: Any) -> Location | None:
        return _location(node, self.torch_folder, self.is_live)

    def refused(self, node: Any, why: str, hint: str = "") -> CaptureError:
        where = str(self.location(node) or "")
        hint = hint or "load torch.jit.script(model) instead, or remove that part from the model"
        return CaptureError(f"the exported node %{node.name} has no counterpart in the IR: {why}", where=where, hint=hint)


# Ops that decompositions leave in a program, in terms of those that have a meaning here.


def _convert(importer: _Import, node: Any, env: Mapping[Any, Any]) -> Value:
    given, dtype = node.args
    flags = [importer.constant(item) for item in (dtype, False, False, None)]
    return importer.append(node, "aten::to", [importer.value(given, ANY, env), *flags], (importer.type(node.meta["val"]),))[0]


def _iota(importer: _Import, node: Any, env: Mapping[Any, Any]) -> Value:
    named = node.kwargs
    first, step, length = (importer.value(item, INT, env) for item in (named["start"], named["step"], node.args[0]))
    if all(isinstance(item, int) for item in (named["start"], named["step"], node.args[0])):
        end = importer.constant(named["start"] + node.args[0] * named["step"])
    else:
        span = importer.build.op("aten::mul", length, step, type=INT)
        end = importer.build.op("aten::add", first, span, type=INT)
    rest = [importer.constant(item) for item in (named["dtype"], None, named["device"], False)]
    return importer.append(node, "aten::arange", [first, end, step, *rest], (importer.type(node.meta["val"]),))[0]


def _max_pool(importer: _Import, node: Any, env: Mapping[Any, Any]) -> tuple[Value, ...] | None:
    """The pooling with indices; nothing if its second result, offsets inside each window, is read as such."""
    offsets = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
    if any(_op(reader) != "prims::_low_memory_max_pool_offsets_to_indices" for user in offsets for reader in user.users):
        return None
    arguments = [importer.value(node.args[0], ANY, env), *map(importer.constant, node.args[1:])]
    maxima, indices = node.meta["val"]
    op = f"aten::max_pool{len(node.args[1])}d_with_indices"
    wide = indices.to(importer.torch.int64)
    return importer.append(node, op, arguments, (importer.type(maxima), importer.type(wide)))


def _pool_indices(importer: _Import, node: Any, env: Mapping[Any, Any]) -> Value | None:
    """The second result of the pooling, which has indices here."""
    found = env[node.args[0]]
    return found if isinstance(found, Value) and getattr(found.type, "dtype", None) == "int64" else None


def _number_first(importer: _Import, node: Any, env: Mapping[Any, Any]) -> Value | None:
    """A number and a tensor, which FX writes as an op of two tensors: the op that takes a number as the second."""
    if len(node.args) != 2 or not isinstance(node.args[0], int | float | complex):
        return None
    op, alpha = _op(node), node.kwargs.get("alpha", 1)
    if op == "aten::add" and alpha != 1:
        return None
    rest = [] if op == "aten::mul" else [importer.constant(alpha)]
    operands = [importer.value(node.args[1], TENSOR, env), importer.constant(node.args[0]), *rest]
    return importer.append(node, "aten::rsub" if op == "aten::sub" else op, operands, (importer.type(node.meta["val"]),))[0]


_RULES: Final[Mapping[str, Callable[[_Import, Any, Mapping[Any, Any]], Any]]] = {
    "aten::add": _number_first,
    "aten::mul": _number_first,
    "aten::sub": _number_first,
    "prims::convert_element_type": _convert,
    "prims::iota": _iota,
    "prims::_make_token": lambda *_: (),  # it orders calls, and is no value
    "prims::_sink_tokens": lambda *_: (),
    "prims::_low_memory_max_pool_with_offsets": _max_pool,
    "prims::_low_memory_max_pool_offsets_to_indices": _pool_indices,
}
"""A rule returns the results, or None where the op stays as it is."""


def _payload(payload: Any, type: Type) -> tuple[Any, Type]:
    """Returns a plain argument as a constant's payload, and its type."""
    text = str(payload).removeprefix("torch.")
    kind = payload.__class__.__name__
    if kind == "dtype":
        return CODES[text], INT
    if kind == "memory_format":
        return MEMORY_FORMATS.index(text), INT
    if kind == "layout":
        return LAYOUTS.index(text), INT
    if kind == "device":
        return str(payload), DEVICE
    if isinstance(payload, list | tuple):
        element = _element(type)
        made = [_payload(item, element) for item in payload]
        inside = made[0][1] if made and element == ANY else INT if element == ANY else element
        return tuple(item for item, _ in made), ListType(inside)
    if type == FLOAT and isinstance(payload, int) and not isinstance(payload, bool):
        return float(payload), FLOAT
    if payload is None:
        return None, NONE
    return payload_of(payload), payload_type(payload)


def _element(type: Type) -> Type:
    inside = type.element if isinstance(type, OptionalType) else type
    return inside.element if isinstance(inside, ListType) else ANY


def _extent(dim: Any) -> int | str | None:
    """Returns a size: a number, a symbol, or None for an expression of symbols."""
    return dim if isinstance(dim, int) else str(dim) if str(dim).isidentifier() else None


def place_of(node: Any) -> tuple[Location | None, str]:
    """Returns the line and the module from which an FX node of a program comes that was traced in this process."""
    torch = require_torch("to read a traced program")
    return _location(node, str(Path(str(torch.__file__)).parent), lambda _: True), _scope(node)


def _location(node: Any, torch_folder: str, is_live: Callable[[str], bool]) -> Location | None:
    """Returns the innermost frame of the user's code, else of torch's; code in strings has no lines to show."""
    frames = re.findall(r'File "(.*?)", line (\d+)', node.meta.get("stack_trace") or "")
    ours = str(Path(__file__).parent)
    frames = [frame for frame in frames if not frame[0].startswith(("torch/", "<eval", "<string>", ours))]
    users = [frame for frame in frames if not frame[0].startswith(torch_folder)]
    layers = [frame for frame in frames if frame[0].startswith(str(Path(torch_folder, "nn")))]  # the tracer's are on top of them
    file, line = (users or layers or frames or [("", "0")])[-1]
    return Location(cell_name(file), int(line), live=is_live(file)) if file else None


def _scope(node: Any) -> str:
    """Returns the dotted path of the innermost module, from FX's stack of them."""
    said = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    stack = [entry for entry in said.values() if isinstance(entry, tuple)]
    path = str(stack[-1][0]) if stack and not str(stack[-1][0]).startswith("_empty") else ""
    path = re.sub(r"getattr\((.*?), ['\"](.*?)['\"]\)", r"\1.\2", path)
    path = re.sub(r"^L\[['\"]self['\"]\]\.?|^L__self__\.?", "", path)
    return re.sub(r"^[LG]\[['\"](\w+)['\"]\]", r"\1", path)  # a module that a function was given, or found by its name


# The assumptions of `torch.export` about the arguments, as guards that the program checks at each call.
#
# Three things are specialised in an exported program and not visible in it: numbers, flags and strings that were arguments; the offset of
# an argument in its storage, where `as_strided` counts from the storage's start; and that two arguments are distinct objects, where the
# shape of one is changed in place. Other arguments raise a ValueError that says so.


def guard_arguments(emit: Emitter, env: Mapping[Any, Any], signature: Any, module: Any) -> None:
    """Append the guards to the open block; `env` has a value for each placeholder of the module's FX graph."""
    specs = zip([node for node in env if node.op == "placeholder"], signature.input_specs, strict=True)
    given = {node: spec for node, spec in specs if spec.kind.name == "USER_INPUT"}
    for node, spec in given.items():
        baked = getattr(spec.arg, "value", None)
        if isinstance(baked, bool | int | float | str):
            message = f"the program was exported for {node.name}={baked!r}, export it again for another"
            _guard(emit, env[node], baked, message)
    for node in _bases(module.graph.nodes):
        baked = node.meta["val"].storage_offset()
        if node in given and isinstance(baked, int):
            found = emit.op("aten::storage_offset", env[node], type=INT)
            message = f"the program was exported for {node.name} from element {baked} of its storage on, export it again for another"
            _guard(emit, found, baked, message)
    tensors = [node for node in given if hasattr(node.meta.get("val"), "storage_offset")]
    for changed in _reshaped(module.graph.nodes):
        for other in tensors if changed in given else ():
            if other is not changed:
                found = emit.op("aten::__is__", env[changed], env[other], type=BOOL)
                both = f"two tensors {changed.name} and {other.name}, and changes the shape of the first"
                _guard(emit, found, False, f"the program was exported for {both}: they must not be the same object")


def _guard(emit: Emitter, found: Value, baked: bool | int | float | str, message: str) -> None:
    differs = emit.op("ne", found, baked, type=BOOL)
    operands = emit.constant(message), emit.constant("builtins.ValueError")
    with emit.block() as fails:
        emit.node("prim::RaiseException", operands, ())
    with emit.block() as goes_on:
        pass
    emit.node("prim::If", (differs,), (), blocks=(fails, goes_on))


def _bases(nodes: Iterable[Any]) -> list[Any]:
    """Return the placeholders whose storage an `as_strided` with an explicit offset addresses, directly or through views."""
    base_of: dict[Any, Any] = {}
    found: dict[Any, None] = {}
    for node in nodes:
        base = _first_operand(node, base_of)
        if base is None:
            continue
        schema = getattr(node.target, "_schema", None)
        if node.target is operator.getitem or (schema is not None and schema.arguments[0].alias_info is not None):
            base_of[node] = base
        if schema is not None and "as_strided" in schema.name:
            place = [argument.name for argument in schema.arguments].index("storage_offset")
            if len(node.args) > place or "storage_offset" in node.kwargs:
                found[base] = None
    return list(found)


def _reshaped(nodes: Iterable[Any]) -> list[Any]:
    """Return the placeholders whose shape or strides an op changes in place."""
    object_of: dict[Any, Any] = {}
    found: dict[Any, None] = {}
    for node in nodes:
        base = _first_operand(node, object_of)
        if base is None or not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            continue
        object_of[node] = base
        if any(tag.name == "inplace_view" for tag in node.target.tags):
            found[base] = None
    return list(found)


def _first_operand(node: Any, known: dict[Any, Any]) -> Any:
    """Return the placeholder known for a call's first operand; a placeholder is its own."""
    if node.op == "placeholder":
        known[node] = node
    return known.get(node.args[0]) if node.op == "call_function" and node.args and hasattr(node.args[0], "op") else None


# Detects assertions of torch.export that contradict what torch does.
#
# If the extent of a result depends on elements, torch.export asserts the bounds that it assumed. For `masked_select` it
# assumes at most as many elements as the first operand has; but the operand and the mask are broadcast first, so that a
# mask with more elements can select more. torch itself runs the call; only the exported program stops.


def is_wrong_bound(node: Any) -> bool:
    """Checks whether an FX node limits a `masked_select` to the number of elements that its operand has before broadcasting."""
    if _op(node) != "aten::_assert_scalar" or getattr(node.args[0], "target", None) is not operator.le:
        return False
    extent, bound = node.args[0].args
    if _op(extent) != "aten::sym_size" or _op(extent.args[0]) != "aten::masked_select":
        return False
    shapes = [tuple(operand.meta["val"].shape) for operand in extent.args[0].args[:2]]
    if not all(type(size) is int for shape in (*shapes, (bound,)) for size in shape):
        return False
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return bool(bound == math.prod(shapes[0]) < math.prod(b if a == 1 else a for a, b in columns))


def _op(node: Any) -> str:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return schema.name if schema is not None else ""
