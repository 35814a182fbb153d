"""Gradients of random programs are autograd's: views, in-place writes, reductions, joins, loops, in double precision.

Arguments are copied first, as torch refuses writes into a leaf. Where gradients are not finite the program is left to torch:
of a maximum, say, it multiplies a mask with the gradient when it is traced, and puts the gradient into zeros when it is not.
A program of which autograd itself refuses the gradient must be refused by `irs.load(…, backward=True)` too; one that reads
values as it runs cannot be captured, and is counted as such.
"""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import CaptureError, IrscopeError  # noqa: E402
from tests.oracles.counts import Counts, outcome  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram, torch_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def differentiable(program: TorchProgram) -> tuple[Callable[..., Any], list[Any]]:
    """The program's tensors as a function of leaves that want gradients."""
    eager = program.eager()

    def copied(*given: Any) -> list[Any]:
        made = eager(*[item.clone() if isinstance(item, torch.Tensor) else item for item in given])
        return [item for item in torch.utils._pytree.tree_leaves(made) if isinstance(item, torch.Tensor)]

    leaves = [
        item.detach().clone().requires_grad_(item.is_floating_point()) if isinstance(item, torch.Tensor) else item
        for item in program.fresh()
    ]
    return copied, leaves


def autograd(function: Callable[..., Any], leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    """Results and gradients by torch, and the cotangents; raises as torch does."""
    results = function(*leaves)
    starts = [item for item in results if item.requires_grad]
    cotangents = [torch.randn_like(item) for item in starts]
    if len(starts) == 1 and not starts[0].dim():
        cotangents = []
    wanted = [item for item in leaves if isinstance(item, torch.Tensor) and item.requires_grad]
    gradients = torch.autograd.grad(starts, wanted, cotangents or None, allow_unused=True)
    return [*results, *gradients], cotangents


def check(seed: int, found: Counts) -> None:
    function, leaves = differentiable(torch_program(seed).exact())
    torch.default_generator.manual_seed(seed)
    try:
        expected, cotangents = autograd(function, leaves)
    except RuntimeError as error:
        if "single memory location" not in str(error):  # autograd writes into a gradient that was expanded, and we do not
            with pytest.raises(IrscopeError):
                irs.load(function, *leaves, backward=True)
        found.add("torch", program=str(seed))
        return
    if not all(item is None or item.isfinite().all() for item in expected):
        found.add("torch", "it is not finite", str(seed))
        return
    try:
        graph = irs.load(function, *leaves, backward=True)
    except CaptureError as error:
        found.add(*outcome(error), str(seed))
        return
    for name, run in (("op by op", irs.compile(graph)), ("fused", irs.compile(irs.fuse(graph)))):
        made = run(*leaves, *cotangents)
        wrong = difference(list(made) if isinstance(made, tuple | list) else [made], expected, precision(graph))
        if wrong:
            found.add("wrong", f"{name}: {wrong}", str(seed))
            return
    found.add("passed")


def precision(graph: irs.Graph) -> float:
    """Integers that are divided become float32, whatever the arguments are."""
    return 1e-4 if any(getattr(value.type, "dtype", None) == "float32" for value in graph.values()) else 1e-10


def difference(made: list[Any], expected: list[Any], bound: float) -> str:
    """Which result is not what autograd gives; roundings move small numbers as much as the largest has room for."""
    if len(made) != len(expected):
        return f"{len(made)} results for {len(expected)}"
    numbers = [item.detach() for item in expected if item is not None and item.is_floating_point() and item.numel()]
    scale = max([1.0, *(float(item.abs().max()) for item in numbers)])
    for place, (mine, its) in enumerate(zip(made, expected, strict=True)):
        if its is None or mine is None:
            if mine is not its:
                return f"result {place} is {mine} for {its}"
        elif (mine.dtype, mine.shape) != (its.dtype, its.shape):
            return f"result {place} is {mine.dtype} {tuple(mine.shape)} for {its.dtype} {tuple(its.shape)}"
        elif not torch.allclose(mine, its, rtol=bound, atol=bound * scale):
            return f"result {place} of {len(made)} is {mine} for {its}"
    return ""


LONG = [pytest.param(range(start, start + 200), 0, marks=pytest.mark.long) for start in range(1000, 2600, 200)]


@pytest.mark.parametrize(("seeds", "passed"), [(range(12), 3), *LONG])
def test_gradients_of_random_programs(seeds: range, passed: int, tell: Callable[[Counts], None]) -> None:
    found = Counts("gradients")
    for seed in seeds:
        check(seed, found)
    tell(found)
    found.assert_sound()
    assert found.ways["passed"] >= passed
