"""The records of what another compiler decided: its programs, their kernels, its reasons, and how sure each link is.

A reader makes `Kernel`s of the nodes of one graph, the program as that compiler saw it, and hands both to `program_of`, which forms the
groups, counts bytes, and marks what several kernels compute. `Decisions` holds the programs of one compilation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from irscope._base.frozen import EMPTY
from irscope._base.results import Drawn, Verdict
from irscope._base.words import listed, plural
from irscope.errors import ArgumentError, UnknownName, new_table
from irscope.ir import Graph, Location, Node, TensorType, Value
from irscope.ops.view_steps import Num, byte_words, is_unknown, tensor_bytes
from irscope.transforms.fusion import Cost, GivenFusion, GivenGroup, Reason, differences, fuse, given_fusion

if TYPE_CHECKING:
    import pandas as pd

    from irscope.codegen.kernel import SourceText

Certainty = Literal["exact", "matched", "guessed"]
"""How a link was found: the compiler says so; names or positions on both sides agree; by size, order or kind alone."""


class Recomputed(NamedTuple):
    """A node that a kernel computes itself, though another kernel computes it too."""

    node: Node
    operations: Num
    """The operations that this costs, a formula where extents are unknown."""
    bytes: Num
    """The bytes of its result, which this kernel does not read."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """One thing that runs: a kernel that the compiler generated, or a call of a library."""

    name: str
    """Its name in that compiler."""
    nodes: tuple[Node, ...] = ()
    """The nodes of the program that it computes, in program order; empty for one that computes only a part of a node."""
    is_library: bool = False
    kind: str = field(default="", kw_only=True)
    """What that compiler calls its kind of kernel, if it has kinds: XLA's fusions are loop, input, output or custom."""
    source: SourceText | None = field(default=None, repr=False)
    """Its text as that compiler generated it, if it says so."""
    function: str = ""
    """The function that holds it, where that is not the kernel itself: one C++ function may hold several loop nests."""
    part_of: tuple[Node, ...] = ()
    """The nodes of which it computes a part: a partial sum, an operand in another layout."""
    stores: frozenset[Node] | None = field(default=None, repr=False)
    """The nodes whose results it writes to memory; None if the compiler does not say."""
    certainty: Certainty = "exact"
    """How sure the least sure of these links is."""
    because: str = ""
    """Why it is less than exact."""
    bytes: Num | None = None
    """The bytes that it reads and writes, a formula where extents are unknown; None if that is not known."""
    recomputed: tuple[Recomputed, ...] = ()
    """The nodes that it computes though another kernel computes them as well."""
    group: Node | None = field(default=None, repr=False)
    """The group node in `fusion.graph`; None for a library call of one node, and for a kernel without nodes."""
    ms: float | None = None
    """Milliseconds per run, if measured."""

    @property
    def ops(self) -> str:
        """The first of its ops, or of those that it computes a part of, in words."""
        shown = (node for node in self.nodes or self.part_of if node.blocks or not node.op.startswith("prim::"))
        return listed([node.op.partition("::")[2] for node in shown])

    def __repr__(self) -> str:
        what = "library call" if self.is_library else "kernel"
        moved = f", {byte_words(self.bytes)}" if self.bytes is not None and not is_unknown(self.bytes) else ""
        took = f", {self.ms:.3g} ms" if self.ms is not None else ""
        sure = f" ({self.certainty})" if self.certainty != "exact" else ""
        return f"<{what} {self.name}: {'' if self.nodes else 'a part of '}{self.ops or 'nothing of the program'}{moved}{took}{sure}>"


@dataclass(frozen=True, eq=False)
class Region:
    """Kernels and nodes that belong together, where no single kernel can be said to compute a single node."""

    kernels: tuple[Kernel, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Change:
    """An op that the compiler took out of the user's program before it formed kernels, or one that it added."""

    kind: Literal["vanished", "added"]
    op: str
    name: str
    """The name of its result, in the compiler's words."""
    nodes: tuple[Node, ...] = ()
    """Of one that was added: its node. Of one that vanished: the nodes that it became, if the compiler says so."""
    because: str = ""
    location: Location | None = None
    scope: str = ""
    certainty: Certainty = "exact"


@dataclass(frozen=True, eq=False)
class Break:
    """A place where the compiler stopped; what comes before it and after are two programs."""

    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    frames: tuple[tuple[str, int, str], ...] = ()
    """File, line and function of the user's code, the innermost last."""
    times: int = 1
    """How often it was met: each compile of a function stops there again."""

    def __str__(self) -> str:
        where = f" at {self.frames[-1][0]}:{self.frames[-1][1]}" if self.frames else ""
        return f"{self.reason}{where}"


@dataclass(frozen=True, eq=False)
class Program(Drawn):
    """One graph that was compiled, and the kernels that it became."""

    name: str
    compiler: str
    graph: Graph
    """The program as that compiler saw it when it formed kernels, one op a node, without groups."""
    kernels: tuple[Kernel, ...]
    """In the order in which they run."""
    fusion: GivenFusion
    """The program with its kernels as groups."""
    regions: tuple[Region, ...] = ()
    changes: tuple[Change, ...] = ()
    """What the compiler took out of the user's program, and what it added, before it formed kernels."""
    guards: tuple[str, ...] = ()
    """What must hold for this program to be used again, in words."""
    recompiled_because: str = ""
    """Why it was compiled although there was one already; empty for the first."""
    seconds: float | None = None
    """The time that compiling it took, if that compiler says so."""
    figures: Mapping[str, float] = EMPTY
    """What the compiler says of the whole program: `temp bytes`, `flops`, in its own words; empty if it says nothing."""
    notes: tuple[str, ...] = ()
    """What the reader could not tell, a sentence each."""
    run: Callable[..., Any] | None = field(default=None, repr=False)
    """Calls the compiled program with the arguments of `graph`, if it is there."""

    def why_not(self, a: Node | Value | Kernel | str, b: Node | Value | Kernel | str) -> Verdict:
        """Whether two ops are in one kernel; if not, that compiler's reason, or else what irscope's rules say. Says whose answer it is."""
        return self.fusion.why_not(*(_subject(each) for each in (a, b)))

    def kernel(self, name: str | int) -> Kernel:
        """The kernel of this name or number. Raises UnknownName."""
        found = self.kernels[name : name + 1] if isinstance(name, int) else [k for k in self.kernels if name in (k.name, k.function)]
        if not found:
            names = listed([kernel.name for kernel in self.kernels])
            raise UnknownName(f"{self.compiler} made no kernel {name!r} of {self.name!r}", hint=names)
        return found[0]

    def kernels_of(self, subject: Node | Value | str) -> tuple[Kernel, ...]:
        """The kernels that compute a node, or a part of it; several if it is computed again, none for a view or a constant."""
        node = self.graph.node(subject)
        return tuple(kernel for kernel in self.kernels if node in kernel.nodes or node in kernel.part_of)

    def table(self) -> pd.DataFrame:
        """One row per kernel, in the order in which they run."""
        rows = [
            {
                "kernel": kernel.name, "library": kernel.is_library, "kind": kernel.kind,
                "nodes": sum(not node.op.startswith("prim::") for node in kernel.nodes), "ops": kernel.ops,
                "bytes": kernel.bytes, "recomputed": len(kernel.recomputed),
                "source": kernel.source.language if kernel.source is not None else "", "ms": kernel.ms, "certainty": kernel.certainty,
            }
            for kernel in self.kernels
        ]  # fmt: skip
        return new_table(rows, columns=["kernel", "library", "kind", "nodes", "ops", "bytes", "recomputed", "source", "ms", "certainty"])

    def differences(self, policy: str = "greedy") -> pd.DataFrame:
        """One row per pair of ops that one of the two, this compiler and irscope, computes in one kernel and the other does not, the most
        bytes first: the ops, who has them together and who apart, the bytes of the value between them, and the reason.

        `policy` is that of `irs.fuse`.
        """
        found = differences(self.fusion, fuse(self.graph, policy=policy))
        rows = [(*map(self._words, each[:2]), *each[2:5], each.reason.because, str(each.consumer.location or "")) for each in found]
        return new_table(rows, columns=["producer", "consumer", "together in", "apart in", "bytes", "reason", "line"])

    def _words(self, node: Node) -> str:
        return f"{node.op.partition('::')[2]} %{self.graph.names[node.outputs[0]]}" if node.outputs else node.op

    @property
    def library_calls(self) -> tuple[Kernel, ...]:
        """The kernels that are calls of a library."""
        return tuple(kernel for kernel in self.kernels if kernel.is_library)

    def to_svg(self, path: Any = None) -> str:
        return self.fusion.to_svg(path)

    def __repr__(self) -> str:
        calls = len(self.library_calls)
        counts = f"{plural(len(self.kernels) - calls, 'kernel')}, {plural(calls, 'library call')}"
        return f"<Program {self.name!r} by {self.compiler}: {plural(len(self.graph.position), 'node')} in {counts}>"


@dataclass(frozen=True, eq=False)
class Decisions(Drawn):
    """What a compiler decided about a program: the result of `irs.decisions`."""

    compiler: str
    """Its name: inductor, xla, onnxruntime, iree."""
    programs: tuple[Program, ...]
    """One for each graph that was compiled: several if there were graph breaks, recompilations or gradients."""
    breaks: tuple[Break, ...] = ()
    version: str = ""
    notes: tuple[str, ...] = ()
    call: Callable[..., Any] | None = field(default=None, repr=False)
    """The compiled program itself, called as the user calls it."""
    eager: Callable[..., Any] | None = field(default=None, repr=False)
    """The program before it was compiled."""

    @property
    def program(self) -> Program:
        """The only program. Raises ArgumentError if there are several, or none."""
        if not self.programs:
            raise ArgumentError(f"{self.compiler} compiled no program here", hint="d.notes and d.breaks say why")
        if len(self.programs) != 1:
            names = listed([f"d.programs[{index}] is {each.name!r}" for index, each in enumerate(self.programs)])
            what = f"{self.compiler} compiled {plural(len(self.programs), 'program')} here, so it must be said which is meant"
            raise ArgumentError(what, hint=names)
        return self.programs[0]

    @property
    def graph(self) -> Graph:
        """The only program as that compiler saw it, without groups."""
        return self.program.graph

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the only program, in the order in which they run."""
        return self.program.kernels

    @property
    def fusion(self) -> GivenFusion:
        """The only program with that compiler's groups."""
        return self.program.fusion

    def why_not(self, a: Node | Value | Kernel | str, b: Node | Value | Kernel | str) -> Verdict:
        """Whether two ops of the only program are in one kernel, and if not, why: see `Program.why_not`."""
        return self.program.why_not(a, b)

    def differences(self, policy: str = "greedy") -> pd.DataFrame:
        """Where that compiler and irscope decided differently about the only program: see `Program.differences`."""
        return self.program.differences(policy)

    def rivals(self) -> dict[str, Callable[..., Any]]:
        """What the only program is measured beside: itself as that compiler made it, and its groups with irscope's kernels."""
        from irscope.runtime.program import compile_graph

        own = {} if self.call is None else {self.compiler: _without_gradients(self.call)}
        return {**own, f"{self.compiler}'s groups": compile_graph(self.fusion)}

    def table(self) -> pd.DataFrame:
        """One row per kernel of all programs, in the order in which they run."""
        tables = [program.table().assign(program=index) for index, program in enumerate(self.programs)]
        if len(tables) == 1:
            return tables[0].drop(columns="program")
        if not tables:
            return new_table([], columns=["kernel"])
        import pandas as pd

        return pd.concat(tables, ignore_index=True)

    def to_svg(self, path: Any = None) -> str:
        return self.fusion.to_svg(path)

    def __repr__(self) -> str:
        shown = f"{len(self.programs)} programs, " if len(self.programs) != 1 else ""
        kernels = [kernel for program in self.programs for kernel in program.kernels]
        calls = sum(kernel.is_library for kernel in kernels)
        cut = f", {plural(len(self.breaks), 'break')}" if self.breaks else ""
        return f"<Decisions of {self.compiler}: {shown}{plural(len(kernels) - calls, 'kernel')}, {plural(calls, 'library call')}{cut}>"


def _without_gradients(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call as it was observed: torch records no gradients, which would be another program."""

    def run(*args: Any) -> Any:
        torch = sys.modules.get("torch")
        with torch.no_grad() if torch is not None else nullcontext():
            return call(*args)

    return run


def program_of(
    graph: Graph, kernels: Iterable[Kernel], *, compiler: str, name: str = "", reasons: Iterable[Reason] = (),
    silence: str = "gave no reason", **facts: Any,
) -> Program:  # fmt: skip
    """The program of these kernels, whose nodes are those of the graph; groups, bytes and recomputed nodes are filled in.

    `facts` are further fields of the `Program`. Raises PassError for kernels that cannot run one after the other.
    """
    made = list(kernels)
    grouped = [kernel for kernel in made if kernel.nodes]
    given = [GivenGroup(kernel.name, kernel.nodes, kernel.is_library, kernel.stores) for kernel in grouped]
    fusion = given_fusion(graph, given, compiler=compiler, reasons=reasons, silence=silence)
    group_of = dict(zip(grouped, fusion.group_nodes, strict=True))
    times: dict[Node, int] = {}
    for node in (node for kernel in grouped for node in kernel.nodes):
        times[node] = times.get(node, 0) + 1
    rules = fusion.rules
    filled = []
    for kernel in made:
        group = group_of.get(kernel)
        again = tuple(
            Recomputed(node, rules.operations(node) * _points(rules.space(node)), sum(map(rules.size_in_bytes, node.outputs)))
            for node in kernel.nodes if times[node] > 1 and not rules.is_view(node) and not node.op.startswith("prim::")
        )  # fmt: skip
        moved = kernel.bytes
        if moved is None and kernel.nodes:
            ends = [group] if group is not None else list(kernel.nodes)
            moved = sum(rules.size_in_bytes(value) for node in ends for value in (*dict.fromkeys(node.inputs), *node.outputs))
        filled.append(replace(kernel, group=group, recomputed=again, bytes=moved))
    calls, unknown = sum(kernel.is_library for kernel in filled), tensor_bytes(TensorType("uint8", None))
    moved = sum((unknown if kernel.bytes is None else kernel.bytes for kernel in filled), start=0)
    fusion = replace(fusion, told_cost=Cost(len(filled) - calls, calls, moved))
    return Program(name or graph.name, compiler, graph, tuple(filled), fusion, **facts)


def _points(space: Sequence[Any] | None) -> Num:
    return tensor_bytes(TensorType("uint8", None if space is None else tuple(space)))


def _subject(named: Node | Value | Kernel | str) -> Node | Value | str:
    """The node that a question is about; a kernel means its group, or the op of which it is a part. Raises ArgumentError."""
    if not isinstance(named, Kernel):
        return named
    found = named.group or next(iter(named.nodes or named.part_of), None)
    if found is None:
        raise ArgumentError(f"{named.name} computes no op of the program", hint="ask about an op, or another kernel")
    return found
