"""Random mutants: those that are merged with the original compute the same, bit by bit.

At steps without holes the two must agree as they are, with arguments in the order that the match says. At steps with holes the
original with the mutant's numbers in them must compute what the mutant does.
"""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.dedup import RELATIONS, Match, Piece, dedup, fingerprint, match
from irscope.transforms.dedup.form import canonical_form
from irscope.transforms.dedup.rewrite.groups import BodyCopy
from irscope.transforms.dedup.rewrite.parameters import class_holes

TYPE = "Float(3, 3, strides=[3, 1])"
PLAIN = ("mul", "sub", "add", "div")
Line = tuple[str, tuple[int, ...], float | None]


def random_lines(rng: random.Random) -> list[Line]:
    lines: list[Line] = []
    for place in range(rng.randint(2, 7)):
        a, b = rng.randrange(3 + place), rng.randrange(3 + place)
        kind = rng.random()
        if kind < 0.45:
            lines.append((rng.choice(PLAIN), (a, b), None))
        elif kind < 0.7:
            lines.append((rng.choice(("mul", "add", "leaky_relu", "clamp_min")), (a,), rng.choice((0.5, 2.0, 1.0))))
        elif kind < 0.9:
            lines.append((rng.choice(("tanh", "neg", "relu", "t")), (a,), None))
        else:
            lines.append((rng.choice(("mul_", "add_", "neg_", "relu_")), (a, b), None))
    return lines


def mutated(lines: list[Line], params: list[int], result: int, rng: random.Random) -> tuple[list[Line], list[int], int]:
    """One random change; many of them change nothing that is computed."""
    lines, params = list(lines), list(params)
    at = rng.randrange(len(lines))
    op, of, number = lines[at]
    kind = rng.randrange(7)
    if kind == 0 and len(of) == 2:
        lines[at] = (op, (of[1], of[0]), number)
    elif kind == 1:
        others = [name for name in (*PLAIN, "mul_", "add_") if name != op] if len(of) == 2 else ["tanh", "neg", "relu", "t"]
        lines[at] = (rng.choice(others), of, number if len(of) == 2 else None)
    elif kind == 2:
        lines[at] = (op, tuple(rng.randrange(3 + at) for _ in of), number)
    elif kind == 3 and number is not None:
        lines[at] = (op, of, rng.choice((0.25, 3.0, 1.0)))
    elif kind == 4 and at + 1 < len(lines) and at + 3 not in lines[at + 1][1]:
        swap = {at + 3: at + 4, at + 4: at + 3}
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
        lines = [(o, tuple(swap.get(x, x) for x in xs) if i > at + 1 else xs, n) for i, (o, xs, n) in enumerate(lines)]
        result = swap.get(result, result)
    elif kind == 5:
        rng.shuffle(params)
    else:
        result = rng.randrange(3 + len(lines))
    return lines, params, result


def graph_of(lines: list[Line], params: list[int], result: int) -> irs.Graph:
    out = ["  %one : int = prim::Constant[value=1]()"]
    for i, (op, of, number) in enumerate(lines):
        operands = [f"%v{x}" for x in (of if op.rstrip("_") in PLAIN and number is None else of[:1])]
        if number is not None:
            out.append(f"  %k{i} : float = prim::Constant[value={number}]()")
            operands.append(f"%k{i}")
        if op.rstrip("_") in ("add", "sub"):
            operands.append("%one")
        out.append(f"  %v{i + 3} : Tensor = aten::{op}({', '.join(operands)})")
    head = ", ".join(f"%v{p} : {TYPE}" for p in params)
    return irs.parse(f"graph({head}):\n" + "\n".join(out) + f"\n  return (%v{result})")


def outcome(graph: irs.Graph, args: list[Any]) -> list[bytes]:
    """What it gives, and what it leaves in its arguments."""
    own = [arg.copy() for arg in args]
    with np.errstate(all="ignore"):
        result = irs.compile(graph, device="reference")(*own)
    return [np.ascontiguousarray(result).tobytes(), *(np.ascontiguousarray(arg).tobytes() for arg in own)]


ARGS = [np.random.default_rng(7).standard_normal((3, 3)).astype(np.float32) for _ in range(3)]


def with_holes_filled(found: Match) -> irs.Graph | None:
    """The left piece with the right one's numbers, as a graph; None if it cannot be copied."""
    body = BodyCopy(class_holes([found.left, found.right], found.step))
    if body.why_not():
        return None
    body.number.clear()  # no parameters: every number in its place
    body.rows.clear()
    return replace(found.left.graph, body=body.of(found))


def check_marks(*graphs: irs.Graph) -> None:
    """Of programs without dead nodes fingerprints and canonical forms are equal just when there is a bijection; each relation holds
    where a finer one does."""
    ours, theirs = (Piece("piece", graph.body, graph, {}) for graph in (irs.Pipeline("dce")(graph).graph for graph in graphs))
    held = []
    for relation in RELATIONS:
        held.append(match(ours, theirs, relation) is not None)
        assert held[-1] == (fingerprint(ours, relation) == fingerprint(theirs, relation)), relation
        assert held[-1] == (canonical_form(ours, relation) == canonical_form(theirs, relation)), relation
    assert held == sorted(held)


def check(seed: int, count: int, tally: Counter[str]) -> None:
    rng = random.Random(seed)
    lines, params = random_lines(rng), [0, 1, 2]
    result = 2 + len(lines)
    original = graph_of(lines, params, result)
    expected = outcome(original, ARGS)
    for _ in range(count):
        changed = lines, params, result
        for _ in range(rng.randint(1, 2)):
            changed = mutated(*changed, rng)
        mutant = graph_of(*changed)
        d = dedup(irs.Module({"f": original, "g": mutant}))
        check_marks(original, mutant)
        for relation in RELATIONS[1:]:
            found = match(d.piece("f"), d.piece("g"), relation)
            if found is None:
                continue
            theirs: list[Any] = [None] * 3
            for place, at in enumerate(found.arguments):
                theirs[at] = ARGS[place]
            got = outcome(mutant, theirs)
            got = [got[0], *(got[1 + at] for at in found.arguments)]
            if not found.holes:
                assert got == expected, f"merged by {relation}, and computes something else\n{original}\n{mutant}"
            else:
                filled = with_holes_filled(found)
                if filled is None:
                    continue
                assert outcome(filled, ARGS) == got, f"merged by {relation} with holes\n{original}\n{mutant}\n{filled}"
            tally[relation] += 1
            break
        else:
            tally["apart"] += 1


@pytest.mark.parametrize("seed", range(10))
def test_mutants_that_are_merged_compute_the_same(seed: int) -> None:
    check(seed, 12, Counter())


@pytest.mark.long
def test_ten_thousand_mutants() -> None:
    tally: Counter[str] = Counter()
    for seed in range(1000, 1500):
        check(seed, 20, tally)
    assert sum(tally.values()) >= 9000
    assert all(tally[step] > 20 for step in ("alpha", "order", "arguments", "constants", "apart")), tally
