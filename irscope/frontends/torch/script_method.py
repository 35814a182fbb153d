"""Reads one TorchScript method as a flat list of steps, once through torch's bindings; it is then copied once per
module.

A binding call costs 0.3 µs and a list of inputs 8 µs, and a network calls the same few methods a hundred times, so the
C++ graph of each (class, method) is walked once. Steps are flat (a block opens and closes), so nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Literal, NamedTuple

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.frontends.torch.values import payload_of, require_torch, tensor_data
from irscope.ir import Location, Type
from irscope.ir.text import parse_type

__all__ = ["CALL", "Method", "Slot", "Step", "prepare", "read_method"]

_PYTHON = "prim::PythonOp"
"""A Python function: an autograd function, whose forward a trace has recorded in the subgraph."""
CALL = "prim::CallMethod"
"""A call that is inlined here if the submodule is known; torch's pass loses which module list it was in."""


class Slot(NamedTuple):
    """A value of the method: its number (unique in the method), name and type."""

    number: int
    name: str
    type: Type


class Step(NamedTuple):
    """One action while a method is copied."""

    do: Literal["node", "open", "block", "end", "close", "get", "call", "same"]
    """node: append it. open: start a node with blocks; then for each of them block … end; close finishes the node. get:
    read an attribute. call: continue in the method `attrs["name"]` of the first input. same: each output is another
    number for an input."""
    op: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[Slot, ...] = ()
    """A node's results, or a block's parameters."""
    attrs: Mapping[str, Any] = EMPTY
    location: Location | None = None
    scope: str = ""
    """The module path according to a traced graph itself."""


class Method(NamedTuple):
    """A method's parameters (`self` first), steps and results."""

    params: tuple[Slot, ...]
    steps: tuple[Step, ...]
    returns: tuple[int, ...]


def prepare(graph: Any, written: Set[tuple[str, str]], *, simplify: bool) -> Any:
    """Returns a copy of a method's C++ graph with everything inlined except the calls of known submodules.

    `written` has the (class, attribute) pairs that the program assigns, whose values are not known. `simplify` folds
    what the method's own constants decide, as torch does with every graph that it inlines.
    """
    passes = require_torch("to inline a scripted method")._C
    graph = graph.copy()
    own = next(graph.inputs(), None)
    kept = [node for node in graph.findAllNodes(CALL, True) if own and _is_attribute_of(node.inputsAt(0), own, written)]
    hidden = [_retag(graph, node, "irscope::call") for node in kept]
    inline_calls(graph)
    for node in hidden:
        _retag(graph, node, CALL)
    if simplify:
        passes._jit_pass_peephole(graph, True)
        passes._jit_pass_constant_propagation_immutable_types(graph)
        passes._jit_pass_constant_pooling(graph)
    return graph


def inline_calls(graph: Any) -> None:
    """Inlines the calls of methods and functions in `graph`, by torch's pass.

    The pass inlines a callee in the form that was stored for execution (2.13). A callee that first ran under
    `optimized_execution(False)` was stored with its own function calls, so each round removes one level; TorchScript
    has no recursion.
    """
    inline = require_torch("to inline a scripted method")._C._jit_pass_inline
    inline(graph)
    while any(
        node.inputsAt(0).node().kind() == "prim::Constant"  # the callee is known statically
        for node in graph.findAllNodes("prim::CallFunction", True)
    ):
        inline(graph)


def _retag(graph: Any, node: Any, kind: str) -> Any:
    """Replaces a node by one of another kind: torch's pass inlines every node whose kind is a call."""
    call = graph.create(kind, list(node.inputs()), node.outputsSize())
    call.s_("name", node.s("name"))
    call.insertBefore(node)
    call.copyMetadata(node)
    for old, new in zip(node.outputs(), call.outputs(), strict=True):
        new.setType(old.type())
        new.copyMetadata(old)
        old.replaceAllUsesWith(new)
    node.destroy()
    return call


def _is_attribute_of(value: Any, own: Any, written: Set[tuple[str, str]]) -> bool:
    while value.unique() != own.unique():
        node = value.node()
        if node.kind() != "prim::GetAttr":
            return False
        value = node.inputsAt(0)
        if (value.type().str(), node.s("name")) in written:
            return False
    return True


class _Reader:
    """Converts torch's nodes to steps; equal texts of types and source ranges are parsed once."""

    def __init__(self, is_live: Callable[[str], bool]) -> None:
        self.is_live = is_live
        self.types: dict[str, Type] = {}
        self.locations: dict[str, Location | None] = {}
        self.graphs = 0

    def slots(self, values: Any, graph: int) -> tuple[Slot, ...]:
        return tuple(Slot(value.unique() + graph, _given_name(value), self.type(value.type())) for value in values)

    def type(self, type: Any) -> Type:
        text = type.str()
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = parse_type(text)
        return found

    def location(self, node: Any) -> Location | None:
        text = node.sourceRange()
        if text not in self.locations:
            self.locations[text] = _location(text, self.is_live)
        return self.locations[text]

    def step(self, node: Any, graph: int) -> Step:
        kind = node.kind()
        do: Literal["node", "open", "get", "call"] = "node"
        if kind == "prim::GetAttr":
            do = "get"
        elif kind == CALL:
            do = "call"
        elif _bodies(node):
            do = "open"
        inputs = tuple(value.unique() + graph for value in node.inputs())
        outputs = self.slots(node.outputs(), graph)
        return Step(do, kind, inputs, outputs, _attributes(node, kind), self.location(node), _scope(node.scopeName()))

    def new_graph(self) -> int:
        """Returns the offset of another graph's value numbers; a fusion group's subgraph counts its own from 0."""
        self.graphs += 1
        return self.graphs << 40


def read_method(graph: Any, is_live: Callable[[str], bool]) -> Method:
    """Returns the steps of a C++ graph, nested blocks and subgraphs included; `is_live` says which files hold loaded
    code."""
    reader = _Reader(is_live)
    steps: list[Step] = []
    here = reader.new_graph()
    stack: list[Iterator[Step]] = [_walk(graph, here, reader, push=lambda inner: stack.append(inner))]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
        else:
            steps.append(step)
    returns = tuple(value.unique() + here for value in graph.outputs())
    return Method(reader.slots(graph.inputs(), here), tuple(steps), returns)


def _walk(block: Any, graph: int, reader: _Reader, push: Callable[[Iterator[Step]], None]) -> Iterator[Step]:
    """Yields the steps of one block. A nested block is pushed; `read_method` exhausts it before it resumes this one."""
    for node in block.nodes():
        step = reader.step(node, graph)
        forward = _recorded_forward(node)
        if forward is not None:
            inside = reader.new_graph()
            push(_walk(forward, inside, reader, push))
            yield Step("same", inputs=step.inputs, outputs=reader.slots(forward.inputs(), inside))
            yield Step("same", inputs=tuple(x.unique() + inside for x in forward.outputs()), outputs=step.outputs)
            continue
        yield step
        if step.do != "open":
            continue
        for body, is_graph in _bodies(node):
            inside = reader.new_graph() if is_graph else graph
            push(_walk(body, inside, reader, push))
            yield Step("block", outputs=reader.slots(body.inputs(), inside))
            yield Step("end", inputs=tuple(value.unique() + inside for value in body.outputs()))
        yield Step("close")


def _recorded_forward(node: Any) -> Any:
    """Returns the trace of an autograd function's forward if it is complete; else None.

    If the forward writes, or calls another autograd function, torch records some ops twice.
    """
    if node.kind() != _PYTHON or not node.hasAttribute("Subgraph"):
        return None
    forward = node.g("Subgraph")
    counts = [sum(1 for _ in values) for values in (node.inputs(), forward.inputs(), node.outputs(), forward.outputs())]
    pure = all(inner.kind() != _PYTHON and "!" not in inner.schema() for inner in forward.nodes())
    return forward if pure and counts[0] == counts[1] and counts[2] == counts[3] else None


def _bodies(node: Any) -> list[tuple[Any, bool]]:
    """Returns the blocks of a node, and the graphs in its attributes (fusion groups), with a flag for graphs."""
    if node.kind() == "prim::Constant":
        return []
    keys = node.attributeNames() if node.hasAttributes() else []
    graphs = [(node.g(key), True) for key in keys if node.kindOf(key) == "g"]
    return [(block, False) for block in node.blocks()] + graphs


def _attributes(node: Any, kind: str) -> Mapping[str, Any]:
    if not node.hasAttributes():
        return EMPTY
    if kind == "prim::Constant" and node.hasAttribute("value"):
        return FrozenDict(value=payload_of(next(node.outputs()).toIValue()))
    return FrozenDict({key: _attribute(node, key) for key in node.attributeNames() if node.kindOf(key) != "g"})


def _attribute(node: Any, key: str) -> Any:
    kind = node.kindOf(key)
    value: Any = getattr(node, kind)(key) if hasattr(node, kind) else None
    match kind:
        case "t":
            return tensor_data(value)
        case "ts":
            return tuple(map(tensor_data, value))
        case "ty":
            return parse_type(value.str())
        case "tys":
            return tuple(parse_type(type.str()) for type in value)
    return payload_of(value)


def _given_name(value: Any) -> str:
    """Returns the name in the user's source; empty for a value that has only a number."""
    name: str = value.debugName()
    return "" if name.isdigit() else name


def _scope(text: str) -> str:
    """Returns the dotted path in the scope of a traced node: `a.lin` for `__module.a/__module.a.lin`."""
    return text.rpartition("/")[2].removeprefix("__module").lstrip(".")


def _location(text: str, is_live: Callable[[str], bool]) -> Location | None:
    """Parses a source range: `File …, line …` and the column of its first `~`, or a trace's first frame."""
    head, _, rest = text.strip("\n").partition("\n")
    if not head.startswith("  File "):
        file, _, line = head.partition("): ")[0].rpartition("(")
        return Location(file, int(line), live=is_live(file)) if line.isdigit() else None
    file, _, line = head.removeprefix("  File ").rpartition(", line ")
    file = file.strip('"')
    for text_line in rest.splitlines():
        marks = text_line.replace("<--- HERE", "").rstrip()
        if marks and set(marks) <= {" ", "~"}:
            return Location(file, int(line), marks.index("~"), live=is_live(file))
    return Location(file, int(line), live=is_live(file))
