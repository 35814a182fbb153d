"""Runs the case files of the ordinary passes: what a pipeline makes of a program, and its remarks.

Sections: `input` a graph; `pipeline` the text of a pipeline. Where torch is installed and all inputs are tensors of known
shape, both programs are run in torch, and the caller must not be able to tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

import irscope as irs
from irscope.ir.core import Graph
from irscope.ir.types import TensorType


def answer(sections: Mapping[str, str]) -> dict[str, str]:
    graph = irs.parse(sections["input"])
    done = irs.Pipeline(sections["pipeline"])(graph, verify_each=True)
    if find_spec("torch") is not None and "fuse" not in sections["pipeline"]:
        _check_same_meaning(graph, done.graph)
    remarks = [record.told(remark) for record in done.records for remark in record.remarks]
    return {"output": str(done.graph), "remarks": "\n".join(remarks)}


def _check_same_meaning(before: Graph, after: Graph) -> None:
    from tests.transforms.same_meaning import observed

    types = [value.type for value in before.inputs]
    if not all(isinstance(type, TensorType) and type.is_static for type in types):
        return
    numbers = np.random.default_rng(0)
    arguments = [_array(type, numbers) for type in types if isinstance(type, TensorType)]
    assert observed(before, [a.copy() for a in arguments]) == observed(after, [a.copy() for a in arguments])


def _array(type: TensorType, numbers: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = tuple(dim for dim in type.shape or () if isinstance(dim, int))
    return (numbers.standard_normal(shape) * 4).astype(np.dtype(type.dtype))
