"""A planned program gives the results of an unplanned one, bit for bit, and needs what its plan says."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.programs import ir, parsed

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError  # noqa: E402
from irscope.runtime.arrays import onednn  # noqa: E402
from irscope.runtime.program.arena import PeakMemory  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402
from tests.analysis.alias.judge import arguments, flat  # noqa: E402
from tests.benchmarks.bench_memory import measured  # noqa: E402
from tests.benchmarks.models import bert, seeded, vit  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402
from tests.work import blocks, long  # noqa: E402


def check(seed: int, size: int) -> tuple[int, int]:
    """Four runs each, so that the stretches of a program are written out too; gives the places that kernels filled, and how many
    results were written in place of operands."""
    program = random_program(seed, size=size)
    fusion = irs.fuse(irs.load(program.text, *arguments(program)))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    for _ in range(4):
        one, other = arguments(program), arguments(program)
        expected, found = plain(*one), planned(*other)
        assert repr(flat([found, other])) == repr(flat([expected, one])), f"another result of\n{fusion.graph}"
    plan = planned.memory_plan
    assert plan is not None
    return len(plan.places), len(plan.in_place)


@pytest.mark.parametrize("seeds", [range(30), *long(blocks(1000, 16, 250))], ids=str)
def test_random_programs_compute_the_same(seeds: range) -> None:
    assert sum(check(seed, 24 if seeds.start == 0 else 30)[0] for seed in seeds) > 20


def network(rng: random.Random) -> tuple[torch.nn.Module, torch.Tensor]:
    """Layers, each followed by elementwise ops over its result and what earlier layers gave, of odd widths and other orders."""
    width, rows = rng.choice([3, 37, 64, 65, 130]), rng.choice([1, 2, 5, 48])
    layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(6))
    kinds = [rng.randrange(7) for _ in layers]

    def forward(x: Any) -> Any:
        earlier = [x]
        for kind, layer in zip(kinds, layers, strict=True):
            y, other = layer(x), rng_free(earlier, kind)
            if kind == 0:
                x = torch.tanh(y) * 2
            elif kind == 1:
                x = torch.relu(y) + other
            elif kind == 2:
                x = torch.exp(-y * y) * y  # read three times
            elif kind == 3:
                x = (y.reshape(-1) * 3).reshape(rows, width) + y.mean()
            elif kind == 4:
                x = torch.sigmoid(y) + y.flip(1)  # read in two orders
            elif kind == 5:
                x = (y.t() * 2).t() + 1
            else:
                x = torch.tanh(y) + y[:1]  # a row of it under all rows
            earlier.append(x)
        return x

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: Any) -> Any:
            return forward(x)

    return Net().eval(), torch.randn(rows, width)


def rng_free(earlier: list[Any], kind: int) -> Any:
    return earlier[(7 * kind + len(earlier)) % len(earlier)]


@torch.no_grad()
def test_results_in_place_of_operands_are_those_of_eager_torch() -> None:
    """By chance; the operands are those of library ops and of other kernels."""
    in_place = 0
    for seed in range(5):
        torch.manual_seed(seed)
        model, x = network(random.Random(seed))
        fusion = irs.fuse(irs.load(model, x))
        plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
        expected = plain(x)
        torch.testing.assert_close(expected, model(x), atol=1e-4, rtol=1e-4)
        for _ in range(4):
            assert torch.equal(planned(x), expected), f"seed {seed}:\n{fusion.graph}"
        plan = planned.memory_plan
        assert plan is not None
        assert planned.peak_bytes(x) == plan.peak
        in_place += len(plan.in_place)
    assert in_place > 5


@torch.no_grad()
def test_a_result_in_place_of_an_operand_has_its_pointer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(37, 37), torch.nn.Linear(37, 37)

        def forward(self, x: Any) -> Any:
            return self.b(torch.tanh(self.a(x)) * 2), self.a(x).relu() * x

    model, x = Layers(), torch.randn(13, 37)
    planned = irs.compile(irs.fuse(irs.load(model, x)), memory="planned")
    plan = planned.memory_plan
    assert plan is not None
    ((result, operand),) = plan.in_place.items()  # the other group's result is the caller's
    assert plan.lifetimes.buffer_of(result) is plan.lifetimes.buffer_of(operand) is not None
    pointers: dict[Any, int] = {}

    def after(self: PeakMemory, position: int) -> None:
        step = self.code.instructions[position]
        for value, slot in zip(step.node.outputs if step.node is not None else (), step.writes, strict=False):
            pointers[value] = self.slots[slot].data_ptr()

    monkeypatch.setattr(PeakMemory, "after", after)
    planned.peak_bytes(x)
    assert pointers[result] == pointers[operand]
    for _ in range(3):
        for one, other in zip(planned(x), model(x), strict=True):
            torch.testing.assert_close(one, other)


@torch.no_grad()
def test_an_op_of_the_library_writes_in_place_of_what_it_alone_reads() -> None:
    """Not where that is an argument, or read again, or where the types do not say that nothing is cast."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
    x = torch.randn(4, 8)
    plain, planned = (irs.compile(irs.load(model, x), memory=memory) for memory in (None, "planned"))  # type: ignore[arg-type]
    plan = planned.memory_plan
    assert plan is not None
    assert [plan.graph.producer[value].op for value in plan.in_place] == ["aten::gelu"] * 2
    for _ in range(4):
        assert torch.equal(planned(x), plain(x))
    assert planned.peak_bytes(x) == plan.peak < plain.peak_bytes(x)
    read_again = irs.load(lambda x: (y := x @ x, y.tanh() @ y)[1], torch.randn(4, 4))
    assert not irs.compile(read_again, memory="planned").memory_plan.in_place  # type: ignore[union-attr]
    argument = irs.load(lambda x: x.tanh() @ x.t(), torch.randn(4, 4))
    assert not irs.compile(argument, memory="planned").memory_plan.in_place  # type: ignore[union-attr]


@pytest.mark.parametrize("width", [1, 15, 16, 63, 64, 65, 200])
def test_no_point_of_a_kernel_in_place_is_computed_twice(width: int) -> None:
    """A row that ended in a vector over the one before would square some elements twice."""
    from irscope.codegen.kernel import overwriting
    from irscope.codegen.lowering import spec_of_group
    from irscope.runtime.cpu import CpuDevice

    graph = irs.fuse(
        parsed(f"x:Float(3, {width}, strides=[{width}, 1]) row:Float({width}, strides=[1]) | y = mul x x; z = mul y row | z")
    ).graph
    (group,) = (node for node in graph.nodes() if node.blocks)
    types = [value.type for value in group.inputs]
    found = spec_of_group(group, types)
    place, other = (group.inputs.index(value) for value in graph.inputs)
    assert not overwriting(found, {0: other}).in_place  # it is read again for every row
    plan = overwriting(found, {0: place})
    assert plan.in_place == ((0, place),)
    x, row = torch.arange(3.0 * width).reshape(3, width), torch.arange(width) + 1.0
    expected = x * x * row
    pointers = [0, 0]
    pointers[place], pointers[other] = x.data_ptr(), row.data_ptr()
    CpuDevice().prepare(plan).on("torch")([x.data_ptr()], pointers)
    assert torch.equal(x, expected)


class Blocks(torch.nn.Module):
    """Elementwise chains between matrix products, with a sum that lives long, and a result that hosts others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(x) * 2.0 + torch.sigmoid(layer(torch.cos(x) + 1.0))
        return torch.exp(-x.abs()), x.sum(0)


@torch.no_grad()
def test_results_lie_apart_and_stay_as_they_are_and_the_peak_is_the_planned_one() -> None:
    model, x = Blocks(), torch.randn(32, 64)
    fusion = irs.fuse(irs.load(model, x))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    assert plain.memory_plan is None and planned.memory_plan is not None
    assert planned.peak_bytes(x) == planned.memory_plan.peak <= plain.peak_bytes(x)
    first = planned(x)
    assert all(map(torch.equal, first, plain(x)))
    storages = [result.untyped_storage() for result in first]
    assert len({storage.data_ptr() for storage in storages}) == 2
    assert [storage.nbytes() for storage in storages] == [32 * 64 * 4, 64 * 4]  # nothing else is kept with them
    kept = [result.clone() for result in first]
    planned(torch.randn(32, 64))
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


def of_linears() -> Any:
    layers = [torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 256), torch.nn.LeakyReLU(0.2)]
    return torch.nn.Sequential(*layers), (torch.randn(64, 256),)


def of_points() -> Any:
    layers = torch.nn.Conv2d(256, 512, 1), torch.nn.Tanh(), torch.nn.Conv2d(512, 256, 1)
    last = torch.channels_last
    return torch.nn.Sequential(*layers).to(memory_format=last), (torch.randn(1, 256, 16, 16).to(memory_format=last),)


PROFILED: dict[str, tuple[Callable[[], Any], Sequence[bool]]] = {  # of convolutions with weights in its own order, oneDNN takes 12 kB more
    "BERT": (lambda: bert(1, 256, (2, 128), attention="sdpa"), (False, True)), "linears": (of_linears, (False, True)),
    "ViT": (lambda: vit(1, 192, 3, 1024, 96), (False, True)), "points": (of_points, (False,)),
}  # fmt: skip
"""Models with products that oneDNN would do, and whether constants are worked on once."""


@pytest.mark.parametrize("name", PROFILED)
@torch.no_grad()
def test_torchs_profiler_sees_the_planned_peak_and_no_byte_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN would multiply quicker, too."""
    pytest.importorskip("transformers")
    monkeypatch.setattr(onednn, "_is_quicker", lambda: True)
    make, ways = PROFILED[name]
    model, args = seeded(make)
    for freeze in ways:
        planned = compile_graph(irs.fuse(irs.load(model, *args)), memory="planned", pooled=False, freeze=freeze)
        plan = planned.memory_plan
        assert plan is not None
        assert measured(planned, args) == plan.peak == planned.peak_bytes(*args)
        torch.testing.assert_close(planned(*args), model(*args), atol=1e-4, rtol=1e-4)
        assert not any("oneDNN multiplies" in remark.because or "oneDNN does" in remark.because for remark in planned.remarks)


@torch.no_grad()
def test_threads_have_arenas_of_their_own() -> None:
    model, x = Blocks(), torch.randn(32, 64)
    planned = irs.compile(irs.fuse(irs.load(model, x)), memory="planned")
    inputs = [torch.randn(32, 64) for _ in range(4)]
    expected = [planned(x)[0] for x in inputs]

    def work(number: int) -> None:
        with torch.no_grad():
            assert all(torch.equal(planned(inputs[number])[0], expected[number]) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_arrays_of_numpy_lie_in_an_arena_too() -> None:
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    text = ir("x | dim = 0; none = None; a = tanh x; s = cumsum a dim none; b = exp s; t = cumsum b dim none; c = neg t | c", "Float(4096)")
    fusion = irs.fuse(irs.load(text, x))
    plain, planned = irs.compile(fusion), irs.compile(fusion, memory="planned")
    for _ in range(4):
        assert np.array_equal(plain(x), planned(x))


def test_what_cannot_be_planned_is_said() -> None:
    graph = irs.parse("graph(%x : Float(4)):\n  %y : Float(4) = aten::neg(%x)\n  return (%y)")
    with pytest.raises(ArgumentError, match="planned for the device 'cpu'"):
        irs.compile(graph, device="reference", memory="planned")
    with pytest.raises(ArgumentError, match="memory is None or 'planned'"):
        irs.compile(graph, memory="small")  # type: ignore[arg-type]
