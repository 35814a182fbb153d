"""The normal form: one text for each program, whatever its order and names; idempotent."""

import random
import re

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.dedup import Piece, fingerprint
from irscope.transforms.dedup.rewrite import normal_form
from tests.programs import parsed
from tests.transforms.dedup.test_rewrite import Program, arguments
from tests.transforms.dedup.test_rewrite import results as results_of


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


def test_ops_that_write_keep_their_order_and_unused_nodes_are_removed() -> None:
    graph = parsed("x y | dead = exp x; b = tanh_ y; a = relu_ x; c = mul a b | c")
    record = normal_form(graph)
    irs.verify(record.after)
    assert [node.op for node in record.after.nodes()][:2] != ["aten::relu_", "aten::tanh_"]
    assert irs.verify(record.after) is None


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
