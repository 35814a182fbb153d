"""Calls inside of what torch switches on around them: eager's answer, or an error that says what to do; never a constant,
another type, or a lost derivative without a word."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import irscope as irs  # noqa: E402
from irscope.errors import RunError  # noqa: E402
from irscope.runtime.program.executable import Executable  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def one_kernel(x: Any, y: Any) -> Any:
    return torch.tanh(x * 2 + y) * x


def several(x: Any, y: Any) -> Any:
    return torch.relu(torch.relu(x) + y) @ y + 1


def written(x: Any, y: Any) -> Any:
    x.add_(y)
    return torch.tanh(x) * 2


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: Any, y: Any) -> Any:
        return torch.tanh(self.first(x)) * self.second(y)


PROGRAMS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (one_kernel, several, written)}


def given(seed: int = 0) -> tuple[Any, Any]:
    numbers = torch.Generator().manual_seed(seed)
    return torch.rand(4, 4, generator=numbers), torch.rand(4, 4, generator=numbers)


def warm(source: Callable[..., Any], device: str = "cpu") -> Executable:
    """Compiled, and called until calls are written out."""
    run = irs.compile(source, *given(), device=device)
    with torch.no_grad():
        for seed in range(5):
            torch.testing.assert_close(run(*given(seed)), source(*given(seed)))
    return run


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def still_right(run: Executable, source: Callable[..., Any]) -> None:
    with torch.no_grad():
        torch.testing.assert_close(run(*given(9)), source(*given(9)))


# -- what must see the ops sees them ----------------------------------------------------------------------------------


def traced(run: Callable[..., Any]) -> Callable[..., Any]:
    return torch.jit.trace(lambda x, y: run(x, y), given(1), check_trace=False)  # type: ignore[no-any-return]


def proxied(run: Callable[..., Any]) -> Callable[..., Any]:
    return make_fx(lambda x, y: run(x, y))(*given(1))  # type: ignore[no-any-return]


def exported(run: Callable[..., Any]) -> Callable[..., Any]:
    class Calls(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return run(x, y)

    return torch.export.export(Calls(), given(1), strict=False).module()  # type: ignore[no-any-return]


def loaded(run: Callable[..., Any]) -> Callable[..., Any]:
    return irs.compile(lambda x, y: run(x, y), *given(1))


@pytest.mark.parametrize("capture", [traced, proxied, exported, loaded], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_that_is_captured_is_not_a_constant(name: str, capture: Callable[..., Any]) -> None:
    run = warm(PROGRAMS[name])
    again = capture(run)
    for seed in (2, 3):
        torch.testing.assert_close(again(*given(seed)), PROGRAMS[name](*given(seed)))
    still_right(run, PROGRAMS[name])


def test_a_captured_call_of_a_model_keeps_its_parameters() -> None:
    net = Net()
    run = warm(net)
    with torch.no_grad():
        for again in (proxied(run), exported(run)):
            torch.testing.assert_close(again(*given(2)), net(*given(2)))
    with pytest.raises(RunError, match="requires grad"):
        traced(run)
    net.requires_grad_(False)
    torch.testing.assert_close(traced(run)(*given(3)), net(*given(3)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_mapped_calls_are_right(name: str) -> None:
    source = PROGRAMS[name]
    run = warm(source)

    def stacks() -> list[Any]:
        return [torch.stack(pair) for pair in zip(given(2), given(3), strict=True)]

    torch.testing.assert_close(torch.vmap(run)(*stacks()), torch.vmap(source)(*stacks()))
    torch.testing.assert_close(
        torch.vmap(run, in_dims=(0, None))(stacks()[0], given(5)[1]), torch.vmap(source, in_dims=(0, None))(stacks()[0], given(5)[1])
    )
    fixed = given(4)
    beside = torch.vmap(lambda x: run(*(v.clone() for v in fixed)) + x)(torch.zeros(2))
    torch.testing.assert_close(beside[0], source(*given(4)))
    still_right(run, source)


def test_modes_that_watch_see_every_op() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    run = warm(several)
    with FlopCounterMode(display=False) as ours, torch.no_grad():
        found = run(*given(1))
    with FlopCounterMode(display=False) as eager:
        wanted = several(*given(1))
    assert ours.get_total_flops() == eager.get_total_flops() > 0
    torch.testing.assert_close(found, wanted)


def test_tensors_without_elements_give_such_or_an_error() -> None:
    from torch._subclasses import FakeTensor, FakeTensorMode

    for source in PROGRAMS.values():
        run, mode = warm(source), FakeTensorMode()
        found = run(*[mode.from_tensor(x) for x in given(1)])
        assert isinstance(found, FakeTensor) and found.shape == (4, 4)
        still_right(run, source)
    with pytest.raises(RunError, match="Fake"):
        warm(Net())(*[FakeTensorMode().from_tensor(x) for x in given(1)])


def test_the_reference_says_that_it_is_not_seen() -> None:
    run = warm(one_kernel, device="reference")
    for capture in (traced, proxied):
        with pytest.raises(RunError, match="reference"):
            capture(run)
    with pytest.raises(RunError, match="reference"):
        torch.vmap(run)(*[x[None] for x in given()])


def test_torch_compile_calls_it_and_does_not_look_inside() -> None:
    for source in (one_kernel, Net()):
        run = warm(source)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        outer = torch.compile(lambda x, y, run=run: run(x * 2, y) + 1, backend="eager")
        for seed in range(4):
            x, y = given(seed)
            with torch.no_grad():
                torch.testing.assert_close(outer(x, y), source(x * 2, y) + 1)
        assert torch._dynamo.utils.counters["frames"]["total"] < 6
        with pytest.raises(Exception, match="irscope has compiled"):
            torch.compile(lambda x, y, run=run: run(x, y), backend="eager", fullgraph=True)(*given())
        torch._dynamo.reset()


# -- what would give other numbers is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_autocast_is_refused_where_it_would_change_anything(device: str) -> None:
    run, same = warm(several, device), warm(one_kernel, device)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            with pytest.raises(RunError, match="autocast") as caught:
                run(*given())
            torch.testing.assert_close(same(*given()), one_kernel(*given()))
            with torch.autocast("cpu", enabled=False):
                torch.testing.assert_close(run(*given()), several(*given()))
    assert "aten::matmul" in str(caught.value)
    still_right(run, several)


def test_autocast_inside_of_a_composed_op_is_seen() -> None:
    run = warm(lambda x, y: torch.einsum("ij,jk->ki", x, y) * 2)
    with torch.autocast("cpu"), pytest.raises(RunError, match="autocast"):
        run(*given())


def whole(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * y


def compared(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x > 0.5) * 1


def made(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mask is a constant by the time it runs."""
    return x * torch.ones(4, 4).tril() + y


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("source", [whole, compared, made], ids=lambda f: f.__name__)
def test_another_default_dtype_is_refused_where_it_counts(source: Callable[..., Any], device: str) -> None:
    whole_numbers = torch.arange(16).reshape(4, 4), torch.ones(4, 4)
    for loaded_under in (torch.float32, torch.float64):
        with default_dtype(loaded_under):
            run = irs.compile(irs.fuse(irs.load(torch.jit.script(source), *whole_numbers)), device=device)
        for _ in range(4):
            torch.testing.assert_close(run(*whole_numbers), source(*whole_numbers))
        with default_dtype(torch.float64), pytest.raises(RunError, match=r"float64 now.*float32"):
            run(*whole_numbers)
        torch.testing.assert_close(run(*whole_numbers), source(*whole_numbers))


def test_another_default_dtype_is_eagers_where_types_are_open() -> None:
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(whole))))
    whole_numbers = torch.arange(16).reshape(4, 4), torch.ones(4, 4)
    for _ in range(3):
        torch.testing.assert_close(run(*whole_numbers), whole(*whole_numbers))
        with default_dtype(torch.float64):
            torch.testing.assert_close(run(*whole_numbers), whole(*whole_numbers))


def test_another_default_dtype_is_nothing_to_floats() -> None:
    for source in PROGRAMS.values():
        run = warm(source)
        with default_dtype(torch.float64):
            x, y = (v.float() for v in given())
            wanted = source(x.clone(), y)
            assert wanted.dtype == torch.float32
            torch.testing.assert_close(run(x, y), wanted)


# -- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [*PROGRAMS.values(), Net()], ids=[*PROGRAMS, "net"])
def test_transforms_that_differentiate_are_refused(source: Callable[..., Any]) -> None:
    run, (x, y) = warm(source), given()
    for transform in (
        lambda: torch.func.grad(lambda a: run(a, y.clone()).sum())(x.clone()),
        lambda: torch.func.jvp(lambda a: run(a, y.clone()), (x.clone(),), (y,)),
        lambda: torch.func.vjp(lambda a: run(a, y.clone()), x.clone()),
        lambda: torch.func.jacrev(lambda a: run(a, y.clone()))(x.clone()),
        lambda: torch.func.grad(lambda a: torch.vmap(lambda b: run(b, y.clone()).sum())(a[None]).sum())(x.clone()),
    ):
        with pytest.raises(RunError, match="derivative"):
            transform()
    with forward_ad.dual_level():
        with pytest.raises(RunError, match="tangent"):
            run(forward_ad.make_dual(x.clone(), y), y)
        with pytest.raises(RunError, match="tangent"):
            run(x.clone(), forward_ad.make_dual(y, x))
        with torch.no_grad():
            torch.testing.assert_close(run(*given(3)), source(*given(3)))
    still_right(run, source)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("source", [one_kernel, several], ids=lambda f: f.__name__)
def test_a_gradient_is_not_lost_without_a_word(source: Callable[..., Any], device: str) -> None:
    run, (x, y) = warm(source, device), given()
    x.requires_grad_()
    for _ in range(3):
        found = run(x, y)
        assert found.requires_grad, "as eager's"
        with pytest.raises(RuntimeError, match="computes no gradients"):
            found.sum().backward()
        with pytest.raises(RuntimeError, match="computes no gradients"):
            torch.autograd.grad((found + x * 2).sum(), x, allow_unused=True)
        with torch.no_grad():
            assert not run(x, y).requires_grad
        torch.testing.assert_close(found.detach(), source(x, y).detach())
        assert not run(*given()).requires_grad


def test_gradients_of_parameters_are_not_lost_without_a_word() -> None:
    net = Net()
    run = warm(net)
    assert run(*given()).requires_grad
    with pytest.raises(RuntimeError, match="computes no gradients"):
        torch.autograd.grad((run(*given()) + net(*given())).sum(), net.first.weight)
    net.requires_grad_(False)
    assert not run(*given()).requires_grad
    net.second.requires_grad_(True)
    with pytest.raises(RuntimeError, match="computes no gradients"):
        torch.autograd.grad((run(*given()) + net(*given())).sum(), net.second.bias)
    with torch.inference_mode():
        assert not run(*given()).requires_grad


def test_results_that_are_arguments_stay_themselves() -> None:
    run = irs.compile(lambda x, y: (x, y, x * y, (x * 0).long()), *given())
    x, y = given()
    y.requires_grad_()
    same, wanting, product, whole_numbers = run(x, y)
    assert same is x
    assert wanting is y
    assert product.requires_grad
    assert not whole_numbers.requires_grad


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_leaf_that_wants_a_gradient_is_not_written(device: str) -> None:
    run = warm(written, device)
    for wants in ((True, False), (False, True), (True, True)):
        x, y = (v.requires_grad_(flag) for v, flag in zip(given(), wants, strict=True))
        before = x.detach().clone()
        with pytest.raises(RunError, match="%x"):
            run(x, y)
        assert torch.equal(x, before)
        with torch.no_grad():
            torch.testing.assert_close(run(x, y), torch.tanh(before + y) * 2)
    still_right(run, written)


def test_buffers_are_written_and_parameters_are_not() -> None:
    class Counts(Net):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Any, y: Any) -> Any:
            self.seen.add_(1)
            return self.norm(super().forward(x, y))

    class Changes(Net):
        def forward(self, x: Any, y: Any) -> Any:
            self.first.bias.add_(1)
            return super().forward(x, y)

    counts = Counts()
    run = irs.compile(counts, *given())
    run(*given())
    assert counts.seen.item() == 1
    changes = Changes().requires_grad_(False)
    run = irs.compile(changes, *given())
    before = changes.first.bias.clone()
    changes.requires_grad_(True)
    with pytest.raises(RunError, match="requires a gradient"):
        run(*given())
    assert torch.equal(before, changes.first.bias)


def test_nothing_is_left_switched() -> None:
    run = warm(several)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            with torch.autocast("cpu"), pytest.raises(RunError):
                run(*given())
            assert torch.is_grad_enabled()
            assert not torch.is_autocast_enabled("cpu")
