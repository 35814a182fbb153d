"""Merges the functions or executables of a module, so that each class has one.

The leader of a class replaces the others: callers of a member call the leader, with the numbers that differ as additional
operands, and the arguments in the leader's order. A private member is then removed. A function that can be called from outside
keeps its name, and calls the leader. A leader that cannot be called from outside gets a name independent of its source, built
from its class's fingerprint.

*Soundness.* A `Match` says that a member computes the same as the leader with other numbers in the holes, and that the meanings of
the names inside correspond as well (`pairing`). Executables have no variables of their own that could be distinguished (`piece`).

*Sizes* that differ are parameters where they are operands of an op, and unknown in the leader's types (`parameters`). Where a
type or an attribute decides what an op computes, they cannot be passed as operands: such classes are merged only up to
`constants`, and a remark names the op.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.words import plural
from irscope.analysis.shapes import retyped
from irscope.ir import INT, Graph, ListType, Module, Node, Rewriter, Symbol, Type, Value, constant_value, make_node, make_value, new_id
from irscope.ir.module import reference_to
from irscope.transforms.cleanup import constant_node
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.form import fingerprint
from irscope.transforms.dedup.matching import Match
from irscope.transforms.dedup.piece import RANK, Piece, Relation, symbols_in
from irscope.transforms.dedup.rewrite.groups import is_parameter, parameter_type
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow, class_holes, covering_type, types_in_common, why_not_free

# --- functions and their calls ----------------------------------------------------------------------------------------

CALLS: Final = frozenset({"func::call", "util::call", "flow::dispatch"})
"""Ops that call a function by name, with operands for all its parameters or the first of them."""


@dataclass(frozen=True)
class Parameterized:
    """The parameters that a leader's function gets for its holes."""

    rows: tuple[HoleRow, ...]
    """One hole for each parameter."""
    params: tuple[Value, ...]
    at: int | None
    """The parameter before which they are inserted; None for behind the last."""
    reads: Mapping[Node, Mapping[int, Value]]
    """The operands that read them, by node and place."""
    lists: Mapping[Node, Sequence[Node]]
    """The nodes that pack some of them into lists, by the node that reads the lists."""
    types: Mapping[Value, Type]
    """The types that hold in every member, for values whose types differ."""

    def passed_by(self, member: int) -> tuple[tuple[Any, Type], ...]:
        """The numbers that callers of a member pass, with their types."""
        return tuple([(row.values[member], value.type) for row, value in zip(self.rows, self.params, strict=True)])


def why_not_parameterized(holes: ClassHoles, functions: Sequence[Graph]) -> str:
    """Returns why the holes of a class cannot all be parameters of its functions; empty if they can."""
    inside = [set(function.nodes()) for function in functions]
    for row in holes.rows:
        if row.parameter is None or holes.follows_from_operands(row):
            continue
        if not is_number(row):
            return f"{row.place} differs, which is part of a type or an attribute: no operand can pass it"
        if not any(row.site.subject in nodes for nodes in inside):
            return f"{row.place} differs, which is in a function that only the piece itself calls"
    return why_not_free(holes, functions)


def is_number(row: HoleRow) -> bool:
    """Whether a hole becomes a parameter of a function: varying data, or a varying size, that is an operand of a node."""
    is_size = row.kind == "size" and row.parameter is not None and row.site.part == "operand"
    return is_parameter(row) or (is_size and all(type(value) is int for value in row.values))


def parameterize(function: Graph, holes: ClassHoles, at: int | None) -> Parameterized:
    """Returns one more parameter for each hole in the function, before the parameter `at`, or behind the last."""
    nodes = set(function.nodes())
    rows, number = holes.passed(lambda row: is_number(row) and row.site.subject in nodes)
    params: list[Value] = []
    for row in rows:
        assert isinstance(row.site.subject, Node)
        leaf = row.site.subject.inputs[row.site.place].type
        type = INT if row.kind == "size" else covering_type(row, parameter_type(row.values[0], leaf))
        params.append(make_value(new_id(), type, ""))
    entries: dict[tuple[Node, int], dict[int, Value]] = {}
    reads: dict[Node, dict[int, Value]] = {}
    for (node, _, place, index), at_param in number.items():
        assert isinstance(node, Node)
        if isinstance(node.inputs[place].type, ListType):
            entries.setdefault((node, place), {})[index] = params[at_param]
        else:
            reads.setdefault(node, {})[place] = params[at_param]
    lists: dict[Node, list[Node]] = {}
    for (node, place), own in entries.items():
        made = _pack(constant_value(function.producer[node.inputs[place]]), own, node.inputs[place].type)
        lists.setdefault(node, []).extend(made)
        reads.setdefault(node, {})[place] = made[-1].output
    return Parameterized(tuple(rows), tuple(params), at, reads, lists, types_in_common(holes))


def _pack(payload: Sequence[Any], own: Mapping[int, Value], type: Type) -> list[Node]:
    """The nodes that build a list of numbers, some of which are parameters."""
    made = {at: constant_node(make_value(new_id(), INT, ""), number) for at, number in enumerate(payload) if at not in own}
    items = tuple([own[at] if at in own else made[at].output for at in range(len(payload))])
    packed = make_node(new_id(), "prim::ListConstruct", items, (make_value(new_id(), type, ""),), EMPTY, (), None, "")
    return [*made.values(), packed]


def with_parameters(graph: Graph, made: Parameterized) -> Graph:
    """Returns the function, whose nodes read the parameters already, with these parameters and without unused constants."""
    before = {value for node, places in made.reads.items() for value in (node.inputs[place] for place in places)}
    rewriter = Rewriter(graph)
    for value in before:
        if value not in graph.users:
            rewriter.erase(graph.producer[value], reason="callers pass it")
    graph = rewriter.finish()
    place = len(graph.inputs) if made.at is None else made.at
    params = (*graph.inputs[:place], *made.params, *graph.inputs[place:])
    return retyped(replace(graph, body=replace(graph.body, params=params)), made.types)


@dataclass(frozen=True)
class Call:
    """A call of the leader that replaces a call of a member."""

    order: tuple[int, ...]
    """For each parameter of the leader, the number of its argument."""
    first: int
    """The number of operands before the arguments."""
    taken: int
    """The number of operands that are arguments."""
    passed: tuple[tuple[Any, Type], ...]
    """The additional numbers to pass, with their types."""
    attrs: Mapping[str, Any]

    def operands(self, inputs: Sequence[Value]) -> tuple[list[Node], tuple[Value, ...]]:
        """Returns the nodes of the constants to pass, and all operands."""
        own = inputs[self.first : self.first + self.taken]
        constants = [constant_node(make_value(new_id(), type, ""), value) for value, type in self.passed]
        passed = (*(own[at] for at in self.order), *(constant.output for constant in constants))
        return constants, (*inputs[: self.first], *passed, *inputs[self.first + self.taken :])


def call_of(node: Node, function: Graph, leader: Graph, found: Match, made: Parameterized, member: int) -> Call | str:
    """Returns the call that replaces a call of a member, or why it cannot call the leader."""
    order = arguments_of(function, leader, found)
    segments = _segments(node)
    if node.op not in CALLS or (node.op == "flow::dispatch" and segments is None):
        return f"it is named by {node.op}, whose arguments are not known"
    first, taken = 0, len(node.inputs)
    attrs = dict(node.attrs)
    if segments is not None:
        first, taken = segments[:2]
        if sorted(order[:taken]) != list(range(taken)) or order[taken:] != list(range(taken, len(order))):
            return "a caller passes some of its parameters as results, which have separate positions"
        if made.rows:
            sizes = [first, taken + len(made.rows), *segments[2:]]
            attrs["operandSegmentSizes"] = f"array<i32: {', '.join(map(str, sizes))}>"
    return Call(tuple(order[:taken]), first, taken, made.passed_by(member), FrozenDict(attrs))


def arguments_of(function: Graph, leader: Graph, found: Match) -> list[int]:
    """Returns, for each parameter of the leader's function, the place of the corresponding parameter of the member's."""
    places = {value: place for place, value in enumerate(function.inputs)}
    return [places[found.values[value]] for value in leader.inputs]


def _segments(node: Node) -> list[int] | None:
    """The numbers of operands of each kind that a dispatch has: workload, arguments passed by value, …; None if it does not declare
    them, and for other calls."""
    text = node.attrs.get("operandSegmentSizes")
    if node.op != "flow::dispatch" or not isinstance(text, str) or not text.startswith("array<i32: "):
        return None
    return [int(word) for word in text.removeprefix("array<i32: ").removesuffix(">").split(",")]


_PATH: Final = re.compile(r'@(?:"(?:[^"\\]|\\.)*"|[\w$.-]+)(?:::@(?:"(?:[^"\\]|\\.)*"|[\w$.-]+))*')
_REASON: Final = "it calls the leader of its class"


def merge_modules(module: Module, ladder: Ladder, chosen: Mapping[Members, Relation]) -> tuple[Module, tuple[str, ...]]:
    """Returns the module with one piece for each class, and for each class in a line what was done, or why it was not merged;
    `chosen` gives the step at which each class is merged."""
    work = _Work(module, ladder)
    pending = [(members, relation) for members, relation in chosen.items() if len(members) > 1]
    while pending:
        members, relation = pending.pop(0)
        names = [member for member in members if isinstance(member, str)]
        because = work.merge(names, relation)
        if not because:
            continue
        work.remarks.append(f"missed @{names[0]}: {plural(len(names), 'piece')} that are the same by {relation!r} stay apart: {because}")
        finer = next((step for step in _EXPRESS_MORE if RANK[relation] > RANK[step]), None)
        if finer is not None:
            pending.extend((one, finer) for one in ladder.within(members, finer) if len(one) > 1)
    return work.finish(), tuple(work.remarks)


_EXPRESS_MORE: Final[tuple[Relation, ...]] = ("free", "extents", "constants", "order", "alpha")
"""The steps, down from the coarsest, at each of which functions can express more of the holes."""


def obstacles(module: Module, ladder: Ladder) -> Callable[[Members, Relation], str]:
    """Returns a function that says why the pieces of a class cannot have one leader; its result is empty if they can."""
    work = _Work(module, ladder)

    def why_not(members: Members, relation: Relation) -> str:
        found = work.plan([str(member) for member in members], relation)
        return found if isinstance(found, str) else ""

    return why_not


@dataclass(frozen=True)
class _Merged:
    """The plan for merging a class."""

    holes: ClassHoles
    target: str
    """The new name of the leader."""
    parameterized: Mapping[str, Parameterized]
    """The new parameters, by the leader's roots."""
    entries: Mapping[str, str]
    """The new names of the leader's roots."""


class _Work:
    """The state of merging a module; all changes are made at the end, once for each function."""

    def __init__(self, module: Module, ladder: Ladder) -> None:
        self.module, self.ladder = module, ladder
        self.remarks: list[str] = []
        self.merged: dict[str, _Merged] = {}
        """The merged class of each member, by name."""
        self.calls: dict[Node, Call] = {}
        self.visibility = {symbol.name: symbol.visibility for symbol in module.symbols}
        self.taken = {*module.graphs, *module.modules, *self.visibility}
        self.named: dict[str, list[tuple[Node, str]]] = {}
        """The nodes that name each piece, with the last part of the path, which names something inside it."""
        for graph in module.graphs.values():
            for node in graph.nodes():
                for path in _paths(node.attrs):
                    self.named.setdefault(path[0], []).append((node, path[-1]))

    # -- one class

    def merge(self, names: Sequence[str], relation: Relation) -> str:
        """Merge one class; return why it cannot be merged, or an empty text."""
        found = self.plan(names, relation)
        if isinstance(found, str):
            return found
        holes, made, calls = found
        self.calls.update(calls)
        one = _Merged(holes, self.target(holes, made, inside=bool(self.module.modules)), made, _entries(holes.leader))
        self.merged.update((str(piece.member), one) for piece in holes.members)
        passed = sum(len(each.rows) for each in made.values())
        what = f", with {plural(passed, 'parameter')} in place of a number" if passed else ""
        what += ", and leaves sizes open" * any(each.types for each in made.values())
        self.remarks.append(f"passed @{holes.leader.member}: it serves {plural(len(holes.members), 'piece')}{what}")
        return ""

    def plan(self, names: Sequence[str], relation: Relation) -> tuple[ClassHoles, dict[str, Parameterized], dict[Node, Call]] | str:
        """Plan the merge of one class: its holes, the leader's parameters, the calls; or return why it cannot be merged."""
        inside = bool(self.module.modules)
        if inside and any(self.visibility.get(name, "private") == "public" for name in names):
            return "one of them can be called from outside the module"
        holes = class_holes([self.ladder.pieces[name] for name in names], relation)
        if len(holes.members) < 2:
            return "they correspond only through a third piece"
        roots = holes.leader.roots or (str(holes.leader.member),)
        functions = {root: graph for root in roots if (graph := self.function(holes.leader, root)) is not None}
        because = why_not_parameterized(holes, list(functions.values()))
        if because:
            return because
        segments = [_segments(node) for piece in holes.members for node, _ in self.named.get(str(piece.member), ())]
        at = min((each[1] for each in segments if each is not None), default=None)  # behind those that callers pass by value
        made = {root: parameterize(function, holes, at) for root, function in functions.items()}
        calls = self.new_calls(holes, functions, made)
        return calls if isinstance(calls, str) else (holes, made, calls)

    def function(self, piece: Piece, root: str) -> Graph | None:
        if not piece.roots:
            return piece.graph
        return self.module.modules[str(piece.member)].graphs.get(_function_name(piece, root))

    def new_calls(self, holes: ClassHoles, functions: Mapping[str, Graph], made: Mapping[str, Parameterized]) -> dict[Node, Call] | str:
        """The calls that replace the calls of the members, or why one of them cannot call the leader."""
        found: dict[Node, Call] = {}
        leader = str(holes.leader.member)
        own = {node for function in functions.values() for node in function.nodes()}
        for place, (piece, matched) in enumerate(zip(holes.members, holes.matches, strict=True)):
            for node, name in self.named.get(str(piece.member), ()):
                ours = next((one for one, other in matched.symbols.items() if other == name), name) if piece.roots else leader
                theirs = self.function(piece, name)
                if ours not in functions or theirs is None:
                    return f"{name!r} has no body that could be called"
                same = arguments_of(theirs, functions[ours], matched) == list(range(len(theirs.inputs)))
                if same and not made[ours].rows:
                    continue  # only the name changes
                call = call_of(node, theirs, functions[ours], matched, made[ours], place)
                if isinstance(call, str):
                    return call
                if node in own and call.passed:
                    return "it calls a function of its own class, and would have to pass its own parameters on"
                found[node] = call
        return found

    def target(self, holes: ClassHoles, made: Mapping[str, Parameterized], *, inside: bool) -> str:
        """The new name of the leader: its own only where it is public and unchanged."""
        leader = str(holes.leader.member)
        is_public = not inside and self.visibility.get(leader, "public") == "public"
        if is_public and not any(one.rows or one.types for one in made.values()):
            return leader
        base = f"class_{fingerprint(holes.leader, holes.matches[0].step).hex()[:12]}"
        names = chain([base], (f"{base}_{number}" for number in count(1)))
        name = next(name for name in names if name not in self.taken)
        self.taken.add(name)
        return name

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
            self.renaming.update({(name, symbols.get(root, root)): (one.target, entry) for root, entry in one.entries.items()})
        graphs = self.graphs()
        modules = self.modules()
        return replace(self.module, graphs=graphs, modules=modules, symbols=self.symbols(graphs, modules))

    def graphs(self) -> dict[str, Graph]:
        """The remaining functions, each rewritten once."""
        found: dict[str, Graph] = {}
        for name, graph in self.module.graphs.items():
            one = self.merged.get(name)
            if one is None or one.target == name:
                found[name] = self.rewritten(graph, None, self.renaming)
                continue
            if name == one.holes.leader.member:
                made = one.parameterized[name]
                changed = self.rewritten(graph, made, self.renaming)  # the bound inputs stay with the callers
                found[one.target] = Graph(changed.body, one.target, distinct_inputs=graph.distinct_inputs, functional=graph.functional)
            if self.visibility.get(name, "public") == "public":
                found[name] = _thunk(graph, one, name)
        return found

    def modules(self) -> dict[str, Module]:
        found: dict[str, Module] = {}
        for name, inner in self.module.modules.items():
            one = self.merged.get(name)
            if one is None:
                found[name] = inner
            elif name == one.holes.leader.member:
                entries, graphs = one.entries, {}
                renaming: Renaming = {(root,): (entry,) for root, entry in entries.items()}
                by_function = {_function_name(one.holes.leader, root): made for root, made in one.parameterized.items()}
                for old, graph in inner.graphs.items():
                    new = entries.get(old, old)
                    graphs[new] = replace(self.rewritten(graph, by_function.get(old), renaming), name=new)
                symbols = tuple([
                    replace(symbol, name=entries.get(symbol.name, symbol.name), attrs=_renamed_attrs(symbol.attrs, renaming))
                    for symbol in inner.symbols
                ])  # fmt: skip
                found[one.target] = replace(inner, name=one.target, graphs=graphs, symbols=symbols)
        return found

    def rewritten(self, graph: Graph, made: Parameterized | None, renaming: "Renaming") -> Graph:
        """A function with its new parameters, and calls of leaders."""
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
            rewriter.replace_node(node, [*lists, *constants, replace(node, id=new_id(), inputs=inputs, attrs=attrs)], reason=_REASON)
        changed = rewriter.finish()
        return changed if made is None or not (made.rows or made.types) else with_parameters(changed, made)

    def symbols(self, graphs: Mapping[str, Graph], modules: Mapping[str, Module]) -> tuple[Symbol, ...]:
        """The declarations of the remaining names."""
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
        private = [name for name in dict.fromkeys(made) if name in graphs and name not in declared and name not in self.module.graphs]
        if private:  # without declarations, all names can be called from outside
            found += [Symbol(name, "func::func") for name in graphs if name not in declared and name not in private]
            found += [Symbol(name, "func::func", "private") for name in private]
        return tuple(found)


def _entries(leader: Piece) -> dict[str, str]:
    """Names of entry points that are independent of their source; the functions behind them get the same names."""
    found = {root: f"entry_{place}" for place, root in enumerate(leader.roots) if f"entry_{place}" not in leader.named}
    found.update({_function_name(leader, root): entry for root, entry in found.items()})
    return found


# --- names and calls ----------------------------------------------------------------------------------------------------


def _function_name(piece: Piece, root: str) -> str:
    """The name of the function behind a root of an executable."""
    for body in piece.named.get(root, ()):
        reference = body.attrs.get("function_ref")
        if isinstance(reference, str):
            return symbols_in(reference)[-1]
    return root


Renaming = Mapping[tuple[str, ...], tuple[str, ...]]


def _paths(attrs: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The paths of names in attributes, each as a tuple of its names."""
    found: list[tuple[str, ...]] = []

    def note(text: str) -> str:
        found.extend(tuple(symbols_in(path)) for path in _PATH.findall(text))
        return text

    for value in attrs.values():
        _map_texts(value, note)
    return found


def _renamed_attrs(attrs: Mapping[str, Any], renaming: Renaming) -> FrozenDict[str, Any]:
    def path(found: re.Match[str]) -> str:
        names = tuple(symbols_in(found.group(0)))
        for length in (2, 1):
            if names[:length] in renaming:
                return "::".join(reference_to(name) for name in (*renaming[names[:length]], *names[length:]))
        return found.group(0)

    return FrozenDict({key: _map_texts(value, lambda text: _PATH.sub(path, text)) for key, value in attrs.items()})


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """An attribute with the texts that name symbols changed; attributes nest a few levels at most."""
    if isinstance(value, tuple | list):
        return tuple([_map_texts(item, change) for item in value])
    if isinstance(value, Mapping):
        return FrozenDict({key: _map_texts(item, change) for key, item in value.items()})
    return change(value) if isinstance(value, str) and "@" in value and not value.startswith('"') else value


def _thunk(function: Graph, one: _Merged, name: str) -> Graph:
    """Build a function that only calls the leader."""
    leader = one.holes.leader
    made = one.parameterized[str(leader.member)]
    place = next(i for i, piece in enumerate(one.holes.members) if piece.member == name)
    params = function.inputs  # the same Values, as other tables refer to them
    order = tuple(arguments_of(function, leader.graph, one.holes.matches[place]))
    call = Call(order, 0, len(params), made.passed_by(place), FrozenDict(callee=reference_to(one.target)))
    constants, inputs = call.operands(params)
    outputs = tuple([make_value(new_id(), value.type, value.name) for value in function.outputs])
    node = make_node(new_id(), "func::call", inputs, outputs, call.attrs, (), None, "")
    return replace(function, body=replace(function.body, id=new_id(), nodes=(*constants, node), returns=outputs))
