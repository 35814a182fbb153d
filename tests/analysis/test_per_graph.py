"""What is kept of a graph: once, for as long as the graph, and handed on where a pass says how."""

import copy
import gc
import pickle
import weakref
from threading import Thread

import numpy as np
import pytest

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import alias_db_of, leads, shapes_of
from irscope.analysis.shapes import Shapes, infer
from irscope.ir import NOT_CONSTANT, Graph
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup import fold_constants, remove_dead_nodes
from tests.programs import ir
from tests.random_programs.graphs import FEATURES, MORE_FEATURES, random_program

PROGRAM = ir("x:Float(2, 3) | n:int = dim x; a = neg x; b = relu_ a; gone = t b | a n")


def program() -> Graph:
    return irs.parse(PROGRAM)


def test_each_analysis_runs_once_for_a_graph_and_again_for_its_copies() -> None:
    g = program()
    assert alias_db_of(g) is alias_db_of(g)
    assert shapes_of(g) is shapes_of(g)
    assert dependences(g) is dependences(g, g.body)
    assert AliasDb(g) is not alias_db_of(g)
    db = alias_db_of(g)
    for other in (copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert alias_db_of(other) is not db and alias_db_of(other).graph is other


def test_results_go_with_their_graph_which_keeps_none_that_came_before_it() -> None:
    g = program()
    kept = weakref.ref(alias_db_of(g)), weakref.ref(shapes_of(g)), weakref.ref(g)
    del g
    gc.collect()
    assert [found() for found in kept] == [None, None, None]
    g = program()
    alias_db_of(g)
    record = fold_constants(g)
    leads(record)
    after, before = record.after, weakref.ref(g)
    del g, record
    gc.collect()
    assert before() is None
    assert alias_db_of(after).graph is after


def test_threads_that_ask_at_once_get_one_result() -> None:
    for seed in range(20):
        g = irs.parse(random_program(seed, size=40).text)
        found: list[AliasDb] = []
        threads = [Thread(target=lambda g=g, found=found: found.append(alias_db_of(g))) for _ in range(8)]  # type: ignore[misc]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8 and len(set(map(id, found))) == 1


def test_a_db_and_facts_follow_a_pass_that_says_what_it_did() -> None:
    g = program()
    alias_db_of(g), shapes_of(g)
    record = remove_dead_nodes(g)
    leads(record)
    assert not alias_db_of(record.after).was_rebuilt
    assert "edits were followed" in str(alias_db_of(record.after).was_rebuilt)
    assert shapes_of(record.after).known("n") == 2 and shapes_of(record.after).graph is record.after


def test_nothing_follows_where_nothing_is_known_before_or_the_record_is_gone() -> None:
    g = program()
    record = remove_dead_nodes(g)
    leads(record)
    assert "built from the graph" in str(alias_db_of(record.after).was_rebuilt)
    alias_db_of(g)
    again = remove_dead_nodes(g)
    leads(again)
    after = again.after
    del again
    gc.collect()
    assert "built from the graph" in str(alias_db_of(after).was_rebuilt)


def test_a_pass_of_the_users_leads_nowhere() -> None:
    """Its edits may be incomplete: a pipeline analyses what it gave again."""

    def mine(graph: Graph) -> PassRecord:
        other = irs.parse(PROGRAM.replace("aten::relu_", "aten::relu"))
        return PassRecord("mine", graph, other, remove_dead_nodes(graph).edits)

    g = program()
    assert alias_db_of(g).has_writers("a")
    done = irs.Pipeline(mine)(g)
    assert not alias_db_of(done.graph).has_writers("a")
    assert "built from the graph" in str(alias_db_of(done.graph).was_rebuilt)


@pytest.mark.parametrize("seed", range(25))
def test_what_follows_through_a_pipeline_answers_as_what_is_made_again(seed: int) -> None:
    g = irs.parse(random_program(seed, size=30).text)
    alias_db_of(g)
    for record in irs.Pipeline("fold-constants,functionalize,canonicalize,cse,pool-constants,dce")(g).records:
        after = record.after
        found, wanted = alias_db_of(after), AliasDb(after)
        for value in after.values():
            assert found.writers(value) == wanted.writers(value)
            assert set(found.alias_set(value)) == set(wanted.alias_set(value))


@pytest.mark.parametrize("seed", range(40))
def test_facts_of_nodes_that_did_not_change_are_those_of_a_new_run(seed: int) -> None:
    g = irs.parse(random_program(seed, size=30, features=(*FEATURES, *MORE_FEATURES) if seed % 2 else FEATURES).text)
    shapes_of(g)
    for record in irs.Pipeline("functionalize,cse,canonicalize,functionalize")(g).records:
        found, wanted = shapes_of(record.after), infer(record.after)
        for value in record.after.values():
            assert str(found.type(value)) == str(wanted.type(value))
            assert repr(found.known(value)) == repr(wanted.known(value))


def test_what_was_found_while_loading_stays_known_but_of_an_optional_input() -> None:
    text = "graph(%x : Tensor):\n  %n : int = aten::dim(%x)\n  %y : Tensor = aten::add(%x, %x, %n)\n  return (%y)"
    graph = irs.load(text, np.zeros((2, 3), np.float32))
    assert Shapes in vars(graph)["_kept"]
    known, found = shapes_of(graph), infer(graph)
    assert [str(known.type(v)) for v in graph.values()] == [str(found.type(v)) for v in graph.values()]
    assert known.known("n") == found.known("n") == 2 and known.graph is graph
    text = "graph(%x : Tensor?):\n  %no : NoneType = prim::Constant()\n  %none_given : bool = aten::__is__(%x, %no)\n  return (%none_given)"
    graph = irs.load(text, np.zeros(3, np.float32))
    assert shapes_of(graph).known("none_given") is NOT_CONSTANT
