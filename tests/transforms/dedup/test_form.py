"""Keys of pieces are equal exactly when the walk side by side finds a bijection; fingerprints are stable."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.ir import INT, TENSOR, Block, ClassType, Graph, GraphBuilder, ListType, Module, Node, Opaque, Symbol, TensorData, TensorType
from irscope.transforms.dedup import Piece, fingerprint, has_stable_fingerprint, match, pieces_of
from irscope.transforms.dedup.form import Keys
from tests.programs import parsed
from tests.random_programs.graphs import random_program


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
