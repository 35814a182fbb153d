"""What a page shows of equal pieces: the ladder, cards, holes, costs, and two pieces side by side with their holes marked."""

import json
from typing import Any

import pytest

import irscope as irs
from irscope.errors import UnknownNumber
from irscope.report.pages import Exploration
from irscope.report.pages.parts import explorer_view
from irscope.report.panes import SameViews
from irscope.report.view_models import Word
from tests.programs import ir

BODY = """graph(%x : Float({n})):
  %k : float = prim::Constant[value={k}]()
  %one : int = prim::Constant[value=1]()
  %a : Float({n}) = aten::mul(%x, %k)
  %b : Float({n}) = aten::tanh(%a)
  %c : Float({n}) = aten::add(%b, %x, %one)
  return (%c)"""


def body(k: float = 0.5, n: int = 8) -> irs.Graph:
    return irs.parse(BODY.format(k=k, n=n))


@pytest.fixture(scope="module")
def views() -> SameViews:
    other = irs.parse("graph(%x : Float(8)):\n  %y : Float(8) = aten::relu(%x)\n  %z : Float(8) = aten::tanh(%y)\n  return (%z)")
    return SameViews(irs.dedup(irs.Module({"f": body(), "g": body(0.25), "h": body(0.25, 16), "other": other})), ())


def text(words: list[Word]) -> str:
    return "".join(word["text"] for word in words)


def test_the_ladder_has_the_classes_of_every_step(views: SameViews) -> None:
    ladder = {step["step"]: step for step in views.view()["ladder"]}
    assert [ladder[step]["classes"] for step in ("alpha", "constants", "extents", "dtype")] == [4, 3, 2, 2]
    assert "sizes" in ladder["extents"]["gives_up"] and not ladder["extents"]["measured"]
    assert ladder["extents"]["ops"] == 6 and ladder["alpha"]["seconds"] == 0


def test_cards_say_how_many_and_at_what_price(views: SameViews) -> None:
    card, alone = views.step("extents")["cards"]
    assert (card["count"], card["label"], card["detail"]) == (3, "mul · tanh · add", "→ f32[8]")
    assert card["cost"] is not None and card["cost"]["bodies"] == 2 and card["cost"]["slowdown"] > 0
    assert alone["count"] == 1 and alone["cost"] is None


def test_a_class_in_full_has_its_holes_and_two_members_side_by_side(views: SameViews) -> None:
    cls = views.cls("extents", 0)
    assert cls["members"] == ["graph 'f'", "graph 'g'", "graph 'h'"]
    varying = {hole["place"]: hole["values"] for hole in cls["holes"] if hole["varies"]}
    assert varying["'other' of aten::mul"] == ["0.5", "0.25", "0.25"] and varying["dimension 0 of %c"] == ["8", "8", "16"]
    assert any(hole["told"] == "equal everywhere" for hole in cls["holes"])
    beside = cls["beside"]
    assert beside is not None and "0.5 against 0.25" in beside["because"]
    mul = beside["lines"][1]
    assert text(mul["left"]) == "%a : f32[8] = aten::mul(%x, 0.5)" and text(mul["right"]) == "%a : f32[8] = aten::mul(%x, 0.25)"
    holes = [[word["text"] for word in side if word["hole"] >= 0] for side in (mul["left"], mul["right"])]
    assert holes == [["f32[8]", "0.5"], ["f32[8]", "0.25"]]
    marked = {word["hole"] for line in beside["lines"] for word in line["left"]} - {-1}
    assert all(cls["holes"][hole]["varies"] for hole in marked)
    third = views.beside("extents", 0, 0, 2)["lines"][1]["right"]
    assert [word["text"] for word in third if word["hole"] >= 0] == ["f32[16]", "0.25"]


def test_pieces_that_never_meet_are_aligned_by_their_ops(views: SameViews) -> None:
    graphs = views._of
    beside = views.pair(graphs.piece("f"), graphs.piece("other"))
    rows = [(text(line["left"]).partition(" = ")[2], text(line["right"]).partition(" = ")[2]) for line in beside["lines"][1:]]
    assert ("aten::tanh(%a)", "aten::tanh(%y)") in rows and ("", "aten::relu(%x)") in rows
    assert "built differently" in beside["because"]


def test_what_is_not_there_is_refused_in_words(views: SameViews) -> None:
    with pytest.raises(UnknownNumber, match="has no class 9"):
        views.answer({"step": "alpha", "place": 9})
    with pytest.raises(UnknownNumber, match="has no member 5"):
        views.answer({"step": "extents", "place": 0, "left": 0, "right": 5})
    with pytest.raises(UnknownNumber, match="is not a piece"):
        views.answer({"ids": [1, 2]})


HAND = ir(
    "x i:Tensor | k = 0.5; l = 0.25; z = 0; a = mul x k; b = tanh a; c = cumsum b z n; d = mul c l; e = tanh d | e", "Float(4, 8)"
).replace("  %a :", "  %n : NoneType = prim::Constant()\n  %a :", 1)


UNROLLED = ir("x v w | a = mul x v; b = tanh a; c = exp b; d = mul c w; e = tanh d; f = exp e | f", "Float(4)")


@pytest.mark.parametrize("unit", ["auto", "regions"])
def test_an_explorer_of_a_dedup_opens_its_classes_and_selects_in_the_program(unit: Any) -> None:
    from irscope.session import exploration as explored

    f = irs.fuse(irs.parse(HAND))
    d = irs.dedup(f if unit == "auto" else irs.parse(UNROLLED), relation="constants", unit=unit)
    exploration = explored(d, (), measure="never")
    view = json.loads(json.dumps(explorer_view(exploration, details=True)))
    assert exploration.dedup is d and view["opens"] == "Classes" and view["same"]["step"] == "constants"
    cards = view["same"]["steps"]["constants"]["cards"]
    assert cards[0]["count"] == 2 and all(set(ids) <= set(exploration.records) and ids for ids in cards[0]["selects"])
    if unit == "auto":
        assert [ids[0] for ids in cards[0]["selects"]] == [group.id for group in f.groups]


def test_two_members_are_named_by_their_modules_above_their_lines() -> None:
    names = ir("m0 | e1 = exp m0; t1 = tanh e1; m1 = mm t1 m0; e2 = exp m1; t2 = tanh e2; m2 = mm t2 m0 | m2", "Float(4, 4)")
    scoped = "".join(
        f"{line}, scope: net.layers.{line.split()[0][-1]}.norm\n" if "mm" not in line and "=" in line else f"{line}\n"
        for line in names.splitlines()
    )
    beside = SameViews(irs.dedup(irs.fuse(irs.parse(scoped))), ()).cls("alpha", 0)["beside"]
    assert beside is not None and beside["because"].startswith("layers.1.norm and layers.2.norm are the same by relation 'alpha'")


def test_an_explorer_of_the_classes_of_a_module_shows_one_of_its_graphs() -> None:
    from irscope.session import exploration as explored

    d = irs.dedup(irs.Module({"f": body(), "g": body(0.25)}))
    view = explorer_view(explored(d, (), measure="never"))
    assert view["opens"] == "Classes" and any("aten::tanh" in line for line in view["text"]["lines"])


def test_a_group_alone_in_its_class_shows_where_it_meets_others() -> None:
    from irscope.report.pages import Inspection

    f = irs.fuse(irs.parse(HAND))
    same = Inspection(Exploration(f)).detail(f.groups[0].id)["same"]
    assert "no other group" in same and "From step 'constants' on it is one of 2" in same


def test_copies_are_described_as_if_each_had_been_looked_at() -> None:
    from irscope.transforms.dedup.rewrite import class_holes, cost_of

    d = irs.dedup(irs.Module({f"f{k}": body(0.25 if k % 3 else 0.5, 16 if k == 7 else 8) for k in range(9)}))
    views = SameViews(d, ())
    for step in ("text", "alpha", "constants", "extents"):
        for place, members in enumerate(sorted(d.members(step), key=lambda members: -len(members))):
            every = class_holes([d.piece(member) for member in members], step)
            shown = views.cls(step, place)
            assert shown["members"] == [d.piece(member).label for member in members]
            assert [hole["values"] for hole in shown["holes"]] == [[str(value) for value in row.values] for row in every.rows]
            assert [hole["told"] for hole in shown["holes"]] == [row.dependence for row in every.rows]
            if len(members) > 1:
                cost = cost_of(every, {})
                assert shown["cost"] is not None and shown["cost"]["slowdown"] == cost.slowdown
                told = [shown["cost"][name] for name in ("bodies", "ops", "bytes", "parameters")]
                assert told == [cost.bodies, cost.ops, cost.bytes, cost.parameters]
