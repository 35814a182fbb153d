"""Views as one node: the same memory as op by op, no kernel, and the same answers of the alias db."""

from typing import Any

import pytest

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.ir import Graph, Node, TensorType
from irscope.ir.invariants import verify
from irscope.report.panes import KernelViews, fusion_sentence, planner_renaming
from irscope.report.words import names_in
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.cleanup.cse import eliminate_common_subexpressions as cse
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion import Fusion, fuse
from tests.programs import ir
from tests.random_programs.graphs import Program, random_program
from tests.transforms.fusion.judges import assert_as_eager, differences
from tests.work import blocks, some

CHAIN = ir(
    "x:Float(4, 6, strides=[6, 1]) | zero = 0; one = 1; two = 2; t:Float(6, 4, strides=[1, 6]) = t x; "
    "u:Float(1, 6, 4, strides=[24, 1, 6]) = unsqueeze t zero; s:Float(1, 4, strides=[24, 6]) = select u one two |"
).removesuffix("  return ()")


def view_groups(fusion: Fusion) -> list[Node]:
    return [group for group in fusion.groups if group.attrs["kind"] == "view"]


def made(text: str) -> Fusion:
    return fuse(irs.parse(text), view_groups=True)


def test_only_on_request() -> None:
    graph = irs.parse(CHAIN + "  return (%s)")
    assert fuse(graph).groups == ()
    fusion = fuse(graph, view_groups=True)
    (group,) = fusion.groups
    assert [node.op for node in group.blocks[0].nodes if node.op != "prim::Constant"] == [
        "aten::t", "aten::unsqueeze", "aten::select",
    ]  # fmt: skip
    assert fusion.graph.body.nodes == (group,)  # the numbers are inside
    (row,) = fusion.table().to_dict("records")
    assert (row["kind"], row["bytes before"], row["bytes after"], row["flops"]) == ("view", 0, 0, 0)
    assert fusion.group_of("t") is group and fusion.why_not("t", "s") and fusion.why_alone("u")
    (remark,) = fusion.remarks
    assert str(remark) == "passed [view] %s: 3 nodes are views of the same memory: no kernel"
    assert irs.parse(str(fusion.graph)) and str(irs.parse(str(fusion.graph))) == str(fusion.graph)
    assert [record.name for record in fusion.history.records][-2:] == ["fuse-groups", "group-views"]
    assert fusion.history.graph_after(-1) is fusion.graph
    assert len(view_groups(fuse(fusion.graph, view_groups=True))) == 0  # what is one node already stays


def test_the_results_are_the_callers_memory(torch: Any) -> None:
    text = CHAIN + "  %w : Tensor = aten::fill_(%s, %one)\n  return (%t, %s)"
    fusion = made(text)
    run = irs.compile(fusion)
    x = torch.zeros(4, 6)
    t, s = run(x)
    assert run.kernels == () and run.remarks == () and len(view_groups(fusion)) == 1
    assert t.data_ptr() == x.data_ptr() and s.data_ptr() == x.data_ptr() + 2 * x.element_size()
    assert (t.stride(), s.stride()) == ((1, 6), (6, 6))
    assert x[:, 2].tolist() == [1] * 4 and x.sum() == 4
    x[0, 2] = 7
    assert s[0, 0] == 7


def test_other_tools_read_them() -> None:
    text = CHAIN.replace("  %t", "  %e : Float(4, 6) = aten::exp(%x)\n  %t", 1).replace("aten::t(%x)", "aten::t(%e)")
    fusion = made(text + "  %a : Float(1, 4) = aten::relu(%s)\n  return (%a, %u)")
    (group,) = view_groups(fusion)
    assert fusion_sentence(fusion, group, planner_renaming(fusion, names_in(fusion.history))) == "a group of 3 views, which needs no kernel"
    assert KernelViews(fusion, lambda: ()).specs(group) == ()
    assert irs.explore(fusion).view is not None and fusion.table()["space"].tolist() == ["(1, 4)"]
    kinds = [irs.dedup(fusion.graph).classes, irs.dedup(irs.parse(str(fusion.graph))).classes]
    assert len(kinds[0]) == len(kinds[1])


def test_kernels_come_first() -> None:
    for seed in range(60):
        graph = irs.parse(random_program(seed, size=14).text)
        without, given = fuse(graph), fuse(graph, view_groups=True)
        kernels = [group for group in given.groups if group.attrs["kind"] != "view"]
        assert [[node.op for node in group.blocks[0].nodes] for group in kernels] == [
            [node.op for node in group.blocks[0].nodes] for group in without.groups
        ]


def aliases(graph: Graph, names: list[str]) -> dict[Any, Any]:
    """What the db says of values, by their names."""
    db = AliasDb(graph)
    values = [graph.value(name) for name in names]
    answers: dict[Any, Any] = {}
    for v, name in zip(values, names, strict=True):
        answers[name, "written"] = db.is_written(v)
        for w, other in zip(values, names, strict=True):
            answers[name, other] = bool(db.may_alias(v, w))
    return answers


def grouped(seed: int, size: int) -> tuple[Program, Fusion]:
    program = random_program(seed, size=size)
    return program, made(program.with_types().text if seed % 2 else program.text)


@pytest.mark.parametrize("seeds", some(blocks(0, 3, 84), 1), ids=str)
def test_random_programs_have_the_same_aliases(seeds: range) -> None:
    groups = 0
    for seed in seeds:
        _, fusion = grouped(seed, 18)
        verify(fusion.graph)
        found = view_groups(fusion)
        groups += len(found)
        if not found:
            continue
        before = fusion.history.records[-1].before
        tops = [value for value in before.values() if isinstance(value.type, TensorType)]
        outside = [v for v in tops if v in fusion.graph.names and before.names[v] == fusion.graph.names[v]]
        names = [before.names[value] for value in outside]
        assert aliases(before, names) == aliases(fusion.graph, names), seed
        assert list(differences(fusion.alias_db, AliasDb(fusion.graph))) == [], seed
        for group in found:  # no list of tensors crosses the edge
            assert all(isinstance(value.type, TensorType) for value in group.outputs)
    assert groups > 6


@pytest.mark.parametrize("seeds", some(blocks(0, 3, 100), 1), ids=str)
def test_random_programs_mean_the_same(seeds: range) -> None:
    pytest.importorskip("torch")
    groups = 0
    for seed in seeds:
        program, fusion = grouped(seed, 16)
        if not view_groups(fusion):
            continue
        groups += 1
        again = made(str(fusion.graph)).graph
        passes = functionalize(fusion.graph).after, cse(fusion.graph).after, remove_dead_nodes(fusion.graph).after
        for version in (fusion.graph, again, *passes):
            verify(version)
        runs = [irs.compile(fusion)] if groups % 4 == 0 else []
        assert_as_eager(program, [fusion.graph, again, *passes], runs)
        for run in runs:
            assert not any(remark.subject in view_groups(fusion) for remark in run.remarks)
            assert not any(group in view_groups(fusion) for kernel in run.kernels for group in kernel.groups)
    assert groups > 7
