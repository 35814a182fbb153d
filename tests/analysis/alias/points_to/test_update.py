"""An alias db that followed edits answers as one that is built again; the one before stays as it was."""

import random
from collections import Counter
from dataclasses import fields, replace

import pytest

from irscope._base.frozen import FrozenDict
from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to.delta import Layers
from irscope.errors import ArgumentError
from irscope.ir import TENSOR, Block, Graph, Merged, Node, Rewriter, Value, new_id
from irscope.ir.text import parse
from irscope.transforms.base import PassRecord
from tests.programs import ir, parsed
from tests.random_programs.edits import EDITS, group_of, random_record
from tests.random_programs.graphs import random_program
from tests.work import blocks, long, some


def check_equal(db: AliasDb, rng: random.Random) -> None:
    """Against a rebuilt db: every pair of values, every writer, every two nodes' order; some answers are put in words."""
    fresh = AliasDb(db.graph, distinct_inputs=db.distinct_inputs)
    values = list(db.graph.values())
    for index, a in enumerate(values):
        assert bool(db.has_writers(a)) == bool(fresh.has_writers(a)), f"{a!r} in\n{db.graph}"
        assert db.writers(a) == fresh.writers(a), f"{a!r} in\n{db.graph}"
        for b in values[index:]:
            assert bool(db.may_alias(a, b)) == bool(fresh.may_alias(a, b)), f"{a!r} and {b!r} in\n{db.graph}"
            assert bool(db.may_contain_alias(a, b)) == bool(fresh.may_contain_alias(a, b)), f"{a!r}, {b!r}\n{db.graph}"
    for block in db.graph.blocks():
        for index, node in enumerate(block.nodes):
            for later in block.nodes[index + 1 :]:
                found, wanted = db.obstacle(node, later), fresh.obstacle(node, later)
                assert (found and found.kind) == (wanted and wanted.kind), f"{node!r} and {later!r} in\n{db.graph}"
    for a in rng.sample(values, min(4, len(values))):
        b = rng.choice(values)
        for verdict in (db.may_contain_alias(a, b), db.must_alias(a, b), db.has_writers(a), db.escapes(a)):
            assert verdict.because
        assert bool(db.escapes(a)) == bool(fresh.escapes(a)) and set(db.alias_set(a)) == set(fresh.alias_set(a))


@pytest.mark.parametrize("seeds", [*some(blocks(0, 4, 10), 2), *long(blocks(10_000, 4, 500))], ids=str)
def test_following_random_edit_scripts_equals_rebuilding(seeds: range) -> None:
    followed = 0
    for seed in seeds:
        rng = random.Random(seed)
        db = AliasDb(parse(random_program(seed, size=rng.randint(3, 16 if seed < 1000 else 20)).text), distinct_inputs=seed % 3 == 0)
        for _ in range(12):
            _, record = random_record(db.graph, rng)
            db, before = db.follow(record), db
            if db is not before:
                followed += not db.was_rebuilt
                check_equal(db, rng)
    assert followed > 40


def test_nothing_is_rebuilt_without_containers_and_exchanges() -> None:
    """What fusion and cleaning up do is followed, however long the history gets."""
    for seed in range(8):
        rng = random.Random(seed)
        db = AliasDb(parse(random_program(seed, size=12, features={"views", "in-place", "if", "loop"}).text))
        for _ in range(20):
            _, record = random_record(db.graph, rng, ("insert", "erase", "merge", "grow", "split", "move"))
            db = db.follow(record)
            assert not db.was_rebuilt
        check_equal(db, rng)


def test_groups_grow_node_by_node_in_any_block_and_are_followed() -> None:
    grown = Counter[bool]()
    for seed in range(40):
        rng = random.Random(seed)
        db = AliasDb(parse(random_program(seed, size=16).text))
        for _ in range(12):
            kind, record = random_record(db.graph, rng, ("merge", "grow", "grow", "grow"))
            block = next((db.graph.block_of[e.nodes[0]] for e in record.edits if isinstance(e, Merged)), None)
            before, db = db, db.follow(record)
            assert not db.was_rebuilt, db.was_rebuilt
            grown[kind == "grow" and block is not before.graph.body] += block is not None
        if seed % 4 == 0:
            check_equal(db, rng)
    assert grown[True] > 10 and grown[False] > 100


def test_the_db_before_stays_valid() -> None:
    rng = random.Random(5)
    dbs = [AliasDb(parse(random_program(5, size=14).text))]
    for _ in range(12):
        _, record = random_record(dbs[-1].graph, rng)
        dbs.append(dbs[-1].follow(record))
    for db in (*reversed(dbs), *dbs):
        check_equal(db, rng)


PROGRAM = ir("x n:int | one = 1; a = neg x; b = relu a; v = t b; w = add_ v x one; l:Tensor[] = ListConstruct b; d = neg x | b d l")


def record(rewriter: Rewriter) -> PassRecord:
    return PassRecord("test", rewriter.graph, rewriter.finish(), rewriter.edits)


def test_one_merge_looks_at_no_index_of_the_graphs() -> None:
    g = parse(PROGRAM)
    members = [g.node("a"), g.node("b")]
    group = group_of(g, members)
    nodes = tuple(group if node is members[1] else node for node in g.body.nodes if node is not members[0])
    before = Graph(g.body, g.name)
    after = Graph(replace(g.body, nodes=nodes), g.name)
    db = AliasDb(before)
    built = set(before.__dict__)
    following = db.follow(PassRecord("merge", before, after, (Merged(tuple(members), group, "neighbours"),)))
    assert set(before.__dict__) == built and set(after.__dict__) == {field.name for field in fields(Graph)}
    assert not following.was_rebuilt
    inner = group.blocks[0].returns[0]
    assert following.may_alias(inner, "v") and following.has_writers("b")
    assert following.may_contain_alias("l", inner) and not following.may_alias(inner, "x")
    check_equal(following, random.Random(0))


@pytest.mark.parametrize(("inserted", "why"), [
    (("prim::CallFunction", 1), "memory that the whole program shares"),
    (("nobody::knows", 1), "memory that the whole program shares"),
    (("prim::If", 0), "has blocks"),
])  # fmt: skip
def test_what_cannot_be_followed_is_rebuilt_and_says_why(inserted: tuple[str, int], why: str) -> None:
    g = parse(PROGRAM)
    op, count = inserted
    blocks = (Block(new_id()), Block(new_id())) if op == "prim::If" else ()
    inputs = (g.value("d"),)[:count] or (g.value("n"),)
    rewriter = Rewriter(g)
    rewriter.insert_after(g.node("d"), Node(new_id(), op, inputs, (), blocks=blocks), reason="new")
    db = AliasDb(g).follow(record(rewriter))
    assert db.was_rebuilt and why in db.was_rebuilt.because
    check_equal(db, random.Random(0))


def test_a_tensor_that_is_a_constant_now_is_followed() -> None:
    g = parse(PROGRAM)
    rewriter = Rewriter(g)
    constant = Node(new_id(), "prim::Constant", (), (g.value("d"),), FrozenDict(value=2.5))
    rewriter.replace_node(g.node("d"), [constant], reason="it is always the same")
    view = Node(new_id(), "aten::t", (g.value("d"),), (Value(new_id(), TENSOR, "t"),))
    rewriter.insert_after(g.node("d"), view, reason="new")
    db = AliasDb(g).follow(record(rewriter))
    assert not db.was_rebuilt, db.was_rebuilt
    check_equal(db, random.Random(0))


def test_a_none_that_is_made_again_is_rebuilt() -> None:
    g = parsed("x | a:Tensor? = None; l:Tensor?[] = ListConstruct a x | a l")
    rewriter = Rewriter(g)
    made = Node(new_id(), "aten::neg", g.inputs, (g.value("a"),))
    rewriter.replace_node(g.node("a"), [made], reason="something after all")
    db = AliasDb(g).follow(record(rewriter))
    assert db.was_rebuilt
    check_equal(db, random.Random(0))


def test_a_record_of_another_graph_is_an_error() -> None:
    g, other = parse(PROGRAM), parse(PROGRAM)
    with pytest.raises(ArgumentError, match="does not start from the graph"):
        AliasDb(g).follow(PassRecord("none", other, other))


def test_a_pass_that_did_nothing_gives_the_same_db() -> None:
    db = AliasDb(parse(PROGRAM))
    assert db.follow(PassRecord("none", db.graph, db.graph)) is db


def test_a_graph_that_changed_without_edits_is_rebuilt() -> None:
    g = parse(PROGRAM)
    db = AliasDb(g).follow(PassRecord("x", g, parse(PROGRAM), ()))
    assert db.was_rebuilt
    check_equal(db, random.Random(0))


def test_a_long_history_keeps_few_layers() -> None:
    table: Layers[int, int] = Layers({0: 0})
    first = table
    for step in range(1, 5000):
        table = table.changed({step: step}, removed=[step - 1])
        assert len(table._deltas) <= 14
    assert dict(table) == {4999: 4999} and dict(first) == {0: 0}


def test_all_kinds_of_edits_were_made() -> None:
    kinds = {random_record(parse(random_program(s, size=10).text), random.Random(s))[0] for s in range(60)}
    assert kinds == set(EDITS)
