"""The core IR: frozen records of values, nodes and blocks in execution order, and walks over them.

* **Edges name values, not nodes.** A node lists its operands and its results; the producer and the users of a value
  are indexes of the graph, derived on first use. Replacing a value therefore rebuilds only its users and the
  blocks around them: unchanged nodes are the same objects in both graphs.
* **Ids are never reused and survive passes.** The difference of two snapshots is set arithmetic, and a selection stays
  valid from one step to the next.
* **Order is part of the program**, because it has in-place ops. `prim::If`, `prim::Loop` and fusion groups are nodes with
  blocks; there are no branches.
* **Records compare by identity.** Structural equality is a function (`irscope.ir.structural.same_structure`).

Only `irscope.ir.rewriter.Rewriter` derives a new graph from an old one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from itertools import count
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple
from weakref import ref

from irscope._base.frozen import EMPTY, fast_constructor
from irscope._base.results import Drawn
from irscope._base.words import listed, one_line, plural
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.types import Type

new_id = count(1).__next__
"""The next id; thread-safe, never reused in a process."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source."""

    file: str
    line: int
    column: int = 0
    live: bool = field(default=False, compare=False)
    """Whether Python reported this place in this process, rather than a text: only then may the file be read to show it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def short(self) -> str:
        """The line without the folders of its file, `model.py:12`."""
        return one_line(f"{PurePath(self.file).name}:{self.line}")


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One result or parameter. The same Value in two graphs is one value before and after a pass."""

    id: int
    type: Type
    name: str = ""
    """The user's name for it, printed if no other value of the graph has that name. Empty: printed as a number."""

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
    blocks: "tuple[Block, ...]" = ()
    """Bodies of if, loop and groups; empty for everything else."""
    location: Location | None = None
    """The place in the user's source that this came from; rewriting keeps it."""
    scope: str = ""
    """Module path, outermost first, dots between: `backbone.stage1.conv`."""
    meaning: Any = field(default=None, init=False, repr=False)
    """A cache for `irscope.ops.registry`, which is queried a dozen times for each node in a pass; it stays valid because op
    and operands cannot change. A copy or a pickle starts without it."""

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
    """Nodes in execution order, with parameters and returned values."""

    id: int
    params: tuple[Value, ...] = ()
    nodes: tuple[Node, ...] = ()
    returns: tuple[Value, ...] = ()


make_value = fast_constructor(Value)
make_node = fast_constructor(Node)
make_block = fast_constructor(Block)


class Use(NamedTuple):
    """One use of a value: operand `index` of `user`. For a value that a block returns, `user` is that Block."""

    user: Node | Block
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not needed here


class Origin:
    """The function or model that a program was read from. A copy or a pickle of the program is without it, and a program keeps no
    model alive: only functions, which may have no other owner."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._get: Callable[[], Callable[..., Any] | None] = ref(function) if hasattr(function, "parameters") else lambda: function

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function or model; None for a model that is gone."""
        return self._get()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


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
    """Inputs that already have a value (a model's parameters and buffers); a caller passes only the other inputs, in order."""
    distinct_inputs: bool = False
    """Whether the caller promises that no two inputs share memory; without the promise they may."""
    functional: str = ""
    """The language that the program comes from, if its values have no memory that others could share (`ONNX`,
    `StableHLO`): its inputs are then distinct by construction."""
    gradients: Mapping[str, int] = field(default_factory=dict)
    """For a joint graph of forward and backward: the result that is the gradient of each parameter or argument, by its name;
    the number is an index into all results."""
    tied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further names under which a model holds a bound input, by its name here: tied weights are one input."""
    argument_paths: tuple[tuple[Any, ...], ...] = ()
    """For a program loaded with nested arguments: the path to each free input in them, the argument's position first
    (`(0,)`, `(1, "w")`). Empty if no path is known, or no argument is nested."""
    modes: Callable[[], str] | None = None
    """Returns a sentence if the model that the program was captured from has been switched to another mode since (training,
    evaluation), or holds other tensors, and an empty text if not; None if there is nothing to watch. Raises RunError if weights have
    been written that a pass computed others from."""
    default_floats: str = ""
    """The op of a node that a pass replaced by a constant, if the node created floats of torch's default type: float32 is
    assumed, which is checked at each call."""
    origin: Origin | None = field(default=None, repr=False)
    """What the user wrote, if that can be called: measurements tell times against it."""
    storages: Mapping[Value, int] = field(default_factory=dict)
    """An assumption about memory, checked at each call of the compiled program: two of these bound inputs are in one
    storage only if their numbers are equal, and no argument is in any of them. Empty: nothing is assumed."""

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
        return with_inner(*self.body.nodes)

    def values(self) -> Iterator[Value]:
        """Every value in textual order of definition."""
        values = list(self.body.params)  # a list is faster than nested generators
        stack = [iter(self.body.nodes)]
        while stack:
            for node in stack[-1]:
                values += node.outputs
                blocks = node.blocks
                if blocks:
                    for block in blocks:
                        values += block.params
                    stack += [iter(block.nodes) for block in blocks[::-1]]
                    break
            else:
                stack.pop()
        return iter(values)

    @cached_property
    def producer(self) -> Mapping[Value, Node]:
        """The node that produces each value; block parameters have none."""
        return {value: node for node in self.nodes() for value in node.outputs}

    @cached_property
    def users(self) -> Mapping[Value, tuple[Use, ...]]:
        """Each value's uses in textual order; a value without uses is missing."""
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
        """Each node's position in textual order over all blocks."""
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
    def numbers_gone(self) -> frozenset[str]:
        """The numbers that unnamed values of the graphs before it had: no other value has one of them."""
        return frozenset()

    @cached_property
    def keeps_given_names(self) -> bool:
        """Whether every value is printed under its given name: all names are legal and distinct."""
        from irscope.ir.text import keeps_given_names

        return keeps_given_names(self)

    @cached_property
    def _value_by_name(self) -> Mapping[str, Value]:
        return {name: value for value, name in self.names.items()}

    def select(self, query: str) -> list[Value | Node]:
        """The values and nodes that match a query, in program order: `g.select("op:conv & bytes>1e6")`.

        The terms are those of `irs.explore(g).select`, which selects the matches in all views.
        Raises ArgumentError for an invalid query, UnknownName for a name that the program does not have.

        >>> import irscope as irs
        >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
        >>> g.select("op:relu & reads %x")
        [%y = aten::relu]
        """
        found: list[Value | Node] = type(self).drawing().select(self, query)
        return found

    def value(self, name: str | Value) -> Value:
        """The value with this printed name (with or without `%`); a Value of this graph is returned as it is.

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
        """The node that produces a value, or `"aten::add_#1"`: the second `aten::add_` in textual order.

        A Node of this graph is returned as it is. Raises UnknownName.
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
            number = int(index or 0) if (index or "0").isdecimal() and len(index) < 20 else len(of_kind)
            if number >= len(of_kind):
                near = get_close_matches(op, sorted({node.op for node in self.nodes()}))
                hint = f"there are {len(of_kind)}, counted from #0" if of_kind else f"did you mean {' or '.join(near)}?" if near else ""
                hint = f"there is one, {op}#0" if len(of_kind) == 1 else hint
                raise UnknownName(f"graph {self.name!r} has no node {name!r}", hint=hint)
            return of_kind[number]
        value = self.value(name)
        found = self.producer.get(value)
        if found is None:
            raise UnknownName(f"%{self.names[value]} is an input or a block parameter; no node produces it")
        return found

    def __str__(self) -> str:
        from irscope.ir.text import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        counts = (self.position, "node"), (self.inputs, "input"), (self.outputs, "output")
        return f"<Graph {self.name!r}: {', '.join(plural(len(things), noun) for things, noun in counts)}>"


@dataclass(frozen=True, eq=False)
class Symbol:
    """A name that a module declares: a function, an executable's export, a global, a nested module."""

    name: str
    kind: str
    """The op that declares it: `func::func`, `flow::executable.export`, `util::global`."""
    visibility: str = "public"
    """`public`, `private` or `nested`: whether the name is visible from outside."""
    attrs: Mapping[str, Any] = EMPTY
    body: Graph | None = None
    """A graph that belongs to the symbol and is not the function of this name, such as an export's count of workgroups."""


@dataclass(frozen=True, eq=False)
class Module:
    """Named graphs, constants and nested modules: a file of several functions, an executable.

    A call by name refers to a graph of the same module. `irscope.ir.module` prints, reads, verifies and inlines modules.
    """

    graphs: Mapping[str, Graph]
    constants: Mapping[str, Any] = field(default_factory=dict)
    """The initial values of globals and read-only data, by name."""
    name: str = "module"
    modules: "Mapping[str, Module]" = field(default_factory=dict)
    """Executables and other nested modules, by name."""
    symbols: tuple[Symbol, ...] = ()
    """The declarations of names, in source order; one name may denote both an export and its function."""
    attrs: Mapping[str, Any] = EMPTY

    def __str__(self) -> str:
        from irscope.ir.text import print_module

        return print_module(self)

    def __repr__(self) -> str:
        counts = (self.graphs, "graph"), (self.modules, "module"), (self.constants, "constant")
        text = ", ".join(plural(len(things), noun) for things, noun in counts if things or noun == "graph")
        return f"<Module {self.name!r}: {text}>"


_MOST_IN_HINT: Final = 12


def _no_name(kind: str, given: object) -> ArgumentError:
    what = f"a {kind} is looked up by itself or by its printed name, not by {type(given).__name__}"
    return ArgumentError(what, hint="print(graph) shows all names")


def _unknown(kind: str, name: str, graph: Graph, known: Mapping[str, object]) -> UnknownName:
    near = get_close_matches(name.removeprefix("%"), list(known)[:20_000], n=3)
    few = [f"%{each}" for each in known] if len(known) <= _MOST_IN_HINT else []
    all_names = f"there are {', '.join(few)}" if few else "print(graph) shows all names"
    hint = f"did you mean {', '.join(f'%{n}' for n in near)}?" if near else all_names
    op = next((node.op for node in graph.nodes() if node.op.partition("::")[2] == name.removeprefix("%")), None)
    hint = f"{op}#0 is the first {op}" if op is not None else hint
    return UnknownName(f"graph {graph.name!r} has no {kind} {name}", hint=hint)


# Ops that have a program in a block, classified by when it runs; by name, since none of them has a schema.

CONTROL_FLOW: Final = frozenset({"prim::If", "prim::Loop"})
"""Ops that run a block never, once or repeatedly; values of the enclosing blocks are visible inside."""

GROUPS: Final = frozenset({
    "prim::FusionGroup", "prim::CudaFusionGroup", "prim::oneDNNFusionGroup", "prim::MKLDNNGroup", "prim::TensorExprGroup",
    "prim::TensorExprDynamicGroup", "prim::DifferentiableGraph", "prim::FunctionalGraph", "prim::FallbackGraph",
    "prim::StaticSubgraph",
})  # fmt: skip
"""Ops that only run their one block, once, in their place, on their operands. The block is a graph of its own: only
its parameters are visible inside. Torch keeps it in the attribute `Subgraph`, and all its fusers and their guards
(TorchScript 2.13) create nodes of these names."""

ISOLATED: Final = GROUPS | {"prim::fork", "prim::awaitable"}
"""Ops whose block sees only its parameters: groups, and tasks, whose block runs at some time before a wait returns."""


def has_kernel(node: Node) -> bool:
    """Whether a node is a group that runs as kernels; one of kind `"view"` runs as its views.

    >>> has_kernel(Node(1, "prim::FusionGroup")), has_kernel(Node(1, "prim::FusionGroup", attrs={"kind": "view"}))
    (True, False)
    """
    return node.op == "prim::FusionGroup" and node.attrs.get("kind") != "view"


# Walks over a program, as steps so that nesting needs no recursion on the Python stack.


class Step(NamedTuple):
    """One step of a walk through a program in textual order.

    enter and leave: a block begins or ends, `node` owns it (None: the top block). node: a node, before its blocks.
    done: a node with blocks, after them; from here on its results are visible.
    """

    kind: Literal["enter", "node", "leave", "done"]
    node: Node | None
    block: Block
    """The block entered or left; for a node, the block that holds it."""
    place: int
    """The index of the block in its owner, or of the node in its block."""


def steps(graph: Graph) -> Iterator[Step]:
    """All steps through a program, from entering its top block to leaving it."""
    stack: list[Iterator[Step]] = [_inside(None, graph.body, 0)]
    while stack:
        for step in stack[-1]:
            yield step
            if step.kind == "node" and step.node is not None and step.node.blocks:
                stack.append(iter([Step("done", step.node, step.block, step.place)]))
                stack.extend(_inside(step.node, step.node.blocks[i], i) for i in reversed(range(len(step.node.blocks))))
                break
        else:
            stack.pop()


def _inside(owner: Node | None, block: Block, index: int) -> Iterator[Step]:
    yield Step("enter", owner, block, index)
    for position, node in enumerate(block.nodes):
        yield Step("node", node, block, position)
    yield Step("leave", owner, block, index)


def nest_of(block: Block) -> Iterator[Node]:
    """Yields the nodes of a block and of the branches and loops in it, each before what is in it."""
    stack = [iter(block.nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.op in CONTROL_FLOW:
                stack.append(iter([each for inner in node.blocks for each in inner.nodes]))
                break
        else:
            stack.pop()


def with_inner(*nodes: Node) -> Iterator[Node]:
    """Yields nodes and all that are in their blocks, each before what is in it."""
    stack = [iter(nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.blocks:
                stack.extend(iter(block.nodes) for block in reversed(node.blocks))
                break
        else:
            stack.pop()


def reads_of(node: Node) -> Iterator[Value]:
    """Yields what a node, the nodes in its blocks and the blocks' results read."""
    return (value for each in with_inner(node) for read in (each.inputs, *(block.returns for block in each.blocks)) for value in read)


def nodes_called(graph: Graph, name: str) -> tuple[Node, ...]:
    """The nodes that a person may mean by a name, in program order; none if it means none.

    A name is that of an op (`"relu"`, `"aten::relu"`) or of a result (`"relu_1"`), a line of the source (`"model.py:12"`), or a module,
    with all that is inside of it (`"blocks.0"`, `"mlp"`). Constants are left out.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x), scope: mlp.act # model.py:12:0\\n  return (%y)")
    >>> [nodes_called(g, name)[0].op for name in ("relu", "y", "model.py:12", "mlp")]
    ['aten::relu', 'aten::relu', 'aten::relu', 'aten::relu']
    """
    maker = graph.producer.get(graph._value_by_name[name]) if name in graph._value_by_name else None
    places = [node for node in graph.position if node.op != "prim::Constant"]
    line, module = f"/{name}", f".{name.removeprefix('self.')}."
    ways: tuple[Callable[[Node], bool], ...] = (
        lambda node: node is maker or name in (node.op, node.op.partition("::")[2]),
        lambda node: (at := f"/{node.location}").endswith(line) or at.rpartition(":")[0].endswith(line),  # `model.py:12`, `model.py:12:0`
        lambda node: module in f".{node.scope}.",
    )
    return next((found for way in ways if (found := tuple(filter(way, places)))), ())


def count_uses(graph: Graph) -> Counter[Value]:
    """The number of uses of each value as an operand or a block's result, over all blocks; much faster than `Graph.users`."""
    readings: Counter[Value] = Counter()
    for block in graph.blocks():
        readings.update(value for node in block.nodes for value in node.inputs)
        readings.update(block.returns)
    return readings
