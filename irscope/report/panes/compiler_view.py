"""What another compiler decided, beside the program: its kernels as a table, their texts, its programs and graph breaks."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final

from irscope._base.words import listed
from irscope.codegen.kernel import NO_NODE
from irscope.compilers.record import Decisions, Kernel, Program
from irscope.ir import Node
from irscope.ops.view_steps import byte_words, is_unknown
from irscope.report.view_models import BreakView, Column, DecidedView, KernelDetail, TableView
from irscope.transforms.fusion import Fusion, GivenFusion, differences

_COLUMNS: Final = ("kernel", "what", "ops", "bytes", "computed again", "ms", "certainty")
_MOST_DIFFERENCES = 500
_SURE = {"exact": "", "matched": "matched by name or position", "guessed": "guessed"}


def table_view(
    columns: Iterable[str], rows: list[list[str | float | None]], selects: list[list[int]], numbers: Container[str] = ()
) -> TableView:
    """A table of texts, and of `numbers` in these columns; a click on a row selects the ids of `selects` in its place."""
    kinds = [Column(key=name, label=name, kind="number" if name in numbers else "text") for name in columns]
    return TableView(columns=kinds, rows=rows, selects=selects)


def decided_view(decisions: Decisions, shown: int) -> DecidedView:
    """The decisions of which the program of that number is shown."""
    program = decisions.programs[shown]
    why = program.recompiled_because
    again = [f"compiled again: {why}"] if why and not any(why in note for note in decisions.notes) else []
    breaks = []
    for each in decisions.breaks:
        file, line, function = each.frames[-1] if each.frames else ("", 0, "")
        explanation = " ".join((each.explanation, *each.hints)).strip()
        breaks.append(BreakView(reason=each.reason, explanation=explanation, file=file, line=line, function=function))
    return DecidedView(
        compiler=f"{decisions.compiler} {decisions.version}".strip(),
        programs=[f"{each.name}: {each.counts}" for each in decisions.programs], shown=shown,
        breaks=breaks, notes=[*decisions.notes, *program.notes, *again],
        guards=list(program.guards), kernels=kernel_table(program), vanished=_vanished_table(program),
        buffers={name: nodes[-1].id for name, nodes in program.buffers.items()},
        unrun={node.id: each.because for each in program.changes if each.kind == "vanished" for node in each.at if not node.blocks},
    )  # fmt: skip


def kernel_table(program: Program) -> TableView:
    """One row per kernel, in the order in which they run; a row selects its group, or its nodes."""
    rows: list[list[str | float | None]] = []
    selects = []
    has_names = any(kernel.writes for kernel in program.kernels)
    for kernel in program.kernels:
        ops = kernel.ops
        moved = byte_words(kernel.bytes) if kernel.bytes is not None and not is_unknown(kernel.bytes) else "?"
        if not kernel.nodes:
            ops = f"a part of {ops}" if ops else "no op of the program"
        what, sure = "library call" if kernel.is_library else "kernel", ": ".join(filter(None, (_SURE[kernel.certainty], kernel.because)))
        rows.append([kernel.name, what, ops, moved, _again(kernel), kernel.ms, sure])
        if has_names:
            rows[-1].append(listed(kernel.writes))
        selects.append([kernel.group.id] if kernel.group is not None else [node.id for node in kernel.nodes or kernel.part_of])
    return table_view((*_COLUMNS, "writes") if has_names else _COLUMNS, rows, selects, numbers=("ms",))


def _vanished_table(program: Program) -> TableView:
    """One row per op that the compiler took out, or computes in no kernel; a row selects it, or what it became."""
    gone = [change for change in program.changes if change.kind == "vanished"]
    table = program.vanished()
    rows: list[list[str | float | None]] = [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    selects = [[node.id for node in change.at or change.nodes] for change in gone]
    return table_view(map(str, table), rows[:_MOST_DIFFERENCES], selects[:_MOST_DIFFERENCES])


def differences_table(theirs: GivenFusion, ours: Fusion) -> TableView:
    """One row per pair of ops that one side computes in one kernel and the other does not, the most bytes first."""
    names, rows, selects = theirs.original.names, list[list[str | float | None]](), []
    for each in differences(theirs, ours)[:_MOST_DIFFERENCES]:
        ops = " → ".join(f"{node.op.partition('::')[2]} %{names[node.outputs[0]]}" for node in (each.producer, each.consumer))
        moved = byte_words(each.bytes) if not is_unknown(each.bytes) else "?"
        told = each.reason.because  # `inductor says: …` names the side by itself
        rows.append([ops, each.together_in, moved, told if told.startswith(f"{each.apart_in} ") else f"{each.apart_in}: {told}"])
        selects.append([each.producer.id, each.consumer.id])
    return table_view(("ops", "one kernel in", "bytes between them", "why apart in the other"), rows, selects)


def _again(kernel: Kernel) -> str:
    """The ops that another kernel computes too, with the bytes that are not read instead."""
    if not kernel.recomputed:
        return ""
    sizes = [each.bytes for each in kernel.recomputed if not is_unknown(each.bytes)]
    unread = f", {byte_words(sum(sizes))} not read" if sizes else ""
    return f"{listed([each.node.op.partition('::')[2] for each in kernel.recomputed])}{unread}"


def compiler_kernels(program: Program) -> Mapping[Node, KernelDetail]:
    """The text of each kernel that has one, as that compiler generated it, by its group."""
    with_text = [
        (kernel, kernel.group, kernel.source) for kernel in program.kernels if kernel.source is not None and kernel.group is not None
    ]
    users = Counter(kernel.function or kernel.name for kernel, _, _ in with_text)
    found: dict[Node, KernelDetail] = {}
    for kernel, group, source in with_text:
        members = list(group.blocks[0].nodes) if group.blocks else []
        told = [f"{program.compiler}'s own text"]
        if kernel.function and kernel.function != kernel.name:
            told.append(f"in the function {kernel.function}")
        if again := _again(kernel):
            told.append(f"computes again {again}")
        found[group] = KernelDetail(
            name=kernel.name, language=source.language, source=source.text,
            line_nodes=[0 if line == NO_NODE or line >= len(members) else members[line].id for line in source.line_nodes],
            shared_by=users[kernel.function or kernel.name], launched="; ".join(told),
        )  # fmt: skip
    return found
