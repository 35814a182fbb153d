"""What a program is: frozen records of values, nodes and blocks in execution order.

* **Edges name values, not nodes.** A node lists the values it reads and the values it makes; who made a value and who
  reads it are indexes of the graph, derived on first use. Replacing a value therefore rebuilds its readers and the
  blocks around them, and nothing else: unchanged nodes are the same objects in both graphs.
* **Ids are never reused and survive passes.** The difference of two snapshots is set arithmetic, and a selection holds
  from one step to the next.
* **Order is part of the program**, because in-place ops are. `prim::If`, `prim::Loop` and fusion groups are nodes with
  blocks; there are no branches.
* **Records compare by identity.** Sameness is a function (`irscope.ir.structural.same_structure`).

Only `irscope.ir.rewriter.Rewriter` makes a new graph from an old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from itertools import count
from typing import Any, NamedTuple

from irscope._base.concurrency.cached import cached_property
from irscope._base.figures import Drawn
from irscope._base.frozen import EMPTY, fast_constructor
from irscope._base.words import listed, plural
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.types import Type

__all__ = ["Block", "Graph", "Location", "Module", "Node", "Symbol", "Use", "Value", "new_id"]

new_id = count(1).__next__
"""The next id; thread-safe, never reused in a process."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source."""

    file: str
    line: int
    column: int = 0
    live: bool = field(default=False, compare=False)
    """Whether Python told of this place in this process, rather than a text: only then may the file be read to show it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A name for one result. The same Value in two graphs is the same thing at two times."""

    id: int
    type: Type
    name: str = ""
    """What the user called it; printed when no other value of the graph has it. Empty: printed as a number."""

    def __repr__(self) -> str:
        return f"%{self.name or f'#{self.id}'}"


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One occurrence of an op."""

    id: int
    op: str
    """Namespace and name, `aten::add_`, without the overload."""
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    attrs: Mapping[str, Any] = EMPTY
    """Compile-time constants: int, float, complex, bool, str, None, Type, `TensorData`, tuples of these, `Opaque`."""
    blocks: tuple[Block, ...] = ()
    """Bodies of if, loop and groups; empty for everything else."""
    location: Location | None = None
    """Where in the user's source this came from; rewriting keeps it."""
    scope: str = ""
    """Module path, outermost first, dots between: `backbone.stage1.conv`."""
    meaning: Any = field(default=None, init=False, repr=False)
    """What the tables of ops say of it, kept by `irscope.ops.registry`, which is asked a dozen times about each node of a
    pass; op and operands cannot change. A copy or a pickle begins without."""

    def __getstate__(self) -> list[Any]:
        return [getattr(self, entry.name) for entry in fields(self) if entry.init] + [None]

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    def __repr__(self) -> str:
        names = listed(self.outputs, repr)
        return f"{names} = {self.op}" if names else self.op


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Nodes in execution order, with parameters and results."""

    id: int
    params: tuple[Value, ...] = ()
    nodes: tuple[Node, ...] = ()
    returns: tuple[Value, ...] = ()


make_value = fast_constructor(Value)
make_node = fast_constructor(Node)
make_block = fast_constructor(Block)


class Use(NamedTuple):
    """One reading of a value: operand `index` of `user`. For a block's result, `user` is that Block."""

    user: Node | Block
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody looks for here


@dataclass(frozen=True, eq=False)
class Graph(Drawn):
    """A whole program: one top block, and indexes derived from it on first use.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> g.node("y").op, [str(v.type) for v in g.inputs]
    ('aten::relu', ['Tensor'])
    """

    body: Block
    name: str = "graph"
    bound: Mapping[Value, Any] = field(default_factory=dict)
    """Inputs that already have a value (a model's parameters and buffers); a caller passes only the others, in order."""
    distinct_inputs: bool = False
    """Whether the caller promises that no two inputs share memory; without the promise they may."""
    functional: str = ""
    """The language that the program comes from, if its values have no memory that another could share (`ONNX`,
    `StableHLO`): its inputs are then distinct by construction."""
    gradients: Mapping[str, int] = field(default_factory=dict)
    """Of a joint graph of forward and backward: whose gradient each of the further results is, by the name of a parameter or
    an argument; the number counts all results."""
    tied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The further names under which a model holds a bound input, by the name that it has here: tied weights are one input."""
    argument_paths: tuple[tuple[Any, ...], ...] = ()
    """Of a program that was loaded with nested arguments: the way to each free input in them, the argument's place first
    (`(0,)`, `(1, "w")`). Empty where none is known, or all arguments are plain."""
    modes: Callable[[], str] | None = None
    """Says in words whether the model that the program was captured from has been switched to another mode since (training,
    evaluation), and gives an empty text if it has not; None where nothing depends on such modes."""
    default_floats: str = ""
    """The op of a node that a pass replaced by a constant, if it made floats of the type that is torch's default: as
    float32, which is checked at each call."""
    storages: Mapping[Value, int] = field(default_factory=dict)
    """What is assumed of memory, and checked at each call of the compiled program: two of these bound inputs lie in one
    storage only if their numbers are equal, and no argument lies in any of them. Empty: nothing is assumed."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All inputs, bound ones included."""
        return self.body.params

    @property
    def free_inputs(self) -> tuple[Value, ...]:
        """The inputs that a caller passes."""
        return tuple(value for value in self.body.params if value not in self.bound)

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.body.returns

    def blocks(self) -> Iterator[Block]:
        """Every block, each before the blocks inside it, in textual order."""
        stack = [self.body]
        while stack:
            block = stack.pop()
            yield block
            stack.extend(reversed([inner for node in block.nodes for inner in node.blocks]))

    def nodes(self) -> Iterator[Node]:
        """Every node of every block in textual order, a node before the nodes of its blocks."""
        stack = [iter(self.body.nodes)]
        while stack:
            for node in stack[-1]:
                yield node
                if node.blocks:
                    stack.extend(iter(block.nodes) for block in reversed(node.blocks))
                    break
            else:
                stack.pop()

    def values(self) -> Iterator[Value]:
        """Every value in textual order of definition."""
        yield from self.body.params
        for node in self.nodes():
            yield from node.outputs
            for block in node.blocks:
                yield from block.params

    @cached_property
    def producer(self) -> Mapping[Value, Node]:
        """The node that makes each value; block parameters have none."""
        return {value: node for node in self.nodes() for value in node.outputs}

    @cached_property
    def users(self) -> Mapping[Value, tuple[Use, ...]]:
        """Each value's readings in textual order; a value without one is missing."""
        uses: dict[Value, list[Use]] = {}
        for block in self.blocks():
            for node in block.nodes:
                for index, value in enumerate(node.inputs):
                    uses.setdefault(value, []).append(Use(node, index))
            for index, value in enumerate(block.returns):
                uses.setdefault(value, []).append(Use(block, index))
        return {value: tuple(found) for value, found in uses.items()}

    @cached_property
    def position(self) -> Mapping[Node, int]:
        """Each node's place in textual order over all blocks."""
        return {node: index for index, node in enumerate(self.nodes())}

    @cached_property
    def block_of(self) -> Mapping[Node | Value, Block]:
        """The block that directly holds each node, or defines each value."""
        holder: dict[Node | Value, Block] = {}
        for block in self.blocks():
            holder.update(dict.fromkeys(block.params, block))
            for node in block.nodes:
                holder[node] = block
                holder.update(dict.fromkeys(node.outputs, block))
        return holder

    @cached_property
    def owner(self) -> Mapping[Block, Node]:
        """The node whose body each block is; the top block has none."""
        return {block: node for node in self.nodes() for block in node.blocks}

    @cached_property
    def names(self) -> Mapping[Value, str]:
        """The printed name of each value, without `%`; unique, and stable under parse and print."""
        from irscope.ir.text import assign_names

        return assign_names(self)

    @cached_property
    def keeps_given_names(self) -> bool:
        """Whether every value is printed under the name that it was given: all are legal, and no two the same."""
        from irscope.ir.text import keeps_given_names

        return keeps_given_names(self)

    @cached_property
    def _value_by_name(self) -> Mapping[str, Value]:
        return {name: value for value, name in self.names.items()}

    def select(self, query: str) -> list[Value | Node]:
        """What a query finds, in the order of the program: `g.select("op:conv & bytes>1e6")`.

        The terms are those of `irs.explore(g).select`, which selects what it finds in all views.
        Raises ArgumentError for a query that cannot be read, UnknownName for a name that the program does not have.

        >>> import irscope as irs
        >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
        >>> g.select("op:relu & reads %x")
        [%y = aten::relu]
        """
        found: list[Value | Node] = type(self).drawing().select(self, query)
        return found

    def value(self, name: str | Value) -> Value:
        """The value with this printed name (with or without `%`); a Value of this graph is given back.

        Raises UnknownName, with near misses in the hint.
        """
        if isinstance(name, Value):
            if name not in self.names:
                raise UnknownName(f"{name!r} is not a value of graph {self.name!r}", hint="ask the graph it came from")
            return name
        if not isinstance(name, str):
            raise _no_name("value", name)
        found = self._value_by_name.get(name.removeprefix("%"))
        if found is None:
            raise _unknown("value", f"%{name.removeprefix('%')}", self, self._value_by_name)
        return found

    def node(self, name: str | Value | Node) -> Node:
        """The node that makes a value, or `"aten::add_#1"`: the second `aten::add_` in textual order.

        A Node of this graph is given back. Raises UnknownName.
        """
        if isinstance(name, Node):
            if name not in self.position:
                raise UnknownName(f"{name!r} is not a node of graph {self.name!r}", hint="ask the graph it came from")
            return name
        if not isinstance(name, str | Value):
            raise _no_name("node", name)
        if isinstance(name, str) and "::" in name and not name.startswith("%"):
            op, _, index = name.partition("#")
            of_kind = [node for node in self.nodes() if node.op == op]
            if not (index or "0").isdigit() or int(index or 0) >= len(of_kind):
                kinds = sorted({node.op for node in self.nodes()})
                near = (
                    ", ".join(get_close_matches(op, kinds))
                    if not of_kind
                    else f"there are {len(of_kind)}, counted from #0"
                )
                raise UnknownName(f"graph {self.name!r} has no node {name!r}", hint=near)
            return of_kind[int(index or 0)]
        value = self.value(name)
        found = self.producer.get(value)
        if found is None:
            raise UnknownName(f"%{self.names[value]} is an input or a block parameter; no node makes it")
        return found

    def __str__(self) -> str:
        from irscope.ir.text import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        counts = (self.position, "node"), (self.inputs, "input"), (self.outputs, "output")
        return f"<Graph {self.name!r}: {', '.join(plural(len(things), noun) for things, noun in counts)}>"


@dataclass(frozen=True, eq=False)
class Symbol:
    """A name that a module declares: a function, an executable's export, a global, a module inside."""

    name: str
    kind: str
    """The op that declares it: `func::func`, `flow::executable.export`, `util::global`."""
    visibility: str = "public"
    """`public`, `private` or `nested`: whether the name can be meant from outside."""
    attrs: Mapping[str, Any] = EMPTY
    body: Graph | None = None
    """A graph that belongs to the symbol and is not the function of this name: an export's count of workgroups."""


@dataclass(frozen=True, eq=False)
class Module:
    """Named graphs, constants, and modules inside: a file of several functions, an executable.

    A call by name means a graph of the same module. `irscope.ir.module` prints, reads, verifies and inlines modules.
    """

    graphs: Mapping[str, Graph]
    constants: Mapping[str, Any] = field(default_factory=dict)
    """The initial values of globals and read-only data, by name."""
    name: str = "module"
    modules: Mapping[str, Module] = field(default_factory=dict)
    """Executables and other modules inside, by name."""
    symbols: tuple[Symbol, ...] = ()
    """What the source says of the names, in its order; a name may stand for an export and for its function."""
    attrs: Mapping[str, Any] = EMPTY

    def __str__(self) -> str:
        from irscope.ir.text import print_module

        return print_module(self)

    def __repr__(self) -> str:
        counts = (self.graphs, "graph"), (self.modules, "module"), (self.constants, "constant")
        told = ", ".join(plural(len(things), noun) for things, noun in counts if things or noun == "graph")
        return f"<Module {self.name!r}: {told}>"


def _no_name(kind: str, given: object) -> ArgumentError:
    what = f"a {kind} is asked for by itself or by its printed name, not by {type(given).__name__}"
    return ArgumentError(what, hint="print(graph) shows all names")


def _unknown(kind: str, name: str, graph: Graph, known: Mapping[str, object]) -> UnknownName:
    near = get_close_matches(name.removeprefix("%"), list(known)[:20_000], n=3)
    hint = f"did you mean {', '.join(f'%{n}' for n in near)}?" if near else "print(graph) shows all names"
    return UnknownName(f"graph {graph.name!r} has no {kind} {name}", hint=hint)
