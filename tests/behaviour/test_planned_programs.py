"""Programs whose memory is planned, and the passes that lay them out for it alone, do what torch does op by op.

Batches of images between writes, views and loops (`tests.random_programs.torch_images`), and scripts of all kinds: numbers,
strides, what is one memory, and what is written into arguments.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import IrscopeError  # noqa: E402
from irscope.runtime.program.executable import Executable, compile_graph  # noqa: E402
from irscope.transforms.base import Remark  # noqa: E402
from irscope.transforms.cleanup.channels_last import channels_last  # noqa: E402
from tests.behaviour.whole_programs import Truth, check_call, interpreted, is_taken  # noqa: E402
from tests.random_programs.torch_images import image_program  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram, torch_program  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]


def compiled(graph: irs.Graph, way: int) -> tuple[Executable, tuple[Remark, ...]]:
    """A program on one of six ways that need its memory planned, or lay it out as planned programs are; and what was done for it."""
    if way < 2:
        planned = compile_graph(irs.fuse(graph) if way == 0 else graph, memory="planned", disk_cache=False)
        return planned, planned.told
    if way < 4:
        record = channels_last(irs.fuse(graph).graph if way == 2 else graph)
        return compile_graph(record.after, use_kernels=False), record.remarks
    if way == 4:
        done = irs.Pipeline("recommend-layouts,channels-last,group-pools")(graph)
        return compile_graph(done.graph, use_kernels=False), done.remarks
    planned = compile_graph(irs.fuse(irs.Pipeline("functionalize,canonicalize,cse")(graph).graph), memory="planned", disk_cache=False)
    return planned, planned.told


def without_numbers(program: TorchProgram) -> TorchProgram:
    """The program with the values of `n` and `flag` written into it."""
    *tensors, n, flag = program.arguments
    return TorchProgram(program.text.replace("n: int, flag: bool)", f"n: int = {n}, flag: bool = {flag})"), tuple(tensors))


def traced(program: TorchProgram) -> Any:
    function = program.eager()
    return torch.jit.trace(lambda *tensors: function(*tensors), program.fresh(), check_trace=False)


def check(program: TorchProgram, seed: int) -> Counter[str]:
    """One program, scripted or traced, on the way that its seed says."""
    source: Any = program.scripted()
    if seed % 4 == 0:
        plain = without_numbers(program)
        try:
            source, program = traced(plain), plain
        except RuntimeError:  # it was not found in the trace where a number came from
            return Counter()
    truth = Truth(program.eager(), program)
    executable, told = compiled(irs.load(source, *program.arguments), seed // 4 % 6)
    calls = [check_call(executable, truth) for _ in range(1 if seed % 3 else 4)]
    found = Counter(remark.rule for remark in told if remark.kind == "passed")
    return found + Counter(unsure=calls[-1].unsure, changed=calls[-1].changed)


def checked(seeds: range, make: Any) -> Counter[str]:
    found = Counter[str]()
    for seed in seeds:
        program = make(seed, 6 + seed % 17)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found += check(program, seed)
        except Exception as error:
            if isinstance(error, IrscopeError) and not is_taken(interpreted(program), program):
                continue
            error.add_note(f"seed {seed} of {make.__name__}")
            raise
    return found


def test_images_are_what_torch_makes_of_them() -> None:
    found = checked(range(40), image_program)
    assert found["channels-last"] > 5, "programs that were laid out otherwise"
    assert found["pool-kernel"] > 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(2000, 12000, 500))
def test_many_images_are_what_torch_makes_of_them(first: int) -> None:
    found = checked(range(first, first + 500), image_program)
    assert found["unsure"] + found["changed"] <= 15, found


@pytest.mark.long
@pytest.mark.parametrize("first", range(20000, 24000, 500))
def test_many_scripts_compute_the_same_in_planned_memory(first: int) -> None:
    found = checked(range(first, first + 500), torch_program)
    assert found["unsure"] + found["changed"] <= 25, found
