"""Generators of a random program for each kind of question, of difficulty 1, 2 or 3."""

from __future__ import annotations

import random
from collections.abc import Callable

from irscope.teaching.quiz.drafts import Draft, Named

__all__ = ["for_alias", "for_fusion", "for_moves", "for_same", "for_speed", "for_views"]


def for_alias(rng: random.Random, difficulty: int) -> str:
    """1: one input, views and copies. 2: two inputs, which may be the same tensor, and writes. 3: lists, ifs and loops
    as well."""
    draft = Draft(rng, *(("x", (4, 6)), ("y", (4, 6)))[: min(2, difficulty)])
    choices = [draft.unary, draft.view, draft.view]
    choices += [draft.write, draft.binary] if difficulty > 1 else []
    special = rng.sample([draft.branch, draft.loop, draft.listed], 2) if difficulty > 2 else []
    order = [*special, *rng.choices(choices, k=3 + difficulty)]
    rng.shuffle(order)
    draft.unary()
    for add_line in order:
        add_line()
    return draft.text()


def for_moves(rng: random.Random, difficulty: int) -> str:
    """A write among lines that read the written memory, through views from difficulty 2, and a second write at 3."""
    draft = Draft(rng, ("x", (4, 6)))
    start = draft.unary()
    targets = [start] if difficulty < 2 else [start, draft.transposed(start)]
    draft.unary(rng.choice(targets))
    if difficulty > 1:
        draft.view()
    for _ in range(1 + (difficulty > 2)):
        draft.unary(rng.choice(draft.tensors))
        draft.write(rng.choice(targets))
    for _ in range(2 + (difficulty > 1)):
        draft.unary(rng.choice([*targets, *draft.tensors[:2]]))
    return draft.text(*draft.tensors[-2:], start)


def for_fusion(rng: random.Random, difficulty: int) -> str:
    """Chains of pointwise ops and what prevents fusion: a product of matrices; writes from 2; sums and transposes at
    3."""
    draft = Draft(rng, ("x", (64, 64)), ("y", (64, 64)))
    square = (64, 64)
    for _ in range(2):
        draft.unary(draft.pick(square))
    breakers: list[Callable[[], Named]] = [lambda: draft.product(draft.pick(square))]
    if difficulty > 1:
        breakers.append(lambda: draft.write(rng.choice(draft.tensors[2:4])))
    if difficulty > 2:
        breakers += [lambda: draft.transposed(draft.pick(square)), lambda: _row_sums(draft, draft.pick(square))]
    order = [rng.choice(breakers) for _ in range(1 + difficulty // 2)]
    pointwise: list[Callable[[], Named]] = [
        lambda: draft.unary(draft.pick(square)),
        lambda: draft.binary(draft.pick(square)),
    ]
    order += rng.choices(pointwise, k=2 + difficulty)
    rng.shuffle(order)
    for add_line in order:
        add_line()
    last, before = draft.pick(square), draft.pick(square)
    draft.tensor(f"aten::mul({last[0]}, {before[0]})", square)
    return draft.text(*draft.unused())


def _row_sums(draft: Draft, of: Named) -> Named:
    """Sums of rows, as a column that broadcasts."""
    axes, keep, none = draft.sizes([1]), draft.constant("bool", 1), draft.constant("NoneType", None)
    return draft.tensor(f"aten::sum({of[0]}, {axes}, {keep}, {none})", (of[1][0], 1))


def for_views(rng: random.Random, difficulty: int) -> str:
    """Rounds of views and then a `reshape` or `contiguous`: as many as the difficulty, each with up to as many views."""
    draft = Draft(rng, ("x", (4, 6, 8)))
    here = draft.tensors[0]
    for _ in range(difficulty):
        for _ in range(rng.randint(1, max(1, difficulty))):
            here = _some_view(draft, here, rng)
        here = _regrouped(draft, here, rng)
    return draft.text()


def _some_view(draft: Draft, of: Named, rng: random.Random) -> Named:
    name, shape = of
    rank = len(shape)
    if rank > 1 and rng.random() < 0.5:
        first, second = sorted(rng.sample(range(rank), 2))
        swapped = list(shape)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        return draft.tensor(f"aten::transpose({name}, {draft.number(first)}, {draft.number(second)})", tuple(swapped))
    axis = rng.randrange(rank)
    if shape[axis] > 1 and rng.random() < 0.6:
        half, one = shape[axis] // 2, draft.number(1)
        call = f"aten::slice({name}, {draft.number(axis)}, {draft.number(0)}, {draft.number(half)}, {one})"
        return draft.tensor(call, (*shape[:axis], half, *shape[axis + 1 :]))
    return draft.tensor(f"aten::unsqueeze({name}, {draft.number(axis)})", (*shape[:axis], 1, *shape[axis:]))


def _regrouped(draft: Draft, of: Named, rng: random.Random) -> Named:
    """Merges two neighbouring axes, or calls `contiguous`."""
    name, shape = of
    if len(shape) > 1 and rng.random() < 0.8:
        axis = rng.randrange(len(shape) - 1)
        joined = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        return draft.tensor(f"aten::reshape({name}, {draft.sizes(joined)})", joined)
    return draft.tensor(f"aten::contiguous({name}, {draft.number(0)})", shape)


def for_same(rng: random.Random, difficulty: int) -> str:
    """Chains between products of matrices, two of which are the same. The others differ in one op or number or, from
    difficulty 2, in the order of two ops."""
    draft = Draft(rng, ("x", (32, 32)), ("y", (32, 32)))
    kinds = ["relu", "tanh", "sigmoid", "neg", "abs", "exp"]
    recipe = [(op, 0.0) for op in rng.sample(kinds, 2 + difficulty // 2)] + [("mul", rng.choice([0.5, 2.0, 1.5]))]
    rng.shuffle(recipe)
    others: list[list[tuple[str, float]]] = []
    while len(others) < 1 + difficulty:
        other, place = list(recipe), rng.randrange(len(recipe))
        op, number = other[place]
        change = rng.randrange(3)
        if op == "mul":
            other[place] = ("mul", number + rng.choice([0.25, 1.0]))
        elif change == 0 or difficulty == 1:
            other[place] = (rng.choice([kind for kind in kinds if kind != op]), 0.0)
        else:
            next_one = (place + 1) % len(other)
            other[place], other[next_one] = other[next_one], other[place]
        if other != recipe and other not in others:
            others.append(other)
    chains = [recipe, recipe, *others]
    rng.shuffle(chains)
    results, here = [], draft.tensors[0]
    for chain in chains:
        here = draft.tensor(f"aten::mm({here[0]}, %y)", here[1])
        for op, number in chain:
            call = (
                f"aten::mul({here[0]}, {draft.constant('float', number)})" if op == "mul" else f"aten::{op}({here[0]})"
            )
            here = draft.tensor(call, here[1])
        results.append(here)
    return draft.text(*results)


def for_speed(rng: random.Random, difficulty: int) -> str:
    """A chain of pointwise ops over small or large tensors; from difficulty 2 some start with a product of matrices."""
    extent = rng.choice([64, 256, 512])
    draft = Draft(rng, ("x", (extent, extent)), ("y", (extent, extent)))
    here = draft.tensors[0]
    if difficulty > 1 and rng.random() < 0.5:
        here = draft.product(here)
    for _ in range(rng.randint(1, 3) * difficulty + 1):
        here = rng.choice([draft.unary, draft.binary])(here)
    return draft.text(*draft.unused())
