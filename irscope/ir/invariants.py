"""Verifies the invariants of a graph, on which passes may rely.

The invariants, by the name that errors and tests use:

`op-name`             an op is written as the parser reads it: `namespace::name` or `^PythonOp`.
`attrs-are-frozen`    attributes are numbers, strings, None, types, tensors, opaque payloads, and tuples or frozen
                      mappings of these.
`constant-form`       a `prim::Constant` has no operands, one result, and a value; without a value it is None, of type
                      `NoneType` or an optional type.
`one-definition`      a value is a result or a parameter once, a node and a block occur in the graph once, and no two
                      have one id.
`defs-dominate-uses`  a value is defined before it is used, in the same block or one around it.
`group-isolated`      the body of a group uses no value from outside except its parameters.
`group-params`        a group has one block, with a parameter for each operand and a result for each result.
`block-arity`         an if has a condition and two blocks without parameters, each with as many results as it has; a
                      loop has a trip count, a condition and as many carried values as results, parameters beside the
                      counter, and block results beside the next condition.
`return-types`        a value that flows through if, loop or group fits the type of its target. Tensors have the same element type
                      where both are known, and in groups, which passes make, also the same dimensions.
`bound-inputs`        every value that has something bound to it is an input.

One walk in textual order suffices: a value is visible from its definition to the end of the block that defines it, so
the visible values form a stack. Types fit unless they certainly do not: a refined tensor is a tensor, and nothing is
known about classes and `Any`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.errors import VerifyError
from irscope.ir.core import GROUPS, ISOLATED, Block, Graph, Node, Step, Value, steps
from irscope.ir.payload import Opaque, TensorData
from irscope.ir.text.printer import excerpt
from irscope.ir.types import BOOL, INT, NONE, OptionalType, TensorType, Type, contradiction, is_subtype

_OP = re.compile(r"\^?[A-Za-z_][\w.]*(?:::[\w.]+)+|\^[A-Za-z_][\w.]*")
_ATOMS = (int, float, complex, str, bool, Type, TensorData, Opaque, Graph, np.generic)


def verify(graph: Graph) -> None:
    """Raises VerifyError at the first invariant that the graph breaks; the rules are listed at the top of this module."""
    _Verifier(graph).run()


class _Verifier:
    """Checks a graph in one walk; `visible` is the set of values that may be used at the current place."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.visible: set[Value] = set()
        self.hidden: list[set[Value]] = []
        """The values visible around each group that encloses the current place."""
        self.defined: dict[Value, tuple[Node | Block, Node | Block]] = {}
        self.ids: dict[int, Value | Node | Block] = {}
        self.seen: set[Node | Block] = set()
        self.fitting: set[tuple[int, int]] = set()
        """Pairs of types, by identity, such that the first fits the second."""

    def run(self) -> None:
        visit = {"enter": self.enter, "node": self.node, "leave": self.leave, "done": self.done}
        for step in steps(self.graph):
            visit[step.kind](step)
        inputs = set(self.graph.inputs)
        for value in self.graph.bound:
            if value not in inputs:
                self.fail("bound-inputs", f"%{self.name(value)} has a value bound to it and is not an input", {})

    def enter(self, step: Step) -> None:
        self.once(step.block, step.block.id, step.node or step.block)
        if step.node is not None and step.node.op in ISOLATED:
            self.hidden.append(self.visible)
            self.visible = set()
        for value in step.block.params:
            self.define(value, step.block, step.node or step.block)

    def node(self, step: Step) -> None:
        node = step.node
        assert node is not None  # a step of this kind has one
        self.once(node, node.id, node)
        for value in node.inputs:
            if value not in self.visible:
                self.undefined(value, node)
        self.form(node)
        self.arity(node)
        if not node.blocks:
            for value in node.outputs:
                self.define(value, node, node)

    def leave(self, step: Step) -> None:
        for value in step.block.returns:
            if value not in self.visible:
                self.undefined(value, step.block)
        if step.node is not None and step.node.op in ISOLATED:
            self.visible = self.hidden.pop()
            return
        self.visible.difference_update(step.block.params)
        for node in step.block.nodes:
            self.visible.difference_update(node.outputs)

    def done(self, step: Step) -> None:
        assert step.node is not None  # a step of this kind has one
        for value in step.node.outputs:
            self.define(value, step.node, step.node)

    def once(self, thing: Value | Node | Block, id: int, place: Node | Block) -> None:
        other = self.ids.setdefault(id, thing)
        if other is not thing:
            self.fail("one-definition", f"{other!r} and {thing!r} have the same id {id}", {place: "this one"})
        if not isinstance(thing, Value):
            if thing in self.seen:
                kind = "node" if isinstance(thing, Node) else "block"
                self.fail("one-definition", f"a {kind} occurs in the graph twice", {place: "this one"})
            self.seen.add(thing)

    def define(self, value: Value, definer: Node | Block, place: Node | Block) -> None:
        """Record a definition by a node or as a parameter of a block; an error shows `place`."""
        first, shown = self.defined.setdefault(value, (definer, place))
        if first is not definer or value in self.visible:
            what = f"%{self.name(value)} is defined twice"
            self.fail("one-definition", what, {shown: "defined here", place: "defined here"})
        self.once(value, value.id, place)
        self.visible.add(value)

    def undefined(self, value: Value, place: Node | Block) -> NoReturn:
        name = self.name(value)
        marks: dict[Node | Block, str] = {place: "used here"}
        if any(value in around for around in self.hidden):
            self.fail(
                "group-isolated",
                f"%{name} is used in the body of a group that it is not passed to",
                marks,
                hint="make it an operand of the group and a parameter of its block",
            )
        producer = self.graph.producer.get(value)
        if producer is None and value not in self.graph.block_of:
            self.fail("defs-dominate-uses", f"%{name} is used, and nothing defines it", marks)
        if producer is not None:
            marks = {producer: "defined here", place: "used here"}
        what = f"%{name} is used before it is defined, or outside of the block that defines it"
        self.fail("defs-dominate-uses", what, marks, hint="move its producer up, or return it from its block")

    def form(self, node: Node) -> None:
        if not _OP.fullmatch(node.op):
            self.fail("op-name", f"{node.op!r} is not the name of an op", {node: ""}, hint="write namespace::name")
        for key, payload in node.attrs.items():
            if not _is_frozen(payload):
                what = f"the attribute {key!r} of {node.op} holds a {type(payload).__name__}, which can change"
                self.fail("attrs-are-frozen", what, {node: ""}, hint="use a tuple, a FrozenDict or a TensorData")
        if node.op == "prim::Constant":
            if node.inputs or len(node.outputs) != 1:
                self.fail("constant-form", "a constant has no operands and one result", {node: ""})
            if not node.attrs and not isinstance(node.outputs[0].type, OptionalType) and node.outputs[0].type != NONE:
                what = f"a constant without a value is None, and this one is of type {node.outputs[0].type}"
                self.fail("constant-form", what, {node: ""}, hint=f"add [value=…], or declare {node.outputs[0].type}?")

    def arity(self, node: Node) -> None:
        """Check the arity of if, loop and group; other nodes with blocks are foreign and are not checked."""
        if not node.op.startswith("prim::"):
            return
        if node.op == "prim::If":
            if len(node.inputs) != 1 or len(node.blocks) != 2 or any(block.params for block in node.blocks):
                self.fail("block-arity", "an if has one operand and two blocks without parameters", {node: ""})
            for block in node.blocks:
                self.count("block-arity", node, "results of a block", block.returns, node.outputs, block)
                self.flow(node, block.returns, node.outputs, block)
        elif node.op == "prim::Loop":
            self.arity_of_loop(node)
        elif node.op in ISOLATED:
            self.arity_of_group(node)

    def arity_of_loop(self, node: Node) -> None:
        if len(node.inputs) < 2 or len(node.blocks) != 1:
            self.fail("block-arity", "a loop has a trip count, a condition, carried values and one block", {node: ""})
        (body,) = node.blocks
        carried = node.inputs[2:]
        self.count("block-arity", node, "carried values", carried, node.outputs)
        self.count("block-arity", node, "parameters beside the counter", body.params[1:], node.outputs)
        self.count("block-arity", node, "block results beside the condition", body.returns[1:], node.outputs, body)
        if not body.params or not body.returns:
            self.fail("block-arity", "the block of a loop has a counter and returns the next condition", {node: ""})
        self.want(node, node.inputs[0], INT, node)
        self.want(node, node.inputs[1], BOOL, node)
        self.want(node, body.params[0], INT, node)
        self.want(node, body.returns[0], BOOL, body)
        self.flow(node, carried, body.params[1:], node)
        self.flow(node, body.returns[1:], body.params[1:], body)
        self.flow(node, body.returns[1:], node.outputs, body)

    def arity_of_group(self, node: Node) -> None:
        if len(node.blocks) != 1:
            self.fail("group-params", f"a group has one block, and this one has {len(node.blocks)}", {node: ""})
        (body,) = node.blocks
        self.count("group-params", node, "parameters", body.params, node.inputs)
        self.flow(node, node.inputs, body.params, node)
        if node.op not in GROUPS:  # a task: its one result is a future of the block's results
            return
        self.count("group-params", node, "results of the block", body.returns, node.outputs, body)
        self.flow(node, body.returns, node.outputs, body)

    def count(self, rule: str, node: Node, what: str, have: Sequence[Value], want: Sequence[Value], place: Block | None = None) -> None:
        if len(have) != len(want):
            self.fail(rule, f"{node.op} has {len(have)} {what}, and {len(want)} are needed", {place or node: ""})

    def flow(self, node: Node, sources: tuple[Value, ...], targets: tuple[Value, ...], place: Node | Block) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.want(node, source, target.type, place, target)
            have, want = source.type, target.type
            if have is want or not isinstance(have, TensorType) or not isinstance(want, TensorType):
                continue
            because = contradiction(have, want)
            if because and (node.op in ISOLATED or contradiction(TensorType(have.dtype), TensorType(want.dtype))):
                what = f"%{self.name(source)} is of type {have} and flows to %{self.name(target)}, which is {want}: {because}"
                self.fail("return-types", what, {node: "", place: ""})

    def want(self, node: Node, source: Value, wanted: Type, place: Node | Block, target: Value | None = None) -> None:
        if source.type is wanted or (id(source.type), id(wanted)) in self.fitting:
            return
        if not is_subtype(source.type, wanted):
            goes = f"flows to %{self.name(target)}, which" if target is not None else "is used where the type"
            what = f"%{self.name(source)} is of type {source.type} and {goes} is {wanted}"
            self.fail("return-types", what, {node: "", place: ""})
        self.fitting.add((id(source.type), id(wanted)))

    def name(self, value: Value) -> str:
        return self.graph.names.get(value) or value.name or f"#{value.id}"

    def fail(self, rule: str, what: str, marks: Mapping[Node | Block, str], *, hint: str = "") -> NoReturn:
        raise VerifyError(what, where=excerpt(self.graph, marks), rule=rule, hint=hint)


def _is_frozen(payload: Any) -> bool:
    if payload is None or isinstance(payload, _ATOMS):
        return True
    if isinstance(payload, tuple):
        return all(map(_is_frozen, payload))
    return isinstance(payload, FrozenDict) and all(map(_is_frozen, [*payload.keys(), *payload.values()]))
