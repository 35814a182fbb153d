"""Alternative fusions of one program: each is a branch of the timeline, with its cost and the Python that creates it.

The first branch is the program as given. `what_if` and edits of the text add branches. None is removed, so the list is the
history of what was tried.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from irscope._base.words import plural
from irscope.errors import ArgumentError, IrscopeError, UnknownNumber, new_table
from irscope.ir import Graph, Node, TensorType, Type, Value, flatten_arguments
from irscope.ir.text import parse
from irscope.ops.node_check import verify
from irscope.ops.type_rules import is_channels_last, static_shape
from irscope.ops.view_steps import byte_words
from irscope.report.box_tree import BoxTree
from irscope.report.pages.exploration import MOST_BESIDE, Exploration
from irscope.report.pages.side_by_side import Correspondence, side_by_side
from irscope.report.program_diff import diff
from irscope.report.view_models import BranchDiff, BranchesView, BranchView, ChangedLine, StoredBranches
from irscope.report.words import value_of
from irscope.transforms.fusion import POLICIES, Cost, Fusion, fuse

if TYPE_CHECKING:
    import pandas as pd

    from irscope.compilers.record import Decisions
    from irscope.runtime.measure import Comparison

_MOST_LINES = 400
_MOST_EDITED = 20_000  # The largest program, in nodes, whose text can be edited in the page: each pause in typing fuses it again.
_BESIDE = ("greedy", "min-bytes")  # The policies of irscope that are shown beside another compiler's groups.
_TOO_LONG = (
    f"A page edits programs of up to {_MOST_EDITED:,} nodes, for each pause fuses the program anew. Change the text of a longer one in "
    "Python: irs.explore(irs.parse(text))."
)


@dataclass(eq=False)
class Branch:
    """One way to fuse a program. Accepted wherever the graph of a Fusion is: `irs.diff(e.branches[0], e.branches[1])`."""

    name: str
    exploration: Exploration
    parent: int = -1
    """The number of the parent branch; -1 for the first."""
    step: int = 0
    """The step of the parent's history where this branch starts; by default, where grouping begins."""
    call: str = ""
    """The Python expression that creates it, with `ORIGIN` for the parent branch."""
    measured: float | None = None
    """Milliseconds per call, if measured."""
    own: float | None = None
    """Milliseconds per call of the program as the compiler whose groups these are compiled it, if measured."""
    text: str | None = field(default=None, repr=False)
    """The edited text, if the branch is one."""
    match: Correspondence | None = field(default=None, repr=False)
    """Which ops of the first branch are which of this one, if it is another compiler's program."""
    problem: str = ""
    """Why it was not measured, if it could not be."""

    @property
    def fusion(self) -> Fusion:
        """The fusion: its groups and remarks."""
        return self.exploration.fusion

    @property
    def graph(self) -> Graph:
        """The program with its groups."""
        return self.fusion.graph

    @property
    def refused(self) -> tuple[str, ...]:
        """The requested merges that would be wrong, each with its reason."""
        return tuple(remark.because for remark in self.fusion.refused)

    def __repr__(self) -> str:
        cost = self.fusion.cost()
        took = f", {self.measured:.3g} ms measured" if self.measured is not None else ""
        refused = f"; {plural(len(self.refused), 'wish', 'wishes')} refused" if self.refused else ""
        runs = f"{plural(cost.kernels, 'kernel')}, {plural(cost.calls, 'library call')}"
        return f"<Branch {self.name!r}: {runs}, {byte_words(cost.bytes)}{took}{refused}>"


class Branches(Sequence[Branch]):
    def __init__(self, exploration: Exploration) -> None:
        asked = exploration.fusion._plans.options
        chosen = "" if asked.policy.name == "greedy" else f", policy={policy_code(asked.policy.name)}"
        made = f"irs.fuse(g{chosen})" if exploration.decisions is None else "irs.decisions(…).fusion"
        self._all = [Branch(exploration.fusion.policy, exploration, call=made)]
        self.edits = False
        """Whether a page opens with the editor."""
        if exploration.decisions is not None and len(exploration.graph.position) <= MOST_BESIDE:
            for policy in _BESIDE:
                self.what_if(0, policy=policy).name = f"irscope {policy}"
        for decisions in exploration.beside:
            self._put_beside(decisions)

    @overload
    def __getitem__(self, index: int) -> Branch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Branch]: ...
    def __getitem__(self, index: int | slice) -> Branch | list[Branch]:
        try:
            return self._all[index]
        except (IndexError, TypeError):
            raise UnknownNumber(f"there is no branch {index!r}", hint=f"there are {len(self._all)}, counted from 0") from None

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return "\n".join(f"{index}: {branch!r}" for index, branch in enumerate(self._all))

    def index_of(self, branch: Branch | int) -> int:
        """The number of a branch. Raises ArgumentError."""
        index = branch if isinstance(branch, int) else next((k for k, each in enumerate(self._all) if each is branch), -1)
        if not -len(self) <= index < len(self) or (index == -1 and not isinstance(branch, int)):
            raise ArgumentError(f"there is no branch {branch!r}", hint=f"there are {len(self)}, from 0")
        return index % len(self)

    def what_if(self, start: int, **changes: Any) -> Branch:
        """Add a branch that starts from another one. Takes the arguments of `Fusion.what_if`."""
        origin = self[self.index_of(start)]
        changes = {name: list(given) if isinstance(given, Iterator) else given for name, given in changes.items()}
        if not any(given or given is False or given == 0 for given in changes.values()):
            hint = 'forbid=[("a", "b")], force=…, opaque=…, policy=…, distinct=… or channels_last=…'
            raise ArgumentError("no change is given", hint=hint)
        fusion = origin.fusion.what_if(**changes)
        step = changes.get("step")
        history, assumed = origin.fusion.history, changes.get("distinct") is not None or bool(changes.get("channels_last"))
        begins = 0 if assumed else history.ends[origin.fusion._fused_at]
        made = Branch(
            title_of_changes(origin.fusion, changes), self._explore(origin, fusion), self._all.index(origin),
            begins if step is None else step % (history.count + 1), ORIGIN + code_of_changes(origin.fusion, changes),
        )  # fmt: skip
        self._all.append(made)
        return made

    def edited(self, start: int, text: str) -> Branch:
        """Return the branch of an edited text: a new one, or the one of the edit in progress. Raises ParseError, VerifyError, ….

        Inputs that keep their names keep their tensors.
        """
        origin = self[self.index_of(start)]
        graph = parse(text, file="")
        verify(graph)
        before = origin.fusion.original
        given = {before.names[value]: tensor for value, tensor in before.bound.items()}
        bound = {value: given[graph.names[value]] for value in graph.inputs if graph.names[value] in given}
        storages = {before.names[value]: number for value, number in before.storages.items()}
        graph = replace(
            graph, name=before.name, bound=bound, distinct_inputs=before.distinct_inputs,
            storages={value: storages[graph.names[value]] for value in graph.inputs if graph.names[value] in storages},
        )  # fmt: skip
        policy = origin.fusion._plans.options.policy
        fusion = fuse(graph, policy=policy.name if policy.name in POLICIES else policy.score or "greedy")
        literal = f"'''{text}'''" if "'''" not in text and "\\" not in text and not text.endswith("'") else repr(text)
        call = f"irs.fuse(irs.parse({literal}))"
        if origin.text is not None:
            origin.exploration, origin.call, origin.measured, origin.text = self._explore(origin, fusion), call, None, text
            return origin
        made = Branch("edited", self._explore(origin, fusion), self._all.index(origin), 0, call, text=text)
        self._all.append(made)
        return made

    def _put_beside(self, decisions: "Decisions") -> None:
        """Add another compiler's program, the largest if it made several."""
        first = self[0].exploration
        chosen = decisions.largest
        fusion = decisions.programs[chosen].fusion
        taken = [branch.name for branch in self if branch.name.partition(" ")[0] == fusion.policy]
        name = f"{fusion.policy} {len(taken) + 1}" if taken else fusion.policy
        shown = Exploration(fusion, sources=first.sources, arguments=first.arguments, decisions=decisions, chosen=chosen)
        match = Correspondence(first.fusion.original, fusion.original)
        self._all.append(Branch(name, shown, call="irs.decisions(…).fusion", match=match))

    def match(self, first: int, second: int) -> Correspondence | None:
        """How the ops of two branches correspond, if one is another compiler's program; None if both come from one program."""
        roots = [self._root(index) for index in (first, second)]
        return None if roots[0] == roots[1] else Correspondence(*(self[index].fusion.original for index in (first, second)))

    def _root(self, index: int) -> int:
        while self[index].parent >= 0:
            index = self[index].parent
        return index

    @staticmethod
    def _explore(origin: Branch, fusion: Fusion) -> Exploration:
        before, arguments = origin.exploration, origin.exploration.arguments  # `measure` must not keep the program before an edit

        def measure() -> "Comparison":
            """The times of a branch, as its Timing table shows them."""
            from irscope.runtime.measure import compare

            return compare(fusion, *_laid_out_as(fusion.original, arguments))

        timed = None if before.measure is None else measure
        return Exploration(fusion, sources=before.sources, arguments=arguments, measure=timed)

    def code(self, branch: int) -> str:
        """The Python that creates a branch; `g` is the program that `irs.load` returned."""
        index = self.index_of(branch)
        chain = [index]
        while ORIGIN in self[chain[-1]].call:
            chain.append(self[chain[-1]].parent)
        names = {each: "f" if each == 0 else f"f{each}" for each in chain}
        lines = (f"{names[each]} = {self[each].call.replace(ORIGIN, names.get(self[each].parent, 'f'))}" for each in reversed(chain))
        return "\n".join(lines)

    def measure(self, *args: Any, seconds: float = 2.0) -> None:
        """Time a call of each branch in alternation, on these arguments or the explorer's, and of what other compilers compiled. A program
        of another compiler that does not take them has a `problem` instead. Raises ArgumentError."""
        from irscope.runtime.measure import side_by_side

        given = args or self[0].exploration.arguments
        programs, arguments, peers = dict[str, Fusion](), dict[str, Sequence[Any]](), dict[str, Callable[[], Any]]()
        for index, branch in enumerate(self._all):
            if not given and branch.fusion.original.free_inputs:
                continue
            try:
                arguments[str(index)] = _laid_out_as(branch.fusion.original, given)
                programs[str(index)] = branch.fusion
                decisions = branch.exploration.decisions
                own = decisions.own_call(*given) if decisions is not None else None
                if own is not None:
                    peers[f"own {index}"] = own
            except IrscopeError as error:
                if branch.match is None:
                    raise
                branch.problem = f"not measured: {error.what}"
        if not programs:
            raise ArgumentError("no arguments are known to run it on", hint="e.compare_branches(x), or irs.explore(model, x)")
        for name, taken in side_by_side(programs, arguments, peers=peers, seconds=seconds).items():
            own_code, _, number = name.rpartition(" ")
            setattr(self._all[int(number)], "own" if own_code else "measured", taken.median / 1e6)

    def table(self) -> "pd.DataFrame":
        """One row per branch: its estimated cost, and its measured time if there is one."""
        import pandas as pd

        rows = []
        for branch in self._all:
            cost = branch.fusion.cost()
            begun = branch.parent >= 0
            rows.append({
                "name": branch.name, "from": branch.parent if begun else pd.NA, "step": branch.step if begun else pd.NA,
                "kernels": cost.kernels, "library calls": cost.calls, "bytes": cost.bytes, "µs at 20 GB/s": round(cost.microseconds(), 3),
                "ms measured": branch.measured, "ms own code": branch.own, "refused": len(branch.refused),
                "ops matched": "" if branch.match is None else branch.match.words,
            })  # fmt: skip
        return new_table(rows).rename_axis("branch")

    def view(self, shown: int) -> BranchesView:
        now = self[shown].fusion.original
        images = [value for value in now.free_inputs if _is_image(value.type)]
        return BranchesView(
            branches=[self._view(index, branch) for index, branch in enumerate(self._all)], shown=shown, policies=[*POLICIES],
            inputs=[now.names[value] for value in images], distinct=now.distinct_inputs,
            can_measure=bool(self[0].exploration.arguments) or not now.free_inputs,
            read_only="" if len(now.position) <= _MOST_EDITED else _TOO_LONG, edits=self.edits,
        )  # fmt: skip

    def stored(self) -> StoredBranches:
        """The branches as a page without Python holds them, which shows the first."""
        rows = [self._view(index, branch) for index, branch in enumerate(self._all)]
        return StoredBranches(branches=rows, shown=0, diffs={index: branch_diff(self[index], self[0]) for index in range(1, len(rows))})

    def _view(self, index: int, branch: Branch) -> BranchView:
        cost = branch.fusion.cost() if len(self) > 1 else Cost(0, 0, 0)  # a walk over the program; a single branch shows no cost
        micros = cost.microseconds() if isinstance(cost.bytes, int) else -1.0
        return BranchView(
            name=branch.name, parent=branch.parent, step=branch.step, steps=branch.fusion.history.count, kernels=cost.kernels,
            calls=cost.calls, moved=byte_words(cost.bytes, more=" + ?"), micros=micros,
            measured=-1.0 if branch.measured is None else branch.measured,
            own=-1.0 if branch.own is None else branch.own, code=self.code(index),
            refused=[*branch.refused, *filter(None, [branch.problem])],
            matched="" if branch.match is None else branch.match.words, matching="" if branch.match is None else str(branch.match),
        )  # fmt: skip


def branch_diff(first: Branch, second: Branch) -> BranchDiff:
    """Compare two branches line by line, and the pairs of ops of the second that the first has in one kernel."""
    found = diff(first, second)
    match = Correspondence(second.fusion.original, first.fusion.original)
    compared = side_by_side(second.fusion, first.fusion, (second.name, first.name), match).view(BoxTree(second.graph))
    lines = [
        ChangedLine(
            kind=kind, before=before.strip(), after=after.strip(), how=how,
            node=change.after.id if change.after is not None else 0, old=change.before.id if change.before is not None else 0,
        )
        for change, (kind, before, after, how) in zip(found.changes, found.lines(), strict=True) if kind != "kept"
    ]  # fmt: skip
    left_out = max(0, len(lines) - _MOST_LINES)
    lines = lines[:_MOST_LINES]
    return BranchDiff(counts=dict(found.counts), matched_by=found.matched_by, lines=lines, left_out=left_out, compared=compared)


def _laid_out_as(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The arguments, in channels-last layout where the program expects it."""
    laid_out = []
    for value, argument in zip(graph.free_inputs, flatten_arguments(tuple(args), graph), strict=False):
        type = value.type
        if isinstance(type, TensorType) and _is_image(type) and type.strides and is_channels_last(static_shape(type) or (), type.strides):
            argument = _channels_last(argument)
        laid_out.append(argument)
    return laid_out


def _is_image(type: Type) -> bool:
    """Whether a value is a batch of images or volumes of known size."""
    return isinstance(type, TensorType) and type.is_static and type.rank in (4, 5)


def _channels_last(array: Any) -> Any:
    if hasattr(array, "movedim"):
        return array.movedim(1, -1).contiguous().movedim(-1, 1)
    import numpy as np

    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


# The title of a branch and the Python that recreates it, with names that identify the same nodes again.

ORIGIN = "\0"
"""Placeholder, in the code of a branch, for its parent branch."""


def title_of_changes(fusion: Fusion, changes: Mapping[str, Any]) -> str:
    told = []
    if changes.get("policy") is not None:
        policy = changes["policy"]
        told.append(policy if isinstance(policy, str) else getattr(policy, "__name__", "a policy"))
    for what, joined, end in (("forbid", " | ", "apart"), ("force", " + ", "together")):
        told += [f"{joined.join(_short(fusion, each) for each in _listed(several))} {end}" for several in changes.get(what) or ()]
    opaque = changes.get("opaque") or ()
    told += [f"{_short(fusion, each)} opaque" for each in _listed(opaque)]
    distinct = changes.get("distinct")
    if distinct is not None:
        names = "inputs" if isinstance(distinct, bool) else ", ".join(_short(fusion, each) for each in _listed(distinct))
        told.append(f"{names} {'possibly the same' if distinct is False else 'distinct'}")
    told += [f"{_short(fusion, each)} channels-last" for each in _listed(changes.get("channels_last") or ())]
    return "; ".join(told) or "the same"


def _listed(several: Any) -> list[Any]:
    return [several] if isinstance(several, str | Value | Node) else list(several)


def _short(fusion: Fusion, record: Any) -> str:
    if isinstance(record, str):
        return record.lstrip("%")
    value = value_of(record)
    if value is None:
        return str(record.op)
    return next((graph.names[value] for graph in (fusion.graph, fusion.original) if value in graph.names), value.name)


def code_of_changes(fusion: Fusion, changes: Mapping[str, Any]) -> str:
    written = []
    for name, given in changes.items():
        if given is None or (not given and given is not False and name != "step"):
            continue
        if name in ("forbid", "force"):
            written.append(f"{name}=[{', '.join(_entry(fusion, several) for several in given)}]")
        elif name == "policy":
            written.append(f"policy={policy_code(given)}")
        elif name == "step" or isinstance(given, bool):
            written.append(f"{name}={given}")
        else:
            nodes = name == "opaque"
            entries = (_expression_of(fusion, one) if nodes else _python(_short(fusion, one)) for one in _listed(given))
            written.append(f"{name}=[{', '.join(entries)}]")
    return f".what_if({', '.join(written)})"


def _entry(fusion: Fusion, several: Any) -> str:
    """The nodes of one entry of `forbid` or `force`: a tuple of names, or a group."""
    if isinstance(several, Node):
        return _expression_of(fusion, several)
    names = [_expression_of(fusion, one) for one in several]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _expression_of(fusion: Fusion, record: Any) -> str:
    """A Python expression that names a record."""
    if isinstance(record, str):
        return _python(record)
    members = fusion._inside(record) if isinstance(record, Node) else None
    if members:
        place = next(index for index, group in enumerate(fusion.groups) if group is record)
        return f"{ORIGIN}.groups[{place}]"
    meant = fusion._find(record)
    value = value_of(record)
    for graph in (fusion.original, fusion._plans.rules.graph, fusion.graph):
        name = graph.names.get(value) if value is not None else None
        try:
            if name is not None and fusion._find(name) is meant:
                return _python(name)
        except IrscopeError:
            continue
    return _python(_short(fusion, record))


def _python(name: str) -> str:
    return repr(name) if '"' in name or "\\" in name else f'"{name}"'


def policy_code(policy: Any) -> str:
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", "policy")
    return f'"{name}"' if name in POLICIES else name


def changes_of(message: Mapping[str, Any], records: Callable[[Iterable[int]], list[Value | Node]]) -> dict[str, Any]:
    """The changes that a page asks for, with ids resolved to records."""
    changes: dict[str, Any] = {}
    for name in ("forbid", "force"):
        if message.get(name):
            changes[name] = [records([int(id) for id in several]) for several in message[name]]
    if message.get("opaque"):
        changes["opaque"] = records([int(id) for id in message["opaque"]])
    for name, kind in (("policy", str), ("step", int)):
        if message.get(name) is not None:
            changes[name] = kind(message[name])
    for name in ("distinct", "channels_last"):
        given = message.get(name)
        if given is not None:
            changes[name] = given if isinstance(given, bool) else [str(one) for one in given]
    return changes
