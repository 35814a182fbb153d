"""The type rule of pointwise ops gives the element type, shape and layout that torch gives."""

from __future__ import annotations

import random
from typing import Any

import pytest

from irscope.errors import ArgumentError
from irscope.ir.types import TensorType
from irscope.ops.expr.elementwise import elementwise
from irscope.ops.registry import lookup
from irscope.ops.schema.op import Op
from tests.ops import pointwise_ops as pointwise
from tests.ops.pointwise.test_pointwise import choices, plain

DTYPES = ["float32", "float64", "int64", "bool"]


def a_tensor(torch: Any, pick: random.Random, shape: tuple[int, ...]) -> Any:
    """A tensor of a shape that broadcasts to this one, laid out at random: permuted, strided, repeated."""
    sizes = [1 if pick.random() < 0.2 else size for size in shape][pick.choice([0, 0, 0, 1]) :]
    order = list(range(len(sizes)))
    if pick.random() < 0.6:
        pick.shuffle(order)
    stored = torch.ones([sizes[axis] for axis in order], dtype=getattr(torch, pick.choice(DTYPES)))
    result = stored.permute([order.index(axis) for axis in range(len(sizes))])
    if sizes and pick.random() < 0.15:
        result = result.repeat_interleave(2, dim=0)[::2]
    if sizes and pick.random() < 0.15:
        axis = pick.randrange(len(sizes))
        result = result.narrow(axis, 0, 1).expand(result.shape)
    return result


def told(tensor: Any) -> TensorType:
    return TensorType(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.stride())


@pytest.mark.parametrize("seed", range(8))
def test_types_and_layouts_are_torchs(seed: int) -> None:
    torch = pytest.importorskip("torch")
    pick = random.Random(seed)
    calls: dict[str, Any] = {
        "aten::add": lambda a, b, c: {"self": a, "other": b, "alpha": 1},
        "aten::div": lambda a, b, c: {"self": a, "other": b},
        "aten::gt": lambda a, b, c: {"self": a, "other": b},
        "aten::mul": lambda a, b, c: {"self": a, "other": pick.choice([2, 2.5])},
        "aten::sigmoid": lambda a, b, c: {"self": a},
        "aten::addcmul": lambda a, b, c: {"self": a, "tensor1": b, "tensor2": c.double(), "value": 1},
        "aten::where": lambda a, b, c: {"condition": c.bool() if hasattr(c, "bool") else c, "self": a, "other": b},
    }
    for _ in range(60):
        shape = tuple(pick.choice([1, 2, 3, 4]) for _ in range(pick.randrange(5)))
        tensors = [a_tensor(torch, pick, shape) for _ in range(3)]
        for name, call in calls.items():
            given = call(*tensors)
            keywords = {key: given.pop(key) for key in ("alpha", "value") if key in given}
            theirs = getattr(torch.ops.aten, name.removeprefix("aten::"))(*given.values(), **keywords)
            op = lookup(name)
            assert op is not None
            assert op.type_rule is not None
            types = {key: told(value) if isinstance(value, torch.Tensor) else value for key, value in given.items()}
            ours = op.type_rule(**types, **keywords)
            assert (ours.dtype, ours.shape) == (told(theirs).dtype, told(theirs).shape), (name, types)
            assert ours.strides == theirs.stride(), (name, types)


LAID = [op for op in pointwise.OPS if (op.category, op.effect, op.name[:6]) == ("pointwise", "pure", "aten::")]


@pytest.mark.parametrize("op", LAID, ids=lambda op: op.name.removeprefix("aten::"))
def test_every_op_lays_its_result_out_as_torch_does(op: Op) -> None:
    torch = pytest.importorskip("torch")
    assert op.type_rule is not None
    pick = random.Random(op.name)
    whole = op.name.startswith(("aten::bitwise", "aten::__"))
    for schema in op.schemas * 12:
        shape = tuple(pick.choice([1, 2, 3, 4]) for _ in range(pick.randrange(1, 5)))
        given = {
            argument.name: a_tensor(torch, pick, shape).to(torch.int64 if whole else torch.float32)
            if isinstance(plain(argument), TensorType)
            else choices(argument, 0)
            for argument in schema.arguments
        }
        for name in {"mask", "condition"} & set(given):
            given[name] = given[name].bool()
        if op.name == "aten::masked_fill" and schema.overload == "Tensor":
            given["value"] = torch.ones(())
        if op.operand_axes:
            given["weight"] = torch.ones(given["self"].shape[1] if given["self"].ndim > 1 else 1)
        call = getattr(getattr(torch.ops.aten, op.name.removeprefix("aten::")), schema.overload or "default")
        keywords = {a.name: given[a.name] for a in schema.arguments if a.keyword_only}
        try:
            theirs = call(*(given[a.name] for a in schema.arguments if not a.keyword_only), **keywords)
        except RuntimeError:  # torch has no kernel of its own for some layouts of some ops
            continue
        ours = op.type_rule(**{k: told(v) if isinstance(v, torch.Tensor) else v for k, v in given.items()})
        what = f"{schema.full_name} {[told(v) for v in given.values() if isinstance(v, torch.Tensor)]}"
        assert (ours.dtype, ours.shape) == (told(theirs).dtype, told(theirs).shape), what
        assert ours.strides in (theirs.stride(), None), what


@pytest.mark.parametrize("seed", range(4))
def test_batch_norms_are_laid_out_as_in_torch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    pick = random.Random(seed)
    op = lookup("aten::batch_norm")
    assert op is not None
    assert op.type_rule is not None
    for _ in range(40):
        rank = pick.choice([2, 3, 4, 5])
        order = list(range(rank))
        pick.shuffle(order)
        x = torch.ones([pick.choice([1, 2, 3]) for _ in order]).permute(order)
        statistics = [torch.ones(x.shape[1]) for _ in range(4)]
        theirs = torch.ops.aten.batch_norm(x, *statistics, False, 0.1, 1e-5, True)
        types = dict(zip(("weight", "bias", "running_mean", "running_var"), map(told, statistics), strict=True))
        ours = op.type_rule(input=told(x), **types, training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)
        assert (ours.shape, ours.strides) == (told(theirs).shape, theirs.stride()), told(x)


def test_an_in_place_op_gives_its_first_operands_type() -> None:
    op = lookup("aten::add_")
    assert op is not None
    assert op.type_rule is not None
    whole = TensorType("int64", (2, 3), (1, 2))
    assert op.type_rule(self=whole, other=TensorType("int64", (3,), (1,)), alpha=1) is whole


def test_shapes_that_do_not_broadcast_are_an_error() -> None:
    op = lookup("aten::add")
    assert op is not None
    assert op.type_rule is not None
    with pytest.raises(ArgumentError, match="broadcast"):
        op.type_rule(self=TensorType("float32", (2, 3)), other=TensorType("float32", (4,)), alpha=1)


def test_an_op_on_numbers_first_has_no_in_place_twin() -> None:
    made = elementwise("aten::f.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", numpy=max)
    assert [op.name for op in made] == ["aten::f"]
