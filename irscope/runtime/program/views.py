"""Views of what a program computes: those that the library reads are made in one step each, those that kernels read never.

A chain of views leads to the same strides from the same element whenever its root has the same layout, whatever is computed. So the
chain runs once for each layout of the root. Afterwards a *view maker* makes all views of a root that the library reads directly from
its memory, at half the cost of one view by torch; a group or layer reads the root at an offset (`GroupCall.views`).
A run that is watched makes every view, as the program says.

**What stays as it is.** Views that a result of the program may share memory with, since a caller may ask for their base; all of them
in a program that writes memory, since torch counts the writes of a tensor and its views together; those that a run may decide to copy;
`as_strided`, which counts from the start of the storage, wherever in it a tensor of this layout begins.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from irscope._base.nested import grouped
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.analysis.views import ViewAliases
from irscope.ir import Graph, Node, TensorType, Value
from irscope.ops.registry import effect_of
from irscope.ops.traits import LAYOUT_READERS
from irscope.runtime.arrays import TorchMemory, compiled_text
from irscope.runtime.program.code import Code, Instruction
from irscope.runtime.program.groups import GroupCall, LayerKernel

Chain = Callable[[Any], Any]
"""Returns a view of a tensor, by the library's own ops."""
_MOST: Final = 64
"""Layouts of a root that a view maker remembers."""


class ViewMaker:
    """The views of one tensor: `call` returns them, a single one alone. As in a `GroupCall`, it is the function for the layout that
    was used last."""

    __slots__ = ("call", "chains", "known", "memory")

    def __init__(self, chains: Sequence[Chain], memory: TorchMemory) -> None:
        self.chains = chains
        self.memory = memory
        self.call: Chain = self.look_up
        self.known: dict[Hashable, tuple[Chain, Chain]] = {}
        """By layout, what makes the views, and the same behind a test of the layout."""

    def look_up(self, root: Any) -> Any:
        """Makes the views from the memory of the root if its layout is known, else by their chains."""
        if not (self.memory.owns(root) and self.memory.is_plain([root])):
            made = self._made(root)
            return made[0] if len(made) == 1 else made
        key = self.memory.key((root,)), self.memory.dispatch_keys(root)
        found = self.known.get(key)
        if found is None:
            made = self._made(root)
            if None in key or any(self.memory.offset(root, view) is None for view in made):
                return made[0] if len(made) == 1 else made
            if len(self.known) >= _MOST:
                self.known = {}
            self.known[key] = found = self._written(root, made)
        make, self.call = found
        return make(root)

    def _made(self, root: Any) -> list[Any]:
        return [chain(root) for chain in self.chains]

    def _written(self, root: Any, made: Sequence[Any]) -> tuple[Chain, Chain]:
        names: dict[str, Any] = {"miss": self.look_up, "alias": self.memory.alias}
        quick = self.memory.quick_test(["x"], [root], names, inside=True)
        views = []
        for place, view in enumerate(made):
            names[f"size{place}"], names[f"stride{place}"] = tuple(view.shape), view.stride()
            views.append(f"alias(x, size{place}, stride{place}, {view.storage_offset() - root.storage_offset()})")
        text = f"""
def make(x):
    return {", ".join(views)}

def call(x):
    if {quick or False}: return {", ".join(views)}
    return miss(x)
"""
        exec(compiled_text(text), names)  # only counts
        return names["make"], names["call"]


def _link(function: Callable[..., Any], constants: Sequence[Any], item: int | None) -> Chain:
    """Returns one view op as a function of the tensor that it views; `item`: which of its results is meant."""
    return lambda tensor: function(tensor, *constants) if item is None else function(tensor, *constants)[item]


def _chain(links: Sequence[Chain]) -> Chain:
    return lambda tensor: reduce(lambda made, link: link(made), links, tensor)


def with_fewer_views(code: Code, graph: Graph, kernels: Mapping[Node, GroupCall | LayerKernel], memory: TorchMemory) -> list[Instruction]:
    """Returns the instructions of an unwatched run, at the same positions: some do nothing, and kernels read roots in place of views.

    `kernels` are the groups and layers of the program's body that run as kernels."""
    return _Plan(code, graph, kernels, memory).instructions()


class _Plan:
    def __init__(self, code: Code, graph: Graph, kernels: Mapping[Node, GroupCall | LayerKernel], memory: TorchMemory) -> None:
        self.graph, self.kernels, self.memory = graph, kernels, memory
        self.steps, self.template = list(code.instructions), code.template
        body = set(graph.body.nodes)
        self.at = {step.node: place for place, step in enumerate(self.steps) if step.node in body and step.kind in ("call", "group")}
        self.slot: dict[Value, int] = {}
        for node, place in self.at.items():
            self.slot.update(zip(node.inputs, self.steps[place].reads, strict=True))
            self.slot.update(zip(node.outputs, self.steps[place].writes, strict=True))
        self.views: set[Node] = set()
        """Nodes that do nothing but view."""
        self.source: dict[Value, tuple[Value, tuple[Chain, ...]]] = {}
        """The root of each of their results, and how the library makes it of the root."""

    def instructions(self) -> list[Instruction]:
        self._find()
        without = self.views | (self.kernels.keys() & self.at.keys())  # what reads a view, and then its root instead
        read = {value for value in self.source if not {use.user for use in self.graph.users.get(value, ())} <= without}
        tensors = ((root, value) for value, (root, _) in self.source.items() if isinstance(value.type, TensorType))
        made = grouped((root, value) for root, value in tensors if value in read)
        for node in self.views:
            self._exchange(node, kind="move", reads=(), writes=(), function=None)
        for root, values in made.items():
            first = min([self.graph.producer[value] for value in values], key=self.at.__getitem__)
            maker = ViewMaker([_chain(self.source[value][1]) for value in values], self.memory)
            self._exchange(first, kind="group", reads=(self.slot[root],), writes=tuple(map(self.slot.__getitem__, values)), function=maker)
        for node, kernel in self.kernels.items():
            if node in self.at:
                self._read_roots(node, kernel)
        self._let_go({value for values in made.values() for value in values})
        return self.steps

    def _exchange(self, node: Node, **changes: Any) -> None:
        self.steps[self.at[node]] = replace(self.steps[self.at[node]], **changes)

    def _find(self) -> None:
        graph, db, placements = self.graph, alias_db_of(self.graph), ViewAliases(self.graph, shapes_of(self.graph))

        def may_go(value: Value) -> bool:
            """Whether it is a view in every run, which no result of the program shares memory with."""
            if isinstance(value.type, TensorType):
                placement = placements.placement(value)
                if placement.kind != "view" or not placement.is_decided or placement.in_place:
                    return False
            return not any(db.may_contain_alias(value, out) for out in graph.outputs)

        for node in graph.body.nodes:
            if node in self.kernels or node not in self.at or not (self._is_view(node) and all(map(may_go, node.outputs))):
                continue
            given, step = node.inputs[0], self.steps[self.at[node]]
            root, links = self.source.get(given, (given, ()))
            constants = tuple([self.template[slot] for slot in step.reads[1:]])
            for place, value in enumerate(node.outputs):
                link = _link(step.function, constants, place if len(node.outputs) > 1 else None)
                self.source[value] = root, (*links, link)
            self.views.add(node)

    def _is_view(self, node: Node) -> bool:
        """Checks for an op that only views its first operand, which is of known extents, in a way that constants say."""
        if node.op == "prim::ListUnpack":
            return node.inputs[0] in self.source
        if effect_of(node) != "view" or node.op in LAYOUT_READERS or not node.inputs or len(node.outputs) != 1:
            return False
        given, made, producer = node.inputs[0].type, node.output, self.graph.producer
        users = [use.user for use in self.graph.users.get(made, ())]
        is_taken_apart = all(isinstance(user, Node) and user.op == "prim::ListUnpack" and user in self.at for user in users)
        is_fit = isinstance(given, TensorType) and given.is_static and (isinstance(made.type, TensorType) or is_taken_apart)
        return is_fit and all(value in producer and producer[value].op == "prim::Constant" for value in node.inputs[1:])

    def _read_roots(self, node: Node, kernel: GroupCall | LayerKernel) -> None:
        inputs = kernel.inputs if isinstance(kernel, LayerKernel) else node.inputs
        views = {place: _chain(self.source[value][1]) for place, value in enumerate(inputs) if value in self.source}
        if views or isinstance(kernel, LayerKernel):
            roots = tuple([self.slot[self.source[value][0] if value in self.source else value] for value in inputs])
            self._exchange(node, kind="group", reads=roots, function=kernel.viewing(views))

    def _let_go(self, made: set[Value]) -> None:
        """Has each root die after its last reader, where a view of it died, and a view that is not made nowhere."""
        dies = {slot: place for place, step in enumerate(self.steps) for slot in step.dead}
        last: dict[int, int] = {}
        for place in sorted(self.at.values()):
            last.update(dict.fromkeys(self.steps[place].reads, place))
        roots = {self.slot[root] for root, _ in self.source.values()}
        later = {slot: last[slot] for slot in roots & dies.keys() & last.keys() if last[slot] > dies[slot]}
        gone = later.keys() | {self.slot[value] for value in self.source if value not in made}
        for place, step in enumerate(self.steps):
            if not gone.isdisjoint(step.dead):
                self.steps[place] = replace(step, dead=tuple([slot for slot in step.dead if slot not in gone]))
        for slot, place in later.items():
            self.steps[place] = replace(self.steps[place], dead=(*self.steps[place].dead, slot))
