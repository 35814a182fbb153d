"""What the analyses call right is what torch does: random questions, and the programs run op by op.

A "yes" of an analysis may be one too many, a "no" must hold in every run: so what is seen to share memory, or to be a view, has to
be among the right options; where the programs have no branches, it is all of them.
"""

import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir import Value
from irscope.ir.text import print_graph
from irscope.teaching.question import Question

torch = pytest.importorskip("torch")

from tests.transforms.fusion.judges import run_by_torch  # noqa: E402

FEW, MANY = 6, 67
"""Questions of each difficulty; three times the second are 200 of a kind."""


def runs(text: str, *arguments: Any) -> tuple[Any, ...]:
    """What torch computes op by op."""
    found = run_by_torch(text, arguments)
    return found if isinstance(found, tuple) else (found,)


def returning(question: Question, values: list[Value]) -> str:
    """The program, with these as its results."""
    names = [f"%{question.graph.names[value]}" for value in values]
    text = print_graph(question.graph, locations=False)
    types = ", ".join(["Tensor"] * len(names))
    results = f"  %all : ({types}) = prim::TupleConstruct({', '.join(names)})\n  return (%all)\n"
    return re.sub(r"  return \(.*\)\n?$", lambda _: results, text)


def arguments_of(question: Question, seed: int, *, same: bool = False, n: int = 1, flag: bool = True) -> list[Any]:
    """Random tensors, all of them one where asked for; `%n` and `%flag` as given."""
    numbers = np.random.default_rng(seed)
    found: list[Any] = []
    for value in question.graph.inputs:
        if value.name in ("n", "flag"):
            found.append(n if value.name == "n" else flag)
        elif same and found:
            found.append(found[0])
        else:
            found.append(torch.from_numpy(numbers.uniform(-1, 1, value.type.shape).astype(np.float32)))
    return found


def asked(kind: str, count: int) -> Iterator[tuple[Question, int]]:
    for difficulty in (1, 2, 3):
        for question in getattr(irs.quiz, kind)(difficulty=difficulty, count=count, seed=difficulty).questions:
            yield question, difficulty


def storages(tensors: tuple[Any, ...]) -> list[int]:
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


def check_alias(count: int) -> int:
    for question, difficulty in asked("alias", count):
        body = question.graph.body
        inside = {value for value in question.graph.values() if question.graph.block_of[value] is not body}
        options = [option for option in question.options if option.record not in inside]
        if question.subject in inside or not options:
            continue
        text = returning(question, [question.subject, *(option.record for option in options)])
        seen: set[str] = set()
        for same, n, flag in product((False, True), (0, 1, 2), (False, True)):
            first, *rest = storages(runs(text, *arguments_of(question, 0, same=same, n=n, flag=flag)))
            seen |= {option.name for option, place in zip(options, rest, strict=True) if place == first}
        right = {option.name for option in options if option.verdict}
        assert seen <= right, text
        if difficulty < 3:
            assert seen == right, text
    return count


def check_views(count: int) -> int:
    for question, _ in asked("views", count):
        values = [option.record for option in question.options] if question.several else [question.subject]
        operands = [question.graph.producer[value].inputs[0] for value in values]
        found = storages(runs(returning(question, [*values, *operands]), *arguments_of(question, 0)))
        copied = [made != given for made, given in zip(found[: len(values)], found[len(values) :], strict=True)]
        if question.several:
            assert question.answer == tuple(option.name for option, copies in zip(question.options, copied, strict=True) if copies)
        else:
            assert question.answer == (("copy",) if copied[0] else ("view",))
    return count


def check_moves(count: int) -> int:
    """A write that may move is moved, with what the verdict says has to move along; results and inputs come out the same."""
    moved = 0
    for question, _ in asked("moves", count):
        block, text = question.graph.body.nodes, print_graph(question.graph, locations=False).split("\n")
        lines = text[len(text) - 1 - len(block) : -1]
        before = arguments_of(question, 3)
        wanted = [tensor.clone() for tensor in runs("\n".join(tupled(text)), *before)]
        for option in question.options:
            if not option.verdict:
                continue
            order = _moved(list(block), option.verdict.witness, option.record)
            shuffled = [*text[: len(text) - 1 - len(block)], *(lines[block.index(node)] for node in order), text[-1]]
            given = arguments_of(question, 3)
            found = runs("\n".join(tupled(shuffled)), *given)
            moved += 1
            for one, other in zip([*found, *given], [*wanted, *before], strict=True):
                assert torch.equal(one, other), "\n".join(shuffled)
    return moved


def tupled(text: list[str]) -> list[str]:
    names = text[-1].strip().removeprefix("return (").removesuffix(")")
    types = ", ".join(["Tensor"] * (names.count(",") + 1))
    return [*text[:-1], f"  %all : ({types}) = prim::TupleConstruct({names})", "  return (%all)", ""]


def _moved(block: list[Any], witness: tuple[Any, ...], point: Any) -> list[Any]:
    node, *followers = witness
    company = [each for each in block if each in followers]
    rest = [each for each in block if each is not node and each not in followers]
    at = rest.index(point)
    if block.index(node) < block.index(point):
        return [*rest[:at], node, point, *company, *rest[at + 1 :]]
    return [*rest[:at], *[each for each in block if each is node or each in followers], *rest[at:]]


def check_fusion(count: int) -> int:
    for question, difficulty in asked("fusion", count):
        fusion = irs.fuse(question.graph)
        group = fusion.group_of(question.subject)
        assert question.answer == tuple(option.name for option in question.options if fusion.group_of(option.record) is group)
        if count < MANY and difficulty > 1:
            continue  # compiling takes seconds
        run = irs.compile(fusion, freeze=False)
        wanted = runs("\n".join(tupled(print_graph(question.graph, locations=False).rstrip("\n").split("\n"))), *arguments_of(question, 1))
        found = run(*arguments_of(question, 1))
        assert 1 <= len(run.kernels) <= len(fusion.groups)
        for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
    return count


def check_same(count: int) -> int:
    """The two groups, given one matrix, compute the same numbers."""
    for question, _ in asked("same", count):
        assert len(question.answer) == 2
        x = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (32, 32)).astype(np.float32))
        made = [_computed(option.record, x) for option in question.options if option.verdict]
        assert torch.equal(*made)
    return count


def _computed(group: Any, x: Any) -> Any:
    (block,) = group.blocks
    known: dict[Any, Any] = {block.params[0]: x}
    for node in block.nodes:
        if node.op == "prim::Constant":
            known[node.outputs[0]] = node.attrs["value"]
        else:
            known[node.outputs[0]] = getattr(torch.ops.aten, node.op.removeprefix("aten::"))(*(known[value] for value in node.inputs))
    return known[block.returns[0]]


CHECKS: dict[str, Callable[[int], int]] = {
    "alias": check_alias, "views": check_views, "moves": check_moves, "fusion": check_fusion, "same": check_same,
}  # fmt: skip


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["some", "two hundred"])
@pytest.mark.parametrize("kind", CHECKS)
def test_right_options_are_what_torch_does(kind: str, count: int) -> None:
    assert CHECKS[kind](1 if kind == "fusion" and count == FEW else count) > 0


def test_random_programs_differ_between_seeds_and_not_within_one() -> None:
    rng = random.Random(0)
    for kind in ("alias", "moves", "fusion", "views", "same"):
        seed = rng.randrange(1000)
        one, other = (irs.quiz.mixed(kinds=[kind], count=2, seed=seed).text() for _ in range(2))
        assert one == other != irs.quiz.mixed(kinds=[kind], count=2, seed=seed + 1).text()
