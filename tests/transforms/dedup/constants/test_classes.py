"""Constants in classes: by memory, content, and what follows from another; the judge compares arrays pair by pair."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
import torch

import irscope as irs
from irscope.errors import ArgumentError, UnknownName, UnknownNumber
from irscope.ir import GraphBuilder, TensorType

rng = np.random.default_rng(7)
W = rng.standard_normal((6, 8)).astype(np.float32)
CONSTANTS = {
    "w": W, "copy": W.copy(), "other": W + np.float32(1), "half": W.astype(np.float16), "turned": np.ascontiguousarray(W.T),
    "rows": W[2:4].copy(), "wide": W.astype(np.float64),
}  # fmt: skip


def module() -> irs.Module:
    return irs.Module({}, constants=CONSTANTS)


def test_each_step_joins_what_the_arrays_say() -> None:
    def same(step: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
        equal = a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
        turned = a.dtype == b.dtype and a.shape == b.T.shape and bool((a == b.T).all())
        return {"tied": a is b, "equal": equal, "transposed": equal or turned}[step]

    for step in ("tied", "equal", "transposed"):
        d = irs.dedup(module(), unit="constants", relation=step)  # type: ignore[call-overload]  # a str
        for a, b in combinations(CONSTANTS, 2):
            assert (d.class_of(a) is d.class_of(b)) == same(step, CONSTANTS[a], CONSTANTS[b]) == bool(d.difference(a, b))


def test_casts_and_parts_come_last_and_say_how_they_follow() -> None:
    d = irs.dedup(module(), unit="constants", relation="part")
    assert d.class_of("rows") is d.class_of("half") is d.class_of("wide") is d.class_of("turned")
    assert len(d.classes) == 2  # and `other`
    assert d.classes[0].representative == "wide"  # of which all others follow
    table = d.holes(0)
    assert table.loc["how"].to_dict() == {
        "w": "cast", "copy": "equal", "half": "cast", "turned": "transposed", "rows": "part", "wide": "kept",
    }  # fmt: skip
    assert table.loc["from", "rows"] == 16
    told = irs.dedup(module(), unit="constants").why_not("half", "w")
    assert told.witness[0] == "cast" and not told


def test_bytes_saved_are_those_of_what_need_not_be_stored() -> None:
    d = irs.dedup(module(), unit="constants")
    assert [cls.bytes_saved for cls in d.classes] == [W.nbytes] + [0] * 5
    saved = d.ladder()["bytes saved"].tolist()
    assert saved == sorted(saved) and saved[0] == 0
    assert saved[-1] == sum(CONSTANTS[name].nbytes for name in ("w", "copy", "half", "turned", "rows"))
    assert d.ladder()["classes"].tolist() == [7, 6, 5, 3, 2]


def test_a_difference_names_the_elements() -> None:
    near = W.copy()
    W[3, 5], near[3, 5] = 0.5, 9.0
    d = irs.dedup(irs.Module({}, constants={"w": W, "near": near, "int": W.astype(np.int32)}), unit="constants")
    assert "1 of 48 elements, the first at [3, 5]: 0.5 against 9.0" in d.difference("w", "near").because
    assert "the element type: float32 against int32" in d.difference("w", "int").because


def test_tied_weights_and_views_are_one_memory_and_save_nothing() -> None:
    weight = torch.rand(4, 4)
    b = GraphBuilder()
    x = b.input("x", TensorType("float32", (4, 4)))
    matrix, row = TensorType("float32", (4, 4), (4, 1)), TensorType("float32", (4,), (1,))
    bound = [b.input("w", matrix), b.input("tied", matrix), b.input("view", row)]
    y = b.op("aten::mm", b.op("aten::mm", x, bound[0]), bound[1])
    g = b.finish([b.op("aten::mul", y, bound[2])], bound=dict(zip(bound, (weight, weight, weight[1]), strict=True)))
    d = irs.dedup(g, unit="constants", relation="tied")
    assert [(cls.members, cls.bytes_saved) for cls in d.classes] == [(("w", "tied", "view"), 0)]
    assert d.table().loc[0, "how"] == "tied, view"
    assert [value.name for value in d.apply().inputs] == ["x", "w", "view"]


def test_names_steps_and_rewrites_that_there_are_not() -> None:
    d = irs.dedup(module(), unit="constants")
    with pytest.raises(UnknownName, match="no constant 'x'"):
        d.class_of("x")
    with pytest.raises(UnknownNumber):
        d.holes(99)
    with pytest.raises(ArgumentError, match="choose one of tied"):
        irs.dedup(module(), unit="constants", relation="alpha")  # type: ignore[call-overload]  # of other pieces


@pytest.mark.parametrize("order", list(permutations(("w", "copy", "turned", "half", "part"))))
def test_a_step_has_the_same_classes_in_whatever_order_constants_stand(order: tuple[str, ...]) -> None:
    """What equals a matrix of which another is the transpose equals it at `equal` already."""
    w = np.arange(24, dtype=np.float32).reshape(3, 8)
    every = {"w": w, "copy": w.copy(), "turned": w.T.copy(), "half": w.astype(np.float16), "part": w[1:].copy()}
    module = irs.Module({}, constants={name: every[name] for name in order})
    found = {
        step: {frozenset(cls.members) for cls in irs.dedup(module, unit="constants", relation=step).classes if len(cls) > 1}
        for step in ("tied", "equal", "transposed", "cast", "part")
    }
    assert found == {
        "tied": set(), "equal": {frozenset({"w", "copy"})}, "transposed": {frozenset({"w", "copy", "turned"})},
        "cast": {frozenset({"w", "copy", "turned", "half"})}, "part": {frozenset(every)},
    }  # fmt: skip
    assert irs.dedup(module, unit="constants", relation="part").difference("half", "part")
