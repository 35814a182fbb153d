"""Random programs of torch's, loaded, fused, compiled and called in many ways, against torch op by op.

Scripts of all kinds, reductions with odd flags, and batches of images between writes, views and loops
(`tests.random_programs.torch_scripts`); under every fusion policy, and with their memory planned and what lays them out for it.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import IrscopeError  # noqa: E402
from irscope.runtime.device import ObjectStore  # noqa: E402
from irscope.runtime.program.executable import Executable, compile_graph  # noqa: E402
from irscope.transforms.base import Remark  # noqa: E402
from irscope.transforms.cleanup.channels_last import channels_last  # noqa: E402
from tests.oracles.judge import Seen  # noqa: E402
from tests.oracles.rounding import near, rounded_runs, spread  # noqa: E402
from tests.oracles.whole_programs import Guard, Truth, check_call, check_program, interpreted, is_taken  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram, image_program, reduction_program, torch_program  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]

Check = Callable[[TorchProgram, int], Counter[str]]


def checked(seeds: range, make: Callable[[int, int], TorchProgram], check: Check) -> Counter[str]:
    """What the programs of these seeds came to; `refused` are those that torch's own compiler refuses, too."""
    found = Counter[str]()
    for seed in seeds:
        program = make(seed, 6 + seed % 17)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found += check(program, seed)
        except Exception as error:
            if isinstance(error, IrscopeError) and not is_taken(interpreted(program), program):
                found["refused"] += 1
                continue
            error.add_note(f"seed {seed} of {make.__name__}: {program.text}")
            raise
    return found


def if_taken(program: TorchProgram, seed: int) -> Counter[str]:
    """As `check_program`, if torch runs it both ways."""
    taken = is_taken(program.eager(), program) and is_taken(interpreted(program), program)
    return check_program(program, seed) if taken else Counter()


# -- in planned memory -------------------------------------------------------------------------------------------------


def compiled(graph: irs.Graph, way: int) -> tuple[Executable, tuple[Remark, ...]]:
    """A program on one of six ways that need its memory planned, or lay it out as planned programs are; and what was done for it."""
    if way < 2:
        planned = compile_graph(irs.fuse(graph) if way == 0 else graph, memory="planned", store=ObjectStore(None))
        return planned, planned.told
    if way < 4:
        record = channels_last(irs.fuse(graph).graph if way == 2 else graph)
        return compile_graph(record.after, use_kernels=False), record.remarks
    if way == 4:
        done = irs.Pipeline("recommend-layouts,channels-last,group-pools")(graph)
        return compile_graph(done.graph, use_kernels=False), done.remarks
    cleaned = irs.Pipeline("functionalize,canonicalize,cse")(graph).graph
    planned = compile_graph(irs.fuse(cleaned), memory="planned", store=ObjectStore(None))
    return planned, planned.told


def without_numbers(program: TorchProgram) -> TorchProgram:
    """The program with the values of `n` and `flag` written into it."""
    *tensors, n, flag = program.arguments
    return TorchProgram(program.text.replace("n: int, flag: bool)", f"n: int = {n}, flag: bool = {flag})"), tuple(tensors))


def check_planned(program: TorchProgram, seed: int) -> Counter[str]:
    """One program, scripted or traced, on the way that its seed says; counts what was done for its memory, too."""
    source: Any = program.scripted()
    if seed % 4 == 0:
        plain = without_numbers(program)
        function = plain.eager()
        try:
            source, program = torch.jit.trace(lambda *given: function(*given), plain.fresh(), check_trace=False), plain
        except RuntimeError:  # it was not found in the trace where a number came from
            return Counter()
    truth = Truth(program.eager(), program)
    executable, told = compiled(irs.load(source, *program.arguments), seed // 4 % 6)
    calls = [check_call(executable, truth) for _ in range(1 if seed % 3 else 4)]
    return Counter(remark.rule for remark in told if remark.kind == "passed") + calls[-1]


def runs(of: str, make: Callable[..., TorchProgram], check: Check, starts: range, most: dict[str, int], **least: int) -> list[Any]:
    """Runs from these seeds on: how many may at most end in each of some ways together, and how much must at least be done."""
    marks = pytest.mark.long if starts.start >= 1000 else ()
    return [pytest.param(range(s, s + starts.step), make, check, most, least, id=f"{of}-{s}", marks=marks) for s in starts]


@pytest.mark.parametrize(("seeds", "make", "check", "most", "least"), [
    *runs("scripts", torch_program, check_program, range(0, 120, 60), {"unsure changed refused": 5}, groups=35),
    *runs("scripts", torch_program, check_program, range(1000, 21_250, 250), {"unsure": 5, "changed refused": 7}),
    *runs("reductions", reduction_program, if_taken, range(0, 125, 125), {"unsure": 2}, programs=60, groups=20),
    *runs("reductions", reduction_program, if_taken, range(1000, 6500, 500), {"unsure": 10}),
    *runs("planned images", image_program, check_planned, range(0, 40, 40), {}, **{"channels-last": 6, "pool-kernel": 3}),
    *runs("planned images", image_program, check_planned, range(2000, 12_000, 500), {"unsure changed": 15}),
    *runs("planned scripts", torch_program, check_planned, range(20_000, 24_000, 500), {"unsure changed": 25}),
])  # fmt: skip
def test_random_programs_do_what_torch_does(
    seeds: range, make: Callable[..., TorchProgram], check: Check, most: dict[str, int], least: dict[str, int]
) -> None:
    found = checked(seeds, make, check)
    assert all(sum(found[way] for way in ways.split()) <= count for ways, count in most.items()), found
    assert all(found[what] >= count for what, count in least.items()), found


# -- the comparison itself ---------------------------------------------------------------------------------------------


def x_of(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4 - 2


def test_where_roundings_decide_a_number_anything_like_it_is_right() -> None:
    """Products of the same two factors in another order tie, and norms of equal rows are norms of roundings."""
    tie = """def f(x: Tensor, n: int, flag: bool):
    y = torch.tanh(torch.atan2(x, x)).prod(1)
    values, places = torch.min(y, 2)
    return values, places
"""
    norm = """def f(x: Tensor, n: int, flag: bool):
    y = x - x.mean(-2, keepdim=True)
    z = torch.nn.functional.instance_norm(torch.stack([torch.tanh(y), y, y - 1], 1))
    return y, torch.nn.functional.layer_norm(z, [z.size(-2), z.size(-1)])
"""
    for text, x in ((tie, x_of(16, 4, 2, 8)), (norm, x_of(1, 5).expand(16, 5))):
        program = TorchProgram(text, (x, 0, False))
        assert check_program(program, 1)["groups"] >= 1
        truth = Truth(program.eager(), program)
        steady, decided = (spread(truth.wanted.results[i], [run[i] for run in truth.runs]) for i in (0, 1))
        assert steady.max() < 1e-4
        assert bool((decided > 0).any())


def test_where_they_do_not_a_few_units_are_an_error() -> None:
    program = TorchProgram(
        "def f(x: Tensor, n: int, flag: bool):\n    y = torch.softmax(torch.exp(x).sum(0), 0)\n    return y, y.argmax(), y > 0.1\n",
        (x_of(7, 9), 0, False),
    )
    truth = Truth(program.eager(), program)
    wanted = truth.wanted
    y, place, mask = wanted.results

    def complaint(*results: torch.Tensor) -> str:
        return truth.complaint(Seen(list(results), wanted.memories, wanted.arguments, wanted.generator))

    assert complaint(y, place, mask) == ""
    for other in ([y * (1 + 4e-5), place, mask], [y, place + 1, mask], [y, place, ~mask], [y + torch.nan, place, mask]):
        assert "which roundings move by" in complaint(*other)


def test_what_roundings_leave_alone() -> None:
    """Copies, choices, writes of them, and what they write into, are as exact as they were."""
    x = x_of(4, 6)

    def run() -> list[torch.Tensor]:
        y = x.clone()
        y[1:].copy_(x[:3].relu())
        y.t()[0].clamp_(-1, 1)
        return [torch.cat([y, x.flip(0)]), y > x, y.sum(), torch.maximum(x, y).amax(1)]

    first = run()
    runs = rounded_runs(run)
    moved = [bool((spread(a, [run[index] for run in runs]) > 0).any()) for index, a in enumerate(first)]
    assert moved == [False, False, True, False]
    assert not near(first[0] + 1e-6, first[0], None, torch.zeros(8, 6)).any()


def test_one_tensor_for_two_and_other_memory_are_errors() -> None:
    program = TorchProgram("def f(x: Tensor, n: int, flag: bool):\n    return x[0], x * 1, x * 1\n", (x_of(2, 3), 0, False))
    truth, given = Truth(program.eager(), program), program.fresh()
    x = given[0]

    def complaint(*results: torch.Tensor) -> str:
        return truth.complaint(Seen(list(results), truth.wanted.memories, list(given), truth.wanted.generator))

    y = x * 1
    assert complaint(x[0], y, x * 1) == "" and complaint(x[0], y, y) == "one tensor stands for two"
    assert complaint(x[0].clone(), y, x * 1) == "other memory is shared"


def test_a_byte_written_beside_a_result_is_an_error() -> None:
    guard = Guard()
    made = guard.make((3,), (1,), torch.float32)
    made.fill_(1.0)
    guard.assert_untouched()
    guard.buffers[0][64 + 3 * 4] = 0  # behind the margin and three numbers
    with pytest.raises(AssertionError, match="beside"):
        guard.assert_untouched()
