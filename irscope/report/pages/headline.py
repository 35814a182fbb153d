"""The head line: how big a program is, what fuses, what repeats, what it costs. Each number selects what it counts.

The most important come first: a page shows five of those that are not zero, a terminal all.

What is slow for a large program is computed for one group of each equivalence class: groups that differ only in names run the
same kernels and move the same bytes.
"""

from collections import Counter
from collections.abc import Iterable

from irscope._base.words import byte_count, plural, time_words
from irscope.analysis.per_graph import views_of
from irscope.ir import GROUPS, Graph, Node, TensorType
from irscope.ops.traits import MAY_COPY, PATCHES
from irscope.ops.view_steps import Num, byte_words, is_unknown
from irscope.report.box_tree import writes_memory
from irscope.report.pages.details import Inspection
from irscope.report.pages.exploration import Exploration
from irscope.report.view_models import Count, TimelineView
from irscope.report.words import duration
from irscope.transforms.base import History


def headline(exploration: Exploration, inspection: Inspection) -> list[Count]:
    fusion = exploration.fusion
    groups = [node.id for node in fusion.groups]
    counts = quick_headline(exploration)
    if groups:
        largest = exploration.dedup.classes[0]
        members = [member.id for member in largest.members if isinstance(member, Node)]
        hint = f"groups that are the same by relation {exploration.dedup.relation!r}; the largest has {plural(len(members), 'member')}"
        counts.append(_count(len(exploration.dedup), "equivalence class", members, hint, "equivalence classes"))
    before: Num = 0
    after: Num = 0
    for group in fusion.groups:  # each: of two that are alike, one may have the same operand twice
        alone, fused = fusion.traffic(group)
        before, after = before + alone, after + fused
    if after != 0 and not (is_unknown(before) and is_unknown(after)):
        unsure = _maybe_copies(fusion.rules.graph)
        hint = "memory traffic of the fused ops, one by one and as groups"
        hint += f"; {plural(unsure, 'op')} that may be a view or a copy, as strides decide, counted as views" if unsure else ""
        hint += _copies_of_writes(fusion.original, fusion.rules.graph)
        counts.append(Count(label="moved by the groups", value=f"{byte_words(before)} → {byte_words(after)}", selects=groups, hint=hint))
    writes = [node.id for node in exploration.graph.nodes() if writes_memory(exploration.graph, node)]
    counts.append(_count(len(writes), "in-place write", writes, "nodes that write memory which others may see"))
    missed = [remark.subject.id for remark in fusion.remarks if remark.kind == "missed"]
    counts.append(_count(len(missed), "missed fusion", missed, "opportunities that were declined, each with its reason"))
    shared = inspection.kernels.shared_by
    if shared:
        if exploration.decided is None:
            counts.append(_count(len(shared), "kernel", groups, "different kernels to compile: sizes are given at run time"))
        else:
            hint = "the kernels that irscope would compile for these groups; groups that differ in sizes alone share one"
            counts.append(_count(len(shared), "kernel of irscope", groups, hint, "kernels of irscope"))
    if exploration.graph.storages:
        counts.append(_storages(exploration.graph))
    if exploration.comparison is not None:
        best = min(exploration.comparison.rows, key=lambda row: row.median)
        counts.append(Count(label=best.label, value=duration(best.median), selects=[], hint="the fastest median run"))
    return counts


def quick_headline(exploration: Exploration) -> list[Count]:
    """The numbers that are available at once; the others need a look at every group."""
    fusion, profile = exploration.fusion, exploration.profile
    counts = [
        Count(**_count(len(fusion.original.position), "node", [], "nodes of the program as it was loaded"), whole=True),
        *_formed(exploration),
    ]
    made = frozenset(fusion.groups)
    given = [node.id for node in fusion.graph.nodes() if node.op in GROUPS and node not in made]
    if given:
        counts.append(_count(len(given), "given group", given, "the program had them already, and they stay as they are"))
    if profile is not None:
        times = " → ".join(time_words(profile.total(label).median) for label in profile.ways)
        hint = f"median time of a call {' and '.join(profile.ways)}; selects the slowest node"
        counts.append(Count(label="a call", value=times, selects=list(filter(None, [exploration.hottest])), hint=hint))
    return counts


def _formed(exploration: Exploration) -> list[Count]:
    """The groups; of another compiler's program its kernels and calls of libraries, as its own table counts them."""
    program, groups = exploration.decided, exploration.fusion.groups
    if program is None:
        return [_count(len(groups), "fusion group", [node.id for node in groups], "each runs as one kernel")]
    calls = [node.id for call in program.library_calls for node in ([call.group] if call.group is not None else call.nodes)]
    made, called = len(program.kernels) - len(program.library_calls), len(program.library_calls)
    inside = [kernel.group.id for kernel in program.kernels if not kernel.is_library and kernel.group is not None]
    return [
        _count(made, f"kernel of {program.compiler}", inside, "what it generated, as its table counts", f"kernels of {program.compiler}"),
        _count(called, "library call", calls, f"calls that {program.compiler} leaves to a library"),
    ]


def history_headline(history: History, timeline: TimelineView | None) -> list[Count]:
    """The numbers of a history: its steps, and what they made and saved."""
    before, after = len(history.initial.position), len(history.final.position)
    passes = timeline["passes"] if timeline is not None else []
    steps = timeline["steps"] if timeline is not None else []
    groups = [group["id"] for group in timeline["groups"]] if timeline is not None else []
    saved = sum(step["saved"] for step in steps)
    nodes = f"{before:,}" if before == after else f"{before:,} → {after:,}"
    counts = [
        Count(label="node" if nodes == "1" else "nodes", value=nodes, selects=[], hint="as loaded, and after the passes", whole=True),
        _count(len(steps), "step", [], "what the passes did, one by one"),
        *(
            Count(label=f"by {stretch['name']}", value=f"{stretch['steps']:,}", selects=[], hint="steps of the pass")
            for stretch in passes
            if stretch["steps"]
        ),
    ]
    if groups:
        counts.append(_count(len(groups), "fusion group", groups, "groups that the steps made"))
    if saved:
        hint = f"memory traffic that the steps avoid{_copies_of_writes(history.initial, history.final)}"
        counts.append(Count(label="saved", value=byte_count(saved), selects=[], hint=hint))
    return counts


def _copies_of_writes(before: Graph, after: Graph) -> str:
    """What is said of writes of a part that passes made copies of the whole, which move more by themselves; empty if there are none."""
    made = {node.id for node in after.nodes() if node.op in PATCHES}.difference(node.id for node in before.nodes())
    count = (
        "counts as a copy of the whole, as the passes made it"
        if len(made) == 1
        else "count as copies of the whole, as the passes made them"
    )
    return f"; {plural(len(made), 'write')} of a part {count}" if made else ""


def _maybe_copies(graph: Graph) -> int:
    """The number of ops that may be a view or a copy, as strides that the program does not declare decide."""
    may_be_both = [node for node in graph.nodes() if node.op in MAY_COPY and isinstance(node.outputs[0].type, TensorType)]
    return sum(views_of(graph).decided_root(node.outputs[0]) is None for node in may_be_both)


def _storages(graph: Graph) -> Count:
    """What is assumed about the memory of parameters."""
    members = Counter(graph.storages.values())
    tied = [value for value, number in graph.storages.items() if members[number] > 1]
    names = ", ".join(f"%{graph.names[value]}" for value in tied[:4]) + (", …" if len(tied) > 4 else "")
    hint = (
        f"{plural(len(graph.storages), 'parameter')} and buffers lie in them{f' ({names} are tied)' if tied else ''}; that no "
        "argument does is assumed, and checked at each call where it matters"
    )
    return _count(len(members), "parameter storage", [value.id for value in tied], hint)


def _count(number: int, noun: str, selects: Iterable[int], hint: str, many: str = "") -> Count:
    return Count(label=noun if number == 1 else many or f"{noun}s", value=f"{number:,}", selects=list(selects), hint=hint)
