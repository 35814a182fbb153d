"""What torch 2.13 makes of the programs in `tests/cases/alias` that no scripted function shows to be run wrongly.

A new torch that gets one right fails here: its case then says something of the past. (Annotations are evaluated in this file:
torch.jit.script reads them.)
"""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from tests.conftest import read_sections  # noqa: E402

CASES = Path(__file__).parents[2] / "cases/alias"


def text_of(case: str) -> str:
    return read_sections((CASES / f"{case}.ir").read_text(encoding="utf-8"))["input"]


# A method call through an interface


@torch.jit.interface
class Bumping(torch.nn.Module):
    def get(self) -> torch.Tensor:
        pass

    def bump(self) -> torch.Tensor:
        pass


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def get(self) -> torch.Tensor:
        return self.count

    def bump(self) -> torch.Tensor:
        return self.count.add_(1)


class Top(torch.nn.Module):
    impl: Bumping

    def __init__(self) -> None:
        super().__init__()
        self.impl = Counter()

    def forward(self) -> torch.Tensor:
        y = self.impl.get()
        c = y * 10
        self.impl.bump()
        d = y * 10
        return d - c


def test_torch_takes_the_receiver_of_an_interface_for_immutable() -> None:
    scripted = torch.jit.script(Top())
    assert Top()().tolist() == [10, 10]
    assert scripted().tolist() == [0, 0]
    graph = scripted.graph
    assert not graph.alias_db().has_writers(next(v for v in graph.findNode("prim::CallMethod").outputs()))
    ours = irs.AliasDb(irs.parse(str(graph)))
    assert ours.has_writers(ours.graph.node("prim::CallMethod#0").output)


def test_what_is_loaded_of_it_runs_right() -> None:
    assert irs.compile(irs.load(torch.jit.script(Top())))().tolist() == [10, 10]


# Effects inside blocks


def test_torch_exchanges_branches_that_print() -> None:
    graph = torch._C.parse_ir(text_of("prints-in-branches"))
    torch._C._jit_pass_create_autodiff_subgraphs(graph, 2)
    prints = [next(iter(node.blocks())).findNode("prim::Print") for node in graph.findAllNodes("prim::If")]
    assert [next(iter(found.inputs())).type().str() for found in prints] == ["str", prints[1].inputsAt(0).type().str()]
    sliced = irs.autodiff_subgraphs(irs.parse(text_of("prints-in-branches")), threshold=2).graph
    order = [node.inputs[0].type for node in sliced.nodes() if node.op == "prim::Print"]
    assert [str(type) for type in order][1] == "str"


# The legacy fuser, which asks its alias db nothing when it moves chunks and concatenations


@pytest.mark.parametrize("case", ["torch_chunk_motion", "torch_concat_motion"])
def test_torchs_legacy_fuser_exchanges_a_read_and_a_write(case: str) -> None:
    text = read_sections((CASES.parent / f"fusion/{case}.ir").read_text(encoding="utf-8"))["input"]
    graph = torch._C.parse_ir(text)
    before = torch._C._jit_can_fuse_on_cpu_legacy()
    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    try:
        torch._C._jit_pass_fuse(graph, False)
    finally:
        torch._C._jit_override_can_fuse_on_cpu_legacy(before)
    kinds = [node.kind() for node in graph.nodes()]
    group, write = kinds.index("prim::FusionGroup"), kinds.index("aten::add_")
    if case == "torch_chunk_motion":  # the product is read after %x was overwritten
        assert "aten::mul" not in kinds and write < group
    else:  # %a is read before it is overwritten
        assert "aten::cat" not in kinds and group < write
