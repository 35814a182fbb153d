"""Parts of one buffer: which bytes two values cover decides whether they may overlap, and in which order writes must stay."""

import random
from itertools import combinations

import pytest

from tests.programs import ir, parsed

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.analysis.alias.alias_db import AliasDb  # noqa: E402
from irscope.analysis.dependence import dependences  # noqa: E402
from irscope.ir import Graph, TensorType  # noqa: E402
from tests.analysis.alias.judge import arguments, check_orders  # noqa: E402
from tests.analysis.ties import waits_for  # noqa: E402
from tests.random_programs.graphs import random_program  # noqa: E402
from tests.work import blocks, long, some  # noqa: E402

SLICES = ir(
    "x | 0 = 0; 1 = 1; 2 = 2; 4 = 4; 8 = 8; z = exp x; left:Float(4, 2, strides=[8, 1]) = slice z 1 0 2 1; a:Tensor = sigmoid_ left; "
    "middle:Float(4, 2, strides=[8, 1]) = slice z 1 2 4 1; b:Tensor = exp_ middle; right:Float(4, 4, strides=[8, 1]) = slice z 1 4 8 1; "
    "c:Tensor = neg_ right; sum = add z x 1 | sum",
    "Float(4, 8, strides=[8, 1])",
)


def test_three_heads_that_write_their_own_columns_are_in_no_order() -> None:
    graph = irs.parse(SLICES)
    db = AliasDb(graph)
    assert db.may_alias("left", "middle")
    verdict = db.may_overlap("left", "middle")
    assert not verdict and verdict.witness[:2] == (graph.value("left"), graph.value("middle"))
    assert [str(part) for part in verdict.witness[2:]] == [
        "8 bytes every 32, 4 times, from byte 0",
        "8 bytes every 32, 4 times, from byte 8",
    ]
    assert db.may_overlap("left", "z")
    ties = dependences(graph, graph.body)
    a, b, c, total = (graph.node(name) for name in ("a", "b", "c", "sum"))
    assert a not in waits_for(ties, b)
    assert b not in waits_for(ties, c)
    assert {tie.node for tie in ties.predecessors[total]} >= {a, b, c}
    assert db.can_move_before(c, a) and not db.can_move_before(total, c)


HALF = "Float(4, 4, strides=[4, 1], device=cpu)"
WHOLE = HALF.replace("4, 4", "8, 4")
PARTS = "s = slice a 0 0 4 1; t = slice a 0 4 8 1; u = slice a 0 0 4 1; y = tanh s"
TWO_PARTS = f"x:{WHOLE} | 0 = 0; 1 = 1; 4 = 4; 8 = 8; h = 0.5; a:{WHOLE} = neg x; {PARTS}"
BEFORE = "m = mul_ s h; q = mul_ t h; p = add t u 1; r = add p y 1"
AFTER = "q = mul_ t h; p = add t u 1; m = mul_ s h; r = add p m 1"
OUT = "m = mul_ s h; q = add u y 1 t; p = mul t h; r = add p y 1"


@pytest.mark.parametrize("lines", [BEFORE, AFTER, OUT], ids=["before", "after", "out"])
def test_an_op_that_reads_two_parts_of_a_buffer_reads_both(lines: str) -> None:
    graph = parsed(f"{TWO_PARTS}; {lines} | r", HALF)
    check_orders(graph, AliasDb(graph), lambda: [torch.arange(32.0).reshape(8, 4)], random.Random(0), orders=20)
    first, last = sorted(map(graph.node, "qp" if lines is OUT else "mp"), key=graph.position.__getitem__)
    assert first in waits_for(dependences(graph, graph.body), last)
    x = torch.randn(8, 4)
    wanted = irs.compile(graph, device="reference")(x)
    for policy in ("greedy", "min-bytes"):
        torch.testing.assert_close(irs.compile(irs.fuse(graph, policy=policy))(x), wanted)


def writes_into_slices(seed: int) -> Graph:
    """A program of views of one buffer, of ops that write through them, and of ops that read through them."""
    draw = random.Random(seed)
    numbers = {number: f"%n{number}" for number in range(9)}
    lines = [f"  {name} : int = prim::Constant[value={number}]()" for number, name in numbers.items()]
    lines.append("  %z : Float(6, 8, strides=[8, 1]) = aten::tanh(%x)")
    views = [("%z", (6, 8))]
    if draw.random() < 0.3:
        views.append(("%x", (6, 8)))
    results = []
    for made in range(14):
        name, shape = draw.choice(views)
        dim = draw.randrange(len(shape)) if shape else 0
        kind = draw.random()
        if kind < 0.45 and shape:
            start = draw.randrange(shape[dim])
            end, step = draw.randrange(start, shape[dim]) + 1, draw.choice((1, 1, 2))
            lines.append(f"  %v{made} : Tensor = aten::slice({name}, {numbers[dim]}, {numbers[start]}, {numbers[end]}, {numbers[step]})")
            views.append((f"%v{made}", (*shape[:dim], -(-(end - start) // step), *shape[dim + 1 :])))
        elif kind < 0.55 and shape:
            lines.append(f"  %v{made} : Tensor = aten::select({name}, {numbers[dim]}, {numbers[draw.randrange(shape[dim])]})")
            views.append((f"%v{made}", (*shape[:dim], *shape[dim + 1 :])))
        elif kind < 0.85:
            other = draw.choice([view for view, sizes in views if sizes == shape])
            lines.append(f"  %c{made} : Tensor = aten::cos({other})")  # torch refuses operands that overlap in part
            op = draw.choice((f"mul_({name}, %c{made})", f"add_({name}, %c{made}, {numbers[2]})", f"neg_({name})"))
            lines.append(f"  %v{made} : Tensor = aten::{op}")
        else:
            lines.append(f"  %v{made} : Tensor = aten::neg({name})")
            results.append(f"%v{made}")
    text = "graph(%x : Tensor):\n" + "\n".join(lines) + f"\n  return ({', '.join(['%z', *results])})"
    return irs.load(text, torch.zeros(6, 8))


def check_slices(seed: int) -> int:
    """How many pairs of values may alias and do not overlap."""
    graph = writes_into_slices(seed)
    torch.default_generator.manual_seed(seed)
    x, db = torch.rand(6, 8), AliasDb(graph)
    check_orders(graph, db, lambda: [x.clone()], random.Random(seed), orders=3)
    tensors = [value for value in graph.values() if isinstance(value.type, TensorType)]
    return sum(bool(db.may_alias(a, b)) and not db.may_overlap(a, b) for a, b in combinations(tensors, 2))


def check_shapes(seed: int, size: int) -> None:
    program = random_program(seed, size=size)
    graph = irs.load(program.text, *arguments(program))
    check_orders(graph, AliasDb(graph), lambda: arguments(program), random.Random(seed), orders=3)


@pytest.mark.parametrize("seeds", [*some(blocks(0, 3, 20), 1), *long(blocks(1000, 20, 250))], ids=str)
def test_any_order_within_the_dependences_computes_the_same(seeds: range) -> None:
    apart = 0
    for seed in seeds:
        apart += check_slices(seed)
        check_shapes(seed, 16 if seed < 1000 else 20)
    assert apart > 200  # or nothing was told apart
