"""Runs the case files of fusion: the fused graph, the remarks, and the answers to `why not` questions.

Sections: `input` a graph; `options` (may be missing) keyword arguments of `fuse`; `why` one question `a, b` a line,
to which the answer is added after a colon. Wherever all inputs are tensors of known shape and all ops have a
reference, both programs are run as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import irscope as irs
from irscope.ir.core import Graph, Node
from irscope.ir.types import TensorType
from irscope.ops.check import verify
from irscope.ops.registry import op_of
from irscope.runtime.reference import run_reference
from irscope.transforms.base import check_types
from irscope.transforms.fusion import Fusion, fuse


def answer(sections: Mapping[str, str]) -> dict[str, str]:
    graph = irs.parse(sections["input"])
    fusion = fuse(graph, **_options(sections.get("options", "")))
    verify(fusion.graph)
    for record in fusion.history.records:
        check_types(record)
    _check_same_results(graph, fusion.graph)
    found = {
        "output": str(fusion.graph),
        "remarks": "\n".join(_remark_line(fusion, remark) for remark in fusion.remarks),
    }
    if "why" in sections:
        found["why"] = "\n".join(_answered(fusion, line) for line in sections["why"].splitlines())
    return found


def _options(text: str) -> dict[str, Any]:
    pairs = (part.partition("=") for part in text.split())
    return {
        key: given == "True" if given in ("True", "False") else int(given) if given.isdigit() else given
        for key, _, given in pairs
    }


def _remark_line(fusion: Fusion, remark: Any) -> str:
    subject = remark.subject
    if isinstance(subject, Node):
        graph = fusion.graph if remark.kind == "passed" else _planned_graph(fusion)
        told = ", ".join(f"%{graph.names[value]}" for value in subject.outputs) or subject.op
    else:
        told = f"%{_planned_graph(fusion).names[subject]}"
    return f"{remark.kind} [{remark.rule}] {told}: {remark.because}"


def _planned_graph(fusion: Fusion) -> Graph:
    return next(record.before for record in fusion.history.records if record.name == "fuse-groups")


def _answered(fusion: Fusion, line: str) -> str:
    question = line.partition(":  ")[0].strip()
    a, b = (part.strip() for part in question.split(","))
    return f"{question}:  {fusion.why_not(a, b)}"


def _check_same_results(before: Graph, after: Graph) -> None:
    types = [value.type for value in before.inputs]
    if not all(isinstance(type, TensorType) and type.is_static for type in types):
        return
    if any(not node.blocks and node.op != "prim::Constant" and not _has_reference(node) for node in before.nodes()):
        return
    rng = np.random.default_rng(0)
    arguments = [_array(type, rng) for type in types if isinstance(type, TensorType)]
    wanted = run_reference(before, *[array.copy() for array in arguments])
    given = run_reference(after, *[array.copy() for array in arguments])
    for x, y in zip(wanted, given, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def _has_reference(node: Node) -> bool:
    op = op_of(node)
    return op is not None and op.reference is not None


def _array(type: TensorType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = tuple(dim for dim in type.shape or () if isinstance(dim, int))
    numbers = rng.standard_normal(shape) * 4
    return (np.abs(numbers) if len(shape) == 1 else numbers).astype(np.dtype(type.dtype))  # a variance is positive
