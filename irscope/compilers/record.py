"""The records of what another compiler decided: its programs, their kernels, its reasons, and how sure each link is.

A reader makes `Kernel`s of the nodes of one graph, the program as that compiler saw it, and hands both to `program_of`, which forms the
groups, counts bytes, and marks what several kernels compute. `Decisions` holds the programs of one compilation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.loaded_code import cell_name
from irscope._base.results import Drawn, Verdict, no
from irscope._base.words import listed, plural
from irscope.errors import ArgumentError, PassError, UnknownName, new_table
from irscope.ir import Graph, Location, Node, TensorType, Value, nodes_called
from irscope.ops.view_steps import Num, byte_words, is_unknown, tensor_bytes
from irscope.transforms.fusion import Cost, GivenFusion, GivenGroup, Reason, differences, fuse, given_fusion, memory_of, nearest_pair

if TYPE_CHECKING:
    import pandas as pd

    from irscope.analysis.memory_plan import OwnMemory
    from irscope.codegen.kernel import SourceText

Certainty = Literal["exact", "matched", "guessed"]
"""How a link was found: the compiler says so; names or positions on both sides agree; by size, order or kind alone."""


NOT_SEEN: Final = "not seen in its program"
"""What is said of an op that vanished where the compiler does not say into what."""

_COLUMNS: Final = ("kernel", "library", "kind", "nodes", "ops", "bytes", "recomputed", "source", "ms", "certainty")


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
    """The nodes of which it computes a part: a partial sum, an operand or a result in another layout."""
    stores: frozenset[Node] | None = field(default=None, repr=False)
    """The nodes whose results it writes to memory; None if the compiler does not say."""
    writes: tuple[str, ...] = field(default=(), kw_only=True)
    """What that compiler calls the memory that it writes, if it says so: Inductor's `buf0`."""
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
        """The first of its ops, and of those that it computes a part of, in words."""
        shown = (node for node in self.nodes or self.part_of if node.blocks or not node.op.startswith("prim::"))
        begun = [node for node in self.part_of if self.nodes and node not in self.nodes]
        return listed([node.op.partition("::")[2] for node in shown] + [f"a part of {node.op.partition('::')[2]}" for node in begun])

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
    at: tuple[Node, ...] = ()
    """Of one that vanished and is still in the graph: its nodes, which no kernel computes."""
    called: frozenset[str] = frozenset()
    """What the user called it, or that it was made of, where the compiler says so: an `exp` was part of a `softmax`."""

    def is_called(self, subject: str) -> bool:
        """Whether a name means it: of its result, its op, what the user called that, or the line that it came from."""
        line = f"{PurePath(self.location.file).name}:{self.location.line}" if self.location is not None else ""
        words = re.split("::|[.]", subject.strip().removeprefix("%"))[-1]
        return subject == line or (bool(words) and words in (self.name, *re.split("::|[.]", self.op), *self.called))


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
        where = f" at {cell_name(self.frames[-1][0])}:{self.frames[-1][1]}" if self.frames else ""
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
    called: Mapping[str, tuple[Node, ...]] = EMPTY
    """The nodes that an op of the user's program became, by what that calls it: `gelu` is a product, an erf, …"""
    buffers: Mapping[str, tuple[Node, ...]] = EMPTY
    """The nodes whose results that compiler keeps under names of its own: Inductor's `buf0`."""
    gradient_of: Mapping[Node, tuple[Node, ...]] = field(default_factory=FrozenDict)
    """Of a backward program: for a node, those of the forward program of whose gradient it is a part, if that compiler says so."""
    figures: Mapping[str, float] = EMPTY
    """What the compiler says of the whole program: `temp bytes`, `flops`, in its own words; empty if it says nothing."""
    memory: OwnMemory | None = None
    """What it allocates as that compiler compiled it, if that can be read."""
    notes: tuple[str, ...] = ()
    """What the reader could not tell, a sentence each."""
    run: Callable[..., Any] | None = field(default=None, repr=False)
    """Calls the compiled program with the arguments of `graph`, if it is there."""
    given_back: tuple[int | None, ...] | None = None
    """Which result of `graph` each leaf of what the user's call returns is, None for what is none; None if they are the same."""

    def why_not(self, a: Node | Value | Kernel | str, b: Node | Value | Kernel | str) -> Verdict:
        """Whether two ops are in one kernel; if not, that compiler's reason, or else what irscope's rules say. Says whose answer it is.

        Each is a value or node, the name of a result (`"%relu_1"`), an op (`"gelu"`, `"aten::gelu"`), a kernel or its name, a buffer of
        Inductor (`"buf0"`), a module (`"norm1"`), or a line of the source (`"model.py:12"`). Of several ops that a name means, those that
        are in one kernel, or two of which one reads the other, or the nearest, are told of. Raises UnknownName, ArgumentError for a number.
        """
        asked = []
        for subject in (a, b):
            meant, gone = self._meant(subject)
            if gone is not None:
                name, because = str(subject).strip().removeprefix("%"), gone.because or NOT_SEEN
                whole = f", a part of {name}" if name in gone.called and name not in gone.op else ""
                return no(f"{self.compiler} has no kernel for {gone.op} %{gone.name}{whole} ({because})").in_words("", "not fused")
            asked.append(meant)
        one, other = asked
        if len(one) == len(other) == 1:
            found = self._in_its_words(self.fusion.why_not(one[0], other[0]), one[0], other[0])
            held = {str(each): self._words(self.buffers[each][-1]) for each in (a, b) if isinstance(each, str) and each in self.buffers}
            told = f" ({listed([f'{name} belongs to {words}' for name, words in held.items()])})" if held else ""
            return replace(found, because=found.because + told)
        pair, apart = nearest_pair(self.fusion, one, other)
        found = self._in_its_words(self.fusion.why_not(*pair), *pair)
        names = [self._words(each) if isinstance(each, Node) else f"%{self.graph.names[each]}" for each in pair]
        others = listed([" and ".join(map(self._words, each)) for each in apart], most=3) if found else ""
        return replace(found, because=f"{found.because} (asked of {listed(names)}{f'; apart: {others}' if others else ''})")

    def _in_its_words(self, found: Verdict, a: Any, b: Any) -> Verdict:
        """The verdict, which names the kernel that has both."""
        ends = {self.graph.producer.get(each, each) for each in (a, b)}
        begun = next((kernel for kernel in self.kernels if not found and ends <= {*kernel.nodes, *kernel.part_of}), None)
        if begun is not None:
            parts = [f"a part of {self._words(node)}" if node in begun.part_of else self._words(node) for node in (a, b)]
            return replace(found, because=f"{self.compiler} computes {' and '.join(parts)} in {begun.name}, and the rest apart")
        has = [kernel.name for kernel in self.kernels if found and (ends <= {*kernel.nodes} or ends == {kernel.group})]
        if not has:
            return found
        return replace(found, because=f"both are {has[0]}" if a is b else f"{self.compiler} computes both in {has[0]}")

    def _meant(self, subject: Any) -> tuple[tuple[Any, ...], Change | None]:
        """What a subject of `why_not` means, or what the compiler took out, if it means that."""
        gone = [change for change in self.changes if change.kind == "vanished"]
        try:
            found = self.named(subject)
        except UnknownName:
            named = next((each for each in gone if isinstance(subject, str) and each.is_called(subject)), None)
            if named is None:
                raise
            return (), named
        makers = {self.graph.producer.get(each, each) for each in found}
        return found, next((each for each in gone if each.at and makers <= {*each.at}), None)

    def named(self, subject: Any) -> tuple[Any, ...]:
        """What a subject of `why_not` means: itself, or the ops, in program order. Raises UnknownName and ArgumentError."""
        if isinstance(subject, Kernel):
            subject = subject.group or (subject.nodes or subject.part_of or (subject,))[0]
            if isinstance(subject, Kernel):
                raise ArgumentError(f"{subject.name} computes no op of the program", hint="ask about an op, or another kernel")
        if isinstance(subject, int) or (str(subject).isdecimal() and subject not in self.graph.names.values()):
            hint = f'a line is "model.py:{subject}", a kernel d.kernels[{subject}]'
            raise ArgumentError(f"the number {subject} names no op", hint=hint)
        if not isinstance(subject, str):
            return (subject if isinstance(subject, Node | Value) else self.graph.node(subject),)
        name = subject.strip()
        value = {shown: value for value, shown in self.graph.names.items()}.get(name.removeprefix("%"))
        if value is not None and (name[:1] == "%" or value not in self.graph.producer or not nodes_called(self.graph, f"aten::{name}")):
            return (value,)
        if not name.strip("%"):
            raise self._unknown(name)
        if "#" in name:
            return (self.graph.node(name),)
        short = re.split("::|[.]", name)[-1]
        inside = {node for each in self.kernels if name in (each.name, each.function) for node in each.nodes or each.part_of}
        found = tuple(inside) or self.buffers.get(name) or self.called.get(name)
        found = found or nodes_called(self.graph, name) or self.called.get(short, ())
        found = found or tuple(node for node in nodes_called(self.graph, short) if node.op.endswith(f"::{short}"))
        if not found:
            raise self._unknown(name)
        computed = {node for each in self.kernels for node in each.nodes or each.part_of}
        best = [node for node in found if node in computed] or found
        return tuple(sorted([node for node in best if not self.fusion.rules.is_view(node)] or best, key=self.graph.position.__getitem__))

    def _unknown(self, name: str) -> UnknownName:
        known = {kernel.name for kernel in self.kernels} | {node.op.partition("::")[2] for node in self.graph.position}
        known |= {*self.called, *self.buffers}
        known |= {f"{PurePath(at.file).name}:{at.line}" for node in self.graph.position if (at := node.location) is not None}
        known |= {shown for shown in self.graph.names.values() if not shown.isdecimal()} | {node.scope for node in self.graph.position}
        known -= {"", "Constant"}
        near = get_close_matches(name, sorted(known), n=4, cutoff=0.5)
        hint = f"did you mean {listed(near)}? " if near else ""
        hint += 'give a result ("%relu_1"), an op ("gelu"), a kernel, a module, or a line ("model.py:12"); print(d.graph) shows them'
        return UnknownName(f"{self.compiler} compiled nothing called {name!r} in {self.name!r}", hint=hint)

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
        return new_table(rows, columns=_COLUMNS)

    def vanished(self) -> pd.DataFrame:
        """One row per op of the user's program that the compiler took out before it formed kernels, or computes in none: what it became, as
        far as the compiler's own programs say, and why."""
        rows = [
            (each.op, each.name, listed(list(each.nodes), self._words), each.because or NOT_SEEN, each.certainty, str(each.location or ""))
            for each in self.changes if each.kind == "vanished"
        ]  # fmt: skip
        return new_table(rows, columns=["op", "name", "became", "because", "certainty", "line"])

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

    @property
    def counts(self) -> str:
        """How many kernels and library calls it has, in words."""
        return _counted(self.kernels)

    def __repr__(self) -> str:
        return f"<Program {self.name!r} by {self.compiler}: {plural(len(self.graph.position), 'node')} in {self.counts}>"


@dataclass(frozen=True, eq=False)
class Decisions(Drawn):
    """What a compiler decided about a program: the result of `irs.decisions`.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Float(9)):\\n  %a : Float(9) = aten::relu(%x)\\n  %b : Float(9) = aten::tanh(%a)\\n  return (%b)")
    >>> d = Decisions("other", (program_of(g, [Kernel("k0", tuple(g.nodes()))], compiler="other"),))
    >>> d, d.kernels
    (<Decisions of other: 1 kernel, 0 library calls>, (<kernel k0: relu, tanh, 72 B>,))
    >>> print(d.why_not("relu", "tanh"))
    fused: other computes both in k0
    >>> d.table()[["kernel", "ops", "bytes"]].to_dict("records")
    [{'kernel': 'k0', 'ops': 'relu, tanh', 'bytes': 72}]
    >>> len(d.differences()), len(d.vanished())
    (0, 0)
    """

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
    flattened: Callable[..., tuple[Any, ...]] | None = field(default=None, repr=False)
    """Returns what the only program is given of the arguments of a call, if these are others: the leaves that it reads. Then `eager` takes
    these, too."""

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
        """Whether two ops are in one kernel, and if not, why: see `Program.why_not`. Of several programs the one that has both is asked."""
        if len(self.programs) < 2:
            return self.program.why_not(a, b)
        have = [[each for each in self.programs if _has(each, subject)] for subject in (a, b)]
        both = [each for each in have[0] if each in have[1]]
        if len(both) > 1 or not all(have):
            names = listed([f"d.programs[{self.programs.index(each)}] is {each.name!r}" for each in both or self.programs])
            lost = [subject for subject, found in zip((a, b), have, strict=True) if not found]
            what = f"no program has {lost[0] or repr(lost[0])}" if lost else f"several programs have ops of these names: {a}, {b}"
            raise UnknownName(what, hint=f"ask one of them: {names}")
        if both:
            return both[0].why_not(a, b)
        cut = f"; {self.compiler} stopped between them: {listed([str(each) for each in self.breaks])}" if self.breaks else ""
        return no(f"{self.compiler} compiled them apart, in {have[0][0].name!r} and in {have[1][0].name!r}{cut}").in_words("", "not fused")

    def differences(self, policy: str = "greedy") -> pd.DataFrame:
        """Where that compiler and irscope decided differently about the only program: see `Program.differences`."""
        return self.program.differences(policy)

    def vanished(self) -> pd.DataFrame:
        """The ops of the only program that the compiler took out, or computes in no kernel: see `Program.vanished`."""
        return self.program.vanished()

    @property
    def largest(self) -> int:
        """The number of the program with the most nodes. Raises ArgumentError if there is none."""
        if not self.programs:
            raise ArgumentError(f"{self.compiler} compiled nothing that could be shown", hint="d.breaks and d.notes say why")
        return max(range(len(self.programs)), key=lambda index: len(self.programs[index].graph.position))

    def own_call(self, *args: Any) -> Callable[[], Any] | None:
        """A call of what was compiled, with these arguments; None if it is not there, or has several parts. Raises ArgumentError where it
        does not take them."""
        if self.call is None or len(self.programs) != 1:
            return None
        try:
            self._finished(
                self.call, *(arg.detach().clone() if hasattr(arg, "detach") else copy(arg) for arg in args)
            )  # it may write to them
        except Exception as error:
            raise ArgumentError(f"{self.compiler} does not take these arguments: {type(error).__name__}: {error}") from None
        return partial(self._finished, self.call, *args)

    def _finished(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls what was compiled as it was observed, without gradients, for which it would be another program. XLA takes arrays only, and
        its results are waited for."""
        torch = sys.modules.get("torch")
        if self.compiler == "xla":
            args = tuple([np.asarray(arg.detach()) if hasattr(arg, "detach") else arg for arg in args])
        with torch.no_grad() if torch is not None else nullcontext():
            made = call(*args)
        return sys.modules["jax"].block_until_ready(made) if self.compiler == "xla" else made

    def rivals(self) -> dict[str, Callable[..., Any]]:
        """What the only program is measured beside: itself as that compiler made it, and its groups with irscope's kernels."""
        from irscope.runtime.program import compile_graph

        call = self.call if self.flattened is None else self.program.run
        own = {} if call is None else {self.compiler: partial(self._finished, call)}
        return {**own, f"{self.compiler}'s groups": compile_graph(self.fusion)}

    def table(self) -> pd.DataFrame:
        """One row per kernel of all programs, in the order in which they run."""
        tables = [program.table().assign(program=index) for index, program in enumerate(self.programs)]
        if len(tables) == 1:
            return tables[0].drop(columns="program")
        if not tables:
            return new_table([], columns=[*_COLUMNS, "program"])
        import pandas as pd

        return pd.concat(tables, ignore_index=True)

    def __repr__(self) -> str:
        shown = f"{len(self.programs)} programs, " if len(self.programs) != 1 else ""
        counts = _counted([kernel for program in self.programs for kernel in program.kernels])
        cut = f", {plural(len(self.breaks), 'break')}" if self.breaks else ""
        return f"<Decisions of {self.compiler}: {shown}{counts}{cut}>"


def _counted(kernels: Sequence[Kernel]) -> str:
    calls = sum(kernel.is_library for kernel in kernels)
    return f"{plural(len(kernels) - calls, 'kernel')}, {plural(calls, 'library call')}"


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
    rules, memory = fusion.rules, memory_of(fusion.rules)
    filled = []
    for kernel in made:
        group = group_of.get(kernel)
        again = tuple(
            Recomputed(node, rules.operations(node) * _points(rules.space(node)), sum(map(memory.size, node.outputs)))
            for node in kernel.nodes if times[node] > 1 and not rules.is_view(node) and not node.op.startswith("prim::")
        )  # fmt: skip
        moved = kernel.bytes
        if moved is None and kernel.nodes:
            moved = sum(map(memory.alone, kernel.nodes)) if group is None else fusion.traffic(group)[1]
        filled.append(replace(kernel, group=group, recomputed=again, bytes=moved))
    calls, unknown = sum(kernel.is_library for kernel in filled), tensor_bytes(TensorType("uint8", None))
    moved = sum((unknown if kernel.bytes is None else kernel.bytes for kernel in filled), start=0)
    unrun = [node for each in facts.get("changes", ()) if each.kind == "vanished" for node in each.at if not rules.is_view(node)]
    told = {kernel.group: kernel.bytes for kernel in filled if kernel.group is not None and kernel.bytes is not None}
    cost = Cost(len(filled) - calls, calls, moved)
    fusion = replace(fusion, told_cost=cost, told_bytes=FrozenDict(told), assembled=frozenset(unrun))
    return Program(name or graph.name, compiler, graph, tuple(filled), fusion, **facts)


def likely(graph: Graph, kernels: Sequence[Kernel], *, notes: Sequence[str] = (), **facts: Any) -> Program:
    """The program of these kernels with all their nodes, or, where they cannot all be so, with the surer ones: then a note says why.

    A kernel that is shown without nodes has those as what it computes a part of.
    """
    unsure: tuple[tuple[Certainty, ...], ...] = ((), ("guessed",), ("guessed", "matched"), ("guessed", "matched", "exact"))
    said: tuple[str, ...] = ()
    for left_out in unsure:
        kept = [replace(k, nodes=(), part_of=k.nodes or k.part_of, stores=None) if k.certainty in left_out else k for k in kernels]
        try:
            return program_of(graph, kept, notes=(*notes, *said), **facts)
        except PassError as error:
            said = (f"some kernels are shown without nodes, since what seems to be in them cannot be: {error.what}",)
    raise AssertionError("kernels without nodes have no order to break")


def _points(space: Sequence[Any] | None) -> Num:
    return tensor_bytes(TensorType("uint8", None if space is None else tuple(space)))


def _has(program: Program, subject: Any) -> bool:
    if not isinstance(subject, str):
        if not isinstance(subject, Node | Value | Kernel):
            return False
        graph = program.graph
        return any(subject in held for held in (program.kernels, graph.names, graph.position, program.fusion.graph.position))
    try:
        return bool(program.named(subject))
    except UnknownName:
        return False
