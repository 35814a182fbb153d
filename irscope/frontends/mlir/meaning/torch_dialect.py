"""Rules of torch-mlir's dialect, whose ops are torch's: `torch.aten.add.Tensor` is `aten::add`.

Its operands are those of torch's schema, in order, so an op needs no translation; overloads follow from the types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from irscope.frontends.mlir.meaning.shaping import tensor_constant
from irscope.frontends.mlir.operation import Operation
from irscope.ir import TensorType, Value

__all__ = ["RULES"]

_PRIMS: Final = frozenset({
    "ListConstruct", "ListUnpack", "NumToTensor", "TupleConstruct", "TupleIndex", "TupleUnpack", "device", "dtype", "max", "min",
})  # fmt: skip
_COPIES: Final = ("torch.copy.to_tensor", "torch.copy.to_vtensor", "torch.tensor_static_info_cast")


def _torchs(op: Operation) -> Value | Sequence[Value] | None:
    """Torch-mlir's ops: `torch.aten.X` is `aten::X`, with constants, lists, tuples and literals; those with regions are kept."""
    _, space, *rest = op.name.split(".")
    if op.regions():
        return None
    if space == "constant":
        return _constant(op, rest[0])
    if op.name.endswith("tensor.literal"):
        return tensor_constant(op) if isinstance(op.types[0], TensorType) and op.types[0].is_static else None
    if op.name in _COPIES:
        return op.e.node("aten::alias" if op.name.endswith("cast") else "aten::clone", op.operands, op.types)
    if rest and (space in ("aten", "prims") or (space == "prim" and rest[0] in _PRIMS)):
        return op.e.node(f"{space}::{rest[0]}", op.operands, op.types)
    return None


def _constant(op: Operation, kind: str) -> Value | None:
    """Returns a Python constant."""
    if kind == "none":
        return op.e.constant(None)
    attribute = op.attr("value")
    known = {"int": int, "float": float, "bool": bool, "str": str, "device": str}
    return op.e.constant(known[kind](attribute.value), op.types[0]) if attribute is not None and kind in known else None


RULES: Final[Mapping[str, Callable[[Operation], Value | Sequence[Value] | None]]] = {"torch.*": _torchs}
"""The rule of every op of the dialect."""
