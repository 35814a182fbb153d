"""Where results lie that are moved rather than computed: the strides are torch's, in kernels, in the library and in types."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.runtime.device import ObjectStore  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "turned": lambda x: x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
}
FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last)


def programs(format: torch.memory_format) -> dict[str, Callable[[torch.Tensor], Any]]:
    return {
        "wider": lambda x: (x * 0.5 * 2).to(torch.float64, memory_format=format) + 3,
        "narrower": lambda x: (x * 0.5 * 2).to(torch.int8, memory_format=format) + 3,
        "same type": lambda x: (x * 0.5 * 2).to(torch.float32, memory_format=format) * 2,
        "no type": lambda x: (x * 0.5 * 2).to(memory_format=format) * 2,
        "copy": lambda x: (x * 0.5 * 2).to(torch.float32, copy=True, memory_format=format) * 2,
        "like another": lambda x: (x * 0.5 * 2).to(torch.zeros(1, dtype=torch.float64), memory_format=format) * 2,
        "clone": lambda x: (x * 0.5 * 2).clone(memory_format=format) * 2,
        "half": lambda x: (x + 1).half(memory_format=format) * 2,
    }


@pytest.mark.parametrize(("layout", "format"), list(itertools.product(LAYOUTS, FORMATS)), ids=str)
def test_strides_are_torchs(layout: str, format: torch.memory_format) -> None:
    x = LAYOUTS[layout](torch.rand(2, 3, 4, 5))
    for name, program in programs(format).items():
        wanted = program(x)
        graph = irs.load(torch.jit.trace(program, (x,)), x)
        told = graph.outputs[0].type.strides
        assert told in (None, wanted.stride()), name
        for way in (graph, irs.load(program, x), irs.load(torch.jit.trace(program, (x,)))):
            found = compile_graph(irs.fuse(way), "cpu", store=ObjectStore(None))(x.clone())
            assert (found.dtype, found.stride()) == (wanted.dtype, wanted.stride()), name
            assert torch.equal(found, wanted), name


def test_a_conversion_that_does_nothing_is_its_argument() -> None:
    x = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)

    def program(x: torch.Tensor) -> Any:
        y = x.to(torch.float32, memory_format=torch.channels_last)
        z = x.to(torch.float32, memory_format=torch.contiguous_format)
        y.mul_(2)
        return x + 1, y + 1, z + 1

    wanted = program(x.clone(memory_format=torch.preserve_format))
    for source in (program, torch.jit.trace(program, (x.clone(),))):
        mine = x.clone(memory_format=torch.preserve_format)
        found = compile_graph(irs.fuse(irs.load(source, mine.clone())), "cpu", store=ObjectStore(None))(mine)
        for a, b in zip(found, wanted, strict=True):
            assert a.stride() == b.stride()
            assert torch.equal(a, b)


def test_what_is_written_in_place_keeps_its_gaps() -> None:
    """`slice_scatter` keeps the strides of its operand, gaps included, and so does the copy that stands for `add_`."""

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        t = x.transpose(0, 1)[1:-1]
        r = torch.slice_scatter(t, y, 2, 1, 3)
        r.add_(1)
        return r * 2.0, r

    given = torch.rand(6, 9, 4), torch.zeros(7, 6, 2)
    wanted = program(*given)
    assert wanted[1].stride() == (4, 36, 1)
    for source in (torch.jit.script(program), program, torch.jit.trace(program, given)):
        for policy in ("greedy", "min-bytes"):
            fusion = irs.fuse(irs.load(source, *given), policy=policy)
            found = compile_graph(fusion, "cpu", store=ObjectStore(None))(*given)
            assert [x.stride() for x in found] == [x.stride() for x in wanted]
            assert all(map(torch.equal, found, wanted))
