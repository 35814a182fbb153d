"""Kernels in every language: their lines lead back to the group's nodes, and what cannot be made says what would help."""

import json

import pytest

import irscope as irs
from irscope.codegen.kernel import NO_LINE
from irscope.errors import UnknownName
from irscope.ir import Node
from irscope.report.pages import Exploration, Inspection
from irscope.report.pages.parts import explorer_view
from irscope.report.panes.kernel_view import LANGUAGES
from tests.programs import parsed

pytest.importorskip("llvmlite", reason="llvmlite is not installed: pip install 'irscope[cpu]'")


@pytest.fixture
def group(exploration: Exploration) -> Node:
    return exploration.fusion.groups[0]


def test_facts_come_with_the_kernel_s_own_text(exploration: Exploration, group: Node) -> None:
    text = Inspection(exploration).kernel_text(group.id, "llvm")
    facts = dict(text["facts"])
    assert facts["memory a point"] == "4 B read, 4 B written"
    assert text["because"].endswith("the limit where memory sets the pace")
    assert (text["source"], text["trouble"]) == ("", ""), "its detail has the text"


def test_assembly_leads_to_the_lines_that_it_came_from(exploration: Exploration, group: Node) -> None:
    inspection = Inspection(exploration)
    detail, text = inspection.detail(group.id)["kernel"], inspection.kernel_text(group.id, "assembly")
    lines = text["source"].splitlines()
    assert len(lines) == len(text["origins"])
    reached = {detail["line_nodes"][origin] for origin in text["origins"] if origin != NO_LINE}
    assert {node.id for node in group.blocks[0].nodes if node.op in ("aten::sigmoid", "aten::mul")} <= reached
    assert 0 < len(text["hot"]) < len(lines)
    assert lines[text["hot"][-1]].split()[0].startswith(("j", "b")), "a loop ends with a jump"


def test_cuda_text_names_its_nodes_and_needs_nothing(
    exploration: Exploration, group: Node, without_cupy: None
) -> None:  # fmt: skip
    text = Inspection(exploration).kernel_text(group.id, "cuda")
    assert "__global__" in text["source"] and len(text["line_nodes"]) == len(text["source"].splitlines())
    assert set(text["line_nodes"]) - {0} <= {node.id for node in group.blocks[0].nodes}
    assert len(set(text["line_nodes"])) > 2


@pytest.mark.parametrize("language", ["ptx", "sass"])
def test_what_needs_a_compiler_names_the_command(language: str, exploration: Exploration, group: Node, without_cupy: None) -> None:
    text = Inspection(exploration).kernel_text(group.id, language)
    assert "pip install 'irscope[cuda13]'" in text["trouble"] and text["source"] == ""


def test_a_node_inside_has_the_kernel_of_its_group_and_others_have_none(exploration: Exploration, group: Node) -> None:
    inspection = Inspection(exploration)
    inside = group.blocks[0].nodes[-1]
    value = inside.outputs[0]
    asked = [inspection.kernel_text(id, "assembly") for id in (group.id, inside.id, value.id)]
    assert asked[0] == asked[1] == asked[2]
    with pytest.raises(UnknownName, match=r"aten::cumsum.* has no kernel"):
        inspection.kernel_text(exploration.graph.node("c").id, "llvm")
    with pytest.raises(UnknownName, match="no language 'fortran'"):
        inspection.kernel_text(group.id, "fortran")


def test_a_page_holds_machine_code_once_for_all_groups_that_run_it(exploration: Exploration) -> None:
    view = explorer_view(exploration, details=True)
    texts = view["kernel_texts"]
    assert set(texts) == set(view["kernels"])
    assert all([text["language"] for text in each] == ["llvm", "assembly"] for each in texts.values())
    assert json.loads(json.dumps(texts)) == texts
    assert "kernel_texts" not in explorer_view(exploration), "a live view asks"


def test_the_kernel_is_the_one_that_runs() -> None:
    """Also of a result that no cache holds, whose stores pass them."""
    g = parsed("x | y = relu x; z = neg y | z", "Float(3000, 4096, strides=[4096, 1])")
    fusion = irs.fuse(g)
    shown = Inspection(Exploration(fusion)).detail(fusion.groups[0].id)["kernel"]
    (made,) = irs.compile(fusion).kernels
    assert (shown["name"], shown["source"]) == (made.name, made.source.text)
    assert "!nontemporal" in made.source.text


def test_a_group_says_over_how_much_it_runs_its_kernel() -> None:
    told = {}
    for columns in (8, 4096, 1 << 20):
        x = f"Float(16, {columns}, strides=[{columns}, 1])"
        fusion = irs.fuse(irs.parse(f"graph(%x : {x}):\n  %y : {x} = aten::relu(%x)\n  %z : {x} = aten::neg(%y)\n  return (%z)"))
        kernel = Inspection(Exploration(fusion)).detail(fusion.groups[0].id)["kernel"]
        told[columns] = kernel["launched"]
    assert told[8].startswith("in this group it runs over 128 points and moves ")
    assert "to start the kernel takes longer" in told[8] and "fit in a core's own caches" in told[4096]
    assert told[1 << 20].startswith("in this group it runs over 16,777,216 points") and ":" not in told[1 << 20]


def test_machine_code_is_made_on_request(exploration: Exploration, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr("irscope.runtime.cpu.device.CpuDevice.assembly", lambda self, spec: made.append(spec))
    explorer_view(exploration)
    inspection = Inspection(exploration)
    for id in exploration.records:
        inspection.detail(id)
    assert made == []
    assert LANGUAGES[0] == "llvm"
