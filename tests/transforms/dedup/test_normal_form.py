"""The normal form: one text for each program, whatever its order and names; idempotent."""

import random
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.dedup import Piece, fingerprint
from irscope.transforms.dedup.rewrite import normal_form

Line = tuple[str, tuple[int, ...], float | None]
BINARY = ("mul", "sub", "add", "div")


def random_lines(rng: random.Random) -> list[Line]:
    lines: list[Line] = []
    for place in range(rng.randint(3, 10)):
        a, b = rng.randrange(2 + place), rng.randrange(2 + place)
        if rng.random() < 0.6:
            lines.append((rng.choice(BINARY), (a, b), None))
        elif rng.random() < 0.5:
            lines.append((rng.choice(("tanh", "exp", "neg")), (a,), None))
        else:
            lines.append(("mul", (a,), rng.choice((0.5, 0.25))))
    return lines


def written(lines: list[Line], results: list[int], rng: random.Random | None) -> irs.Graph:
    """The program; with a generator in another order, under other names, commutative operands exchanged at random."""
    order, left = [], list(range(len(lines)))
    while left:
        ready = [i for i in left if all(o < 2 or o - 2 in order for o in lines[i][1])]
        order.append(rng.choice(ready) if rng else ready[0])
        left.remove(order[-1])
    names = {0: "a", 1: "b"} | {i + 2: f"n{rng.randrange(10**9)}" if rng else f"v{i}" for i in range(len(lines))}
    out = ["  %one : int = prim::Constant[value=1]()"]
    for i in order:
        op, of, number = lines[i]
        operands = [f"%{names[o]}" for o in of]
        if rng and op in ("mul", "add") and number is None and rng.random() < 0.5:
            operands.reverse()
        if number is not None:
            out.append(f"  %k{i} : float = prim::Constant[value={number}]()")
            operands.append(f"%k{i}")
        extra = ", %one" if op in ("add", "sub") else ""
        out.append(f"  %{names[i + 2]} : Float(4, strides=[1]) = aten::{op}({', '.join(operands)}{extra})")
    head = "graph(%a : Float(4, strides=[1]), %b : Float(4, strides=[1])):\n"
    return irs.parse(head + "\n".join(out) + f"\n  return ({', '.join('%' + names[r] for r in results)})")


def mark(graph: irs.Graph) -> bytes:
    return fingerprint(Piece("piece", graph.body, graph, {}), "order")


def outcome(graph: irs.Graph) -> list[bytes]:
    args = [np.linspace(-1, 1, 4, dtype=np.float32), np.linspace(2, 3, 4, dtype=np.float32)]
    with np.errstate(all="ignore"):
        found = irs.compile(graph, device="reference")(*args)
    return [np.asarray(each).tobytes() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("seed", range(40))
def test_one_program_has_one_normal_form(seed: int) -> None:
    rng = random.Random(seed)
    lines = random_lines(rng)
    results = [rng.randrange(2, 2 + len(lines)) for _ in range(rng.randint(1, 3))]
    plain = written(lines, results, None)
    first = normal_form(plain).after
    irs.verify(first)
    assert outcome(first) == outcome(plain)
    again = normal_form(first)
    assert again.after is first
    assert not again.edits
    for _ in range(3):
        shuffled = written(lines, results, rng)
        assert str(normal_form(shuffled).after) == str(first)
        assert mark(shuffled) == mark(plain) == mark(first)


@pytest.mark.parametrize("seed", range(40))
def test_programs_that_differ_have_different_normal_forms(seed: int) -> None:
    rng = random.Random(1000 + seed)
    lines = random_lines(rng)
    results = [len(lines) + 1]
    lines[-1] = ("sub", (len(lines), 0), None)
    plain = written(lines, results, None)
    changed: Any = rng.choice((("div", lines[-1][1], None), ("sub", (0, len(lines)), None), ("sub", (len(lines), 1), None)))
    other = written([*lines[:-1], changed], results, rng)
    assert str(normal_form(plain).after) != str(normal_form(other).after)
    assert mark(plain) != mark(other)


def test_ops_that_write_keep_their_order_and_unused_nodes_are_removed() -> None:
    graph = irs.parse("""graph(%x : Tensor, %y : Tensor):
  %dead : Tensor = aten::exp(%x)
  %b : Tensor = aten::tanh_(%y)
  %a : Tensor = aten::relu_(%x)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)""")
    record = normal_form(graph)
    irs.verify(record.after)
    assert [node.op for node in record.after.nodes()][:2] != ["aten::relu_", "aten::tanh_"]
    assert irs.verify(record.after) is None


def test_nodes_stay_in_their_blocks() -> None:
    graph = irs.parse("""graph(%x : Float(4), %c : bool):
  %t : Float(4) = aten::tanh(%x)
  %e : Float(4) = aten::exp(%x)
  %y : Float(4) = prim::If(%c)
    block0():
      %k : float = prim::Constant[value=0.5]()
      %a : Float(4) = aten::mul(%t, %k)
      %b : Float(4) = aten::mul(%a, %e)
      -> (%b)
    block1():
      %l : float = prim::Constant[value=0.5]()
      %d : Float(4) = aten::mul(%e, %l)
      -> (%d)
  return (%y)""")
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
