"""Ops of languages that are functional by construction, whose tensors are values without memory.

An ONNX or StableHLO op computes new values from values. It writes nothing, no result shares memory with an operand, and
no later op can observe where a value is stored. So the name alone answers the alias db's questions, even for an op that is
otherwise unknown (one of a custom domain). The runtime keeps that promise by copying where its library
does not. Ops of these namespaces that carry blocks are not covered: the effects of a block are those of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["functional_source", "has_value_tensors"]

_FUNCTIONAL: Final[Mapping[str, str]] = {
    "onnx": "ONNX", "stablehlo": "StableHLO", "mhlo": "MHLO", "chlo": "CHLO", "vhlo": "VHLO", "tosa": "TOSA",
    "arith": "MLIR", "math": "MLIR", "tensor": "MLIR", "complex": "MLIR", "kernel": "a kernel",
}  # fmt: skip
"""The name of the language, by namespace."""

_OUTSIDE: Final = frozenset(
    f"{space}::{name}"
    for space in ("stablehlo", "mhlo", "vhlo")
    for name in (
        "custom_call", "send", "recv", "infeed", "outfeed", "rng", "create_token", "after_all", "partition_id", "replica_id",
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter",
        "cross-replica-sum", "async_start", "async_done",
    )
)  # fmt: skip
"""Ops of these languages that communicate with the world outside the program, or may."""


def functional_source(name: str) -> str:
    """Return the functional language that an op belongs to; empty for every other op.

    >>> functional_source("onnx::TopK"), functional_source("onnx::com.microsoft.Gelu"), functional_source("aten::relu")
    ('ONNX', 'ONNX', '')
    >>> functional_source("stablehlo::fft"), functional_source("stablehlo::custom_call")
    ('StableHLO', '')
    """
    return "" if name in _OUTSIDE else _FUNCTIONAL.get(name.partition("::")[0], "")


_VALUE_TENSORS: Final = frozenset(
    {"linalg", "flow", "iree_tensor_ext", "iree_linalg_ext", "iree_encoding", "hal", "stream"} | _FUNCTIONAL.keys()
)


def has_value_tensors(name: str) -> bool:
    """Whether the tensors that an op reads are MLIR's immutable tensors: whatever else the op does, it does not
    change them. (A call is not such an op: its callee may be of any language.)

    >>> has_value_tensors("iree_tensor_ext::dispatch.tensor.store"), has_value_tensors("aten::add_")
    (True, False)
    """
    return name.partition("::")[0] in _VALUE_TENSORS
