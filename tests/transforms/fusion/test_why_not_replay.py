"""Every reason why two neighbours did not fuse is true: replayed on real models and on random programs, 200 of each kind."""

import random
import re
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

import irscope as irs
from irscope.ir import Graph, Node
from irscope.transforms.fusion import POLICIES, Fusion, fuse
from irscope.transforms.grouping import Refusal
from tests.conftest import read_sections
from tests.programs import ir, parsed
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.judges import confirm, neighbours, typed
from tests.work import blocks, some

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")

Case = tuple[Fusion, Node, Node, Refusal]


def cases(graph: Graph) -> list[Case]:
    """All that stayed apart, under each policy, with the usual limits and with narrow ones."""
    limits = ({}, {"max_arguments": 5}, {"max_nodes": 4})
    fusions = [fuse(graph, policy=policy, **given) for policy in POLICIES for given in limits]  # type: ignore[arg-type]
    return [(fusion, *found) for fusion in fusions for found in neighbours(fusion)]


def confirm_remedies(fusion: Fusion) -> Counter[str]:
    """Do what the answers about neighbours, and about users of one value, say would join them; count what they said."""
    graph, fits = fusion.history.graph(-2), fusion._plans.rules.refusal
    pairs = {(a, b) for a, b, _ in neighbours(fusion)}
    for value in graph.values():
        users = [use.user for use in graph.users.get(value, ()) if isinstance(use.user, Node)]
        readers = [node for node in dict.fromkeys(users) if not fits(node) and graph.block_of[node] is graph.block_of[users[0]]]
        pairs |= set(combinations(readers[:6], 2))
    said: Counter[str] = Counter()
    for a, b in pairs:
        answer = fusion.why_not(a, b)
        _, _, remedy = answer.because.rpartition("; ")
        if remedy == "what_if(force=[(a, b)]) joins them":
            assert fusion.what_if(force=[(a, b)]).why_not(a, b), answer
        elif remedy == 'policy="min-bytes" joins them':
            assert fusion.what_if(policy="min-bytes").why_not(a, b), answer
        else:
            remedy = ""
            found = fusion.obstacle(a, b)
            assert found is None or found.rule != "siblings", answer
        said[remedy] += 1
    return said


def test_what_is_said_to_join_them_does() -> None:
    said: Counter[str] = Counter()
    for seed in range(30):
        program = random_program(seed, size=40, features=("views", "in-place", "matmul", "reductions", "select"))
        graph = typed(irs.parse(program.text))
        for policy in ("greedy", "min-bytes", "torch-legacy", lambda candidate: candidate.bytes_saved - 10):
            said += confirm_remedies(fuse(graph, policy=policy))  # type: ignore[arg-type]
    assert len(said) == 3, said
    assert min(said.values()) > 15, said


WIDE = ir("x | axes = [1]; keep = False; 0 = None; a = exp x; b:Float(64) = sum x axes keep 0 | a b", "Float(64, 64)")


def test_siblings_of_other_kinds_are_the_policys_choice() -> None:
    fusion = fuse(irs.parse(WIDE))
    expected = (
        "not fused: neither group reads from the other, and policy 'greedy' joins such groups only if they go over the same points "
        'in the same way, and these go over (64, 64) and (64, 64) reduced over axis 1; policy="min-bytes" joins them'
    )
    assert str(fusion.why_not("a", "b")) == expected and fusion.what_if(policy="min-bytes").why_not("a", "b")


def test_a_write_in_place_says_what_keeps_it_there() -> None:
    fusion = fuse(irs.parse("graph(%x : Float(4)):\n  %y : Float(4) = aten::relu_(%x)\n  %z : Float(4) = aten::exp(%y)\n  return (%z)"))
    written = "%x is an input, and the caller sees what is written there; returning the new tensor instead is pure"
    expected = f"aten::relu_ writes %x in place, and groups are pure: {written}"
    assert fusion.why_alone("y").because == expected
    assert fusion.why_not("y", "z").because == expected.replace("aten::relu_", "aten::relu_ (%y)", 1)
    assert [remark.because for remark in fusion.remarks] == [expected]


def test_a_write_in_place_is_one_missed_fusion() -> None:
    fusion = fuse(parsed("x | a = exp x; b = neg_ a; y = relu_ x; z = exp y | z b", "Float(4)"))
    missed = [remark.because for remark in fusion.remarks if remark.kind == "missed"]
    assert missed == ["%x is an input, and the caller sees what is written there; returning the new tensor instead is pure"]
    assert missed[0] in fusion.why_not("y", "z").because


@pytest.mark.parametrize("count", some([8, 60], 1))
@pytest.mark.parametrize("name", ["yolov3", "lstm", "gru", "bert", "gpt2", "resnet", "vit", "unet"])
def test_reasons_in_real_models_are_true(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from tests.benchmarks.models import MODELS

    model, arguments = MODELS[name]()
    found = cases(typed(irs.load(model.eval(), *arguments)))
    assert found
    for case in random.Random(name).sample(found, min(count, len(found))):
        confirm(*case)


@pytest.mark.parametrize("seeds", some(blocks(0, 3, 20), 1), ids=str)
def test_reasons_in_random_programs_are_true(seeds: range) -> None:
    rules: Counter[str] = Counter()
    for seed in seeds:
        program = random_program(seed, size=30, features=("views", "in-place", "matmul", "reductions", "select"))
        graph = irs.parse(program.text)
        for case in cases(typed(graph)):
            rules[case[-1].rule] += 1
            confirm(*case)
    assert rules["blocked-by-write"] and rules["size-limit"] and rules["argument-limit"], rules


def test_a_value_has_one_name_in_what_is_said_of_a_fusion_and_in_its_graph() -> None:
    renamed = 0
    for path in sorted((Path(__file__).parents[2] / "cases" / "passes").glob("[ef]*-*.ir")):
        text = read_sections(path.read_text(encoding="utf-8")).get("input", "LINE")
        if "LINE" in text:
            continue
        fusion = fuse(irs.load(text))
        planned, fused = fusion.rules.graph, fusion.graph
        renamed += not planned.keeps_given_names
        assert [
            planned.names[value] for value in planned.names if value in fused.names and planned.names[value] != fused.names[value]
        ] == []
        nodes = [node for node in planned.nodes() if node.outputs and node.op != "prim::Constant"]
        said = " ".join(fusion.why_not(a, b).because for a, b in pairwise(nodes))
        assert set(re.findall(r"%(\w+(?:\.\w+)*)", said)) <= {*fusion.original.names.values(), *fused.names.values()}
    assert renamed > 3


def test_a_number_is_not_given_to_another_value() -> None:
    torch = pytest.importorskip("torch")

    def masked(x):  # type: ignore[no-untyped-def]
        return torch.where(torch.arange(4).view(1, 4).expand(4, 4) + 1 > 2, x, x.relu() * 3).tanh()

    fusion = fuse(irs.load(masked, torch.ones(4, 4)))
    now = {name: value for value, name in fusion.graph.names.items()}
    numbers = {name for name in fusion.original.names.values() if name.isdecimal()}
    assert all(now.get(name, value) is value for value, name in fusion.original.names.items() if name in numbers)
    assert {name.removeprefix("_") for name in now if name.removeprefix("_").isdecimal()} <= numbers, "a copy of %9 is %_9"
    assert "#" not in f"{[*fusion.graph.nodes()]} {list(map(str, fusion.remarks))}"
