"""Views between kernels and library ops, which a run makes of their root or not at all: beside eager torch, for each caller."""

import random
from typing import Any

import numpy as np
import pytest

import irscope as irs
from tests.programs import parsed

torch = pytest.importorskip("torch")
nn = torch.nn


class Chains(nn.Module):
    """Random chains of views of a product, of a kernel's result and of an argument; each end is read by a kernel, a product and the
    library, and one more view of each is returned."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        torch.manual_seed(seed)
        self.enter = nn.Linear(24, 48)
        self.leave = nn.ModuleDict({str(size): nn.Linear(size, 8) for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)})

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        rng = random.Random(self.seed)
        found = []
        for root in (self.enter(x), torch.tanh(x), x):
            ends = [self.chain(root, rng) for _ in range(2)]
            for end in ends:
                found.append(torch.cumsum(end, 0))
                found.append(torch.sigmoid(end * 2))
                if str(end.shape[-1]) in self.leave:
                    found.append(self.leave[str(end.shape[-1])](end))
            found.append(torch.sigmoid(root)[1:].transpose(0, 1))
        return found

    def chain(self, x: torch.Tensor, rng: random.Random) -> torch.Tensor:
        for _ in range(rng.randint(1, 4)):
            axis = rng.randrange(x.dim())
            match rng.randrange(7):
                case 0:
                    x = x.transpose(axis, rng.randrange(x.dim()))
                case 1:
                    x = x.permute(rng.sample(range(x.dim()), x.dim()))
                case 2 if x.shape[axis] % 2 == 0:
                    x = rng.choice(x.split(x.shape[axis] // 2, axis))
                case 3 if x.shape[axis] % 3 == 0:
                    x = x.unflatten(axis, (3, -1))
                case 4:
                    x = x.reshape(-1, *x.shape[2:]) if x.dim() > 2 else x.unsqueeze(axis)
                case 5:
                    x = x.narrow(axis, rng.randrange(x.shape[axis]), 1) if x.shape[axis] < 4 else x.chunk(2, axis)[1]
                case 6:
                    x = x.unsqueeze(axis).expand(*x.shape[:axis], 2, *x.shape[axis:])
        return x


def alike(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-4, atol=1e-5)
        assert torch.as_tensor(a).stride() == b.stride()


@pytest.mark.parametrize("seed", [*range(5), *[pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 200)]])
def test_results_are_those_of_eager_torch_for_each_caller(seed: int) -> None:
    model, x = Chains(seed).eval(), torch.randn(4, 6, 24)
    run = irs.compile(irs.fuse(irs.load(model, x)))
    others = [x, torch.randn(4, 6, 24)]
    with torch.no_grad():
        for given in [*others, *others]:
            alike(run(given), model(given))
        watched = run.run([x], launched=lambda node: None)  # makes each view
        assert [a._base is None for a in run(x)] == [b._base is None for b in watched], "a caller may ask which tensor a view is of"
        for _ in range(2):
            alike(run(x.numpy()), model(x))
            alike(torch.func.functionalize(run)(x), model(x))
    with torch.inference_mode():
        for given in [x, torch.randn(4, 6, 24), *others]:
            alike(run(given), model(given))
    code = run._program("torch").code
    gone = [step for step, now in zip(code.instructions, code.unwatched or (), strict=True) if now.kind == "move" != step.kind]
    assert gone, "no view of this model was left out"


def test_memory_is_let_go_where_a_program_with_all_its_views_lets_it_go() -> None:
    """The product's result, which only views are read of, is freed before the next one is computed."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(512, 512), nn.Linear(512, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in (self.a, self.b) * 4:
                x = torch.cumsum(layer(x).reshape(8, 64, 512).transpose(0, 1).reshape(512, 512), 0)
            return torch.tanh(x)

    from torch.profiler import ProfilerActivity, profile

    model, x = Twice().eval(), torch.randn(512, 512)
    run = irs.compile(irs.fuse(irs.load(model, x)), freeze=False)

    def peak(call: Any) -> int:
        call(x), call(x)
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
            call(x)
        now = most = 0
        for event in found.profiler.kineto_results.events():
            if event.name() == "[memory]":
                now += event.nbytes()
                most = max(most, now)
        return most

    with torch.no_grad():
        assert peak(run) <= peak(model)
        np.testing.assert_allclose(run(x), model(x), rtol=1e-3, atol=1e-3)


def test_a_view_that_counts_from_the_start_of_the_storage_is_made_in_each_run() -> None:
    run = irs.compile(
        irs.fuse(
            parsed(
                "x:Float(2, 6) | sizes = [3, 4]; strides = [4, 1]; o = 0; none = None; v = as_strided x sizes strides o; c:Float(3, 4) = "
                "cumsum v o none; b:Float(3, 4) = tanh v | c b",
                "Float(3, 4, strides=[4, 1])",
            )
        )
    )
    whole = torch.randn(48)
    v = whole.as_strided((3, 4), (4, 1))
    for start in (0, 24, 36):
        alike(run(whole[start : start + 12].view(2, 6)), [v.cumsum(0), v.tanh()])
