"""Transfer functions of single nodes in an abstract run, and what they must forget: lists written and tensors reshaped in place."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Final, TypeVar

from irscope._base.frozen import EMPTY
from irscope.analysis.shapes.lattice import BOTTOM, Fact, KnownList, KnownLists, fact_of_payload, item_type, join, settled, too_large
from irscope.errors import ArgumentError
from irscope.ir import (
    ANY,
    CONTROL_FLOW,
    Block,
    Graph,
    ListType,
    Node,
    OptionalType,
    PrimitiveType,
    TensorType,
    Type,
    UnionType,
    Value,
    constant_value,
    erase_refinements,
    walk,
)
from irscope.ir.text.printer import excerpt
from irscope.ops.node_check import named_operands, wrong_extents
from irscope.ops.op import Op
from irscope.ops.registry import effect_of, op_of, schema_of
from irscope.ops.traits import ANOTHER_OBJECT, KNOWN_SIDE_EFFECTS, MAYBE_ANOTHER_OBJECT, PACKS, SHAPE_WRITERS, UNPACKS
from irscope.ops.type_rules import SLIPS, Unknown, mismatch

# The types of list that each node may write, nested blocks included, which the abstract interpreter must forget.
#
# This is coarser than the alias analysis, and needs only schemas: lists of one type are not distinguished.

Written = frozenset[Type] | None
"""None: lists of any type."""

NO_LISTS: Final[frozenset[Type]] = frozenset()
_WRITES: Final = frozenset({"in-place", "opaque"})


def list_writes(graph: Graph) -> tuple[Mapping[Node, Written], Written]:
    """The list types written by each node that may write lists (other nodes are missing), and by the whole program."""
    found: dict[Node, Written] = {}
    inside: dict[Block, Written] = {}
    for block in reversed(list(graph.blocks())):
        total: Written = NO_LISTS
        for node in block.nodes:
            if node.blocks:
                is_understood = node.op in CONTROL_FLOW or stands_for_its_block(node)
                written = _merged([inside[inner] for inner in node.blocks]) if is_understood else None
            elif effect_of(node) in _WRITES:
                written = _own(node)
            else:
                continue
            if written is None or written:
                found[node] = written
                total = _merged([total, written])
        inside[block] = total
    return found, inside[graph.body]


def stands_for_its_block(node: Node) -> bool:
    """Whether a node, such as a group, has one block with a parameter for each input and a return for each output."""
    blocks = node.blocks
    return len(blocks) == 1 and (len(blocks[0].params), len(blocks[0].returns)) == (len(node.inputs), len(node.outputs))


def _merged(parts: list[Written]) -> Written:
    known = [part for part in parts if part is not None]
    return NO_LISTS.union(*known) if len(known) == len(parts) else None


def _own(node: Node) -> Written:
    """The list types that a node without blocks, which has effects, may write."""
    if effect_of(node) == "opaque":
        return NO_LISTS if node.op in KNOWN_SIDE_EFFECTS else None
    schema = schema_of(node)
    if schema is None:
        return None
    types: set[Type] = set()
    for argument, value in zip(schema.arguments, node.inputs, strict=False):
        if isinstance(argument.type, ListType) and argument.alias is not None and argument.alias.is_write:
            types.add(erase_refinements(value.type))
    return None if any(map(_is_vague, types)) else frozenset(types)


def _is_vague(type: Type) -> bool:
    """Whether a list of this type may be a list of another: through `Any`, a type variable or a union."""
    if not isinstance(type, ListType):
        return True
    return any(
        part == ANY or isinstance(part, UnionType) or (isinstance(part, PrimitiveType) and part.name[:1] == "t") for part in walk(type)
    )


# Finds the values that may be a tensor object whose shape an op changes in place.
#
# `add_` writes elements; `resize_`, `t_`, `set_` and the `out=` forms change the object itself, and so every other name
# of it. Names are followed through ops that may return their argument, branches, loops and containers, all in one
# union-find; a graph without such ops, which is nearly every graph, costs one visit per node. A caller may pass one
# tensor for two arguments: unless inputs are promised to be distinct, all free inputs are names of one object. (A bound
# parameter is not one of them: `Graph.storages` says so, and calls that write check this.)


def reshaped_objects(graph: Graph) -> frozenset[Value]:
    """The values whose shape and strides may differ from those their producer gave them."""
    seeds = [value for node in graph.nodes() if effect_of(node) in _WRITES for value in _changed(node)]
    if not seeds:
        return frozenset()
    roots, find = _classes(graph, seeds)
    return frozenset(value for value in graph.values() if find(value) in roots)


class CallerVisible:
    """The values that may be a tensor object visible to the caller: an argument or a result.

    Two objects over one memory are the same to code that reads and writes elements, but a caller that has both can
    distinguish them by calling `t_` on one.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _held(self) -> set[Value]:
        graph = self._graph
        held = [*graph.inputs, *graph.outputs]
        unseen = (node for node in graph.nodes() if not node.blocks and not node.op.startswith("prim::") and schema_of(node) is None)
        held += [value for node in unseen for value in (*node.inputs, *node.outputs)]
        roots, find = _classes(graph, held)
        return {value for value in graph.values() if find(value) in roots}

    def identity_is_observable(self, node: Node, stays: Value) -> bool:
        """Whether a caller could observe that a node's view was replaced by another value, a view of the same elements."""
        return node.op in MAYBE_ANOTHER_OBJECT and node.output in self._held and stays in self._held

    def become_one(self, gone: Value, stays: Value) -> None:
        """Record that a value replaces another from now on."""
        if gone in self._held:
            self._held.add(stays)


def _classes(graph: Graph, seeds: Iterable[Value]) -> tuple[set[Value], Callable[[Value], Value]]:
    """The representatives of these values, and the function that finds the representative of any value."""
    parent: dict[Value, Value] = {}

    def find(value: Value) -> Value:
        while value in parent:
            above = parent[value]
            if above in parent:
                parent[value] = parent[above]
            value = above
        return value

    pairs = [pair for node in graph.nodes() for pair in _same_object(node)]
    if not (graph.distinct_inputs or graph.functional):
        given = [value for value in graph.free_inputs if not isinstance(value.type, PrimitiveType) or value.type == ANY]
        pairs += [(value, given[0]) for value in given[1:]]
    for a, b in pairs:
        a, b = find(a), find(b)
        if a is not b:
            parent[a] = b
    return {find(value) for value in seeds}, find


def _changed(node: Node) -> tuple[Value, ...]:
    if node.op in SHAPE_WRITERS:
        return node.inputs[:1]
    schema = schema_of(node) if effect_of(node) == "in-place" else None
    if schema is None:
        return ()
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return tuple(value for argument, value in pairs if argument.keyword_only and argument.alias and argument.alias.is_write)


def _same_object(node: Node) -> list[tuple[Value, Value]]:
    """Pairs of names that may be one object. Pure ops create new ones; all others are assumed to return any argument, numbers
    aside, which many of them share."""
    if node.op == "prim::Loop":
        (block,) = node.blocks
        params, returned = block.params[1:], zip(block.returns[1:], node.outputs, strict=True)
        return [*zip(node.outputs, params, strict=True), *zip(node.inputs[2:], params, strict=True), *returned]
    if node.blocks:
        results = [pair for block in node.blocks for pair in zip(block.returns, node.outputs, strict=False)]
        return results + [pair for block in node.blocks for pair in zip(node.inputs, block.params, strict=False)]
    if node.op in ANOTHER_OBJECT or (effect_of(node) == "pure" and node.op not in PACKS):
        return []
    values = [value for value in (*node.inputs, *node.outputs) if not isinstance(value.type, PrimitiveType) or value.type == ANY]
    return [(values[0], other) for other in values[1:]]


# Transfer functions of single nodes in an abstract run: the op's type rule maps the operands' facts to those of the results.
#
# **Nodes of one form** (the same op without attributes on operands of the same facts and declared types) have the same result, so the
# type rule runs once per form. Equal facts are interned, and then compared by identity. Unknown facts are not
# interned, nor are lists, unless nothing in the program writes lists of their type.

Run = TypeVar("Run", bound="AbstractNodes")


class Token:
    """Represents an immutable fact and a declared type; it keeps them alive, since they are compared by identity."""

    __slots__ = ("fact", "type")

    def __init__(self, fact: Fact, type: Type) -> None:
        self.fact = fact
        self.type = type


class NodeSignature:
    """The form shared by nodes with the same op and the same types and known numbers of operands and results."""

    __slots__ = ("token",)

    def __init__(self, token: Token) -> None:
        self.token = token


class AbstractNodes:
    """The state of one run, and the effect of nodes without blocks on it."""

    def __init__(self, graph: Graph, *, strict: bool) -> None:
        self.graph = graph
        self.strict = strict
        self.facts: dict[Value, Fact] = {}
        """The join over all visits."""
        self._failed: set[Node] = set()
        """The nodes that fail with operands like theirs, which is an error only where they certainly run."""
        self.unreached: set[Block] = set()
        self.reached: set[Block] = set()
        self._now: dict[Value, Fact] = {}
        self.lists = KnownLists()
        self._certain = True
        """Whether the current node runs in every run."""
        self._writes, self.written = list_writes(graph)
        """The types of list that each node writes, and those that any node writes: a list of another type never changes."""
        self.reshaped = reshaped_objects(graph)
        """The tensors whose shape an op may change."""
        self._budget = 16 * sum(1 for _ in graph.nodes()) + 50_000
        self.form_of: dict[Node, NodeSignature] = {}
        """The forms of the nodes that were visited once, and that have one."""
        self._forms: dict[tuple[object, ...], NodeSignature] = {}
        self._tokens: dict[object, Token] = {}
        self._token_of: dict[Value, Token] = {}
        """The token of a value's fact and declared type, if that fact is immutable."""
        self._taken_over: set[Node] = set()
        """The nodes whose facts are known from the previous graph."""

    def take_over(self, before: "AbstractNodes", graph: Graph) -> None:
        """Reuse the facts of a previous run over `graph` for inputs and nodes of the top block that are the same objects in
        both graphs and whose operands keep their facts. Lists of a type that either program writes are
        tracked from scratch, and so is everything if shapes are written."""
        if self.reshaped or before.reshaped or (self.graph.inputs, id(self.graph.bound)) != (graph.inputs, id(graph.bound)):
            return
        self._tokens = dict(before._tokens)
        if self.written == before.written:
            self._forms = dict(before._forms)
        same: set[Value] = set()
        for value in self.graph.inputs:
            self._keep(value, before, same)
        old = graph.position
        for node in self.graph.body.nodes:
            if node.blocks or not same.issuperset(node.inputs) or node not in old:
                continue
            for value in node.outputs:
                self._keep(value, before, same)
            if same.issuperset(node.outputs):
                self._taken_over.add(node)
                if node in before.form_of:
                    self.form_of[node] = before.form_of[node]

    def _keep(self, value: Value, before: "AbstractNodes", same: set[Value]) -> None:
        """Let a value keep its fact, if the fact is the same in both programs."""
        token, failed = before._token_of.get(value), before.graph.producer.get(value) in before._failed
        if token is None or token.fact is not before.facts[value] or failed or not self._is_fixed(token.fact):
            return
        same.add(value)
        self._now[value] = self.facts[value] = token.fact
        self._token_of[value] = token

    def renewed(self: Run, graph: Graph, values: Mapping[Value, Value], nodes: Mapping[Node, Node], blocks: Mapping[Block, Block]) -> Run:
        """The results for the same program with renewed values, whose types may contain the inferred facts."""
        run = copy(self)
        run.graph = graph
        run.facts = {values.get(value, value): fact for value, fact in self.facts.items()}
        run._failed = {nodes.get(node, node) for node in self._failed}
        run.form_of = {nodes.get(node, node): form for node, form in self.form_of.items()}
        run.reshaped = frozenset(values.get(value, value) for value in self.reshaped)
        run._forms, run._tokens, run._token_of = {}, {}, {}
        for old, token in self._token_of.items():
            value = values.get(old, old)
            if token.fact is self.facts[old]:
                run._token_of[value] = run._token(token.fact, value.type)
        return run

    # the current facts

    def _set(self, value: Value, fact: Fact) -> None:
        kind = fact.__class__
        if kind not in _NUMBERS or value.type.__class__ is TensorType:
            if isinstance(fact, list | tuple) and too_large(fact):
                fact = Unknown(value.type)
            fact = settled(fact, value.type)
            if value in self.reshaped and isinstance(fact, TensorType):
                fact = TensorType(fact.dtype, device=fact.device)
            kind = fact.__class__
        if kind in _FIXED or (kind is KnownList and self._is_fixed(fact)):
            token = self._token_of[value] = self._token(fact, value.type)
            fact = token.fact
        else:
            self._token_of.pop(value, None)
        self._now[value] = fact
        before = self.facts.get(value, BOTTOM)
        self.facts[value] = fact if before is BOTTOM else join(before, fact, value.type)

    def _token(self, fact: Fact, declared: Type) -> Token:
        """The interned token for a fact and a declared type, whose fact represents all equal ones."""
        key = (id(declared), _contents(fact))
        token = self._tokens.get(key)
        if token is None:
            token = self._tokens[key] = Token(fact, declared)
        return token

    def _is_fixed(self, fact: Fact) -> bool:
        """Whether a fact is immutable: a tensor's type or a number, or a list of these that nothing writes."""
        if not isinstance(fact, KnownList):
            return fact.__class__ in _FIXED
        if not fact.is_flat or fact.epoch or self.written is None or fact.type in self.written:
            return False
        return all(item.__class__ in _FIXED for item in fact)

    def _get(self, value: Value) -> Fact:
        fact = self._now.get(value, BOTTOM)
        if fact is BOTTOM:
            return value.type if isinstance(value.type, TensorType) else Unknown(value.type)
        if isinstance(fact, list | tuple):
            return self.lists.trusted(fact, value.type)
        return fact

    def _get_raw(self, value: Value) -> Fact:
        """As `_get`, but BOTTOM for a value that is never defined."""
        return BOTTOM if self._now.get(value, BOTTOM) is BOTTOM and value in self._now else self._get(value)

    # one node

    def _node(self, node: Node) -> None:
        """Reuse the result of the node's form if it is known, or visit the node."""
        if node in self._taken_over:
            return
        if node.op == "prim::Constant":
            self._constant(node)
            return
        if len(node.outputs) != 1 or node.attrs is not EMPTY:
            self._visit(node)
            return
        output = node.outputs[0]
        token_of = self._token_of
        try:
            key = (node.op, id(output.type), *[token_of[value] for value in node.inputs])
        except KeyError:
            self._visit(node)
            return
        form = self._forms.get(key)
        if form is None:
            self._visit(node)
            token = token_of.get(output)
            is_exact = token is not None and self.facts.get(output) is token.fact  # the result is one immutable fact
            if token is not None and is_exact and node not in self._failed and node not in self._writes and not self.reshaped:
                self.form_of[node] = self._forms[key] = NodeSignature(token)
        elif output in self.facts:
            self._set(output, form.token.fact)
            self.form_of.pop(node, None)
        else:
            self._now[output] = self.facts[output] = form.token.fact
            token_of[output] = form.token
            self.form_of[node] = form

    def _visit(self, node: Node) -> None:
        if node.op == "prim::Uninitialized":
            for output in node.outputs:
                self._now[output] = BOTTOM
            return
        op, schema = op_of(node), schema_of(node)
        operands = [self._get(value) for value in node.inputs]
        writes = self._writes.get(node, NO_LISTS)
        if op is None or op.type_rule is None:
            if writes is None or writes:
                self.lists.written(operands[0] if operands else None, writes, applied=False)
            self._without_rule(node, operands)
            return
        named = named_operands(schema, operands)
        try:
            result = op.type_rule(**named) if named else op.type_rule(*operands)
            _check_extents(result)
        except ArgumentError as error:
            self._fail(node, error)
            result = Unknown(ANY)
        except SLIPS:  # the type rule does not cover this call
            result = Unknown(ANY)
        if writes is None or writes:
            written = operands[0] if operands else None
            applied = not isinstance(result, Unknown)
            if applied and isinstance(written, KnownList) and too_large(written):  # it holds itself, or too much: no longer tracked
                written.clear()
                applied = False
            self.lists.written(written, writes, applied=applied)
        self._store(node, op, operands, named, result)

    def _constant(self, node: Node) -> None:
        output = node.outputs[0]
        fact = fact_of_payload(constant_value(node), output.type)
        if isinstance(fact, bool | int | float | complex) and isinstance(output.type, TensorType):
            # A traced program types Python's numbers as tensors; in a promotion they stay the weaker ones.
            self._now[output] = self.facts[output] = fact
            return
        if fact.__class__ in _FIXED:
            self._set(output, fact)
            return
        inner = output.type.element if isinstance(output.type, OptionalType) else output.type
        is_list = isinstance(fact, tuple) and isinstance(inner, ListType)
        self._set(output, self.lists.constant(node, fact, inner) if is_list else fact)

    def _store(self, node: Node, op: Op, operands: Sequence[Fact], named: Mapping[str, Fact], result: Fact) -> None:
        outputs = node.outputs
        if isinstance(result, Unknown):
            self._give_up(node)
            return
        if not outputs:
            return
        results = result if len(outputs) != 1 or node.op in UNPACKS else (result,)
        if not isinstance(results, list | tuple) or len(results) != len(outputs):
            self._give_up(node)
            return
        is_placed = any(isinstance(fact, TensorType) or type(fact) is list for fact in results)
        device = _common_device(operands) if is_placed and named.get("device") is None else None
        for output, fact in zip(outputs, results, strict=True):
            self._set(output, self._placed(fact, device, output.type))

    def _placed(self, fact: Fact, device: str | None, declared: Type) -> Fact:
        """A result with the device of the operands; a list that the op creates becomes a list of this run."""
        if isinstance(fact, TensorType):
            return fact if device is None or fact.device is not None else fact.with_(device=device)
        if type(fact) is list:
            return self.lists.make([self._placed(item, device, item_type(declared)) for item in fact], declared)
        return fact

    def _give_up(self, node: Node) -> None:
        for output in node.outputs:
            self._set(output, Unknown(output.type))

    def _without_rule(self, node: Node, operands: Sequence[Fact]) -> None:
        from irscope.ops.torch_meta import meta_types

        found = meta_types(node, operands)
        if found is None:
            self._give_up(node)
            return
        device = _common_device(operands)
        for output, fact in zip(node.outputs, found, strict=True):
            self._set(output, self._placed(fact, device, output.type))

    def _fail(self, node: Node, error: ArgumentError) -> None:
        if not self.strict or not self._certain:
            self._failed.add(node)
            return
        hint = error.hint or "check the shapes of the example arguments and parameters against the program"
        raise ArgumentError(
            f"{node.op} cannot run: {error.what}", where=excerpt(self.graph, {node: "here"}), rule=error.rule, hint=hint
        ) from None


def _check_extents(result: Fact) -> None:
    """Raises ArgumentError for a result type that no tensor can have: the numbers of a program may have any value."""
    for fact in result if type(result) is tuple else (result,):
        wrong = wrong_extents(fact) if isinstance(fact, TensorType) else ""
        if wrong:
            raise mismatch(f"it would make {fact}, and {wrong}", rule="extent")


_NUMBERS: Final = frozenset({bool, int, float, str, type(None)})
_FIXED: Final = _NUMBERS | {TensorType}
"""Classes of immutable facts, which can be interned."""


def _contents(fact: Fact) -> object:
    """A key that is the same for equal immutable facts: `1`, `1.0` and `True` differ, and so do zeros of either sign."""
    kind = fact.__class__
    if kind is TensorType:
        return fact
    if kind is KnownList:
        return (kind, *map(_contents, fact))
    return kind, repr(fact) if kind is float else fact


def _common_device(operands: Sequence[Fact]) -> str | None:
    """The device that all tensors among the operands share."""
    found: set[str | None] = set()
    for operand in operands:
        if isinstance(operand, TensorType):
            found.add(operand.device)
        elif isinstance(operand, list | tuple):
            found.update(item.device for item in operand if isinstance(item, TensorType))
    return found.pop() if len(found) == 1 else None
