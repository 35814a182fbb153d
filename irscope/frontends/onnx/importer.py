"""Imports a model node by node: names become values, each op is imported by its builder or as an opaque `onnx::` op.

A node is imported in the first of four ways that applies:

1. control flow (`If`, `Loop`, `Scan`) and calls of the model's own functions, which every program may contain;
2. the op's builder, if there is one for its opset: it appends `aten::` ops, or refuses;
3. the function by which ONNX itself defines the op, if every op in it is imported by way 1 or 2;
4. the op as it is, `onnx::Name` (`onnx::domain.Name` for domains other than ONNX's own), with its attributes.

A builder that refuses leaves no trace but the reason, in `refusals`. A program in ONNX has values and no memory: the
graph is marked as `functional`, and nothing that is appended here writes to a value of the model.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.errors import LoadError
from irscope.frontends.emit import Refused
from irscope.frontends.onnx.call import Call, Emitter, Held, Result, definition_of, fold, rule_for
from irscope.frontends.onnx.types import ELEMENT_TYPES, dense_of, elements_of, inferred, is_missing, merged, place_of, schema_of_op, type_of
from irscope.ir import TENSOR, Graph, Node, Opaque, TensorData, TensorType, Type, Value
from irscope.ir.builder import BlockBuilder
from irscope.ir.payload import argument_type, element_name


@dataclass(frozen=True)
class Frame:
    """The context of a node: the names it sees, the opset versions, and the attributes of the function around it."""

    names: dict[str, Held]
    outer: tuple[dict[str, Held], ...]
    """The names of the bodies around it, innermost first."""
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    declared: Mapping[str, Type] = field(default_factory=dict)
    """The types that the file declares for its names; used for ops that ONNX does not define."""
    scope: str = ""
    depth: int = 0
    is_own: bool = True
    """Whether its nodes are the model's, or those of a function that the model calls; not those of a body or of a definition of ONNX."""

    def find(self, name: str) -> Held | None:
        for names in (self.names, *self.outer):
            if name in names:
                return names[name]
        return None


_MAX_DEPTH: Final = 100
"""How deep functions may call each other and bodies may nest."""


MALFORMED: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Errors of a builder whose attributes or operands violate ONNX's types or ranks."""


Structured = Callable[["Importer", Call, Frame], Sequence[Result]]
"""Imports an op whose attributes hold the bodies of a branch or loop."""


class Importer:
    """The import of one model: the graph so far, its bindings, and which ops stayed opaque and why."""

    def __init__(
        self, model: Any, control: Mapping[str, Structured], folder: Path | None, name: str, file: str, examples: Sequence[Any] = (),
        *, without_weights: bool = False,
    ) -> None:  # fmt: skip
        self.model = model
        self.control = control
        """The importers of ONNX's control flow, by op."""
        self.file = file
        self.examples = examples
        """Arguments whose extents take the place of those that the file leaves open."""
        self.without_weights = without_weights
        """Whether weights whose file is missing become inputs."""
        self.emit = Emitter(name, folder)
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.refusals: list[tuple[str, str, str]] = []
        """Name and op of each node that stayed `onnx::`, and why it has no `aten::` meaning."""
        self.made: list[tuple[int, tuple[Node, ...]]] = []
        """What each node of the model's own graph became, in its order, with its number there; of a call, each node of the function."""
        self.number = 0

    def run(self) -> Graph:
        """Returns the graph. Raises LoadError, with the node, for anything that cannot be represented."""
        check_sizes(self.model)
        graph = self.model.graph
        opsets = {entry.domain or "ai.onnx": entry.version for entry in self.model.opset_import}
        frame = Frame({}, (), opsets, declared=self.declared_types(graph))
        given = {tensor.name for tensor in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
        free = [info for info in graph.input if info.name not in given]
        examples = self.examples if len(self.examples) == len(free) else [None] * len(free)
        for info, example in zip(free, examples, strict=True):
            type = _with_extents(type_of(info.type), example)
            self.define(frame, info.name, Held(self.emit.input(info.name, type)), info.name)
        self.initializers(graph, frame)
        self.import_nodes(graph.node, frame)
        outputs = [self.emit.value_of(self.meaning_of(frame, info.name, "the outputs")) for info in graph.output]
        made = self.emit.build.finish(outputs, bound=self.emit.bound)
        used = {v: held for v, held in made.bound.items() if v in made.users}  # not weights that only a builder read that refused
        params = tuple(v for v in made.body.params if v in used or v not in made.bound)
        return replace(made, body=replace(made.body, params=params), bound=used, functional="ONNX")

    def declared_types(self, graph: Any) -> Mapping[str, Type]:
        """Returns the types that the file declares for the names of a body."""
        return {info.name: type_of(info.type) for info in (*graph.value_info, *graph.output)}

    # Names

    def define(self, frame: Frame, name: str, held: Held, where: str = "") -> None:
        """Gives a name its meaning. Raises LoadError if it has one; `nodes` adds the node to an error without a place."""
        if not name:
            return
        if name in frame.names:
            raise self.naming_error(f"{name!r} is defined twice", where, "every name of a model has one definition")
        frame.names[name] = held

    def meaning_of(self, frame: Frame, name: str, where: str = "") -> Held:
        """Returns the meaning of a name. Raises LoadError for a name that is not defined."""
        held = frame.find(name)
        if held is None:
            raise self.naming_error(f"{name!r} is used and not defined", where, "nodes must be in execution order")
        return held

    def naming_error(self, what: str, where: str, hint: str) -> LoadError:
        return self.error(what, where, hint) if where else LoadError(what, hint=hint)

    def initializers(self, graph: Any, frame: Frame) -> None:
        """Defines the weights, which are read, and become bound inputs, when an op first needs them."""
        for tensor in graph.initializer:
            what = f"the initialiser {tensor.name!r}"
            declared = TensorType(ELEMENT_TYPES.get(tensor.data_type), tuple(tensor.dims))
            if self.without_weights and is_missing(tensor, self.emit.folder):
                held = Held(self.emit.input(tensor.name, declared), is_weight=True)
                self.define(frame, tensor.name, held, tensor.name)
                continue
            load = partial(elements_of, tensor, self.emit.folder, what)
            self.define(frame, tensor.name, Held(load=load, name=tensor.name, is_weight=True, declared=declared), tensor.name)
        for sparse in graph.sparse_initializer:
            what = f"the initialiser {sparse.values.name!r}"
            array = dense_of(sparse, self.emit.folder, what)
            self.define(frame, sparse.values.name, Held(array=array, name=sparse.values.name, is_weight=True), sparse.values.name)

    # Bodies

    def body(self, graph: Any, frame: Frame, names: dict[str, Held]) -> list[Held]:
        """Appends a body, in which these names are defined, to the open block; returns the meanings of its outputs."""
        outer, declared = (frame.names, *frame.outer), self.declared_types(graph)
        inner = replace(frame, names=names, outer=outer, declared=declared, depth=frame.depth + 1, is_own=False)
        self.initializers(graph, inner)
        self.import_nodes(graph.node, inner)
        return [self.meaning_of(inner, info.name, f"the outputs of {graph.name!r}") for info in graph.output]

    def results(self, graph: Any, frame: Frame, names: dict[str, Held]) -> list[Value]:
        """Appends a body as `body` does; returns its outputs as values."""
        return [self.emit.value_of(held) for held in self.body(graph, frame, names)]

    def block_of(self, graph: Any, frame: Frame) -> BlockBuilder:
        """Appends a body as a block whose parameters are the body's inputs."""
        with self.emit.block([(info.name, type_of(info.type)) for info in graph.input]) as block:
            names = {info.name: Held(value) for info, value in zip(graph.input, block.params, strict=True)}
            block.returns(self.results(graph, frame, names))
        return block

    # Nodes

    def import_nodes(self, nodes: Sequence[Any], frame: Frame) -> None:
        """Appends a body's nodes to the open block."""
        if frame.depth > _MAX_DEPTH:
            raise self.error(f"functions and bodies are nested more than {_MAX_DEPTH} deep", "", hint="does one call itself?")
        for index, node in enumerate(nodes):
            mark = self.emit.build.mark()
            self.number = index if frame.depth == 0 else self.number
            try:
                self.import_node(node, frame)
            except LoadError as error:
                if error.where:
                    raise
                raise self.error(error.what, _title(node, index), error.hint) from None
            except Refused as why:
                raise self.error(f"{node.op_type} violates the ONNX specification: {why}", _title(node, index)) from None
            except MALFORMED as error:
                what = f"{node.op_type} violates the ONNX specification ({type(error).__name__}: {error})"
                raise self.error(what, _title(node, index), "the model is damaged: export it again") from None
            if frame.is_own and _key(node) not in self.functions:
                self.made.append((self.number, self.emit.build.since(mark)))

    def import_node(self, node: Any, frame: Frame) -> None:
        if not all(isinstance(name, str) for name in (*node.input, *node.output, node.op_type, node.domain, node.name)):
            raise LoadError("a name in it is not UTF-8 text", hint="the model is damaged: export it again")
        node = with_attributes(node, frame.attributes)
        domain = node.domain or "ai.onnx"
        inputs = [self.meaning_of(frame, name) if name else None for name in node.input]
        before = self.emit.place
        self.emit.place = place_of(node, before, frame.scope)
        opset = frame.opsets.get(domain, 0)
        call = Call(self.emit, node, inputs, opset)
        results = self.import_op(call, domain, frame)
        self.emit.place = before
        for name, result in zip(node.output, results, strict=False):
            self.define(frame, name, result if isinstance(result, Held) else Held(result))

    def import_op(self, call: Call, domain: str, frame: Frame) -> Sequence[Result]:
        """Returns the outputs of a node, imported in the first of the four ways that applies."""
        node = call.node
        own = self.functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if own is not None:
            return inline_call(self, own, call, frame)
        structured = self.control.get(node.op_type) if domain == "ai.onnx" else None
        mark = self.emit.mark()
        try:
            if structured is not None:
                return structured(self, call, frame)
            return self.name_results(call, mark, self.build_op(call, domain, frame), domain)
        except Refused as why:
            self.emit.take_back(mark)
            self.refusals.append((node.name, f"{domain}.{node.op_type}", str(why)))
            return append_opaque(self, call, domain, frame)

    def build_op(self, call: Call, domain: str, frame: Frame) -> Sequence[Result]:
        """Returns a node's outputs from the op's builder, or from the function that defines it. Raises Refused."""
        known = fold(call) if domain == "ai.onnx" else None
        if known is not None:
            return [known]
        rule = rule_for(domain, call.node.op_type, call.opset)
        mark = self.emit.mark()
        why = "there is no builder for it"
        if rule is not None:
            try:
                _check_flags(call)
                made = rule(call)
                return [made] if isinstance(made, Value | Held) else list(made)
            except Refused as refused:
                why = str(refused)
            except MALFORMED as error:
                why = f"it violates the ONNX specification ({type(error).__name__}: {error})"
            self.emit.take_back(mark)
        found = inline_definition(self, call, domain, frame)
        if found is None:
            raise Refused(why)
        return found

    def name_results(self, call: Call, mark: tuple[int, int], results: Sequence[Result], domain: str) -> Sequence[Result]:
        """Names the results after the outputs, and completes their types by ONNX's inference."""
        inferences = self.inferred_types(call, domain) if any(isinstance(r, Value) and _is_open(r.type) for r in results) else ()
        wanted: dict[Value, tuple[str, Type]] = {}
        for index, (name, result) in enumerate(zip(call.node.output, results, strict=False)):
            if isinstance(result, Value) and name:
                type = merged(result.type, inferences[index]) if inferences else result.type
                wanted.setdefault(result, (name, type))
        renamed = self.emit.rename(mark, wanted)
        return [renamed.get(result, result) if isinstance(result, Value) else result for result in results]

    def inferred_types(self, call: Call, domain: str) -> Sequence[Type]:
        """Returns the types that ONNX infers for a node's outputs."""
        inputs = {
            name: (held.type, held.array if held.array is not None else _small(held))
            for name, held in zip(call.node.input, call.inputs, strict=True)
            if held is not None
        }
        return inferred(call.node, domain, call.opset, inputs, self.model.ir_version)

    def error(self, what: str, where: str, hint: str = "") -> LoadError:
        place = f"{self.file}: {where}" if self.file and where else self.file or where
        return LoadError(what, where=place, hint=hint)


def _with_extents(type: Type, example: Any) -> Type:
    """Returns an input's type with the extents of an example that fits it; as it is, if none does."""
    found = argument_type(example)
    if not isinstance(type, TensorType) or not isinstance(found, TensorType) or found.shape is None:
        return type
    shape = (None,) * len(found.shape) if type.shape is None else type.shape
    fits = len(shape) == len(found.shape) and all(not isinstance(a, int) or a == b for a, b in zip(shape, found.shape, strict=True))
    return type.with_(shape=found.shape) if fits and type.dtype in (None, found.dtype) else type


def _small(held: Held) -> np.ndarray[Any, Any] | None:
    shape = held.type.shape if isinstance(held.type, TensorType) else None
    few = shape is not None and len(shape) <= 1 and all(isinstance(extent, int) and extent <= 64 for extent in shape)
    return held.known() if few else None


FLAGS: Final = frozenset(
    """
    align_corners allowzero antialias ceil_mode count_include_pad exclude_outside exclusive fmod input_forget keepdims largest layout
    linear_before_reset new_axis noop_with_empty_axes reverse select_last_index sorted transA transB upper""".split()
)
"""The attributes of which ONNX knows only the values 0 and 1."""
_PADDINGS: Final = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "")


def _check_flags(call: Call) -> None:
    """Raises Refused for a flag that is neither 0 nor 1, or an unknown kind of padding, which libraries interpret differently."""
    for name in FLAGS & call.attributes.keys():
        if call.attr(name) not in (0, 1):
            raise Refused(f"its flag {name} is neither 0 nor 1")
    if call.attr("auto_pad", "") not in _PADDINGS:
        raise Refused("its auto_pad is not one that ONNX defines")


def _is_open(type: Type) -> bool:
    return isinstance(type, TensorType) and (type.dtype is None or type.shape is None or None in type.shape)


def _title(node: Any, index: int | None = None) -> str:
    """Returns a node's name in an error."""
    domain = f"{node.domain}." if node.domain else ""
    name = f" {node.name!r}" if node.name else f" number {index}" if index is not None else ""
    made = f", which computes {', '.join(map(str, node.output[:8]))[:80]}" if node.output else ""
    return re.sub(r"[^ -~]", "?", f"node{name}: {domain}{node.op_type}{made}")


# Inlines calls of functions: the model's own, and those by which ONNX defines its composite ops.


def with_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """Returns the node with references to attributes of the enclosing function replaced by the attributes of the inline_call."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    kept = []
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            own = type(attribute)()
            own.CopyFrom(source)
            own.name = attribute.name
            kept.append(own)
    made = type(node)()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(kept)
    return made


_MAX_NODES: Final = 30_000
"""How many nodes function calls may expand to, in addition to twenty times those in the file: a few lines can ask for 2^40."""


def check_sizes(model: Any) -> None:
    """Raises LoadError if the model's functions inline_call themselves, or expand to far more nodes than the file has."""
    bodies = {(f.domain, f.name, f.overload): list(_all_nodes(f.node)) for f in model.functions}
    top = list(_all_nodes(model.graph.node))
    if not bodies:
        return
    limit = _MAX_NODES + 20 * (len(top) + sum(map(len, bodies.values())))
    calls = {key: [inner for node in nodes if (inner := _key(node)) in bodies] for key, nodes in bodies.items()}
    sizes: dict[tuple[str, str, str], int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():  # callees first
            sizes[key] = len(bodies[key]) + sum(sizes[inner] for inner in calls[key])
    except CycleError as error:
        raise LoadError(f"the function {error.args[1][0][1]!r} calls itself", hint="ONNX has no recursion: write a Loop") from None
    total = len(top) + sum(sizes.get(_key(node), 0) for node in top)
    if total > limit:
        what = f"the calls of functions expand to {total if total < 1 << 60 else 'more than 2^60'} nodes"
        raise LoadError(what, hint="inline the functions yourself (onnx.inliner), or load a part of the model")


def _key(node: Any) -> tuple[str, str, str]:
    return node.domain, node.op_type, getattr(node, "overload", "")


def _all_nodes(nodes: Any) -> Iterator[Any]:
    """Yields nodes, and those of the bodies in their attributes."""
    stack = [iter(nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            inner = [graph.node for a in node.attribute for graph in ((a.g,) if a.HasField("g") else a.graphs)]
            if inner:
                stack.append(chain(*inner))
                break
        else:
            stack.pop()


def inline_call(importer: Importer, function: Any, call: Call, frame: Frame) -> Sequence[Result]:
    """Inlines one of the model's functions at its inline_call."""
    attributes = {proto.name: proto for proto in function.attribute_proto} | call.attributes
    opsets = {entry.domain or "ai.onnx": entry.version for entry in function.opset_import} or frame.opsets
    return _inlined(importer, function, call, replace(frame, opsets=opsets, attributes=attributes))


def inline_definition(importer: Importer, call: Call, domain: str, frame: Frame) -> Sequence[Result] | None:
    """Inlines the function that defines one of ONNX's ops; None if there is none. Raises Refused if an op in it has no `aten::` meaning."""
    function = definition_of(call, domain)
    if function is None:
        return None
    opsets = {entry.domain or "ai.onnx": entry.version for entry in function.opset_import}
    versions = {**frame.opsets, domain: call.opset, **opsets}
    schema = schema_of_op(call.node.op_type, domain, call.opset)
    defaults = {name: item.default_value for name, item in schema.attributes.items() if item.default_value.name}
    inner = replace(frame, opsets=versions, attributes=defaults | call.attributes, is_own=False)
    refused = len(importer.refusals)
    found = _inlined(importer, function, call, inner)
    if len(importer.refusals) == refused:
        return found
    _, op, why = importer.refusals[refused]
    del importer.refusals[refused:]
    raise Refused(f"its definition uses {op}: {why}")


def _inlined(importer: Importer, function: Any, call: Call, frame: Frame) -> Sequence[Result]:
    names = {name: held for name, held in zip(function.input, call.inputs, strict=False) if held is not None}
    scope = importer.emit.place.scope
    title = call.node.name.rpartition("/")[2] or call.node.op_type
    inner = replace(frame, names=names, outer=(), declared={}, scope=f"{scope}.{title}" if scope else title, depth=frame.depth + 1)
    missing = set(function.input[len(call.inputs) :]) | {
        name for name, held in zip(function.input, call.inputs, strict=False) if held is None
    }
    nodes = [_without(node, missing) for node in function.node] if missing else function.node
    importer.import_nodes(nodes, inner)
    wanted = function.output[: len(call.node.output)]
    found = [
        inner.names.get(name) if not call.node.output[index] else importer.meaning_of(inner, name, function.name)
        for index, name in enumerate(wanted)
    ]
    return [held.value if held is not None and held.value is not None else held for held in found]  # type: ignore[misc]


def _without(node: Any, missing: set[str]) -> Any:
    """Returns a node without the inputs that the inline_call omits."""
    if not any(name in missing for name in node.input):
        return node
    made = type(node)()
    made.CopyFrom(node)
    del made.input[:]
    made.input.extend("" if name in missing else name for name in node.input)
    return made


# Imports an ONNX op as it is: `onnx::TopK`, `onnx::com.microsoft.Gelu`, with readable attributes and the known types.
#
# The attribute `opset` is the version of the op, which its execution needs.

_NAME = re.compile(r"[A-Za-z_][\w.]*")


def append_opaque(importer: Importer, call: Call, domain: str, frame: Frame) -> Sequence[Result]:
    """Appends the node itself; a body among its attributes becomes a block."""
    node = call.node
    name = node.op_type if domain == "ai.onnx" else f"{domain}.{node.op_type}"
    if not _NAME.fullmatch(name):
        raise LoadError(f"the op {name!r} has a name that IR text cannot hold", hint="letters, digits, dots and _")
    attrs: dict[str, Any] = {}
    blocks: list[BlockBuilder] = []
    for attribute in node.attribute:
        if not isinstance(attribute.name, str):
            raise LoadError(f"{name} has an attribute whose name is not UTF-8 text: {attribute.name!r}")
        if attribute.HasField("g"):
            blocks.append(importer.block_of(attribute.g, frame))
        elif attribute.graphs:
            raise LoadError(f"{name} carries several graphs in {attribute.name!r}, which have no counterpart in the IR")
        else:
            attrs[attribute.name] = payload(importer.emit.attribute(attribute))
    if getattr(node, "overload", ""):
        attrs["overload"] = node.overload
    attrs["opset"] = call.opset
    inputs = [importer.emit.constant(None) if held is None else importer.emit.value_of(held) for held in call.inputs]
    found = zip(node.output, importer.inferred_types(call, domain), strict=True)  # what ONNX does not define, the file may declare
    types = [frame.declared.get(name, TENSOR) if type == TENSOR else type for name, type in found]
    return importer.emit.node(f"onnx::{name}", inputs, types, attrs, blocks, names=list(node.output))


def payload(found: Any) -> Any:
    """Converts an attribute to a form that a node can carry."""
    if isinstance(found, np.ndarray):
        dtype = element_name(found)
        return TensorData(dtype, found.shape, found.view(np.uint16) if dtype == "bfloat16" else found)
    if isinstance(found, list | tuple):
        return tuple(payload(item) for item in found)
    if found is None or isinstance(found, bool | int | float | str):
        return found
    return Opaque(re.sub(r"\s+", " ", str(found)).strip()[:200], found)
