"""Results cached in a body: the last ones, and no longer than the body lives."""

import copy
import gc
import pickle
import weakref

import irscope as irs
from irscope.transforms.dedup.piece import Body, kept_in

GRAPH = irs.parse("graph(%x : Float(4)):\n  %a : Float(4) = aten::relu(%x)\n  return (%a)")


def test_only_the_last_results_are_cached_and_none_outlives_its_body() -> None:
    made = []

    @kept_in(2)
    def pair(body: Body, *, number: int) -> tuple[Body, int]:
        made.append(number)
        return body, number

    first, second = Body(GRAPH.body, GRAPH), Body(GRAPH.body, GRAPH)
    assert pair(first, number=0) is pair(first, number=0)
    pair(second, number=1), pair(second, number=2)  # the oldest goes
    assert made == [0, 1, 2]
    pair(second, number=1), pair(first, number=0)
    assert made == [0, 1, 2, 0]
    assert len(vars(copy.deepcopy(first))["_results"]) == len(vars(pickle.loads(pickle.dumps(first)))["_results"]) == 0
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert pair(second, number=2)[0] is second
