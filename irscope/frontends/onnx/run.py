"""Runs an `onnx::` node as a function of NumPy arrays: in onnxruntime if it is installed and has the op, else in ONNX's
reference implementation, and only in the forms that the latter computes.

The reference reads some attributes and optional inputs without acting on them (the lengths of an LSTM's sequences): such a form is refused
rather than computed as if they were absent. The choice depends on the node and the element types and ranks of its operands alone.

The results are new arrays. If the graph knows the type of a result, the result must have it, or the run fails: for an op without a
definition the type is only a claim of the file, and code was generated that relies on it. Operands in float64 where the graph has a smaller
floating-point type, as in a run that measures rounding, are rounded to the declared type, and the results converted back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.errors import MissingExtra, RunError
from irscope.frontends.onnx.types import FLOATS, is_sound, proto_of, schema_of_op
from irscope.frontends.refusals import first_line
from irscope.ir import NONE, ListType, Node, Opaque, OptionalType, TensorData, TensorType, Type
from irscope.ir.payload import argument_type, element_name

Run = Callable[[dict[str, Any]], Sequence[Any]]

_CELL: Final[Mapping[str, Any]] = {
    "activations": None, "activation_alpha": None, "activation_beta": None, "clip": None, "direction": "forward", "input_forget": 0,
}  # fmt: skip
_UNREAD: Final[Mapping[str, Mapping[str, Any]]] = {
    "LSTM": _CELL, "GRU": _CELL, "RNN": _CELL, "Unique": {"sorted": 1},
    "ConvTranspose": {"output_padding": None, "output_shape": None}, "LpPool": {"auto_pad": "NOTSET"}, "MaxPool": {"auto_pad": "NOTSET"},
}  # fmt: skip
"""The attributes on which ONNX's reference does not act, by op, each with the only value for which it is right anyway."""
_UNREAD_INPUTS: Final[Mapping[str, Mapping[int, str]]] = {name: {4: "sequence_lens"} for name in ("LSTM", "GRU", "RNN")}
"""The optional inputs on which ONNX's reference does not act, by op and position."""

_CHANGED: Final = {"RoiAlign": 16}
"""The opset that changed the meaning of an op, of which ONNX's reference computes the newer alone."""
_ABSENT: Final = "onnxruntime, which may have it, is not installed"
_INSTALL: Final = "pip install onnxruntime"
_GIVEN: Final = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 string".split())
"""The element types that onnxruntime takes from NumPy's arrays."""
_RETURNED: Final = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float double string".split())
"""The element types that it returns in them, in its own words."""


def function(node: Node) -> Callable[..., Any]:
    """Returns a function that computes the node. Raises RunError for an op that neither library computes, MissingExtra without onnx."""
    kept = _Kept(node)
    types = [value.type for value in node.outputs]
    chosen: dict[Any, tuple[str, Run]] = {}

    def call(*operands: Any) -> Any:
        given = list(operands)  # those in float64 in their declared smaller type
        for index in kept.present:
            given[index] = _rounded(given[index], node.inputs[index].type)
        is_rounded = any(new is not old for new, old in zip(given, operands, strict=True))
        feeds = {f"x{i}": np.asarray(item) if isinstance(item := given[i], np.generic) else item for i in kept.present}
        key = tuple(_kind(item) for item in feeds.values())
        if key not in chosen:
            chosen[key] = kept.choice([argument_type(item) for item in feeds.values()])
        library, run = chosen[key]
        try:
            found = run(feeds)
        except Exception as error:
            hint = _INSTALL if _ABSENT in library else ""
            raise RunError(f"{node.op} failed in {library}: {_first_line(error)}", where=repr(node), hint=hint) from error
        results = [_own(item, feeds.values()) for item in found]
        for item, declared in zip(results, types, strict=True):
            _check(node, item, declared)
        if is_rounded:
            results = [_widened(item) for item in results]
        return results[0] if len(types) == 1 else tuple(results)

    if kept.are_known:
        chosen[tuple(_declared_kind(value.type) for value in kept.inputs)] = kept.choice([value.type for value in kept.inputs])
    return call


def runs_in(node: Node) -> str:
    """Returns the name of the library that computes the node, as far as its declared types decide it."""
    try:
        kept = _Kept(node)
        if not kept.are_known:
            return "onnxruntime, or ONNX's reference implementation, by the types that it is given"
        return kept.choice([value.type for value in kept.inputs])[0]
    except (RunError, MissingExtra) as error:
        return f"nothing that is installed: {error.what}"


class _Kept:
    """A node as ONNX's proto, over operands `x0`, `x1`, …"""

    def __init__(self, node: Node) -> None:
        try:
            import onnx
        except ImportError:
            raise MissingExtra("onnx", extra="onnx", purpose=f"to run {node.op}") from None
        if node.blocks:
            what = f"{node.op} has a subgraph over other values of the program, which only the whole model in its own runtime can run"
            raise RunError(what, where=repr(node), rule="unknown-op")
        self.node, self.onnx = node, onnx
        self.domain, _, self.name = node.op.removeprefix("onnx::").rpartition(".")
        self.present = [index for index, value in enumerate(node.inputs) if value.type != NONE]
        self.inputs = [node.inputs[index] for index in self.present]
        names = [f"x{index}" if index in self.present else "" for index in range(len(node.inputs))]
        self.made = onnx.helper.make_node(self.name, names, [f"y{index}" for index in range(len(node.outputs))], domain=self.domain)
        attributes = [(key, item) for key, item in node.attrs.items() if key not in ("opset", "overload")]
        self.made.attribute.extend(_attribute(onnx, key, item) for key, item in attributes)
        opset = int(node.attrs.get("opset", onnx.defs.onnx_opset_version()))
        self.schema = schema = schema_of_op(self.name, self.domain or "ai.onnx", opset)
        self.opset = opset if schema is None else schema.since_version
        """The oldest opset of the same meaning, which more libraries know."""

    @property
    def are_known(self) -> bool:
        """Whether the graph knows element type and rank of every operand."""
        return all(_declared_kind(value.type) is not None for value in self.inputs)

    def choice(self, types: Sequence[Type]) -> tuple[str, Run]:
        """Returns the library that computes the node on operands of these types, and its implementation. Raises RunError."""
        lacking, hint = _ABSENT, _INSTALL
        try:
            import onnxruntime
        except ImportError:
            pass
        else:
            hint = "replace the op in the model by others with the same results"
            try:
                return f"onnxruntime {onnxruntime.__version__}", self._session(onnxruntime, types)
            except Exception as error:  # its errors have no common class
                lacking = f"onnxruntime {onnxruntime.__version__} says: {_first_line(error)}"
        form = self._unread()
        why = f"ONNX's reference implementation ignores {form}" if form else ""
        run = None if form else self._reference()
        if run is None:
            what = f"{self.node.op} cannot be run: {why or 'ONNX has no reference implementation of it'}; {lacking}"
            raise RunError(what, where=repr(self.node), rule="unknown-op", hint=hint)
        return f"ONNX's reference implementation ({lacking})", run

    def _session(self, onnxruntime: Any, types: Sequence[Type]) -> Run:
        onnx = self.onnx
        if self.schema is not None and not is_sound(self.made, self.schema, types):  # some such nodes end the process
            raise TypeError("a number among its attributes is out of range")
        infos = []
        for index, value, type in zip(self.present, self.inputs, types, strict=True):
            proto = proto_of(_any_extents(type, value.type))
            if proto is None or not _is_numpys(type):
                raise TypeError(f"it takes no {type} from NumPy")
            infos.append(onnx.helper.make_value_info(f"x{index}", proto))
        graph = onnx.helper.make_graph([self.made], "one", infos, [onnx.ValueInfoProto(name=name) for name in self.made.output])
        opsets = [onnx.helper.make_opsetid(self.domain, self.opset)]
        if self.domain:
            opsets.append(onnx.helper.make_opsetid("", 17))
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1  # threads of its own would wait busily beside ours, and not survive a fork
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        strange = [item.type for item in session.get_outputs() if item.type.startswith("tensor") and item.type[7:-1] not in _RETURNED]
        if strange:
            raise TypeError(f"its results of type {strange[0]} do not come back to NumPy")
        return lambda feeds: list(session.run(None, feeds))

    def _reference(self) -> Run | None:
        """Returns ONNX's own implementation, or None if it has none."""
        from onnx.reference import ReferenceEvaluator

        onnx = self.onnx
        graph = onnx.GraphProto(name="one", node=[self.made])
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self.made.input if name)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.made.output)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(self.domain, self.opset)])
        try:
            evaluator = ReferenceEvaluator(model)
        except Exception:  # it raises many types of errors
            return None
        return lambda feeds: list(evaluator.run(None, feeds))

    def _unread(self) -> str:
        """Returns the attribute or input on which ONNX's reference would not act; empty if there is none."""
        if self.domain:
            return ""
        if self.opset < _CHANGED.get(self.name, 0):
            return f"what it meant before opset {_CHANGED[self.name]}"
        for name, harmless in _UNREAD.get(self.name, {}).items():
            if self.node.attrs.get(name, harmless) != harmless:
                return f"{name} = {self.node.attrs[name]!r}"
        return next((name for index, name in _UNREAD_INPUTS.get(self.name, {}).items() if index in self.present), "")


def _declared_kind(type: Type) -> Any:
    """Returns what `_kind` says of an operand of a type; None if the type leaves it open."""
    if not isinstance(type, TensorType) or type.dtype is None or type.shape is None:
        return None
    return (type.dtype, type.shape if 0 in type.shape else len(type.shape))


def _kind(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return ("list", _kind(item[0]) if item else None)
    if not isinstance(item, np.ndarray):
        return type(item)
    return (element_name(item), item.shape if 0 in item.shape else item.ndim)  # an empty operand may mean an absent one


def _is_numpys(type: Type) -> bool:
    """Checks whether NumPy itself has the element type: onnxruntime takes no others from Python."""
    if isinstance(type, ListType | OptionalType):
        return _is_numpys(type.element)
    return isinstance(type, TensorType) and type.dtype in _GIVEN


def _any_extents(type: Type, declared: Type) -> Type:
    """Returns a type without extents, but for those that say something: of an empty operand, and of a declared vector, which
    may be as long as another has axes."""
    if isinstance(type, ListType):
        return ListType(TensorType(type.element.dtype) if isinstance(type.element, TensorType) else type.element)
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    vector = isinstance(declared, TensorType) and declared.rank == 1 and declared.is_static
    return TensorType(type.dtype, type.shape if vector or 0 in type.shape else (None,) * len(type.shape))


def _rounded(item: Any, declared: Type) -> Any:
    if isinstance(item, list | tuple) and isinstance(declared, ListType):
        made = [_rounded(part, declared.element) for part in item]
        return made if any(new is not old for new, old in zip(made, item, strict=True)) else item
    is_wide = isinstance(item, np.ndarray) and item.dtype == np.float64
    if not (is_wide and isinstance(declared, TensorType) and declared.dtype in FLOATS and declared.dtype != "float64"):
        return item
    if declared.dtype == "bfloat16":
        import ml_dtypes

        return item.astype(ml_dtypes.bfloat16)
    return item.astype(declared.dtype)


def _widened(item: Any) -> Any:
    if isinstance(item, list):
        return [_widened(part) for part in item]
    return item.astype(np.float64) if isinstance(item, np.ndarray) and element_name(item) in FLOATS else item


def _first_line(error: Exception) -> str:
    """Returns the first line of an error's text, without onnxruntime's number of it."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", first_line(error))[:300]


def _attribute(onnx: Any, name: str, payload: Any) -> Any:
    if isinstance(payload, TensorData):
        array = np.asarray(payload.array)
        if payload.dtype == "bfloat16":
            import ml_dtypes

            array = array.view(ml_dtypes.bfloat16)
        return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(array))
    if isinstance(payload, Opaque):
        return onnx.helper.make_attribute(name, payload.original)
    if payload == ():
        return onnx.helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
    return onnx.helper.make_attribute(name, payload)


def _own(item: Any, operands: Any) -> Any:
    """Returns a result that shares no memory with an operand, copied if it does."""
    if isinstance(item, list | tuple):
        return [_own(part, operands) for part in item]
    if item is None or isinstance(item, dict):
        return item
    array = np.asarray(item)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.char in "qQ" and array.dtype == np.dtype(array.dtype.str):
        array = array.view(array.dtype.str)  # onnxruntime's own 64-bit integers, which torch does not take for NumPy's
    shared = any(isinstance(operand, np.ndarray) and np.may_share_memory(array, operand) for operand in operands)
    return array.copy() if shared else array


def _check(node: Node, item: Any, declared: Any) -> None:
    if not isinstance(declared, TensorType) or not isinstance(item, np.ndarray):
        return
    dtype, shape = declared.dtype, declared.shape
    same = shape is None or (
        len(shape) == item.ndim and all(not isinstance(a, int) or a == b for a, b in zip(shape, item.shape, strict=True))
    )
    if not same or (dtype is not None and element_name(item) != dtype):
        what = f"{node.op} returned {element_name(item)}{list(item.shape)}, but the model declares {declared}"
        raise RunError(what, where=repr(node), hint="correct the types in the model (value_info), or leave them out")
