"""The questions of a `Dedup`, and errors for invalid ones; several models together; small programs."""

from collections.abc import Callable
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName, UnknownNumber
from irscope.transforms.dedup import Dedup

LINES = "".join(
    f"  %k{i} : float = prim::Constant[value={0.5 + i}]()\n  %a{i} : Float(4) = aten::mul(%x{i}, %k{i})\n"
    f"  %b{i} : Float(4) = aten::tanh(%a{i})\n" for i in range(3)
)  # fmt: skip
FOUR = irs.parse(f"graph({', '.join(f'%x{i} : Float(4)' for i in range(3))}):\n{LINES}  return (%b0, %b1, %b2)")


def groups(relation: Any = "constants") -> Dedup:
    return irs.dedup(irs.fuse(FOUR), relation=relation)


def test_a_class_is_a_sequence_of_its_members_and_found_by_any_of_them() -> None:
    d = groups()
    (cls,) = d
    assert list(cls) == list(cls.members) and len(cls) == 3 and cls[0] is cls.representative in cls
    assert d.class_of("b1") is cls and "b1" not in cls
    assert d.holes("b1").equals(d.holes(0)) and d.holes(cls).equals(d.holes(cls[2]))


@pytest.mark.parametrize(("ask", "error", "told"), [
    (lambda d: d.holes(9), UnknownNumber, "there are 1, counted from 0"),
    (lambda d: d.holes("nope"), UnknownName, "nope"),
    (lambda d: d.holes(None), ArgumentError, "not by NoneType"),
    (lambda d: d.holes(irs.dedup(irs.fuse(FOUR)).classes[0]), UnknownName, "of another program"),
    (lambda d: d.apply(3), ArgumentError, "there is no relation 3"),
    (lambda d: d.recommend(budget=-1), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.recommend(budget=float("nan")), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.recommend(budget="5 %"), ArgumentError, "not a budget of slowdown"),
    (lambda d: d.ladder(3), ArgumentError, "not of int"),
    (lambda d: d.recommend(executable="cpu"), ArgumentError, "not of str"),
])  # fmt: skip
def test_invalid_questions_are_errors_with_hints(ask: Callable[[Dedup], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        ask(groups())


def test_groups_of_several_models_are_sorted_together() -> None:
    module = irs.Module({"one": irs.fuse(FOUR).graph, "two": irs.fuse(FOUR).graph})
    d = irs.dedup(module, unit="groups")
    assert sorted(map(len, d)) == [2, 2, 2] and d.class_of("one/%b0").members == ("one/%b0", "two/%b0")
    assert "0.5 against 1.5" in d.why_not("one/%b0", "two/%b1").because
    assert d.ladder()["classes"]["constants"] == 1
    assert [choice.step for choice in d.recommend().choices] == ["constants"]
    assert len(irs.dedup(module)) == 1, "the graphs themselves"


@pytest.mark.parametrize(
    ("count", "said"), [(0, "no fusion groups"), (1, "the one fusion group of"), (3, "each of the 3 fusion groups of")]
)
def test_the_note_counts_pieces_in_a_sentence(count: int, said: str) -> None:
    lines = LINES.split("  %k")[1 : count + 1]
    results = ", ".join(f"%b{i}" for i in range(count)) or "%x0"
    text = f"graph(%x0 : Float(4), %x1 : Float(4), %x2 : Float(4)):\n{''.join('  %k' + line for line in lines)}  return ({results})"
    assert said in irs.dedup(irs.fuse(irs.parse(text))).note


@pytest.mark.parametrize("unit", ["auto", "groups", "regions", "scopes"])
@pytest.mark.parametrize("text", [
    "graph():\n  return ()", "graph(%x : Tensor):\n  return (%x)",
    "graph(%x : Float(*)):\n  %y : Float(*) = aten::neg(%x)\n  return (%y)",
])  # fmt: skip
def test_a_program_without_pieces_answers_all_questions(unit: Any, text: str) -> None:
    d = irs.dedup(irs.parse(text), unit=unit)
    assert all(d.ladder()["classes"] == len(d)) and len(d.table()) == len(d) and d.recommend().choices == ()
    made = d.apply(d.recommend())
    assert str(made if isinstance(made, irs.Graph) else made.graphs["graph"]) == str(irs.parse(text))
    assert all(len(d.holes(cls)) == 0 for cls in d)
