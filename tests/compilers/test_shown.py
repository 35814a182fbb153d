"""What another compiler decided is shown: its kernels and their texts, its programs and breaks, and irscope's groups beside it."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.codegen.kernel import SourceText
from irscope.compilers.record import Break, Change, Decisions, Kernel, program_of
from irscope.errors import ArgumentError
from irscope.report.pages import Branches, ProgramPage
from irscope.session import exploration
from tests.compilers.test_reading import TEXT
from tests.programs import ir

CAT = ir(
    "x | a = relu x; b = tanh x; l:Tensor[] = ListConstruct a b; 0 = 0; c:Float(16, strides=[1]) = cat l 0 | c", "Float(8, strides=[1])"
)
CODE = "void both(float* x)\n{\n    relu(x);\n    tanh(x);\n}\n"


@pytest.fixture
def decisions() -> Decisions:
    """Two programs of a compiler, which computes an op in two kernels of the first."""
    g = irs.parse(TEXT)
    a, b, c = g.nodes()
    text = SourceText(CODE, "cpp", (-1, -1, 0, 1, -1), "both")
    kernels = [Kernel("k0", (a, b), source=text, function="both", ms=0.5), Kernel("k1", (a, c)), Kernel("layout", part_of=(c,), bytes=8000)]
    cut = Break("a call of print", "move it out", ("delete it",), (("/home/somebody/model.py", 12, "forward"),))
    small = program_of(irs.parse(TEXT.replace("aten::tanh", "aten::neg")), [], compiler="other", name="second")
    return Decisions("other", (program_of(g, kernels, compiler="other", notes=("seen",), guards=("n == 1",)), small), (cut,), "1.2")


def page(given: Any) -> ProgramPage:
    return ProgramPage(exploration(given, (), measure="never"))


def test_a_page_has_the_kernels_of_the_compiler_its_programs_and_breaks(decisions: Decisions) -> None:
    shown = page(decisions)
    decided = shown.view["decided"]
    assert (decided["compiler"], decided["shown"], decided["notes"], decided["guards"]) == ("other 1.2", 0, ["seen"], ["n == 1"])
    assert decided["programs"] == ["graph: 3 kernels, 0 library calls", "second: 0 kernels, 0 library calls"]
    place = {"file": "/home/somebody/model.py", "line": 12, "function": "forward"}
    assert decided["breaks"] == [{"reason": "a call of print", "explanation": "move it out delete it", **place}]
    group, *_ = decisions.programs[0].fusion.groups
    rows, selects = decided["kernels"]["rows"], decided["kernels"]["selects"]
    assert rows[0] == ["k0", "kernel", "relu, tanh", "8 kB", "relu, 4 kB not read", 0.5, ""] and selects[0] == [group.id]
    assert rows[2][:4] == ["layout", "kernel", "a part of exp", "8 kB"]
    assert "decided" not in page(decisions.programs[0].graph).view
    groups = {box["id"]: box["label"] for box in shown.view["graph"]["boxes"] if box["kind"] == "group"}
    assert groups[group.id] == "k0", "a box has the name that the compiler gave to its kernel"


def test_a_kernel_is_shown_as_the_compiler_wrote_it_and_as_irscope_would(decisions: Decisions) -> None:
    shown = page(decisions)
    first, second = decisions.programs[0].fusion.groups
    kernel = shown.inspection.detail(first.id)["kernel"]
    assert kernel is not None and (kernel["language"], kernel["source"]) == ("cpp", CODE)
    assert kernel["line_nodes"] == [0, 0, *(node.id for node in first.blocks[0].nodes), 0]
    assert "computes again relu" in kernel["launched"]
    assert shown.inspection.kernel_text(first.id, "llvm")["trouble"] == ""
    own = shown.inspection.detail(second.id)["kernel"]
    assert own is not None and own["language"] == "llvm", "a kernel without a text of the compiler's has irscope's"


def test_irscope_s_own_groups_are_branches_beside_it(decisions: Decisions) -> None:
    branches = Branches(exploration(decisions, (), measure="never"))
    assert [branch.name for branch in branches] == ["other", "irscope greedy", "irscope min-bytes"]
    costs = [branch.fusion.cost() for branch in branches]
    assert [cost.kernels for cost in costs] == [3, 1, 1] and costs[1].bytes < costs[0].bytes
    assert not irs.diff(branches[0], branches[1]).is_empty


def test_a_difference_has_its_bytes_and_the_reason_of_the_side_that_keeps_it_apart(decisions: Decisions) -> None:
    g = irs.parse(TEXT)
    a, b, c = g.nodes()
    apart = program_of(g, [Kernel("k0", (a, b)), Kernel("k1", (c,))], compiler="other")
    table = apart.differences()
    assert table.iloc[0].tolist()[:5] == ["relu %a", "exp %c", "irscope", "other", 4000] and len(table) == 1
    assert "other gave no reason" in table["reason"][0]
    shown = page(apart).view["differences"]
    assert shown["selects"] == [[a.id, c.id]] and shown["rows"][0][2] == "4 kB"
    assert decisions.programs[0].differences().empty, "an op that two kernels compute is in both"


def test_a_cat_whose_parts_other_kernels_write_keeps_no_bytes_out_of_memory() -> None:
    g = irs.parse(CAT)
    a, b, *_, cat = g.nodes()
    gone = Change("vanished", "cat", "c", because="written by parts", at=(cat,))
    kernels = [Kernel("k0", (a,)), Kernel("k1", (b,))]
    program = program_of(g, kernels, compiler="other", changes=(gone,))
    assert program.fusion.assembled == {cat} and program.differences().empty
    assert list(program_of(g, kernels, compiler="other").differences()["bytes"]) == [32, 32], "unless somebody computes it"


def test_the_verbs_take_it(decisions: Decisions) -> None:
    (x,) = (np.linspace(-2, 2, 1000, dtype=np.float32),)
    one = decisions.programs[0]
    for given in (one, Decisions("other", (one,))):
        for result, exact in zip(irs.compile(given)(x), (np.tanh(np.maximum(x, 0)), np.exp(np.maximum(x, 0))), strict=True):
            np.testing.assert_allclose(result, exact, rtol=1e-6)
        assert len(irs.dedup(given).classes) == 2
    with pytest.raises(ArgumentError, match="2 programs"):
        irs.compile(decisions)
    with pytest.raises(ArgumentError, match="compiled nothing"):
        exploration(Decisions("other", ()), (), measure="never")


def test_an_explorer_changes_to_another_program(decisions: Decisions) -> None:
    pytest.importorskip("anywidget")
    shown = irs.explore(decisions)
    sent: list[Any] = []
    shown.send = lambda content, buffers=None: sent.append(content)
    shown.branch = 1
    shown._answer(None, {"kind": "program", "index": 1, "token": "t"}, [])
    assert sent == [{"token": "t", "kind": "program"}]
    assert shown.branch == 0 and shown.branches[0].graph is decisions.programs[1].fusion.graph
    shown.close()
