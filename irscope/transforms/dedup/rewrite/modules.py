"""A module in which one function, or one executable, stands for each class.

The leader of a class takes the place of the others: who calls one of them calls the leader, with the numbers in which they
differ as operands more, and the arguments in the leader's order. A private member is gone then. A function that can be
called from outside stays under its name, and calls the leader. A leader that nobody outside can call gets a name that says
nothing of its source, made of its class's fingerprint.

*Why the program stays the same.* A `Match` says that what a member computes is what the leader computes with other numbers in
the holes, and what the names inside them mean corresponds as well (`pairing`). Executables have no variables of their own that
could be told apart (`piece`).

*Sizes* that differ are parameters where an op is told them, and unknown in the leader's types (`free_extents`). Where a type or an
attribute decides what an op computes, no operand can say them: such classes are merged as far as `constants` goes, and a remark
says which op it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope._base.words import plural
from irscope.ir import Block, Graph, Module, Node, Rewriter, Symbol, Value, make_node, make_value, new_id
from irscope.transforms.dedup.canonical import fingerprint
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.piece import Piece, symbols_in
from irscope.transforms.dedup.rewrite.functions import (
    Call,
    Opened,
    arguments_of,
    call_of,
    opened,
    taken_by,
    why_not_opened,
    with_parameters,
)  # fmt: skip
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, class_holes
from irscope.transforms.dedup.steps import RANK, Relation

__all__ = ["ModuleRemark", "merge_modules", "obstacles"]

_PATH: Final = re.compile(r'@(?:"(?:[^"\\]|\\.)*"|[\w$.-]+)(?:::@(?:"(?:[^"\\]|\\.)*"|[\w$.-]+))*')
_REASON: Final = "it calls the leader of its class"


@dataclass(frozen=True)
class ModuleRemark:
    """What was done with a class, or why it was not."""

    kind: str
    """`passed` or `missed`."""
    subject: str
    """The leader."""
    because: str

    def __str__(self) -> str:
        return f"{self.kind} @{self.subject}: {self.because}"


def merge_modules(
    module: Module, ladder: Ladder, chosen: Mapping[Members, Relation]
) -> tuple[Module, tuple[ModuleRemark, ...]]:
    """The module with one piece for each class, and what was done; `chosen` says at which step each class is merged."""
    work = _Work(module, ladder)
    pending = [(members, relation) for members, relation in chosen.items() if len(members) > 1]
    while pending:
        members, relation = pending.pop(0)
        names = [member for member in members if isinstance(member, str)]
        because = work.merge(names, relation)
        if not because:
            continue
        finer = _finer(relation)
        subject = f"{plural(len(names), 'piece')} that are the same by {relation!r} stay apart: {because}"
        work.remarks.append(ModuleRemark("missed", names[0], subject))
        if finer is not None:
            pending.extend((one, finer) for one in ladder.within(members, finer) if len(one) > 1)
    return work.finish(), tuple(work.remarks)


def obstacles(module: Module, ladder: Ladder) -> Callable[[Members, Relation], str]:
    """What says why the pieces of a class cannot have one leader, or nothing if they can."""
    work = _Work(module, ladder)

    def why_not(members: Members, relation: Relation) -> str:
        found = work.plan([str(member) for member in members], relation)
        return found if isinstance(found, str) else ""

    return why_not


def _finer(relation: Relation) -> Relation | None:
    """The step to fall back to: the one that differs in what functions can express."""
    for step in ("free", "extents", "constants", "order", "alpha"):
        if RANK[relation] > RANK[step]:
            return step
    return None


@dataclass(frozen=True)
class _Merged:
    """A class as it is merged."""

    holes: ClassHoles
    target: str
    """What the leader is called afterwards."""
    opened: Mapping[str, Opened]
    """By the leader's roots."""
    entries: Mapping[str, str]
    """What the leader's roots are called afterwards."""


@dataclass
class _Work:
    """A module while its classes are chosen; all changes are made at the end, of each function once."""

    module: Module
    ladder: Ladder
    remarks: list[ModuleRemark] = field(default_factory=list)
    merged: dict[str, _Merged] = field(default_factory=dict)
    """By the names of all members."""
    calls: dict[Node, Call] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.visibility = {symbol.name: symbol.visibility for symbol in self.module.symbols}
        self.taken = {*self.module.graphs, *self.module.modules, *self.visibility}
        self.named: dict[str, list[tuple[Node, str]]] = {}
        """The nodes that name each piece, with the name inside that they go on with."""
        for graph in self.module.graphs.values():
            for node in graph.nodes():
                for path in _paths(node.attrs):
                    self.named.setdefault(path[0], []).append((node, path[-1]))

    # -- one class

    def merge(self, names: Sequence[str], relation: Relation) -> str:
        """Choose one class; why it cannot be merged, or nothing."""
        found = self.plan(names, relation)
        if isinstance(found, str):
            return found
        holes, made, calls = found
        self.calls.update(calls)
        one = _Merged(holes, self.target(holes, made, inside=bool(self.module.modules)), made, _entries(holes.leader))
        self.merged.update((str(piece.member), one) for piece in holes.members)
        count = sum(len(each.rows) for each in made.values())
        what = f", with {plural(count, 'parameter')} in place of a number" if count else ""
        what += ", and leaves sizes open" * any(each.types for each in made.values())
        self.remarks.append(
            ModuleRemark("passed", str(holes.leader.member), f"it serves {plural(len(holes.members), 'piece')}{what}")
        )
        return ""

    def plan(
        self, names: Sequence[str], relation: Relation
    ) -> tuple[ClassHoles, dict[str, Opened], dict[Node, Call]] | str:
        """What one class would become: its holes, the leader's functions, the calls; or why it cannot be merged."""
        inside = bool(self.module.modules)
        if inside and any(self.visibility.get(name, "private") == "public" for name in names):
            return "one of them can be called from outside of the module"
        holes = class_holes([self.ladder.pieces[name] for name in names], relation)
        if len(holes.members) < 2:
            return "they correspond only by way of a third"
        functions = {
            root: graph for root in _roots(holes.leader) if (graph := self.function(holes.leader, root)) is not None
        }
        because = why_not_opened(holes, list(functions.values()))
        if because:
            return because
        made = {root: opened(function, holes, self.place(holes, root)) for root, function in functions.items()}
        calls = self.new_calls(holes, functions, made)
        return calls if isinstance(calls, str) else (holes, made, calls)

    def function(self, piece: Piece, root: str) -> Graph | None:
        """The function that a root means."""
        if not piece.roots:
            return piece.graph
        return self.module.modules[str(piece.member)].graphs.get(_function_name(piece, root))

    def place(self, holes: ClassHoles, root: str) -> int | None:
        """Before which parameter numbers are passed: behind those that callers pass by value."""
        found = [taken_by(node) for piece in holes.members for node, _ in self.named.get(str(piece.member), ())]
        return min((count for count in found if count is not None), default=None)

    def new_calls(
        self, holes: ClassHoles, functions: Mapping[str, Graph], made: Mapping[str, Opened]
    ) -> dict[Node, Call] | str:
        """What calls of the members become; or why one of them cannot call the leader."""
        found: dict[Node, Call] = {}
        leader = str(holes.leader.member)
        own = {node for function in functions.values() for node in function.nodes()}
        for place, (piece, matched) in enumerate(zip(holes.members, holes.matches, strict=True)):
            for node, name in self.named.get(str(piece.member), ()):
                ours = (
                    next((one for one, other in matched.symbols.items() if other == name), name)
                    if piece.roots
                    else leader
                )
                theirs = self.function(piece, name)
                if ours not in functions or theirs is None:
                    return f"{name!r} has no body that could be called"
                same = arguments_of(theirs, functions[ours], matched) == list(range(len(theirs.inputs)))
                if same and not made[ours].rows:
                    continue  # another name is all there is to it
                call = call_of(node, theirs, functions[ours], matched, made[ours], place)
                if isinstance(call, str):
                    return call
                if node in own and call.values:
                    return "it calls a function of its own class, which would have to hand on what it was passed"
                found[node] = call
        return found

    def target(self, holes: ClassHoles, made: Mapping[str, Opened], *, inside: bool) -> str:
        """What the leader is to be called: its own name only where it can be called by that from outside as it is."""
        leader = str(holes.leader.member)
        is_public = not inside and self.visibility.get(leader, "public") == "public"
        if is_public and not any(one.rows or one.types for one in made.values()):
            return leader
        name = told = f"class_{fingerprint(holes.leader, holes.matches[0].step).hex()[:12]}"
        number = 0
        while told in self.taken:
            number += 1
            told = f"{name}_{number}"
        self.taken.add(told)
        return told

    # -- the whole module

    def finish(self) -> Module:
        """The module with all classes merged."""
        if not self.merged:
            return self.module
        self.renaming: dict[tuple[str, ...], tuple[str, ...]] = {}
        for name, one in self.merged.items():
            place = next(i for i, piece in enumerate(one.holes.members) if piece.member == name)
            symbols = one.holes.matches[place].symbols
            self.renaming[name,] = (one.target,)
            self.renaming.update(
                {(name, symbols.get(root, root)): (one.target, entry) for root, entry in one.entries.items()}
            )
        graphs = self.graphs()
        modules = self.modules()
        return replace(self.module, graphs=graphs, modules=modules, symbols=self.symbols(graphs, modules))

    def graphs(self) -> dict[str, Graph]:
        """The functions that are left, each changed once."""
        found: dict[str, Graph] = {}
        for name, graph in self.module.graphs.items():
            one = self.merged.get(name)
            if one is None or one.target == name:
                found[name] = self.rewritten(graph, None, self.renaming)
                continue
            if name == one.holes.leader.member:
                made = one.opened[name]
                changed = self.rewritten(graph, made, self.renaming)  # what callers know of its inputs stays with them
                found[one.target] = Graph(
                    changed.body, one.target, distinct_inputs=graph.distinct_inputs, functional=graph.functional
                )
            if self.visibility.get(name, "public") == "public":
                found[name] = _thunk(graph, one, name)
        return found

    def modules(self) -> dict[str, Module]:
        """The executables that are left."""
        found: dict[str, Module] = {}
        for name, inner in self.module.modules.items():
            one = self.merged.get(name)
            if one is None:
                found[name] = inner
            elif name == one.holes.leader.member:
                renaming: Renaming = {(root,): (entry,) for root, entry in one.entries.items()}
                by_function = {_function_name(one.holes.leader, root): made for root, made in one.opened.items()}
                graphs = {
                    one.entries.get(old, old): replace(
                        self.rewritten(graph, by_function.get(old), renaming), name=one.entries.get(old, old)
                    )
                    for old, graph in inner.graphs.items()
                }
                symbols = [
                    replace(
                        symbol,
                        name=one.entries.get(symbol.name, symbol.name),
                        attrs=_renamed_attrs(symbol.attrs, renaming),
                    )
                    for symbol in inner.symbols
                ]
                found[one.target] = replace(inner, name=one.target, graphs=graphs, symbols=tuple(symbols))
        return found

    def rewritten(self, graph: Graph, made: Opened | None, renaming: Renaming) -> Graph:
        """A function with the parameters that it gets, and calls of leaders."""
        reads: Mapping[Node, Mapping[int, Value]] = made.reads if made is not None else {}
        rewriter = Rewriter(graph)
        for node in graph.nodes():
            call, own = self.calls.get(node), reads.get(node, {})
            names = any(path[:1] in renaming for path in _paths(node.attrs)) if node.attrs else False
            if call is None and not own and not names:
                continue
            inputs = tuple([own.get(place, value) for place, value in enumerate(node.inputs)])
            constants, inputs = ([], inputs) if call is None else call.operands(inputs)
            attrs = _renamed_attrs(node.attrs if call is None else call.attrs, renaming)
            lists = made.lists.get(node, ()) if made is not None else ()
            rewriter.replace_node(node, [*lists, *constants, _with(node, inputs, attrs)], reason=_REASON)
        changed = rewriter.finish()
        return changed if made is None or not (made.rows or made.types) else with_parameters(changed, made)

    def symbols(self, graphs: Mapping[str, Graph], modules: Mapping[str, Module]) -> tuple[Symbol, ...]:
        """What is declared of the names that are left."""
        found = []
        for symbol in self.module.symbols:
            one = self.merged.get(symbol.name)
            name = symbol.name
            if one is not None and name == one.holes.leader.member and name not in graphs:
                name = one.target
            if one is None or name in graphs or name in modules:
                found.append(replace(symbol, name=name, attrs=_renamed_attrs(symbol.attrs, self.renaming)))
        declared = {symbol.name for symbol in found}
        made = [one.target for one in self.merged.values()]
        private = [
            name
            for name in dict.fromkeys(made)
            if name in graphs and name not in declared and name not in self.module.graphs
        ]
        if private:  # without a word about them, all names can be called from outside
            found += [Symbol(name, "func::func") for name in graphs if name not in declared and name not in private]
            found += [Symbol(name, "func::func", "private") for name in private]
        return tuple(found)


def _roots(piece: Piece) -> tuple[str, ...]:
    return piece.roots or (str(piece.member),)


def _entries(leader: Piece) -> dict[str, str]:
    """Names of entry points that say nothing of their source; functions behind them go by the same."""
    found = {root: f"entry_{place}" for place, root in enumerate(leader.roots) if f"entry_{place}" not in leader.named}
    found.update({_function_name(leader, root): entry for root, entry in found.items()})
    return found


# --- names and calls ----------------------------------------------------------------------------------------------------


def _function_name(piece: Piece, root: str) -> str:
    """The name of the function behind a root of an executable."""
    for body in piece.named.get(root, ()):
        said = body.attrs.get("function_ref")
        if isinstance(said, str):
            return symbols_in(said)[-1]
    return root


Renaming = Mapping[tuple[str, ...], tuple[str, ...]]


def _paths(attrs: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The names in attributes, each with the names inside that it goes on with."""
    found = []
    for text in _texts(attrs):
        found += [tuple(symbols_in(path)) for path in _PATH.findall(text)]
    return found


def _texts(attrs: Mapping[str, Any]) -> list[str]:
    todo: list[Any] = list(attrs.values())
    found = []
    while todo:
        part = todo.pop()
        if isinstance(part, tuple | list):
            todo.extend(part)
        elif isinstance(part, Mapping):
            todo.extend(part.values())
        elif isinstance(part, str) and "@" in part and not part.startswith('"'):
            found.append(part)
    return found


def _renamed_attrs(attrs: Mapping[str, Any], renaming: Renaming) -> FrozenDict[str, Any]:
    def path(found: re.Match[str]) -> str:
        names = tuple(symbols_in(found.group(0)))
        for length in (2, 1):
            if names[:length] in renaming:
                return "::".join(f"@{name}" for name in (*renaming[names[:length]], *names[length:]))
        return found.group(0)

    return FrozenDict({key: _mapped(value, lambda text: _PATH.sub(path, text)) for key, value in attrs.items()})


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """An attribute with its texts changed; attributes nest a few levels at most."""
    if isinstance(value, tuple | list):
        return tuple([_mapped(item, change) for item in value])
    if isinstance(value, Mapping):
        return FrozenDict({key: _mapped(item, change) for key, item in value.items()})
    return change(value) if isinstance(value, str) and "@" in value and not value.startswith('"') else value


def _with(node: Node, inputs: tuple[Value, ...], attrs: Mapping[str, Any]) -> Node:
    return make_node(new_id(), node.op, inputs, node.outputs, attrs, node.blocks, node.location, node.scope)


def _thunk(function: Graph, one: _Merged, name: str) -> Graph:
    """A function that does nothing but call the leader."""
    leader = one.holes.leader
    made = one.opened[str(leader.member)]
    place = next(i for i, piece in enumerate(one.holes.members) if piece.member == name)
    params = function.inputs  # the same ones, for whoever knows more of them
    order = tuple(arguments_of(function, leader.graph, one.holes.matches[place]))
    values = tuple([row.values[place] for row in made.rows])
    call = Call(
        order, 0, len(params), values, tuple([value.type for value in made.params]), FrozenDict(callee=f"@{one.target}")
    )
    constants, inputs = call.operands(params)
    outputs = tuple([make_value(new_id(), value.type, value.name) for value in function.outputs])
    node = make_node(new_id(), "func::call", inputs, outputs, call.attrs, (), None, "")
    return replace(function, body=Block(new_id(), params, (*constants, node), outputs))
