"""Ops that take longer than they could: for their operands, one by one instead of fused, waited for, or far from the machine's limits."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from irscope._base.nested import grouped, reached
from irscope._base.words import byte_count, plural, time_words
from irscope.errors import IrscopeError
from irscope.ir import Node, Value
from irscope.ops.registry import category_of, reads_on_host
from irscope.ops.traits import CHECKED_ON_HOST, GIVES_TO_HOST, INDEXED
from irscope.runtime.profile.costs import TensorFacts
from irscope.runtime.profile.evidence import Evidence, Remark, line_of
from irscope.runtime.profile.readings import NodeRow
from irscope.transforms.fusion import Fusion

# Unfavourable combinations of operands: broadcasts of small tensors to a large one, and mixed row and column order.

_EXPANDS: Final = 4
"""The least factor by which a broadcast's result exceeds its operands together that is worth a remark."""
_LEAST_BYTES: Final = 1 << 18
_TRANSPOSES: Final = frozenset(
    f"aten::{name}" for name in "t transpose permute mT mH T H numpy_T swapaxes swapdims movedim moveaxis adjoint".split()
)
_SLOW: Final = 0.6
"""The share of a copy's speed below which strides are a likely cause."""


def layout_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on broadcasts that expand, and on transposed operands."""
    for row in evidence.rows:
        if row.category in ("pointwise", "reduction", "normalization") and row.launches:
            yield from _expanding(evidence, row)
            yield from _crossing(evidence, row)


def _expanding(evidence: Evidence, row: NodeRow) -> Iterator[Remark]:
    made = evidence.result(row.node)
    given = [facts for facts in row.cost.operands if facts is not None]
    small = sum(facts.bytes for facts in given)
    if row.category != "pointwise" or made is None or len(given) < 2:
        return
    if made.bytes < _LEAST_BYTES or made.bytes < _EXPANDS * small:
        return
    affected = [row.node, *_downstream(evidence, row.node, made.elements // 2)]
    ends = [node for node in affected if category_of(node) == "reduction"]
    name = row.node.op.partition("::")[2]
    because = f"{name} expands operands of {byte_count(small)} to {byte_count(made.bytes)}"
    through = f", and {len(affected) - 1} more ops read it" if len(affected) > 1 else ""
    product = False
    if ends:
        least = evidence.copy_ns(small + evidence.cost(ends[0]).written_bytes) * row.calls
        product = name == "mul" and ends[0] in set(evidence.users(row.node))
        advice = "a matrix product does it without the large tensor" if product else "reduce first, or fuse it with the reduction"
        certainty = 1.0
    else:
        least, certainty = evidence.sum_ns(affected) * 0.3, 0.6
        advice = "check that both shapes are intended; compute on the operands before they are broadcast"
    gain = evidence.sum_ns(affected) - least
    measured = evidence.saved_by_fusing(row.node, ends[0]) if ends and not product else None
    if measured is not None:
        gain = min(gain, measured)
    yield evidence.remark("expanding-broadcast", affected, gain, because + through, advice, certainty=certainty, first=row.node)


def _downstream(evidence: Evidence, start: Node, least: int) -> list[Node]:
    """Returns the nodes after one that read at least this many elements derived from it and from nothing else as large, up to
    reductions: what they do could be done on what was expanded."""
    found: list[Node] = []
    seen, pending = {start}, [start]
    while pending:
        for user in evidence.users(pending.pop()):
            category = category_of(user)
            if user in seen or user not in evidence.row_of or category not in ("pointwise", "reduction", "view", "memory"):
                continue
            operands = zip(user.inputs, evidence.cost(user).operands, strict=False)
            large = [value for value, facts in operands if facts is not None and facts.elements >= least]
            if large and all(evidence.graph.producer.get(value) in seen for value in large):
                seen.add(user)
                found.append(user)
                pending += [] if category == "reduction" else [user]
    return found


def _crossing(evidence: Evidence, row: NodeRow) -> Iterator[Remark]:
    """Yields a remark on operands transposed against the others, where the op is far below the speed of a copy."""
    largest = max((facts.bytes for facts in (*row.cost.operands, *row.cost.results) if facts is not None), default=0)
    given = [facts for facts in row.cost.operands if facts is not None and facts.bytes * _EXPANDS >= largest]
    made = evidence.result(row.node)
    every = [*given, made] if made is not None and made.bytes * _EXPANDS >= largest else given
    took = row.self_time.median
    if largest < _LEAST_BYTES or row.copy_ns > _SLOW * took:
        return
    # the dimensions counted from the last, so that a broadcast operand compares; an op has a handful of operands
    orders = [[dim - len(facts.shape) for dim in facts.order] for facts in every if len(facts.order) > 1]
    agree = all([dim for dim in a if dim in b] == [dim for dim in b if dim in a] for a in orders for b in orders)
    if agree and not (row.category != "pointwise" and any(map(_lies_across, given))):
        return
    across = [place for place, facts in enumerate(row.cost.operands) if facts is not None and _lies_across(facts)]
    views = [view for place in across for view in _views_before(evidence, row.node, place)]
    text = f"{len(across) or 1} of its operands {'are' if len(across) > 1 else 'is'} transposed against the others"
    strides = ", ".join(str(list(row.cost.operands[p].strides)) for p in across[:2])  # type: ignore[union-attr]
    because = f"{text} (strides {strides}): it runs at {row.copy_ns / took:.0%} of a copy" if took else text
    yield evidence.remark(
        "transposed-operand", [row.node, *views], took - row.copy_ns / 0.8, because,
        "keep all in one order: transpose where the tensor is created, or compute the transposed result", first=row.node,
    )  # fmt: skip


def _lies_across(facts: TensorFacts) -> bool:
    return list(facts.order) != sorted(facts.order)


def _views_before(evidence: Evidence, node: Node, place: int) -> Iterator[Node]:
    """Yields the view that transposed an operand, if one did."""
    maker = evidence.graph.producer.get(node.inputs[place]) if place < len(node.inputs) else None
    while maker is not None and category_of(maker) == "view" and maker in evidence.row_of:
        if maker.op in _TRANSPOSES:
            yield maker
            return
        maker = next(evidence.makers(maker), None)


# -- what fusing gained, lost, and could gain -------------------------------------------------------------------------

_MOST_QUESTIONS = 12
"""The most nodes for which the fusion is asked why they stay apart: those that move most."""


def group_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on groups that are faster or slower as kernels, and on nodes beside them that are in no kernel."""
    readings = evidence.readings
    groups = [(row, [node for node in readings.members.get(row.node.id, ()) if node in evidence.row_of]) for row in readings.group_rows]
    yield from _faster(evidence, groups)
    fusion = readings.measured.fusion
    if fusion is not None and "fused" in readings.ways:
        yield from _slower(evidence, groups, fusion)
        yield from _apart(evidence, fusion)


_Groups = list[tuple[NodeRow, list[Node]]]
"""The rows of groups, each with the nodes that were measured one by one."""


def _faster(evidence: Evidence, groups: _Groups) -> Iterator[Remark]:
    """Yields one remark for all groups of the same lines, such as a layer's or a loop's."""
    before_of = evidence.readings.group_before
    faster = [each for each in groups if len(each[1]) > 1 and each[0].self_time.against(before_of(each[0].node)) == "faster"]
    for found in grouped((frozenset(line_of(node) or node.op for node in each[1]), each) for each in faster).values():
        nodes = [node for _, inner in found for node in inner]
        before = sum(before_of(row.node).median for row, _ in found)
        after = sum(row.self_time.median for row, _ in found)
        moved, moves = sum(evidence.cost(node).bytes for node in nodes), sum(row.cost.bytes for row, _ in found)
        kernels = "one kernel" if len(found) == 1 else f"{len(found)} kernels"
        yield evidence.remark(
            "fuse", nodes, before - after / evidence.scale,
            f"{_describe(nodes)} move {byte_count(moved)} one by one and {byte_count(moves)} as {kernels}",
            "irs.compile(irs.fuse(g)) runs them fused", is_measured=evidence.scale == 1.0, now_ns=before,
        )  # fmt: skip


def _slower(evidence: Evidence, groups: _Groups, fusion: Fusion) -> Iterator[Remark]:
    """Yields a remark for each group that the library computes in less time, one by one."""
    for row, inner in groups:
        before, nodes = evidence.readings.group_before(row.node), [node for node in inner if node.outputs]
        if not nodes or row.self_time.against(before) != "slower" or evidence.scale < 1.0:
            continue
        names = ", ".join(f'"{fusion.original.names[node.outputs[0]]}"' for node in nodes)
        after = row.self_time.median
        yield evidence.remark(
            "slower-fused", nodes, after - before.median,
            f"the kernel of {_describe(nodes)} takes {time_words(after)}, and the library "
            f"{time_words(before.median)}", f"irs.fuse(g, opaque=[{names}]) leaves it to the library", is_measured=True, now_ns=after,
        )  # fmt: skip


def _describe(nodes: list[Node]) -> str:
    names = Counter(node.op.partition("::")[2] for node in nodes)
    if _is_softmax(nodes):
        return f"the {plural(len(nodes), 'op')} of a softmax written out"
    if "mean" in names and ("rsqrt" in names or {"var", "div"} <= names.keys()):
        return f"the {plural(len(nodes), 'op')} of a normalization written out"
    shown = ", ".join(name for name, _ in names.most_common(4))
    return f"{plural(len(nodes), 'op')} ({shown}{', …' if len(names) > 4 else ''})"


def _is_softmax(nodes: list[Node]) -> bool:
    """Check whether exponentials are divided by their own sum, which may be reshaped or inverted in between."""
    exponentials: set[Value] = set()
    sums: set[Value] = set()
    for node in nodes:
        name, operands = node.op.partition("::")[2].rstrip("_"), node.inputs[:2]
        if name == "exp":
            exponentials |= {*node.outputs}
        elif name in ("sum", "expand", "unsqueeze", "view", "reciprocal") and operands[0] in (exponentials if name == "sum" else sums):
            sums |= {*node.outputs}
        elif name in ("div", "mul") and {*operands} & exponentials and {*operands} & sums:
            return True
    return False


def _apart(evidence: Evidence, fusion: Fusion) -> Iterator[Remark]:
    """Yields remarks on nodes beside a kernel but in none, with the cost of passing their values through memory."""
    rows = evidence.readings.rows("fused")
    graph = fusion.graph
    found = []
    for row in rows:
        node = row.node
        if node.op == "prim::FusionGroup" or row.category not in ("pointwise", "reduction", "memory", "other") or node.blocks:
            continue
        makers = [graph.producer.get(value) for value in node.inputs]
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        sides = [side for side in (*makers, *users) if isinstance(side, Node) and side.op == "prim::FusionGroup"]
        if sides and row.cost.bytes:
            found.append((row.cost.bytes, row, len(sides)))
    found.sort(key=lambda entry: -entry[0])
    for moved, row, beside in found[:_MOST_QUESTIONS]:
        own, why = next((each.node for each in evidence.rows if each.node.id == row.node.id), None), ""
        with suppress(IrscopeError):
            why = fusion.why_alone(row.node).because
        if own is None or not why:
            continue
        gain = min(evidence.copy_ns(moved), evidence.ns(own))
        yield evidence.remark(
            "stays-apart", [own], gain,
            f"it is beside {plural(beside, 'kernel')} but in none, because {why}; {byte_count(moved)} pass through memory",
            "otherwise it could be part of them", certainty=0.5,
        )  # fmt: skip


# Time spent on calls and waits rather than on work: many small ops, and numbers that Python waits for.

_BY_MASK: Final = "torch.where(mask, x, y) keeps the shape, so that nothing waits"
_WITHOUT_WAITING: Final = {
    **dict.fromkeys(("where", "nonzero", "nonzero_numpy", "argwhere", "masked_select"), _BY_MASK),
    "repeat_interleave": "give output_size, if the sum of the repeats is known: then nothing waits",
    "one_hot": "give num_classes: then nothing waits",
}  # fmt: skip
_MANY: Final = 8
_CALLED: Final = 3.0
"""The factor over the roof from which on a small op's time counts as that of the call."""
_SMALL_NS: Final = 30_000.0
_SLICES: Final = frozenset({"aten::select", "aten::slice", "aten::narrow", "aten::unbind", "aten::index", "aten::__getitem__"})
_TO_HOST: Final = frozenset({"aten::to", "aten::_to_copy", "aten::cpu"})
"""Copies to the host, for which it waits where they come from a GPU."""
_WAIT_WEIGHT: Final = 0.25
"""The part of the time before a wait that is attributed to it: a GPU's host could have been that far ahead."""


def waiting_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on lines of many small calls, on waits, and on a GPU that waits for Python."""
    by_line = grouped((line_of(row.node) or evidence.graph.block_of[row.node], row) for row in evidence.rows)
    yield from _join(evidence, [remark for rows in by_line.values() if (remark := _of_one_line(evidence, rows)) is not None])
    yield from _waits(evidence)
    yield from _idle(evidence)


def _of_one_line(evidence: Evidence, rows: list[NodeRow]) -> Remark | None:
    launches = sum(row.launches for row in rows)
    took = sum(row.self_time.median for row in rows)
    work = sum(row.roof_ns for row in rows)
    nodes = [row.node for row in rows]
    if evidence.readings.device == "cuda":  # its times are those of the work alone
        return None
    if launches < _MANY or took / launches > _SMALL_NS or took < _CALLED * work or not took:  # events of a GPU can be no time apart
        return None
    sliced = any(node.op in _SLICES for node in nodes) or any(node.op in ("aten::stack", "aten::cat") for node in nodes)
    turns = max(row.calls for row in rows)
    ops = len({row.node.op for row in rows if row.launches})
    count = turns if turns >= _MANY else launches // max(ops, 1)
    if (sliced or turns >= _MANY) and _leads_on(evidence, nodes, count):
        because = f"it runs {plural(launches, 'op')} one after the other, {time_words(took / launches)} each"
        advice = "each turn needs the one before: an op of the library for the whole loop, if there is one, spares the calls"
    elif sliced or turns >= _MANY:
        because = f"it runs {plural(launches, 'op')} on parts of tensors, one after the other, {time_words(took / launches)} each"
        advice = f"one op over the whole tensor instead of {count} would do"
    elif "fused" in evidence.readings.ways:  # what fusing saves was measured
        return None
    else:
        because = f"it runs {plural(launches, 'small op')}, {time_words(took / launches)} each"
        advice = "fused, those that follow each other are one kernel"
    because += f": {1 - work / took:.0%} of that are calls, not work"
    return evidence.remark("many-small-ops", nodes, took - work - ops * evidence.call_ns, because, advice)


def _leads_on(evidence: Evidence, nodes: list[Node], count: int) -> bool:
    """Checks whether a loop's iteration computes an operand of the next one."""
    loops = {evidence.graph.owner.get(evidence.graph.block_of[node]) for node in nodes}
    if any(loop is not None and loop.op == "prim::Loop" and len(loop.inputs) > 2 for loop in loops):
        return True
    depth: dict[Node, int] = {}
    for node in nodes:  # in program order
        depth[node] = max([depth[maker] for maker in evidence.makers(node) if maker in depth], default=0) + 1
    return max(depth.values()) >= max(count, _MANY)


def _join(evidence: Evidence, remarks: list[Remark]) -> Iterator[Remark]:
    """Joins adjacent lines of small calls, which are one loop."""
    loops: list[list[Remark]] = []
    for remark in sorted(remarks, key=lambda r: (r.line.file, r.line.line) if r.line is not None else ("", 0)):
        last = loops[-1][-1].line if loops else None
        if last is not None and remark.line is not None and remark.line.file == last.file and remark.line.line - last.line <= 2:
            loops[-1].append(remark)
        else:
            loops.append([remark])
    for lines in loops:
        main = max(lines, key=lambda remark: remark.now_ns)
        if len(lines) == 1:
            yield main
            continue
        where = f" (line {main.line.line})" if main.line is not None else ""
        because = f"{len(lines)} lines; the slowest of them{where} {main.because.removeprefix('it ')}"
        nodes, gain = [node for remark in lines for node in remark.nodes], sum(remark.gain_ns for remark in lines)
        yield evidence.remark("many-small-ops", nodes, gain, because, main.advice, first=main.node)


def _waits(evidence: Evidence) -> Iterator[Remark]:
    passed = CHECKED_ON_HOST | INDEXED | (_TO_HOST if evidence.readings.device == "cpu" else set())
    asked = (row.node for row in evidence.rows if row.node.op not in passed and any(row.cost.operands))
    for nodes in grouped((line_of(node) or node, node) for node in asked if reads_on_host(evidence.graph, node)).values():
        first = nodes[0]
        before = [node for node in reached([first], evidence.makers) if node in evidence.row_of and node is not first]
        waited = evidence.sum_ns(before)
        readers = sum(1 for _ in evidence.users(first))
        name = first.op.partition("::")[2]
        turns = sum(evidence.cost(node).calls for node in nodes)
        times = f" {turns} times" if turns > 1 else ""
        because = (
            f"{name} waits{times} for a number: {plural(len(before), 'op')} ({time_words(waited)}) must be done before "
            f"{plural(readers, 'op')} can start, and none of them can be launched ahead or fused with them"
        )
        idle = min(sum(evidence.row_of[node].idle_ns for node in nodes), evidence.idle_ns("op by op"))
        advice = _WITHOUT_WAITING.get(name, "what it waits for is in the elements: do it once, or before the ops that it now waits for")
        gain = max(idle, _WAIT_WEIGHT * waited)
        if first.op in GIVES_TO_HOST:  # which itself is not needed then
            advice = "keep it a zero-dimensional tensor: ops accept one like a number"
            gain += evidence.sum_ns(nodes)
        if not gain:
            continue
        yield evidence.remark(
            "waits-for-a-number", [*nodes], gain, because, advice,
            now_ns=max(evidence.sum_ns(nodes) + idle, gain), first=first,
        )  # fmt: skip


def _idle(evidence: Evidence) -> Iterator[Remark]:
    """Yields a remark on a GPU that is idle while it waits for Python."""
    label = evidence.readings.main
    rows = evidence.readings.rows(label)
    idle, launches = evidence.idle_ns(label), sum(row.launches for row in rows)
    if not idle or not launches:
        return
    hosts = sum(row.host_ns for row in rows)
    nodes = [row.node for row in evidence.rows if row.launches] or [row.node for row in evidence.rows]
    yield evidence.remark(
        "waits-for-python", nodes, idle,
        f"the GPU waits for Python: {time_words(hosts / launches)} a launch, {plural(launches, 'launch', 'launches')}",
        "irs.compile replays them with one call when it is called again, or x.remarks say why not", now_ns=idle, certainty=0.8,
    )  # fmt: skip


# The distance of each slow op from its memory and arithmetic limits: the rule for ops that no other rule covers.

_LEAST_SHARE: Final = 0.05
_AT_THE_ROOF: Final = 0.7
_CERTAINTY: Final = {
    "matmul": 0.05, "convolution": 0.05, "pointwise": 0.5, "reduction": 0.5, "normalization": 0.4, "view": 0.6, "memory": 0.6,
}  # fmt: skip
"""The chance to improve an op that is far from its roof: low for a library's matrix product."""
_OF_A_FUNCTION: Final = 0.2
"""The factor for pointwise functions: the peak is of multiplications and additions in parallel, while `tanh` and `exp` are
steps that depend on each other, and no layout helps."""


def roof_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on the distance of each slow op from its roof; none where irscope's interpreter is what takes the time."""
    if evidence.scale < 1.0:
        return
    for row in sorted(evidence.rows, key=lambda each: -each.self_time.median)[:20]:
        if row.share >= _LEAST_SHARE and row.launches:
            yield _remark(evidence, row)


def _remark(evidence: Evidence, row: NodeRow) -> Remark:
    took, roof = row.self_time.median, row.roof_ns
    name = row.node.op.partition("::")[2]
    part = roof / took if took else 0.0
    bound = "arithmetic" if row.flops_ns > row.copy_ns else "memory"
    if part >= _AT_THE_ROOF:
        what = "of the arithmetic peak" if bound == "arithmetic" else "of a copy's speed"
        because = f"{name} runs at {min(part, 1.0):.0%} {what}: nothing to gain except by computing less"
        return evidence.remark("at-the-roof", [row.node], 0.0, because, "", certainty=0.0)
    each = took / max(row.calls, 1)
    if each < 4 * evidence.call_ns:
        because = f"{name} is so small that the call takes most of its {time_words(each)}"
        return evidence.remark("small", [row.node], took - roof, because, "do more in one op", certainty=0.1)
    known = "" if row.cost.is_counted else ", though its arithmetic is unknown"
    least = f"moving {byte_count(row.cost.bytes)} takes {time_words(row.copy_ns)}" if row.copy_ns else "it moves almost nothing"
    if bound == "arithmetic":
        least = f"its {row.cost.flops / 1e6:.3g} MFLOP take {time_words(row.flops_ns)} at the machine's peak"
    certainty = _CERTAINTY.get(row.category, 0.35) * (1.0 if row.cost.is_counted else 0.7)
    if bound == "arithmetic" and row.category == "pointwise":
        certainty *= _OF_A_FUNCTION
    return evidence.remark(
        "below-the-roof", [row.node], took - max(roof, evidence.call_ns) / _AT_THE_ROOF,
        f"{name} runs at {part:.0%} of what {bound} allows: {least}{known}",
        "another layout or another op may be faster", certainty=certainty,
    )  # fmt: skip
