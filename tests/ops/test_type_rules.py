"""Type rules give what eager torch gives, for every call that torch's own samples make of an op that has a rule, in every element type.

The calls are those of `OpInfo`'s samples, as the dispatcher sees them, and the same calls of the ops of that name, which torch may
take apart before. Declared types are refused by these rules (`irscope.ops.node_check`), so a wrong one is a wrong error.
"""

import random
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from irscope.errors import ArgumentError
from irscope.ir import TensorType, contradiction
from irscope.ops.registry import _ops
from irscope.ops.type_rules import SLIPS, Unknown
from tests.ops.oracle import code

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

DTYPES = "float32 float64 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool uint16 uint32 complex32".split()


class _Foreign(Exception):
    """Raised for an argument that is not of a program: sparse or quantised tensors, generators."""


def fact(value: Any) -> Any:
    """The value as type rules take it."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise _Foreign
        return TensorType(str(value.dtype).removeprefix("torch."), tuple(value.shape), value.stride())
    if isinstance(value, list | tuple):
        return [fact(item) for item in value]
    if isinstance(value, torch.layout | torch.Generator):
        raise _Foreign
    return str(value) if isinstance(value, torch.device) else code(value)


class Judge(TorchDispatchMode):
    """Compares each call of an op that has a type rule."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = self.told(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        self.judge(func, given, result)
        return result

    def told(self, func: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        try:
            names = [argument.name for argument in func._schema.arguments]
            return {**dict(zip(names, map(fact, args), strict=False)), **{name: fact(value) for name, value in kwargs.items()}}
        except _Foreign:
            return None

    def judge(self, func: Any, given: dict[str, Any] | None, result: Any) -> None:
        name, overload = func._schema.name, func._schema.overload_name
        for op in _ops(name) if given is not None else ():
            schema = next((schema for schema in op.schemas if schema.overload == overload), None)
            if schema is None or op.type_rule is None or f"{func} {given}" in self.seen:
                continue
            self.seen.add(f"{func} {given}")
            named = {argument.name: argument.default for argument in schema.arguments} | (given or {})
            try:
                ours, theirs = op.type_rule(**named), fact(result)
            except (_Foreign, *SLIPS):
                continue
            except ArgumentError as error:
                self.wrong.append(f"{func} of {given}: refused, {error.what}")
                continue
            pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) and not isinstance(ours, Unknown) else [(ours, theirs)]
            for mine, other in pairs:
                if isinstance(mine, TensorType) and contradiction(mine, other):
                    self.wrong.append(f"{func} of {given}: {mine} for {other}")


def samples(share: int, of: int, most: int) -> Iterator[tuple[Any, Any]]:
    import torch.testing._internal.common_methods_invocations as invocations

    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    ops = [op for op in invocations.op_db if not op.full_name.startswith("jiterator")]
    for op in ops[share::of]:
        for name in DTYPES:
            dtype = getattr(torch, name)
            if dtype in op.supported_dtypes("cpu"):
                torch.default_generator.manual_seed(0)
                np.random.seed(0)
                random.seed(0)
                yield from ((op, sample) for sample in islice(op.sample_inputs("cpu", dtype), most))


def judged(share: int, of: int, most: int) -> int:
    judge = Judge()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, sample in samples(share, of, most):
            args = (sample.input, *sample.args)
            try:
                with judge:
                    op.op(*args, **sample.kwargs)
            except Exception:  # a sample that torch itself refuses
                continue
            for name in {op.name, op.aten_name, f"{op.aten_name}_"}:
                packet = getattr(torch.ops.aten, name.replace(".", "_"), None)
                try:
                    overload = torch._C._jit_resolve_packet(f"aten::{name}", *args, **sample.kwargs)
                    func = getattr(packet, overload)
                    given = judge.told(func, args, sample.kwargs)
                    result = func(*args, **sample.kwargs)
                except Exception:  # no such op, or not with these arguments
                    continue
                judge.judge(func, given, result)
    assert not judge.wrong, f"{len(judge.wrong)} calls:\n" + "\n".join(judge.wrong[:30])
    return len(judge.seen)


SHARES = [(7, 120, 1, 20), *(pytest.param(share, 8, 8, 1500, marks=pytest.mark.long) for share in range(8))]


@pytest.mark.parametrize(("share", "of", "most", "least"), SHARES)
def test_rules_agree_with_torch(share: int, of: int, most: int, least: int) -> None:
    assert judged(share, of, most) > least


def test_an_einsum_of_whole_numbers_that_sums_first_may_be_wider() -> None:
    rule = next(op.type_rule for op in _ops("aten::einsum") if op.type_rule)
    x = torch.ones(2, 3, dtype=torch.int32)
    for equation, given in (("ij->i", [x]), ("ij,jk->ik", [x, x.T.contiguous()])):
        found, made = rule(equation, [fact(each) for each in given]), torch.einsum(equation, given)
        assert found.dtype in (None, str(made.dtype).removeprefix("torch.")) and found.shape == tuple(made.shape)
