"""An interpreter that runs a program in torch, op by op, and notes which memory each name had and which node wrote
what.

It knows nothing of aliasing: memory is what torch says it is (the address of the untyped storage, the identity of a
list), and a write is a storage whose bytes differ, or a list whose members differ, after a node from before.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from irscope.ir import Block, Graph, Node, TensorData, Value, constant_value
from irscope.ops.registry import schema_of


def memory_of(thing: Any) -> int | None:
    """The identity of the memory of a tensor or container; None for numbers and tuples."""
    if isinstance(thing, torch.Tensor):
        return thing.untyped_storage().data_ptr()
    return id(thing) if isinstance(thing, list | dict | Object) else None


class Object:
    """An object of a script class, or a task that is done: a thing with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def members(thing: Any) -> list[Any]:
    """What a container directly holds."""
    if isinstance(thing, dict):
        return list(thing.values())
    return list(vars(thing).values()) if isinstance(thing, Object) else list(thing)


def parts(thing: Any) -> list[Any]:
    """A thing and everything that it holds."""
    found, seen = [thing], {id(thing)}
    for here in found:
        if isinstance(here, list | tuple | dict | Object):
            fresh = [inside for inside in members(here) if id(inside) not in seen]
            seen.update(map(id, fresh))
            found.extend(fresh)
    return found


def reachable(thing: Any) -> set[int]:
    """The memories of a thing and of everything that it holds."""
    return {memory for part in parts(thing) if (memory := memory_of(part)) is not None}


@dataclass
class Trace:
    """What happened in one run."""

    results: tuple[Any, ...] = ()
    memories: dict[Value, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The memories that each name was bound to, over all rounds of all loops."""
    reached: dict[Value, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The memories that could be reached from it: when it was bound, and in the end."""
    writes: dict[Node, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The memories that each node, without the nodes in its blocks, changed."""
    bound: list[tuple[Value, Any]] = field(default_factory=list)
    """What each name was bound to, in that order."""
    error: Exception | None = None
    """What stopped the program."""

    def note(self, value: Value, thing: Any) -> None:
        """Note the memories of a name now."""
        memory = memory_of(thing)
        if memory is not None:
            self.memories[value].add(memory)
        self.reached[value] |= reachable(thing)


ERRORS = (RuntimeError, IndexError, KeyError, ValueError)


class _Run:
    def __init__(self, found: Trace, *, trace: bool) -> None:
        self.found, self.trace = found, trace
        self.values: dict[Value, Any] = {}
        self.alive: list[Any] = []
        self.storages: list[Any] = []

    def bind(self, value: Value, thing: Any) -> None:
        self.values[value] = thing
        self.found.bound.append((value, thing))
        if self.trace:
            self.alive.extend(parts(thing))  # so that no address is ever used twice
            self.storages.extend(part.untyped_storage() for part in parts(thing) if isinstance(part, torch.Tensor))
            self.found.note(value, thing)

    def block(self, block: Block, arguments: Sequence[Any], order: Mapping[Block, Sequence[Node]]) -> list[Any]:
        for param, argument in zip(block.params, arguments, strict=True):
            self.bind(param, argument)
        for node in order.get(block, block.nodes):
            self.node(node, order)
        return [self.values[value] for value in block.returns]

    def node(self, node: Node, order: Mapping[Block, Sequence[Node]]) -> None:
        inputs = [self.values[value] for value in node.inputs]
        if node.op == "prim::If":
            results = self.block(node.blocks[0 if inputs[0] else 1], (), order)
        elif node.op == "prim::Loop":
            results = self.loop(node, inputs, order)
        elif node.op == "prim::FusionGroup":
            results = self.block(node.blocks[0], inputs, order)
        elif node.op == "prim::fork":  # at once, which is one of the times at which it may run
            results = [Object(result=self.block(node.blocks[0], inputs, order)[0])]
        else:
            before = self.snapshot() if self.trace else {}
            results = run_op(node, inputs)
            if self.trace:
                after = self.snapshot()
                self.found.writes[node] |= {memory for memory, content in before.items() if after[memory] != content}
        for value, result in zip(node.outputs, results, strict=True):
            self.bind(value, result)

    def loop(self, node: Node, inputs: list[Any], order: Mapping[Block, Sequence[Node]]) -> list[Any]:
        trips, again, *carried = inputs
        for index in range(trips):
            if not again:
                break
            again, *carried = self.block(node.blocks[0], [index, *carried], order)
        return carried

    def snapshot(self) -> dict[int, Any]:
        """The content of every memory that a name has had."""
        found: dict[int, Any] = {}
        for thing in self.alive:
            memory = memory_of(thing)
            if memory is None or memory in found:
                continue
            if isinstance(thing, torch.Tensor):
                found[memory] = thing.untyped_storage().tolist()
            else:
                found[memory] = [id(member) for member in members(thing)]
        return found


def run(
    graph: Graph, arguments: Sequence[Any], *, order: Mapping[Block, Sequence[Node]] | None = None, trace: bool = False,
    stops: bool = False,
) -> Trace:  # fmt: skip
    """Run a graph on torch tensors; `order` gives some blocks another order of their nodes.

    With `stops`, a program that torch refuses at some point counts as far as it got.
    """
    found = Trace()
    running = _Run(found, trace=trace)
    try:
        with torch.no_grad():
            found.results = tuple(running.block(graph.body, arguments, order or {}))
    except ERRORS as error:
        if stops:
            found.error = error
        else:
            raise
    for value, thing in found.bound if trace else ():
        found.note(value, thing)  # an exchange of its storage may have changed it
    return found


def run_op(node: Node, inputs: list[Any]) -> list[Any]:
    """One op without blocks."""
    rule = _RULES.get(node.op)
    if rule is not None:
        return rule(node, inputs)
    if node.op in _CONTAINER_RULES and inputs and isinstance(inputs[0], list | dict):
        result = _CONTAINER_RULES[node.op](*inputs)
    elif node.op in _NUMBER_RULES and not any(isinstance(item, (torch.Tensor, list)) for item in inputs):
        result = _NUMBER_RULES[node.op](*inputs)
    else:
        result = call_torch(node, inputs)
    if not node.outputs:
        return []
    return [result] if len(node.outputs) == 1 else list(result)


def call_torch(node: Node, inputs: list[Any]) -> Any:
    """The overload that the operands mean, keyword-only arguments by name."""
    schema = schema_of(node)
    assert schema is not None, f"no schema of {node!r}"
    space, _, name = node.op.partition("::")
    packet = getattr(getattr(torch.ops, space), name)
    names = [argument.name if argument.keyword_only else "" for argument in schema.arguments]
    named = {name: item for name, item in zip(names, inputs, strict=False) if name}
    return getattr(packet, schema.overload or "default")(*[item for name, item in zip(names, inputs, strict=False) if not name], **named)


def _append(xs: list[Any], x: Any) -> list[Any]:
    xs.append(x)
    return xs


def _set_item(xs: Any, key: Any, x: Any) -> Any:
    xs[key] = x
    return xs


def _set_attribute(node: Node, inputs: list[Any]) -> list[Any]:
    setattr(inputs[0], node.attrs["name"], inputs[1])
    return []


def _set_data(node: Node, inputs: list[Any]) -> list[Any]:
    inputs[0].data = inputs[1]
    return []


def _same(node: Node, inputs: list[Any]) -> list[Any]:
    return [inputs[0]]


def _unwrapped(node: Node, inputs: list[Any]) -> list[Any]:
    if inputs[0] is None:
        raise ValueError("None was unwrapped")
    return [inputs[0]]


def _add_to(xs: Any, ys: Any) -> Any:
    xs += ys
    return xs


def _constant(node: Node) -> Any:
    value = constant_value(node)
    return torch.from_numpy(value.array.copy()) if isinstance(value, TensorData) else value


_RULES: dict[str, Any] = {
    "prim::CreateObject": lambda node, inputs: [Object()],
    "prim::SetAttr": _set_attribute,
    "prim::GetAttr": lambda node, inputs: [getattr(inputs[0], node.attrs["name"])],
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _unwrapped,
    "aten::_unwrap_optional": _unwrapped,
    "aten::set_data": _set_data,
    "aten::wait": lambda node, inputs: [inputs[0].result],
    "prim::Constant": lambda node, inputs: [_constant(node)],
    "prim::ListConstruct": lambda node, inputs: [list(inputs)],
    "prim::TupleConstruct": lambda node, inputs: [tuple(inputs)],
    "prim::DictConstruct": lambda node, inputs: [dict(zip(inputs[::2], inputs[1::2], strict=True))],
    "prim::TupleUnpack": lambda node, inputs: list(inputs[0]),
    "prim::ListUnpack": lambda node, inputs: list(inputs[0]),
    "prim::TupleIndex": lambda node, inputs: [inputs[0][inputs[1]]],
    "prim::ConstantChunk": lambda node, inputs: list(torch.chunk(inputs[0], node.attrs["chunks"], node.attrs["dim"])),
}

_CONTAINER_RULES: dict[str, Any] = {
    "aten::__getitem__": lambda xs, key: xs[key], "aten::append": _append, "aten::_set_item": _set_item, "aten::len": len,
    "aten::add": lambda xs, ys: [*xs, *ys], "aten::select": lambda xs, key: xs[key], "aten::pop": lambda xs, key: xs.pop(key),
    "aten::extend": lambda xs, ys: xs.extend(ys), "aten::add_": _add_to, "aten::mul": lambda xs, count: xs * count, "aten::list": list,
    "aten::copy": lambda xs: xs.copy(), "aten::clear": lambda xs: xs.clear(), "aten::insert": lambda xs, at, x: xs.insert(at, x),
    "aten::reverse": lambda xs: xs.reverse(), "aten::values": lambda xs: list(xs.values()), "aten::update": lambda xs, ys: xs.update(ys),
    "aten::get": lambda xs, key, other=None: xs.get(key, other), "aten::setdefault": lambda xs, key, x: xs.setdefault(key, x),
    "aten::slice": lambda xs, start, end, step: xs[start:end:step],
}  # fmt: skip

_NUMBER_RULES: dict[str, Any] = {
    "aten::lt": lambda a, b: a < b, "aten::gt": lambda a, b: a > b, "aten::eq": lambda a, b: a == b, "aten::add": lambda a, b: a + b,
    "aten::__not__": lambda a: not a, "aten::sub": lambda a, b: a - b, "aten::mul": lambda a, b: a * b,
}  # fmt: skip
