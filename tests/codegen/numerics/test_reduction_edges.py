"""Reductions of edge numbers: NaN, infinities, zeros of both signs and denormals come out as torch's, in each of the texts.

Left aside, because the order in which numbers are gathered decides, or the type in which squares are: sums and norms with
numbers near the largest one, and products that pass through denormals. Of equal zeros either is the largest.
"""

from collections.abc import Callable
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.errors import CodegenError
from irscope.ir.types import TensorType
from tests.codegen.edges import HALVES, edges, torch
from tests.codegen.kernels import call, from_words, planned, run
from tests.codegen.numerics.test_edges import device_of, numbers, same_class, words

pytestmark = pytest.mark.filterwarnings("ignore:std\\(\\)|var\\(\\)")
pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]


def along(op: str, *rest: Any, listed: bool = False) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The op along one axis, as a node and in torch."""

    def body(builder: Any, x: Any, axis: int) -> Any:
        return call(builder, op, x, [axis] if listed else axis, *rest)

    def eager(x: Any, axis: int) -> Any:
        return getattr(torch.ops.aten, op)(x, [axis] if listed else axis, *rest)

    return body, eager


def norm(order: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda builder, x, axis: call(builder, "linalg_vector_norm", x, order, [axis], False, None),
        lambda x, axis: torch.linalg.vector_norm(x, order, [axis]),
    )


OPS = {
    "sum": along("sum", False, listed=True), "mean": along("mean", False, listed=True), "prod": along("prod", False),
    "amax": along("amax", False, listed=True), "amin": along("amin", False, listed=True),
    "argmax": along("argmax", False), "argmin": along("argmin", False), "any": along("any", False),
    "all": along("all", False), "logsumexp": along("logsumexp", False, listed=True), "softmax": along("softmax"),
    "log_softmax": along("log_softmax"), "var": along("var", True, False, listed=True),
    **{f"norm {order}": norm(order) for order in (0, 1, 2, inf, -inf, 3.0)},
}  # fmt: skip
CALM = [0.0, -0.0, 1.0, -1.0, 2.5, inf, -inf, nan, 0.5, 3.0, -7.0]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}


def rows(dtype: str, length: int) -> Any:
    """Every edge number alone or with each other; longer rows of usual numbers with up to two edges, some of zeros only."""
    kind, rng = getattr(torch, dtype), np.random.default_rng(length)
    some = edges(dtype)
    if kind.is_floating_point:
        facts = torch.finfo(kind)
        small = facts.smallest_normal * torch.tensor([1, -1, facts.eps, -facts.eps], dtype=torch.float64)
        some = torch.cat([torch.tensor(CALM, dtype=torch.float64), small]).to(kind)
    if length < 3:
        return torch.cartesian_prod(*[some] * length).reshape(-1, length)
    usual = torch.from_numpy(rng.normal(0, 2, (150, length))).to(kind)
    edge = some[torch.from_numpy(rng.integers(0, len(some), usual.shape))]
    mixed = torch.where(torch.from_numpy(rng.random(usual.shape) < 1.2 / length), edge, usual)
    mixed[:20] = torch.zeros(20, length).copysign(torch.from_numpy(rng.normal(0, 1, (20, length)))).to(kind)
    return mixed


@pytest.mark.parametrize(("text", "dtype"), [("cpu", "float32"), ("cpu", "int8"), ("numpy", "float16"), ("numpy", "bool")])
def test_reductions_of_edges(text: str, dtype: str, tmp_path: Path) -> None:
    check(text, dtype, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("text", ["cpu", "numpy", "cuda"])
def test_reductions_of_edges_in_every_type(text: str, dtype: str, tmp_path: Path) -> None:
    check(text, dtype, tmp_path)


def check(text: str, dtype: str, folder: Path) -> None:
    device, wrong, compared = device_of(text, folder), [], set()
    for name, (body, eager) in OPS.items():
        for length in (1, 2, 5, 33, 70):
            dense = rows(dtype, length)
            if name == "prod" and length > 2 and dense.is_floating_point():
                dense = torch.where((dense.abs() < 1e-4) & (dense != 0), 1, dense)
            for x, axis in ((dense, 1), (dense.t().contiguous(), 0)):
                try:
                    theirs = eager(x, axis)
                    plan = planned(partial(body, axis=axis), TensorType(dtype, tuple(x.shape), tuple(x.stride())))
                except (RuntimeError, CodegenError):
                    continue  # torch has no such reduction of this type, or no kernel is wanted for it
                (found,) = run(device.prepare(plan), plan, [words(x)])
                compared.add(name)
                kind = str(plan.outputs[0].dtype)
                found, ways = from_words(found, kind), [theirs]
                if kind in HALVES:  # torch rounds products of halves one by one
                    ways.append(eager(x.float(), axis).to(theirs.dtype))
                bad = np.all([differ(name, found, numbers(way), kind) for way in ways], 0)
                wrong += [
                    f"{name} of {length} along {axis}: {found[at]} for {theirs[at]}, {bad.sum()} places"
                    for at in map(tuple, np.argwhere(bad)[:1])
                ]
    assert not wrong, "\n".join(wrong)
    assert len(compared) >= (5 if dtype == "bool" else 7)


def differ(name: str, found: Array, wanted: Array, dtype: str) -> Array:
    if found.dtype.kind != "f":
        return found != wanted
    zeros = (found == 0) & (wanted == 0) & (name in ("amax", "amin", "norm -inf"))
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(np.float64) - wanted)
        smallest = np.finfo(np.float32).tiny if name in ("var", "norm 2", "norm 3.0") else 0.0  # squares vanish below
        near = ~np.isfinite(off) | (off <= TOLERANCE[dtype] * np.maximum(np.abs(wanted), 10 * (name != "prod")) + smallest)
    return ~((same_class(found, wanted) | zeros | (off <= smallest)) & near)
