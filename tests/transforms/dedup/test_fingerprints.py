"""Fingerprints mean the same wherever they are computed, whichever frontend a program came in by."""

from __future__ import annotations

import irscope as irs
from irscope.ir import INT, ListType, TensorType
from irscope.transforms.dedup import fingerprint, has_stable_fingerprint, match, pieces_of


def test_a_program_read_back_from_its_text_has_the_same_fingerprints() -> None:
    build = irs.GraphBuilder()
    x = build.input("x", TensorType("float32", (4, 8)))
    shape, weight, flag = build.constant((8,), ListType(INT)), build.constant(None), build.constant(True)
    epsilon = build.constant(0.5)
    y = build.op("aten::layer_norm", x, shape, weight, weight, epsilon, flag, type=x.type)
    graph = build.finish([y])
    pieces = [pieces_of(each)[0][each.name] for each in (graph, irs.parse(str(graph)))]
    for relation in ("alpha", "order", "constants"):
        assert fingerprint(pieces[0], relation) == fingerprint(pieces[1], relation), relation
        assert match(pieces[0], pieces[1], relation) is not None


def test_what_is_known_by_identity_only_has_no_fingerprint_that_others_could_have() -> None:
    told = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    strange = irs.parse("graph():\n  %y : __torch__.M = prim::Constant[value=<__torch__.M object at 0x7f>]()\n  return (%y)")
    assert [has_stable_fingerprint(pieces_of(g)[0][g.name]) for g in (told, strange)] == [True, False]
