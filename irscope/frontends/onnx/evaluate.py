"""An `onnx::` node as a function of NumPy arrays: run by ONNX's reference implementation, or by onnxruntime.

The results are new arrays. A result whose type the graph knows must be of it, or the run fails: what a file claims of an op
that nobody defines is a claim, and code was made that relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irscope.errors import MissingExtra, RunError
from irscope.ir import NONE, Node, Opaque, TensorData, TensorType
from irscope.ir.payload import element_name

__all__ = ["function"]


def function(node: Node) -> Callable[..., Any]:
    """What computes the node. Raises RunError for an op that neither library knows, MissingExtra without onnx."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", extra="onnx", purpose=f"to run {node.op}") from None
    if node.blocks:
        raise RunError(f"{node.op} runs a graph of its own, and can be loaded but not run", rule="unknown-op")
    domain, _, name = node.op.removeprefix("onnx::").rpartition(".")
    present = [index for index, value in enumerate(node.inputs) if value.type != NONE]
    names = [f"x{index}" if index in present else "" for index in range(len(node.inputs))]
    made = onnx.helper.make_node(name, names, [f"y{index}" for index in range(len(node.outputs))], domain=domain)
    made.attribute.extend(_attribute(onnx, key, item) for key, item in node.attrs.items() if key not in ("opset", "overload"))
    opsets = [onnx.helper.make_opsetid(domain, int(node.attrs.get("opset", onnx.defs.onnx_opset_version())))]
    run = _reference(onnx, made, opsets) or _runtime(onnx, made, opsets, node)
    types = [value.type for value in node.outputs]

    def call(*operands: Any) -> Any:
        feeds = {f"x{index}": operands[index] for index in present}
        try:
            found = run(feeds)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RunError(f"{node.op} failed: {first}", where=repr(node)) from error
        results = [_own(item, feeds.values()) for item in found]
        for item, declared in zip(results, types, strict=True):
            _check(node, item, declared)
        return results[0] if len(types) == 1 else tuple(results)

    return call


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


def _reference(onnx: Any, node: Any, opsets: Sequence[Any]) -> Callable[[dict[str, Any]], Sequence[Any]] | None:
    """ONNX's own implementation; None where it has none."""
    from onnx.reference import ReferenceEvaluator

    graph = onnx.GraphProto(name="one", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in node.input if name)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception:  # it says so in many ways
        return None
    return lambda feeds: list(evaluator.run(None, feeds))


def _runtime(onnx: Any, node: Any, opsets: Sequence[Any], subject: Node) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """onnxruntime, with a session for each kind of operands."""
    try:
        import onnxruntime
    except ImportError:
        raise RunError(
            f"ONNX's reference implementation has no {subject.op}", where=repr(subject), rule="unknown-op",
            hint="pip install onnxruntime, which may have it",
        ) from None  # fmt: skip
    sessions: dict[Any, Any] = {}

    def run(feeds: dict[str, Any]) -> Sequence[Any]:
        key = tuple((str(item.dtype), item.ndim) for item in feeds.values())
        if key not in sessions:
            infos = [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(item.dtype), [None] * item.ndim)
                for name, item in feeds.items()
            ]
            outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
            graph = onnx.helper.make_graph([node], "one", infos, outputs)
            imports = [*opsets, onnx.helper.make_opsetid("", 17)]
            model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
            sessions[key] = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return sessions[key].run(None, feeds)  # type: ignore[no-any-return]

    return run


def _own(item: Any, operands: Any) -> Any:
    """A result that shares no memory with an operand."""
    if isinstance(item, list | tuple):
        return [_own(part, operands) for part in item]
    if item is None or isinstance(item, dict):
        return item
    array = np.asarray(item)
    if array.dtype.kind in "US":
        return array.astype(object)
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
        what = f"{node.op} gave {element_name(item)}{list(item.shape)}, and the model says {declared}"
        raise RunError(what, where=repr(node), hint="correct the types in the model (value_info), or leave them out")
