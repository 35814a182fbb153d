"""ONNX's own node tests: each case loads, and those whose ops have an `aten::` meaning give what ONNX says.

A slice of them stands in the suite; all of them run with `-m long`, and with the command in `node_tests`.
"""

from __future__ import annotations

from collections import Counter

import pytest

import irscope as irs

pytest.importorskip("onnx")
from tests.frontends.onnx.node_tests import cases, check, frozen, is_opaque, results

ROUNDED = frozenset({"attention_4d_causal_fp16", "cast_FLOAT_to_BFLOAT16"})
"""Cases whose outputs were rounded after every op, to halves: a kernel that computes in float32 comes closer to the truth
than their tolerance."""


def is_rounded(name: str) -> bool:
    return "bf16" in name or any(part in name for part in ROUNDED)


@pytest.mark.parametrize("part", range(2))
def test_a_slice_of_the_cases(part: int) -> None:
    pytest.importorskip("torch")
    seen: Counter[str] = Counter()
    for case in cases()[part * 12 :: 48]:
        graph = irs.load(case.model)
        assert graph.functional == "ONNX"
        kind = "opaque" if is_opaque(graph) else "aten"
        seen[kind] += 1
        if kind == "aten" and not is_rounded(case.name):
            check(case, graph, "cpu", "numpy")
    assert seen["aten"] > 20


def test_a_slice_with_known_operands_on_the_reference() -> None:
    checked = 0
    for plain in cases()[7::60]:
        case = frozen(plain)
        if case is None or is_rounded(case.name):
            continue
        graph = irs.load(case.model)
        assert len(graph.free_inputs) == 1
        if not is_opaque(graph) and all("BFloat16" not in str(value.type) for value in graph.values()):
            try:
                check(case, graph, "reference", "numpy")
            except irs.errors.RunError as error:
                assert "no NumPy reference" in str(error)
            checked += 1
    assert checked > 10


@pytest.mark.long
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("freeze", [False, True])
def test_all_cases(arrays: str, freeze: bool) -> None:
    found = list(results("", "cpu", arrays, freeze))
    counts = Counter(outcome for _, outcome, _ in found)
    assert counts["not loaded"] == 0
    assert [name for name, outcome, _ in found if outcome == "failed" and not is_rounded(name)] == []
    assert counts["passed"] >= (1050 if freeze else 1450)
