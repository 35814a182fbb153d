"""The questions of each kind about a given program; every right answer is what an analysis says, or a measurement."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from irscope._base.results import Verdict
from irscope._base.words import listed, plural
from irscope.analysis.alias import AliasDb
from irscope.analysis.views import ViewAliases
from irscope.errors import ArgumentError
from irscope.ir import Graph, Node, TensorType, Value
from irscope.ir.text import print_node
from irscope.ops.traits import ALWAYS_SHARES, VIEWS
from irscope.ops.view_steps import byte_words
from irscope.report.box_tree import node_lines, writes_memory
from irscope.report.words import duration, short_type
from irscope.teaching.question import Option, Question
from irscope.transforms.dedup import Dedup
from irscope.transforms.fusion import Fusion

if TYPE_CHECKING:
    from irscope.runtime.measure import Comparison

T = TypeVar("T")


MOST_OPTIONS = 8
"""The most options of a question; in a large program they are drawn at random."""
_MOST_OPS = 12
_IGNORES: Mapping[str, str] = {
    "text": "nothing", "alpha": "names", "symbols": "names, those of functions included",
    "order": "names and the order of independent nodes", "arguments": "names and the order of nodes and parameters",
    "constants": "names, order and constants", "extents": "names, order, constants and sizes",
    "free": "names, order, constants and sizes",
    "layout": "names, order, constants, sizes and strides", "dtype": "names, order, constants, sizes, strides and element types",
}  # fmt: skip
"""What pieces that are the same by a relation may differ in."""


def alias_questions(graph: Graph, rng: random.Random, subject: Value | None = None) -> Iterator[Question]:
    """Ask which tensors may share the storage of one."""
    db = AliasDb(graph)
    tensors = [value for value in graph.values() if isinstance(value.type, TensorType)]
    for asked in [subject] if subject is not None else _shuffled(tensors, rng):
        chosen = _some([value for value in tensors if value is not asked], rng, partial(db.may_alias, asked))
        options = [_of_value(graph, value, db.may_alias(asked, value)) for value in chosen]
        if subject is not None or _is_mixed(options):
            yield Question(
                "alias", graph, f"Which of these may alias %{graph.names[asked]}?", tuple(options), subject=asked,
                note="Two tensors alias if they share a storage, even at different bytes.",
            )  # fmt: skip


def move_questions(graph: Graph, rng: random.Random, subject: Node | None = None) -> Iterator[Question]:
    """Ask before which lines of its block a write may move."""
    db, lines = AliasDb(graph), node_lines(graph)
    writes = [node for node in graph.nodes() if writes_memory(graph, node)]
    for write in [subject] if subject is not None else _shuffled(writes, rng):
        block = graph.block_of[write].nodes
        place = block.index(write)
        points = [node for k, node in enumerate(block) if k not in (place, place + 1) and node.op != "prim::Constant"]
        chosen = _some(points, rng, partial(db.can_move_before, write))
        options = [Option(f"line {lines[p.id] + 1}", print_node(p, graph.names), db.can_move_before(write, p), p) for p in chosen]
        if subject is not None or _is_mixed(options):
            what = f"line {lines[write.id] + 1}, {print_node(write, graph.names)}"
            yield Question(
                "moves", graph, f"The write in {what}: directly before which of these lines may it move?", tuple(options), subject=write,
                note="Lines that cannot be separated from it move with it. Results, and what users of the memory read, must not change.",
            )  # fmt: skip


def fusion_questions(fusion: Fusion, rng: random.Random, subject: Value | None = None) -> Iterator[Question]:
    """Ask which values are computed by the kernel that computes one."""
    graph = fusion.original
    made = [node.outputs[0] for node in graph.body.nodes if len(node.outputs) == 1 and node.op != "prim::Constant"]
    made = [value for value in made if isinstance(value.type, TensorType)]
    grouped = [value for value in made if fusion.group_of(value) is not None]

    def together(asked: Value, value: Value) -> bool:
        return (group := fusion.group_of(asked)) is not None and fusion.group_of(value) is group

    for asked in [subject] if subject is not None else _shuffled(grouped, rng):
        chosen = _some([value for value in made if value is not asked], rng, partial(together, asked))
        options = [_of_value(graph, value, fusion.why_not(asked, value)) for value in chosen]
        if subject is not None or _is_mixed(options):
            prompt = f"One kernel computes %{graph.names[asked]}. Which of these will it compute too?"
            yield Question("fusion", graph, prompt, tuple(options), subject=asked, note=f"They are fused by the policy {fusion.policy!r}.")


def view_questions(graph: Graph, rng: random.Random, subject: Value | None = None) -> Iterator[Question]:
    """Ask whether an op that may either copy or return a view copies; one question is about several if there are three
    or more."""
    va = ViewAliases(graph)
    open_ones = [
        value for value in va.tensors()
        if (node := graph.producer.get(value)) is not None and node.op in VIEWS - ALWAYS_SHARES and va.is_decided(value)
    ]  # fmt: skip
    if subject is None and len(open_ones) > 2:
        options = [_of_value(graph, value, _copies(va, value)) for value in _some(open_ones, rng, partial(_copies, va))]
        yield Question("views", graph, "Which of these are copies, with memory of their own?", tuple(options))
    for value in [subject] if subject is not None else _shuffled(open_ones, rng):
        verdict, is_view = va.explain(value), va.kind(value) == "view"
        op = graph.producer[value].op if value in graph.producer else "it"
        options = [
            Option("view", "no byte moves: it shares existing memory", Verdict(is_view, verdict.because, verdict.witness), value),
            Option("copy", "it has memory of its own", Verdict(not is_view, verdict.because, verdict.witness), value),
        ]
        prompt = f"Will the {op} that returns %{graph.names[value]} copy?"
        yield Question("views", graph, prompt, tuple(options), several=False, subject=value)


def _copies(va: ViewAliases, value: Value) -> Verdict:
    verdict = va.explain(value)
    return Verdict(not verdict.holds, verdict.because, verdict.witness)


def same_questions(found: Dedup, rng: random.Random) -> Iterator[Question]:
    """Ask which two of some groups are the same: two members of one class among members of other classes."""
    graph = found.source
    if not isinstance(graph, Graph):
        return
    for group in _shuffled([group for group in found.classes if len(group) > 1], rng):
        pair = rng.sample([member for member in group.members if isinstance(member, Node)], 2)
        strangers = [other.representative for other in found.classes if other is not group and isinstance(other.representative, Node)]
        if not strangers:
            continue
        rng.shuffle(strangers)
        strangers.sort(key=lambda node: _returns(node) != _returns(pair[0]))  # shapes alone should not tell
        options = []
        for node in sorted([*pair, *strangers[:3]], key=lambda node: graph.position[node]):
            ops = [inner.op.removeprefix("aten::") for block in node.blocks for inner in block.nodes if inner.op != "prim::Constant"]
            shown = " · ".join(ops[:_MOST_OPS]) + (f" · {len(ops) - _MOST_OPS} more" if len(ops) > _MOST_OPS else "")
            verdict = found.difference(pair[0], pair[1] if node is pair[0] else node)
            options.append(Option(f"%{graph.names[node.outputs[0]]}", f"{shown}, returns {_returns(node)}", verdict, node))
        prompt = f"Which two of these fusion groups are equal but for {_IGNORES[found.relation]}?"
        note = f"They are compared by the relation {found.relation!r}. Groups that it keeps apart may still share a kernel."
        yield Question("same", graph, prompt, tuple(options), exactly=2, note=note)


def _returns(group: Node) -> str:
    return listed([short_type(value.type) for value in group.outputs])


def _of_value(graph: Graph, value: Value, verdict: Verdict) -> Option:
    node, text = graph.producer.get(value), str(value.type)
    if node is not None and len(node.outputs) == 1:
        read = replace(node, inputs=tuple(operand for operand in node.inputs if operand not in graph.bound))  # weights make it long
        text = print_node(read, graph.names).partition(" = ")[2]
        if len(read.inputs) < len(node.inputs) and text.endswith(")"):
            text = f"{text[:-1]}{', ' * bool(read.inputs)}…)"
    return Option(f"%{graph.names[value]}", text, verdict, value)


def _is_mixed(options: Sequence[Option]) -> bool:
    return len({bool(option.verdict) for option in options}) == 2


def _shuffled(things: Iterable[T], rng: random.Random) -> list[T]:
    found = list(things)
    rng.shuffle(found)
    return found


def _some(things: Sequence[T], rng: random.Random, is_right: Callable[[T], object]) -> list[T]:
    """Draw at most MOST_OPTIONS, in their order: half of them right, as far as there are enough of both."""
    right: list[int] = []
    wrong: list[int] = []
    half = MOST_OPTIONS // 2
    for place in rng.sample(range(len(things)), len(things)):
        (right if is_right(things[place]) else wrong).append(place)
        if min(len(right), len(wrong)) >= half:
            break
    few, many = sorted([right, wrong], key=len)
    drawn = [*few[:half], *many[: MOST_OPTIONS - min(len(few), half)]]
    return [things[place] for place in sorted(drawn)]


# The question with a measured answer: which is faster, op by op or fused, and by how much?

BRACKETS = ((0.0, 0.8), (0.8, 1.25), (1.25, 2.0), (2.0, 4.0), (4.0, float("inf")))
"""Ranges of the speedup of the fused program; the second means that neither is faster."""

_AGAIN: Final = 1.1
"""The factor by which a ratio may change when it is measured again: the quartiles of one run do not bound the next."""

_WORDS = (
    "op by op is faster", "about the same, less than a quarter apart", "fused is 1.25 to 2 times as fast",
    "fused is 2 to 4 times as fast", "fused is more than 4 times as fast",
)  # fmt: skip


def speed_question(fusion: Fusion, arguments: Sequence[Any], repeats: int = 7) -> Question:
    """Measures both ways on the processor, alternating. The bracket of the best runs is right, and so is an adjacent
    bracket that the quartiles reach, or come within a tenth of.

    Raises ArgumentError for arguments that the program does not take.
    """
    from irscope.runtime.measure import compare

    measured = compare(fusion, *arguments, devices=["cpu"], repeats=repeats)
    low, ratio, high = speedup(measured)
    moved = [fusion.traffic(group) for group in fusion.groups]
    before, after = sum(each[0] for each in moved), sum(each[1] for each in moved)
    fewer = f", and the fused ops move {byte_words(after)} in place of {byte_words(before)}" if moved else ", and nothing was fused"
    alone, fused = (duration(row.best) for row in _rows(measured))
    because = f"fused is {ratio:.2f} times as fast here (at best {alone} op by op, {fused} fused){fewer}"
    nearest = next(k for k, (_, to) in enumerate(BRACKETS) if ratio < to)
    options = tuple(
        Option("abcde"[k], words, Verdict(abs(k - nearest) <= 1 and low < to * _AGAIN and high * _AGAIN >= since, because, fusion.groups))
        for k, ((since, to), words) in enumerate(zip(BRACKETS, _WORDS, strict=True))
    )
    conditions = measured.caption.partition("; op by op: ")[0]  # then come the columns, of which a question shows none
    note = f"The fused way has {plural(len(fusion.groups), 'fusion group')}. Measured on this machine: {conditions}."
    return Question("speed", fusion.graph, "Which is faster, op by op or fused, and by how much?", options, several=False, note=note)


def _rows(measured: "Comparison") -> tuple[Any, Any]:
    alone, fused = (next(row for row in measured.rows if word in row.label) for word in ("op by op", "fused"))
    return alone, fused


def speedup(measured: "Comparison") -> tuple[float, float, float]:
    """Returns the speedup of fused over op by op: the least, that of each way's best run, and the most. Other programs
    disturb the best run least; the least and the most are what the quartiles reach."""
    alone, fused = _rows(measured)
    ratio = alone.best / fused.best
    return min(ratio, alone.low / fused.high), ratio, max(ratio, alone.high / fused.low)


def example_arguments(graph: Graph, seed: int) -> list[Any]:
    """Returns random arrays of the shapes that a program declares. Raises ArgumentError where it declares no sizes."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    found = []
    for value in graph.free_inputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if shape is None or not all(isinstance(extent, int) for extent in shape):
            what = f"%{graph.names[value]} is {value.type}, which does not say its sizes"
            raise ArgumentError(what, hint="give arguments to measure with: irs.quiz.speed(program, x)")
        found.append(numbers.uniform(-1, 1, shape).astype(np.float32))  # type: ignore[arg-type]
    return found
