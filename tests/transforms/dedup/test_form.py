"""Keys of pieces are equal exactly when the walk side by side finds a bijection; fingerprints are stable."""

import copy
import gc
import pickle
import random
import re
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.ir import INT, TENSOR, Block, ClassType, Graph, GraphBuilder, ListType, Module, Node, Opaque, Symbol, TensorData, TensorType
from irscope.transforms.dedup import Piece, fingerprint, has_stable_fingerprint, match, pieces_of
from irscope.transforms.dedup.form import Keys
from irscope.transforms.dedup.piece import Body, kept_in
from irscope.transforms.dedup.rewrite import normal_form
from tests.programs import parsed
from tests.random_programs.graphs import random_program
from tests.transforms.dedup.test_rewrite import Program, arguments
from tests.transforms.dedup.test_rewrite import results as results_of


def agree(module: Module) -> bool:
    """Whether keys and proofs say the same of the two graphs or modules; gives what they say."""
    return agree_on(*pieces_of(module)[0].values())


def agree_on(left: Piece, right: Piece) -> bool:
    keys = Keys()
    ours, theirs = keys.key(left), keys.key(right)
    proved = match(left, right, "alpha") is not None
    assert (ours is None) == (theirs is None) or not proved
    if ours is not None and theirs is not None:
        assert (ours == theirs) == proved
        assert proved == (match(left, right, "symbols") is not None)
    return proved


def changed(graph: Graph, at: int) -> Graph:
    """The graph with one node that reads its operands the other way round, or has another name for its op."""

    def block_of(block: Block) -> Block:
        return replace(block, nodes=tuple(map(node_of, block.nodes)))

    def node_of(node: Node) -> Node:
        node = replace(node, blocks=tuple(map(block_of, node.blocks))) if node.blocks else node
        if node.id != target.id:
            return node
        if len(set(node.inputs)) > 1:
            return replace(node, inputs=node.inputs[::-1])
        return replace(node, op=node.op + "_other")

    nodes = list(graph.nodes())
    target = nodes[at % len(nodes)]
    return replace(graph, body=block_of(graph.body))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 100))
def test_random_programs_and_their_mutants(seed: int, at: int) -> None:
    graph = irs.parse(random_program(seed, size=12).text)
    again = irs.parse(str(graph).replace("%", "%other_"))
    assert agree(Module({"a": graph, "b": again}))
    agree(Module({"a": graph, "b": changed(graph, at)}))


def constant(payload: object, type: object = TENSOR) -> Graph:
    b = GraphBuilder()
    return b.finish([b.constant(payload, type)])  # type: ignore[arg-type]


def test_a_constant_known_only_by_identity_has_no_key() -> None:
    things = [Opaque("<object>"), TensorData("float32", (2,), None)]
    for thing in things:
        assert Keys().key(irs.dedup(Module({"a": constant(thing)})).piece("a")) is None
        assert agree(Module({"a": constant(thing), "b": constant(thing)}))
        assert not agree(Module({"a": constant(thing), "b": constant(replace(thing))}))


def test_numbers_differ_in_bits_and_type() -> None:
    numbers = [1, 1.0, 0.0, -0.0, float("nan"), 1 + 0j, (1, 2), (1, 2.0), "1", None]
    for i, x in enumerate(numbers):
        for j, y in enumerate(numbers):
            assert agree(Module({"a": constant(x, ClassType("T")), "b": constant(y, ClassType("T"))})) == (i == j)


def executable(name: str, body: str, *, other: str = "") -> Module:
    """One export that calls `@helper`; the helper, if there is one, is private."""
    graph = irs.parse(f'graph(%x : Float(2)):\n  %y : Float(2) = func::call[callee="@{body}"](%x)\n  return (%y)')
    helper = irs.parse("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu(%x)\n  return (%y)")
    graphs = {name: graph, **({other: helper} if other else {})}
    symbols = [Symbol(name, "func::func")] + ([Symbol(other, "func::func", "private")] if other else [])
    return Module(graphs, symbols=tuple(symbols))


def test_keys_ignore_names_of_roots_but_not_names_from_outside() -> None:
    def both(a: Module, b: Module) -> Module:
        return Module({}, modules={"ex_0": a, "ex_1": b})

    assert agree(both(executable("F", "library"), executable("G", "library")))
    assert not agree(both(executable("F", "library"), executable("G", "elsewhere")))
    assert agree(both(executable("F", "F"), executable("G", "G")))
    assert not agree(both(executable("F", "F"), executable("G", "F")))
    assert not agree(both(executable("F", "#0"), executable("G", "G")))
    assert not agree(both(executable("F", "h", other="h"), executable("G", "k", other="k")))
    private = pieces_of(both(executable("F", "h", other="h"), executable("G", "h", other="h")))[0]
    assert all(Keys().key(piece) is None for piece in private.values())


def test_an_outer_value_that_is_read_twice_at_once_is_one_value() -> None:
    graph = parsed("x c:bool | r = If c {| q = mul x x; y = exp q | y} {| p = mul x x; z = exp x | z} | r", "Float(4)")
    assert not agree_on(*(Piece(f"{number}", block, graph, {}) for number, block in enumerate(graph.node("r").blocks)))


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


def test_a_constant_known_only_by_identity_has_no_stable_fingerprint() -> None:
    told = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    strange = irs.parse("graph():\n  %y : __torch__.M = prim::Constant[value=<__torch__.M object at 0x7f>]()\n  return (%y)")
    assert [has_stable_fingerprint(pieces_of(g)[0][g.name]) for g in (told, strange)] == [True, False]


# --- The normal form: one text for each program, whatever its order and names; idempotent.


def written(program: Program, results: list[int], rng: random.Random | None = None) -> irs.Graph:
    """The program with these lines as results; with a generator in another order and under other names, but for its inputs."""
    text = program.text(vary=False, shuffle=rng is not None, params=False)
    text = text.replace(f"return (%v{len(program.lines) + 2})", f"return ({', '.join(f'%v{line + 3}' for line in results)})")
    inner = range(3, len(program.lines) + 3)
    called = dict(zip(map(str, inner), rng.sample(range(10**9), len(inner)) if rng else inner, strict=True))
    return irs.parse(re.sub(r"%v(\d+)", lambda found: f"%n{called.get(found[1], found[1])}", text))


def mark(graph: irs.Graph) -> bytes:
    return fingerprint(Piece("piece", graph.body, graph, {}), "order")


def outcome(graph: irs.Graph) -> list[bytes]:
    return results_of(graph, *arguments(0))


@pytest.mark.parametrize("seed", range(40))
def test_one_program_has_one_normal_form(seed: int) -> None:
    rng = random.Random(seed)
    program = Program(rng)
    results = [rng.randrange(len(program.lines)) for _ in range(rng.randint(1, 3))]
    plain = written(program, results)
    first = normal_form(plain).after
    irs.verify(first)
    assert outcome(first) == outcome(plain)
    again = normal_form(first)
    assert again.after is first and not again.edits
    for _ in range(3):
        shuffled = written(program, results, rng)
        assert str(normal_form(shuffled).after) == str(first)
        assert mark(shuffled) == mark(plain) == mark(first)


_DEAD = """
  %d0 : Float(5, 1) = aten::unsqueeze(%n0, %one)
  %d1 : int[] = prim::Constant[value=[1, 2]]()
  %d2 : Tensor[] = prim::ListConstruct(%n1, %d0)
  %d3 : Float(5) = aten::exp(%n2)"""


@pytest.mark.parametrize("relation", ["order", "arguments", "constants", "dtype"])
def test_nodes_that_nothing_needs_make_no_difference(relation: str) -> None:
    """Neither to the form, by which pieces are compared at all, nor to the match that proves it."""
    for seed in range(20):
        rng = random.Random(seed)
        program = Program(rng)
        plain = written(program, [len(program.lines) - 1])
        first, _, rest = str(plain).partition("prim::Constant[value=1]()")
        more = irs.parse(f"{first}prim::Constant[value=1](){_DEAD}{rest}")
        found = irs.dedup(irs.Module({"plain": plain, "more": more}), relation=relation)
        assert len(found.classes) == 1, str(more)


@pytest.mark.parametrize("seed", range(40))
def test_programs_that_differ_have_different_normal_forms(seed: int) -> None:
    rng = random.Random(1000 + seed)
    program = Program(rng)
    last = len(program.lines) - 1
    program.lines[-1] = ("sub", (last + 2, 0), None)
    plain = written(program, [last])
    program.lines[-1] = rng.choice((("div", (last + 2, 0), None), ("sub", (0, last + 2), None), ("sub", (last + 2, 1), None)))
    other = written(program, [last], rng)
    assert str(normal_form(plain).after) != str(normal_form(other).after)
    assert mark(plain) != mark(other)


def test_ops_that_write_keep_their_order() -> None:
    graph = parsed("x y | e = exp x; b = tanh_ y; a = relu_ x; c = mul a b | c e")
    after = normal_form(graph).after
    irs.verify(after)
    assert [node.op for node in after.nodes()] == ["aten::exp", "aten::tanh_", "aten::relu_", "aten::mul"]


def test_nodes_stay_in_their_blocks() -> None:
    graph = parsed(
        "x c:bool | t = tanh x; e = exp x; y = If c {| k = 0.5; a = mul t k; b = mul a e | b} {| l = 0.5; d = mul e l | d} | y", "Float(4)"
    )
    record = normal_form(graph)
    irs.verify(record.after)
    assert normal_form(record.after).after is record.after
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    for chosen in (True, False):
        made, plain = (irs.compile(g, device="reference")(x, chosen) for g in (record.after, graph))
        np.testing.assert_array_equal(made, plain)


def test_exchanged_operands_alone_are_an_edit() -> None:
    text = "graph(%x : Float(4), %y : Float(4)):\n  %a : Float(4) = aten::mul(%{}, %{})\n  return (%a)"
    told = [[r.because for r in normal_form(irs.parse(text.format(*order))).remarks] for order in ("xy", "yx")]
    assert sorted(told) == [[], ["0 nodes moved, 1 pair of operands exchanged"]]


def test_operands_that_it_exchanged_are_in_order_when_it_runs_again() -> None:
    lines = ["%v0 : Float(4) = aten::mul(%x, %x)", "%v1 : Float(4) = aten::mul(%v0, %v0)", "%v2 : Float(4) = aten::mul(%x, %x)"]
    lines.append("%v3 : Float(4) = aten::mul(%v2, %v1)")
    graph = irs.parse("\n  ".join(["graph(%x : Float(4)):", *lines, "return (%v3)"]))
    once = normal_form(graph).after
    assert str(normal_form(once).after) == str(once)


# --- Results cached in a body: the last ones, and no longer than the body lives.

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
