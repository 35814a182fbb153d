"""Views and joins inside a group: no memory moves for them, and the numbers are torch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel import LaunchPlan
from irscope.errors import CodegenError
from irscope.ir import TENSOR, GraphBuilder, ListType
from irscope.runtime.device import Device
from tests.codegen.kernels import call, dense, planned
from tests.codegen.numerics.test_reductions import check, normal

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
TENSORS = ListType(TENSOR)

SEEN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "select": (lambda b, x: call(b, "select", x, 1, -2), lambda x: x.select(1, -2)),
    "slice": (lambda b, x: call(b, "slice", x, 2, 1, 9, 3), lambda x: x[:, :, 1:9:3]),
    "narrow": (lambda b, x: call(b, "narrow", x, 1, 1, 2), lambda x: x.narrow(1, 1, 2)),
    "transpose": (lambda b, x: call(b, "transpose", x, 0, 2), lambda x: x.transpose(0, 2)),
    "permute": (lambda b, x: call(b, "permute", x, [2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    "unsqueeze": (lambda b, x: call(b, "unsqueeze", x, 1), lambda x: x.unsqueeze(1)),
    "view": (lambda b, x: call(b, "view", x, [4, 30]), lambda x: x.view(4, 30)),
    "split axis": (lambda b, x: call(b, "view", x, [4, 3, 2, 5]), lambda x: x.view(4, 3, 2, 5)),
    "flatten": (lambda b, x: call(b, "flatten", x, 0, -1), lambda x: x.flatten()),
    "diagonal": (lambda b, x: call(b, "diagonal", x, 1, 1, 2), lambda x: x.diagonal(1, 1, 2)),
    "unfold": (lambda b, x: call(b, "unfold", x, 2, 4, 3), lambda x: x.unfold(2, 4, 3)),
    "expand": (lambda b, x: call(b, "expand", call(b, "select", x, 0, 1), [5, 3, 10], False), lambda x: x[1].expand(5, 3, 10)),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_view_of_an_input_and_of_a_computed_value(device: Device, name: str) -> None:
    seen, eager = SEEN[name]
    check(device, lambda b, x: call(b, "mul", seen(b, x), 2.0), lambda x: eager(x) * 2, normal(4, 3, 10))
    check(
        device, lambda b, x: call(b, "sub", seen(b, call(b, "tanh", x)), 1.0, 1), lambda x: eager(x.tanh()) - 1,
        normal(4, 3, 10),
    )  # fmt: skip
    check(device, lambda b, x: seen(b, call(b, "tanh", x)), lambda x: eager(x.tanh()), normal(4, 3, 10))


def test_a_view_that_no_strides_describe_is_read_only_from_memory(device: Device) -> None:
    def after(b: GraphBuilder, x: Any) -> Any:
        return call(b, "tanh", call(b, "reshape", x, [6, 20]))

    check(device, after, lambda x: x.reshape(6, 20).tanh(), normal(4, 3, 10))


def test_a_group_norm_written_out(device: Device) -> None:
    """The channels of a group are a part of one axis: the kernel's space is cut so that the view is affine."""

    def body(b: GraphBuilder, x: Any, w: Any) -> Any:
        groups = call(b, "view", x, [3, 2, 20])
        centred = call(b, "sub", groups, call(b, "mean", groups, [2], True, None), 1)
        spread = call(b, "mean", call(b, "mul", centred, centred), [2], True, None)
        scaled = call(b, "mul", centred, call(b, "rsqrt", call(b, "add", spread, 1e-5, 1)))
        return call(b, "mul", call(b, "view", scaled, [3, 4, 10]), call(b, "unsqueeze", w, -1))

    def eager(x: Any, w: Any) -> Any:
        return torch.nn.functional.group_norm(x, 2, w)

    check(device, body, eager, normal(3, 4, 10), normal(4), rtol=4e-6)


def pieces(b: GraphBuilder, op: str, x: Any, *args: Any, count: int) -> list[Any]:
    """What a view op that gives a list gives, one by one."""
    (found,) = b.node(f"aten::{op}", [x, *map(b.constant, args)], [TENSORS])
    return list(b.node("prim::ListUnpack", [found], [TENSOR] * count))


def test_gates_of_a_chunk(device: Device) -> None:
    def body(b: GraphBuilder, x: Any, c: Any) -> Any:
        i, f, g, o = pieces(b, "chunk", x, 4, 1, count=4)
        cell = call(b, "add", call(b, "mul", call(b, "sigmoid", f), c), call(b, "mul", call(b, "sigmoid", i), call(b, "tanh", g)), 1)
        return [call(b, "mul", call(b, "sigmoid", o), call(b, "tanh", cell)), cell]

    def eager(x: Any, c: Any) -> Any:
        i, f, g, o = x.chunk(4, 1)
        cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell

    plan = check(device, body, eager, normal(6, 80), normal(6, 20))
    assert len(plan.launches) == 1


def joined(b: GraphBuilder, op: str, dim: int, *parts: Any) -> Any:
    (found,) = b.node("prim::ListConstruct", list(parts), [TENSORS])
    return call(b, op, found, dim)


def parts_of(plan: LaunchPlan) -> list[tuple[int, ...]]:
    return [launch.offsets[: len(launch.writes)] for launch in plan.launches]


def test_each_joined_part_is_computed_where_it_belongs(device: Device) -> None:
    def body(b: GraphBuilder, x: Any, y: Any) -> Any:
        return joined(b, "cat", 1, call(b, "exp", x), y, call(b, "sum", y, [1], True, None))

    plan = check(device, body, lambda x, y: torch.cat([x.exp(), y, y.sum(1, keepdim=True)], 1), normal(6, 40), normal(6, 3))
    assert len(plan.launches) == 2, "a copy of y goes along with its sum"
    plan = check(
        device, lambda b, x, y: joined(b, "stack", 1, call(b, "mul", x, y), x),
        lambda x, y: torch.stack([x * y, x], 1), normal(4, 33), normal(33),
    )  # fmt: skip
    assert parts_of(plan) == [(0, 33)], "equal parts share a launch"


def test_a_join_takes_the_common_type_and_skips_what_is_empty(device: Device) -> None:
    check(
        device, lambda b, x, y, z: joined(b, "cat", 0, x, call(b, "neg", y), z),
        lambda x, y, z: torch.cat([x, -y, z]), normal(3, 5), normal(2, 5, dtype=np.int64), np.zeros(0, np.float32),
    )  # fmt: skip


def test_a_join_that_is_read_again_is_refused() -> None:
    with pytest.raises(CodegenError, match="joined tensors are read again"):
        planned(lambda b, x: call(b, "neg", joined(b, "cat", 0, x, x)), dense(2, 2))
