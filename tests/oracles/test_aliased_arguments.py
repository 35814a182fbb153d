"""Random programs called with arguments that are one tensor, or lie in one memory: what torch does with them op by op.

Programs are loaded without examples, with examples that lie apart, and with examples that lie together; by torch.jit.script
and by torch.export, which takes equal tensors for one. The calls after the first go by what earlier ones learnt, with
arguments that lie together and apart in turn.
"""

import random
import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import CaptureError  # noqa: E402
from irscope.runtime.device import ObjectStore  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402
from tests.oracles.counts import Counts, outcome  # noqa: E402
from tests.oracles.whole_programs import POLICIES, Truth, check_call, guarded, interpreted, is_taken  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram, torch_program  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES: Final = ("none", "apart", "together")


def together(program: TorchProgram, seed: int) -> TorchProgram | None:
    """The program with two of its arguments in one memory, each with its own sizes and strides: one tensor if those are equal
    and the seed says so, or else two with one start or another. None if it has no two of one element type."""
    draw = random.Random(seed)
    tensors = [place for place, x in enumerate(program.arguments) if isinstance(x, torch.Tensor)]
    pairs = [(i, j) for i in tensors for j in tensors if i < j and kind(program, i)[0] == kind(program, j)[0]]
    if not pairs:
        return None
    alike = [(i, j) for i, j in pairs if kind(program, i) == kind(program, j)]
    i, j = draw.choice(alike if alike and draw.random() < 0.8 else pairs)
    arguments = list(program.arguments)
    first, second = arguments[i], arguments[j]
    if (i, j) in alike and draw.random() < 0.5:
        arguments[j] = first
        return TorchProgram(program.text, tuple(arguments))
    start = draw.choice((0, 0, 1, 3))
    memory = torch.zeros(max(reach(first), start + reach(second)), dtype=first.dtype)
    arguments[j] = memory.as_strided(second.shape, second.stride(), start)
    arguments[i] = memory.as_strided(first.shape, first.stride(), 0)
    memory.as_strided((reach(second),), (1,), start).copy_(flat_memory(second))
    memory[: reach(first)].copy_(flat_memory(first))
    return TorchProgram(program.text, tuple(arguments))


def kind(program: TorchProgram, place: int) -> tuple[Any, ...]:
    x = program.arguments[place]
    return x.dtype, x.shape, x.stride()


def reach(x: Any) -> int:
    """Elements from the first one to the last one in memory."""
    return 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0


def flat_memory(x: Any) -> Any:
    return x.as_strided((reach(x),), (1,), x.storage_offset())


def check(seed: int, found: Counts) -> None:
    """One random program, scripted and exported, on the way that the seed says; not counted if no two of its arguments can
    lie together, or torch does not run it then."""
    apart = torch_program(seed, 6 + seed % 17)
    near = together(apart, seed)
    if near is None or not all(is_taken(run, near) for run in (near.eager(), interpreted(near))):
        return
    for way in (scripted, exported):
        program = f"{way.__name__}, seed {seed}: tests.oracles.test_aliased_arguments.check({seed}, Counts(''))"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                way(seed, apart, near)
            found.add("passed")
        except Exception as error:
            ended, said = outcome(error)
            is_ours = ended != "refused" or all(is_taken(interpreted(one), one) for one in (apart, near))
            found.add(ended if is_ours and not isinstance(error, CaptureError) else "torch", said, program)


def scripted(seed: int, apart: TorchProgram, near: TorchProgram) -> None:
    examples = {"none": (), "apart": apart.arguments, "together": near.arguments}[EXAMPLES[seed % 3]]
    run_in_turn(irs.load(near.scripted(), *examples), seed, apart, near)


def exported(seed: int, apart: TorchProgram, near: TorchProgram) -> None:
    run_in_turn(irs.load(near.eager(), *(near if seed % 2 else apart).fresh()), seed, apart, near)


def run_in_turn(graph: irs.Graph, seed: int, apart: TorchProgram, near: TorchProgram) -> None:
    truths = {True: Truth(near.eager(), near), False: Truth(apart.eager(), apart)}
    fusion = irs.fuse(graph, policy=POLICIES[seed % len(POLICIES)])
    with guarded() as guard:
        executable = compile_graph(fusion, store=ObjectStore(None))
        for is_near in (True, False, True, True, True, False, True)[: 2 + seed % 6]:
            check_call(executable, truths[is_near], guard)


LONG: Final = [pytest.param(range(start, start + 250), 0.01, 150, marks=pytest.mark.long) for start in range(1000, 13_000, 250)]


@pytest.mark.parametrize(("seeds", "most_refused", "passed"), [(range(16), 0.0, 10), *LONG])
def test_arguments_that_lie_together_are_eagers(seeds: range, most_refused: float, passed: int, tell: Callable[[Counts], None]) -> None:
    found = Counts("aliased arguments")
    for seed in seeds:
        check(seed, found)
    tell(found)
    found.assert_sound(most_refused=most_refused)
    assert found.ways["passed"] >= passed


@pytest.mark.parametrize("seed", [
    1753,  # `as_strided` over an argument that lies elsewhere in its storage than the one it was exported for
    3697,  # `movedim` of a tensor without axes, in a kernel
    4457,  # `transpose_` of an argument that is another argument, too
])  # fmt: skip
def test_what_long_runs_found_is_eagers_or_refused(seed: int) -> None:
    found = Counts("aliased arguments")
    check(seed, found)
    found.assert_sound(most_refused=0.5)
    assert found.ways["passed"] >= 1
