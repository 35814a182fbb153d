"""Copies a scripted module's methods into one graph, along the real submodules, so that a node knows its module path.

The value of an attribute decides what reading it becomes:

* a submodule vanishes: only its path is carried along;
* a tensor becomes an input of the graph, bound to it; one tensor under two paths (tied weights) is one input;
* a list of tensors, as a recurrent layer has them, becomes a list of such inputs;
* a number, string, None or a list of these becomes a `prim::Constant`;
* anything that can change while the program runs stays a `prim::GetAttr` of the module, which then is an input, bound
  to the module. *Can change* is decided by class, not by object, because two paths may lead to one object: an attribute
  that any reachable code assigns with `prim::SetAttr`, on any object of that class; and a list or dict of a type that
  any reachable code changes in place.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NamedTuple

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.loaded_code import cell_name
from irscope._base.nested import Call, run
from irscope.frontends.torch.types import payload_of, require_torch, tensor_data, tensor_type
from irscope.ir import NONE, Block, Graph, Location, Node, Type, Value, erase_refinements, make_node, make_value, new_id
from irscope.ir.text import parse_type

# Reads one TorchScript method as a list of steps, once through torch's bindings; it is then copied once per module.
#
# A binding call costs 0.3 µs and a list of inputs 8 µs, and a network calls the same few methods a hundred times, so the
# C++ graph of each (class, method) is walked once.

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
    """One action while a method is copied: a node, the reading of an attribute, a call, or without an op, other numbers of values."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[Slot, ...]
    attrs: Mapping[str, Any] = EMPTY
    location: Location | None = None
    scope: str = ""
    """The module path according to a traced graph itself."""
    blocks: "tuple[Method, ...]" = ()


class Method(NamedTuple):
    """The parameters (`self` first), steps and results of a method, or of a block in it."""

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

    The pass inlines a callee in the form that was stored for execution (2.13). A callee that first ran under `optimized_execution(False)`
    was stored with its own function calls, so each round removes one level; TorchScript has no recursion.
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
        self.parsed_type, self.parsed_location = cache(parse_type), cache(partial(_location, is_live=is_live))
        self.graphs = 0

    def slots(self, values: Any, graph: int) -> tuple[Slot, ...]:
        found = [(value.unique() + graph, value.debugName(), self.type(value.type())) for value in values]
        return tuple(Slot(number, "" if name.isdigit() else name, type) for number, name, type in found)  # others have only a number

    def type(self, type: Any) -> Type:
        return self.parsed_type(type.str())

    def location(self, node: Any) -> Location | None:
        return self.parsed_location(node.sourceRange())

    def step(self, node: Any, graph: int, blocks: Sequence[Method]) -> Step:
        kind, inputs = node.kind(), tuple(value.unique() + graph for value in node.inputs())
        outputs, scope = self.slots(node.outputs(), graph), _scope(node.scopeName())
        return Step(kind, inputs, outputs, _attributes(node, kind), self.location(node), scope, tuple(blocks))

    def new_graph(self) -> int:
        """Returns the offset of another graph's value numbers; a fusion group's subgraph counts its own from 0."""
        self.graphs += 1
        return self.graphs << 40


def read_method(graph: Any, is_live: Callable[[str], bool]) -> Method:
    """Returns the steps of a C++ graph, nested blocks and subgraphs included; `is_live` says which files hold loaded code."""
    reader = _Reader(is_live)
    made: Method = run(_read(graph, reader.new_graph(), reader))
    return made


def _read(block: Any, graph: int, reader: _Reader) -> Call:
    """Reads a graph, or a block of one; `graph` is what is added to the numbers of its values."""
    steps: list[Step] = []
    for node in block.nodes():
        forward = _recorded_forward(node)
        if forward is not None:
            inner = yield _read(forward, reader.new_graph(), reader)
            inputs, outputs = tuple(value.unique() + graph for value in node.inputs()), reader.slots(node.outputs(), graph)
            steps += [Step("", inputs, inner.params), *inner.steps, Step("", inner.returns, outputs)]
            continue
        blocks = []
        for body, is_graph in _bodies(node):
            blocks.append((yield _read(body, reader.new_graph() if is_graph else graph, reader)))
        steps.append(reader.step(node, graph, blocks))
    returns = tuple(value.unique() + graph for value in block.outputs())
    return Method(reader.slots(block.inputs(), graph), tuple(steps), returns)


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


def _scope(text: str) -> str:
    """Returns the dotted path in the scope of a traced node: `a.lin` for `__module.a/__module.a.lin`."""
    return text.rpartition("/")[2].removeprefix("__module").lstrip(".")


def _location(text: str, is_live: Callable[[str], bool]) -> Location | None:
    """Parses a source range: `File …, line …` and the column of its first `~`, or a trace's first frame."""
    head, _, rest = text.strip("\n").partition("\n")
    if not head.startswith("  File "):
        file, _, line = head.partition("): ")[0].rpartition("(")
        return Location(cell_name(file), int(line), live=is_live(file)) if line.isdigit() else None
    file, _, line = head.removeprefix("  File ").rpartition(", line ")
    file = file.strip('"')
    for text_line in rest.splitlines():
        marks = text_line.replace("<--- HERE", "").rstrip()
        if marks and set(marks) <= {" ", "~"}:
            return Location(cell_name(file), int(line), marks.index("~"), live=is_live(file))
    return Location(cell_name(file), int(line), live=is_live(file))


# The copy of these steps, along the real submodules.

_CHANGES_A_CONTAINER: Final = (
    "aten::append", "aten::clear", "aten::extend", "aten::insert", "aten::pop", "aten::popitem", "aten::remove",
    "aten::reverse", "aten::sort", "aten::_set_item", "aten::setdefault", "aten::update", "aten::Delete", "aten::add_",
    "aten::mul_",
)  # fmt: skip
_CONSTANTS: Final = (bool, int, float, complex, str, type(None))


@dataclass(frozen=True, slots=True)
class _Object:
    """A module (or an object of a script class) that is known at load time."""

    path: str
    object: Any


def inlined_graph(function: Any) -> Any:
    """Returns a copy of a function's or method's graph with every call inlined."""
    graph = function.inlined_graph
    inline_calls(graph)
    return graph


def inline_function(graph: Any, name: str, is_live: Callable[[str], bool] = lambda _: False) -> Graph:
    """Returns the graph of a scripted function, whose calls torch has inlined."""
    return _Copy(frozenset(), frozenset(), is_live, False).graph(read_method(graph, is_live), None, name)


def inline_module(
    module: Any, method: str, name: str, is_live: Callable[[str], bool] = lambda _: False, *, without_types: bool = False
) -> Graph:  # fmt: skip
    """Returns the graph of one method of a scripted module (torch's C++ object), with all its calls inlined; without the element
    types and shapes that a trace saw if these are not wanted."""
    entry = module._get_method(method)
    whole = inlined_graph(entry)
    graphs = [whole]
    if whole.findAllNodes("prim::CallMethod", True):  # calls through an interface: any method of any submodule may run
        graphs += _every_method(module)
    written = {(node.inputsAt(0).type().str(), node.s("name")) for graph in graphs for node in graph.findAllNodes("prim::SetAttr", True)}
    changing = [node for graph in graphs for op in _CHANGES_A_CONTAINER for node in graph.findAllNodes(op, True)]
    copy = _Copy(written, {node.inputsAt(0).type().str() for node in changing}, is_live, without_types)
    return copy.graph(copy.method(module, method), _Object("", module), name)


def _every_method(module: Any) -> list[Any]:
    found, stack = [], [module]
    while stack:
        here = stack.pop()
        found += [inlined_graph(here._get_method(name)) for name in here._method_names()]
        stack += [child for _, child in require_torch("to walk a scripted module")._C.ModuleDict(here).items()]
    return found


class _Copy:
    """Builds the graph from the steps of every method that runs."""

    def __init__(self, written: Set[tuple[str, str]], changed: Set[str], is_live: Callable[[str], bool], without_types: bool) -> None:
        self.is_live = is_live
        self.without_types = without_types
        self.written = written
        self.changed = frozenset(parse_type(text) for text in changed)
        self.tensor = require_torch("to load TorchScript").Tensor
        self.methods: dict[tuple[str, str], Method] = {}
        self.inputs: list[Value] = []
        self.bound: dict[Value, Any] = {}
        self.input_of: dict[int | str, Value] = {}
        """The input for a tensor (by identity), or for an object (by path)."""
        self.nodes: list[Node] = []
        """Those of the block that is being filled."""

    def new(self, slot: Slot) -> Value:
        return make_value(new_id(), erase_refinements(slot.type) if self.without_types else slot.type, slot.name)

    def method(self, module: Any, name: str) -> Method:
        """Returns the steps of a method, read once per class."""
        key = (module._type().str(), name)
        if key not in self.methods:
            graph = module._get_method(name).graph
            prepared = prepare(graph, self.written, simplify=bool(self.methods))
            self.methods[key] = read_method(prepared, self.is_live)
        return self.methods[key]

    def graph(self, method: Method, root: _Object | None, name: str) -> Graph:
        free = [self.new(slot) for slot in method.params[root is not None :]]
        returned = run(self.copy(method, _enter(method, [*([root] if root else []), *free]), ""))
        returns = tuple(self.value(result) for result in returned)
        bound = {value: self.bound[value] for value in self.inputs}
        return Graph(Block(new_id(), (*free, *self.inputs), tuple(self.nodes), returns), name, bound)

    def copy(self, method: Method, env: dict[int, Value | _Object], path: str) -> Call:
        """Appends the nodes of a method, or block, of the module at this path; `env` has the meanings of its values by number.
        Returns those of its results."""
        for step in method.steps:
            op = step.op
            if op == "prim::GetAttr":
                self.read_attribute(step, env, path)
            elif op == CALL and isinstance(callee := env[step.inputs[0]], _Object):
                called = self.method(callee.object, step.attrs["name"])
                made = yield self.copy(called, _enter(called, [env[number] for number in step.inputs]), callee.path)
                env.update((slot.number, value) for slot, value in zip(step.outputs, made, strict=True))
            elif step.blocks:
                blocks = []
                for inner in step.blocks:
                    blocks += [(yield self.block(inner, env, path))]
                self.append(step, env, path, tuple(blocks))
            elif op:
                self.append(step, env, path)
            else:
                env.update((slot.number, env[at]) for slot, at in zip(step.outputs, step.inputs, strict=True))
        return [env[number] for number in method.returns]

    def block(self, inner: Method, env: dict[int, Value | _Object], path: str) -> Call:
        outside, self.nodes = self.nodes, []
        params = tuple(self.new(slot) for slot in inner.params)
        env.update(zip((slot.number for slot in inner.params), params, strict=True))
        returned = yield self.copy(inner, env, path)
        returns = tuple(map(self.value, returned))
        nodes, self.nodes = tuple(self.nodes), outside
        return Block(new_id(), params, nodes, returns)

    def append(self, step: Step, env: dict[int, Value | _Object], path: str, blocks: tuple[Block, ...] = ()) -> None:
        inputs = []
        for number in step.inputs:
            operand = env[number]
            inputs.append(self.value(operand) if type(operand) is _Object else operand)
        outputs = []
        for slot in step.outputs:
            env[slot.number] = value = self.new(slot)
            outputs.append(value)
        node = make_node(new_id(), step.op, tuple(inputs), tuple(outputs), step.attrs, blocks, step.location, path or step.scope)
        self.nodes.append(node)

    def read_attribute(self, step: Step, env: dict[int, Value | _Object], path: str) -> None:
        holder, name, (slot,) = env[step.inputs[0]], step.attrs["name"], step.outputs
        if not isinstance(holder, _Object) or (holder.object._type().str(), name) in self.written:
            self.append(step, env, path)
            return
        held, title = holder.object.getattr(name), f"{holder.path}.{name}" if holder.path else name
        if isinstance(held, self.tensor):
            env[slot.number] = self.bind(id(held), title, tensor_type(held), held)
        elif hasattr(held, "_get_method"):
            env[slot.number] = _Object(title, held)
        elif self.is_constant(held, slot.type):
            attrs = EMPTY if held is None else FrozenDict(value=payload_of(held))
            made = Slot(slot.number, slot.name, NONE if held is None else slot.type)
            self.append(Step("prim::Constant", (), (made,), attrs, step.location, step.scope), env, path)
        elif isinstance(held, list) and held and slot.type not in self.changed and all(isinstance(each, self.tensor) for each in held):
            items = tuple([self.bind(id(each), f"{title}.{place}", tensor_type(each), each) for place, each in enumerate(held)])
            env[slot.number] = made_list = self.new(slot)
            self.nodes.append(make_node(new_id(), "prim::ListConstruct", items, (made_list,), EMPTY, (), step.location, path or step.scope))
        else:
            env[slot.number] = self.bind(title, title, slot.type, held)

    def is_constant(self, held: Any, type: Type) -> bool:
        if isinstance(held, list):
            return type not in self.changed and all(isinstance(item, _CONSTANTS) for item in held)
        if isinstance(held, tuple):
            return all(isinstance(item, _CONSTANTS) for item in held)
        return isinstance(held, _CONSTANTS) or held.__class__.__name__ == "device"

    def value(self, operand: Value | _Object) -> Value:
        """Returns an operand as a value; an object that is passed on becomes an input."""
        if isinstance(operand, Value):
            return operand
        type = parse_type(operand.object._type().str())
        return self.bind(operand.path or "self", operand.path or "self", type, operand.object)

    def bind(self, key: int | str, name: str, type: Type, held: Any) -> Value:
        """Returns the input for `held`; `bound` keeps it alive, so that its id is not reused."""
        found = self.input_of.get(key)
        if found is None:
            found = self.input_of[key] = make_value(new_id(), type, name)
            self.inputs.append(found)
            self.bound[found] = held
        return found


def _enter(method: Method, values: Sequence[Value | _Object]) -> dict[int, Value | _Object]:
    return {slot.number: value for slot, value in zip(method.params, values, strict=True)}
