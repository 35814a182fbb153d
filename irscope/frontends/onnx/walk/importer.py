"""Imports a model node by node: names become values, each op is imported by its builder or as an opaque `onnx::` op.

A node is imported in the first of four ways that applies:

1. control flow (`If`, `Loop`, `Scan`) and calls of the model's own functions, which every program may contain;
2. the op's builder, if there is one for its opset: it appends `aten::` ops, or refuses;
3. the function by which ONNX itself defines the op, if every op in it is imported by way 1 or 2;
4. the op as it is, `onnx::Name` (`onnx::domain.Name` for domains other than ONNX's own), with its attributes.

A builder that refuses leaves no trace but the reason, in `refusals`. A program in ONNX has values and no memory: the
graph is marked as `functional`, and nothing that is appended here writes to a value of the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope.errors import LoadError
from irscope.frontends.emit import Emitter, Place, Refused
from irscope.frontends.onnx.building.call import Call, Result
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.building.op_table import rule_for
from irscope.frontends.onnx.building.values import Values
from irscope.frontends.onnx.reading.inference import inferred
from irscope.frontends.onnx.reading.places import location_of, scope_of
from irscope.frontends.onnx.reading.tensors import dense_of, elements_of, is_missing
from irscope.frontends.onnx.reading.types import ELEMENT_TYPES, merged, type_of
from irscope.frontends.onnx.walk import control, folding, functions, opaque
from irscope.frontends.onnx.walk.frame import Frame
from irscope.ir import Graph, TensorType, Type, Value
from irscope.ir.payload import argument_type

__all__ = ["FLAGS", "MALFORMED", "Importer"]

_MAX_DEPTH: Final = 100
"""How deep functions may call each other and bodies may nest."""


MALFORMED: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Errors of a builder whose attributes or operands violate ONNX's types or ranks."""


class Importer:
    """The import of one model: the graph so far, its bindings, and which ops stayed opaque and why."""

    def __init__(
        self, model: Any, folder: Path | None, name: str, file: str, examples: Sequence[Any] = (), *, without_weights: bool = False
    ) -> None:
        self.model = model
        self.file = file
        self.examples = examples
        """Arguments whose extents take the place of those that the file leaves open."""
        self.without_weights = without_weights
        """Whether weights whose file is missing become inputs."""
        self.emit = Emitter(name)
        self.values = Values(self.emit, folder)
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.refusals: list[tuple[str, str, str]] = []
        """Name and op of each node that stayed `onnx::`, and why it has no `aten::` meaning."""

    def run(self) -> Graph:
        """Returns the graph. Raises LoadError, with the node, for anything that cannot be represented."""
        functions.check_sizes(self.model)
        graph = self.model.graph
        opsets = {entry.domain or "ai.onnx": entry.version for entry in self.model.opset_import}
        frame = Frame({}, (), opsets, told=self.told_types(graph))
        given = {tensor.name for tensor in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
        free = [info for info in graph.input if info.name not in given]
        examples = self.examples if len(self.examples) == len(free) else [None] * len(free)
        for info, example in zip(free, examples, strict=True):
            type = _with_extents(type_of(info.type), example)
            self.define(frame, info.name, Held(self.emit.input(info.name, type)), info.name)
        self.initializers(graph, frame)
        self.nodes(graph.node, frame)
        outputs = [self.values.value_of(self.found(frame, info.name, "the outputs")) for info in graph.output]
        return _without_unused(replace(self.emit.build.finish(outputs, bound=self.values.bound), functional="ONNX"))

    def told_types(self, graph: Any) -> Mapping[str, Type]:
        return {info.name: type_of(info.type) for info in (*graph.value_info, *graph.output)}

    # Names

    def define(self, frame: Frame, name: str, held: Held, where: str = "") -> None:
        """Gives a name its meaning. Raises LoadError if it has one; `nodes` adds the node to an error without a place."""
        if not name:
            return
        if name in frame.names:
            raise self.misnamed(f"{name!r} is defined twice", where, "every name of a model has one definition")
        frame.names[name] = held

    def found(self, frame: Frame, name: str, where: str = "") -> Held:
        held = frame.find(name)
        if held is None:
            raise self.misnamed(f"{name!r} is used and not defined", where, "nodes must be in execution order")
        return held

    def misnamed(self, what: str, where: str, hint: str) -> LoadError:
        return self.error(what, where, hint) if where else LoadError(what, hint=hint)

    def initializers(self, graph: Any, frame: Frame) -> None:
        """Defines the weights, which are read, and become bound inputs, when an op first needs them."""
        for tensor in graph.initializer:
            what = f"the initialiser {tensor.name!r}"
            declared = TensorType(ELEMENT_TYPES.get(tensor.data_type), tuple(tensor.dims))
            if self.without_weights and is_missing(tensor, self.values.folder):
                held = Held(self.emit.input(tensor.name, declared), is_weight=True)
                self.define(frame, tensor.name, held, tensor.name)
                continue
            load = _reader(elements_of, tensor, self.values.folder, what)
            self.define(frame, tensor.name, Held(load=load, name=tensor.name, is_weight=True, told=declared), tensor.name)
        for sparse in graph.sparse_initializer:
            what = f"the initialiser {sparse.values.name!r}"
            array = dense_of(sparse, self.values.folder, what)
            self.define(frame, sparse.values.name, Held(array=array, name=sparse.values.name, is_weight=True), sparse.values.name)

    # Nodes

    def nodes(self, nodes: Sequence[Any], frame: Frame) -> None:
        """Appends a body's nodes to the open block."""
        if frame.depth > _MAX_DEPTH:
            raise self.error(f"functions and bodies are nested more than {_MAX_DEPTH} deep", "", hint="does one call itself?")
        for index, node in enumerate(nodes):
            try:
                self.one(node, frame)
            except LoadError as error:
                if error.where:
                    raise
                raise self.error(error.what, _title(node, index), error.hint) from None
            except Refused as why:
                raise self.error(f"{node.op_type} violates the ONNX specification: {why}", _title(node, index)) from None
            except MALFORMED as error:
                what = f"{node.op_type} violates the ONNX specification ({type(error).__name__}: {error})"
                raise self.error(what, _title(node, index), "the model is damaged: export it again") from None

    def one(self, node: Any, frame: Frame) -> None:
        """Imports one node, and defines its outputs."""
        if not all(isinstance(name, str) for name in (*node.input, *node.output, node.op_type, node.domain, node.name)):
            raise LoadError("a name in it is not UTF-8 text", hint="the model is damaged: export it again")
        node = functions.with_attributes(node, frame.attributes)
        domain = node.domain or "ai.onnx"
        inputs = [self.found(frame, name) if name else None for name in node.input]
        before = self.emit.place
        self.emit.place = Place(location_of(node) or before.location, "", scope_of(node, frame.scope))
        opset = frame.opsets.get(domain, 0)
        call = Call(self.values, node, inputs, opset)
        results = self.meaning(call, domain, frame)
        self.emit.place = before
        for name, result in zip(node.output, results, strict=False):
            self.define(frame, name, result if isinstance(result, Held) else Held(result))

    def meaning(self, call: Call, domain: str, frame: Frame) -> Sequence[Result]:
        """Returns the outputs of a node, imported in the first of the four ways that applies."""
        node = call.node
        own = self.functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if own is not None:
            return functions.call(self, own, call, frame)
        structured = control.STRUCTURED.get(node.op_type) if domain == "ai.onnx" else None
        mark = self.emit.mark()
        try:
            if structured is not None:
                return structured(self, call, frame)
            return self.named(call, mark, self.built(call, domain, frame), domain)
        except Refused as why:
            self.emit.take_back(mark)
            self.refusals.append((node.name, f"{domain}.{node.op_type}", str(why)))
            return opaque.append(self, call, domain, frame)

    def built(self, call: Call, domain: str, frame: Frame) -> Sequence[Result]:
        """Returns a node's outputs from the op's builder, or from the function that defines it. Raises Refused."""
        known = folding.folded(call) if domain == "ai.onnx" else None
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
        found = functions.expanded(self, call, domain, frame)
        if found is None:
            raise Refused(why)
        return found

    def named(self, call: Call, mark: tuple[int, int], results: Sequence[Result], domain: str) -> Sequence[Result]:
        """Names the results after the outputs, and completes their types by ONNX's inference."""
        inferences = self.told(call, domain) if any(isinstance(r, Value) and _is_open(r.type) for r in results) else ()
        wanted: dict[Value, tuple[str, Type]] = {}
        for index, (name, result) in enumerate(zip(call.node.output, results, strict=False)):
            if isinstance(result, Value) and name:
                type = merged(result.type, inferences[index]) if inferences else result.type
                wanted.setdefault(result, (name, type))
        renamed = self.emit.rename(mark, wanted)
        return [renamed.get(result, result) if isinstance(result, Value) else result for result in results]

    def told(self, call: Call, domain: str) -> Sequence[Type]:
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


def _reader(read: Any, tensor: Any, folder: Path | None, what: str) -> Any:
    return lambda: read(tensor, folder, what)


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
    """Raises Refused for a flag that is neither 0 nor 1, or an unknown kind of padding, which libraries interpret
    differently."""
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


def _without_unused(graph: Graph) -> Graph:
    """Removes the weights that were used only by a builder that refused."""
    unused = {v for v in graph.bound if v not in graph.users}
    if not unused:
        return graph
    body = replace(graph.body, params=tuple(value for value in graph.body.params if value not in unused))
    return replace(graph, body=body, bound={value: held for value, held in graph.bound.items() if value not in unused})
