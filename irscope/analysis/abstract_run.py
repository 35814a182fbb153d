"""One run of a program over what is known of its values instead of over the values.

What makes it sound:

* **Branches.** A condition that is known runs one branch. Otherwise both run, and the results are joined. A branch that
  is sure to raise gives nothing to join.
* **Loops.** While trip count and condition are known the body runs as often as it would. Otherwise what it carries is
  joined with what it started from until nothing changes; three rounds, then only types are kept.
* **Lists** are followed as objects: `append` changes the one `KnownList` that every name of the list holds. Where a
  write is not certain to happen (an unknown branch or loop), and where the list written is not known, every list of
  that type is forgotten, before and after. TorchScript's lists are invariant: a list of another type is another list.
* **Tensors** keep type and shape under in-place ops. The few ops that change them (`resize_`, `t_`, `out=`) make every
  value that may be the same tensor object unknown from the start.
* **The same value, met again** in a later round of a loop, gets the join of all its facts; that is what is reported.

The work is bounded by a few visits a node: when the budget is spent, loops are no longer unrolled or refined.

**Nodes of one form** (the same op without attributes on operands of the same facts and declared types) have the same result, so the
type rule is asked once a form. Equal facts are made the same object, and then told apart by identity. Lists and what is
unknown have no identity of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from irscope._base.frozen import EMPTY
from irscope._base.trampoline import Call, run
from irscope.analysis.facts import NOTHING, Fact, KnownList, fact_of_payload, join, settled
from irscope.analysis.known_lists import KnownLists
from irscope.analysis.list_writes import list_writes
from irscope.analysis.tensor_objects import reshaped_objects
from irscope.errors import ArgumentError
from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.excerpt import excerpt
from irscope.ir.payload import argument_type, constant_value
from irscope.ir.types import ListType, OptionalType, TensorType, Type
from irscope.ops.op import Op
from irscope.ops.registry import op_of, schema_of
from irscope.ops.type_rules import Unknown

__all__ = ["AbstractRun", "Form"]

_UNROLL: Final = 1024
"""The longest loop that runs round by round."""

_ROUNDS: Final = 3
"""How often a loop's carried facts are joined before only types are kept."""

_NO_LISTS: Final[frozenset[Type]] = frozenset()

_SLIPS: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What a type rule raises when it is given less than it can handle; the answer is then: unknown."""


class Form:
    """What nodes have in common that have the same op, and the same types and known numbers as operands and results."""

    __slots__ = ("fact", "token")

    def __init__(self, fact: Fact, token: int) -> None:
        self.fact = fact
        self.token = token


class AbstractRun:
    """The state of one run: the facts now, the facts over all visits, and which lists can still be trusted."""

    def __init__(self, graph: Graph, *, strict: bool) -> None:
        self.graph = graph
        self.strict = strict
        self.facts: dict[Value, Fact] = {}
        """The join over all visits."""
        self.reasons: dict[Value, str] = {}
        self.unreached: set[Block] = set()
        self.reached: set[Block] = set()
        self._now: dict[Value, Fact] = {}
        self.lists = KnownLists()
        self._certain = True
        """Whether the node at hand runs in every run."""
        self._writes = list_writes(graph)
        self._reshaped = reshaped_objects(graph)
        self._budget = 16 * sum(len(block.nodes) for block in graph.blocks()) + 50_000
        self.form_of: dict[Node, Form] = {}
        """The forms of the nodes that were visited once, and that have one."""
        self._forms: dict[tuple[object, ...], Form] = {}
        self._tokens: dict[tuple[int, int], int] = {}
        self._same: dict[object, Fact] = {}
        self._token_of: dict[Value, int] = {}
        """What stands for the fact and the declared type of a value; of lists and unknown things there is none."""

    def start(self, input_types: Mapping[Value, Type]) -> None:
        """Run the whole program."""
        for value in self.graph.inputs:
            self._set(value, self._input_fact(value, input_types))
        run(self._block(self.graph.body))

    def _input_fact(self, value: Value, input_types: Mapping[Value, Type]) -> Fact:
        bound = self.graph.bound.get(value)
        type = input_types.get(value)
        if type is None and bound is not None:
            type = argument_type(bound)
        if isinstance(type, TensorType):
            return type
        return bound if isinstance(bound, bool | int | float | str) else Unknown(value.type)

    # the facts now

    def _set(self, value: Value, fact: Fact) -> None:
        fact = settled(fact, value.type)
        if value in self._reshaped and isinstance(fact, TensorType):
            fact = TensorType(fact.dtype, device=fact.device)
        fixed = fact.__class__ in _FIXED
        if fixed:
            fact = self._same.setdefault(fact if fact.__class__ is TensorType else (fact.__class__, repr(fact)), fact)
        self._now[value] = fact
        before = self.facts.get(value, NOTHING)
        self.facts[value] = fact if before is NOTHING else join(before, fact, value.type)
        self._token_of.pop(value, None)
        if fixed:
            key = id(fact), id(value.type)  # both live as long as the run
            self._token_of[value] = self._tokens.setdefault(key, len(self._tokens))

    def _get(self, value: Value) -> Fact:
        fact = self._now.get(value, NOTHING)
        if fact is NOTHING:
            return value.type if isinstance(value.type, TensorType) else Unknown(value.type)
        if isinstance(fact, list | tuple):
            return self.lists.trusted(fact, value.type)
        return fact

    # running

    def _block(self, block: Block) -> Call:
        """Run a block; its result says whether it always raises."""
        self.reached.add(block)
        self._budget -= len(block.nodes)
        for node in block.nodes:
            if node.blocks:
                raises = yield self._structured(node)
                if raises:
                    return True
            elif node.op == "prim::RaiseException":
                return True
            else:
                self._node(node)
        return False

    def _structured(self, node: Node) -> Call:
        if node.op == "prim::If":
            return self._if(node)
        if node.op == "prim::Loop":
            return self._loop(node)
        return self._group(node)

    def _group(self, node: Node) -> Call:
        """A fusion group, or another node whose block's parameters stand for its inputs."""
        known = len(node.blocks) == 1 and len(node.blocks[0].params) == len(node.inputs)
        if known and len(node.blocks[0].returns) == len(node.outputs):
            block = node.blocks[0]
            for param, value in zip(block.params, node.inputs, strict=True):
                self._set(param, self._get(value))
            raises = yield self._block(block)
            for output, value in zip(node.outputs, block.returns, strict=True):
                self._set(output, self._get(value))
            return raises
        for block in node.blocks:
            self._enter(node)
            for param in block.params:
                self._set(param, Unknown(param.type))
            yield self._uncertain(block)
        self.lists.forget(None)
        self._give_up(node, f"it is not known how {node.op} runs its block")
        return False

    def _if(self, node: Node) -> Call:
        condition = self._get(node.inputs[0])
        if isinstance(condition, bool):
            taken, other = node.blocks if condition else node.blocks[::-1]
            self.unreached.add(other)
            raises = yield self._block(taken)
            return self._leave(node, [self._get_raw(value) for value in taken.returns], raises)
        sure = [_always_raises(block) for block in node.blocks]
        if sure[0] != sure[1]:  # past this node, the branch that does not raise has run
            raising, other = node.blocks if sure[0] else node.blocks[::-1]
            self._enter(node)
            yield self._uncertain(raising)
            raises = yield self._block(other)
            return self._leave(node, [self._get_raw(value) for value in other.returns], raises)
        self._enter(node)
        results: list[Fact] = [NOTHING] * len(node.outputs)
        all_raise = True
        for block in node.blocks:
            raises = yield self._uncertain(block)
            all_raise = all_raise and raises
            if not raises:
                found = [self._get_raw(value) for value in block.returns]
                results = [join(a, b, output.type) for a, b, output in zip(results, found, node.outputs, strict=True)]
            self._enter(node)
        return self._leave(node, results, all_raise)

    def _uncertain(self, block: Block) -> Call:
        before, self._certain = self._certain, False
        raises = yield self._block(block)
        self._certain = before
        return raises

    def _enter(self, node: Node) -> None:
        """Before and after blocks that may or may not run: forget the lists that they write."""
        written = self._writes.get(node, _NO_LISTS)
        if written is None or written:
            self.lists.forget(written)

    def _leave(self, node: Node, results: Sequence[Fact], raises: bool) -> bool:
        if not raises:
            for output, fact in zip(node.outputs, results, strict=True):
                self._set(output, fact)
        return raises

    def _get_raw(self, value: Value) -> Fact:
        """As `_get`, but of a value that is never made: nothing."""
        return NOTHING if self._now.get(value, NOTHING) is NOTHING and value in self._now else self._get(value)

    def _loop(self, node: Node) -> Call:
        """`prim::Loop(limit, condition, *carried)`; its block maps `(i, *carried)` to `(condition, *carried)`."""
        (block,) = node.blocks
        limit, condition = self._get(node.inputs[0]), self._get(node.inputs[1])
        carried = [self._get_raw(value) for value in node.inputs[2:]]
        trip = 0
        while self._continues(block, trip, limit, condition):
            self._begin_round(block, trip, carried)
            raises = yield self._block(block)
            if raises:
                return True
            condition = self._get(block.returns[0])
            carried = [self._get_raw(value) for value in block.returns[1:]]
            trip += 1
        if (isinstance(limit, int) and trip >= limit) or condition is False:
            if trip == 0:
                self.unreached.add(block)
            return self._leave(node, carried, False)
        self._enter(node)
        yield self._fixpoint(node, block, trip, carried)
        self._enter(node)
        return False

    def _continues(self, block: Block, trip: int, limit: Fact, condition: Fact) -> bool:
        """Whether the next round is sure to run, and may be run here."""
        if condition is not True or not isinstance(limit, int) or trip >= limit:
            return False
        return (
            trip < _UNROLL
            and (trip > 0 or min(limit, _UNROLL) * (len(block.nodes) + 1) <= self._budget)
            and self._budget > 0
        )

    def _begin_round(self, block: Block, trip: Fact, carried: Sequence[Fact]) -> None:
        self._set(block.params[0], trip)
        for param, fact in zip(block.params[1:], carried, strict=True):
            if fact is NOTHING:
                self._now[param] = NOTHING
            else:
                self._set(param, fact)

    def _fixpoint(self, node: Node, block: Block, trip: int, carried: list[Fact]) -> Call:
        """Join what the loop carries until nothing changes: true after any number of further rounds, also none."""
        trip_fact = Unknown(block.params[0].type)
        rounds = _ROUNDS if self._budget > 0 else 0
        while True:
            if rounds == 0:
                carried = [_only_type(fact, value.type) for fact, value in zip(carried, block.params[1:], strict=True)]
            self._begin_round(block, trip_fact, carried)
            raises = yield self._uncertain(block)
            if raises or rounds == 0:
                break
            found = [self._get_raw(value) for value in block.returns[1:]]
            joined = [join(a, b, p.type) for a, b, p in zip(carried, found, block.params[1:], strict=True)]
            if all(_same_fact(a, b) for a, b in zip(joined, carried, strict=True)):
                break
            carried = joined
            rounds -= 1
            self._enter(node)
        self._leave(node, carried, False)
        return False

    # one node

    def _node(self, node: Node) -> None:
        """Go by the form of a node, if one like it was met before."""
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
            self._note_form(node, output, key)
        elif output in self.facts:
            self._set(output, form.fact)
            self.form_of.pop(node, None)
        else:
            self._now[output] = self.facts[output] = form.fact
            token_of[output] = form.token
            self.form_of[node] = form

    def _note_form(self, node: Node, output: Value, key: tuple[object, ...]) -> None:
        """Remember what came of a node, unless more came of it than a fact, or less."""
        token = self._token_of.get(output)
        fact = self._now.get(output)
        fresh = self.facts.get(output) is fact
        if token is None or not fresh or output in self.reasons or node in self._writes or self._reshaped:
            return
        self.form_of[node] = self._forms[key] = Form(fact, token)

    def _visit(self, node: Node) -> None:
        if node.op == "prim::Constant":
            self._constant(node)
            return
        if node.op == "prim::Uninitialized":
            for output in node.outputs:
                self._now[output] = NOTHING
            return
        op, schema = op_of(node), schema_of(node)
        operands = [self._get(value) for value in node.inputs]
        writes = self._writes.get(node, _NO_LISTS)
        if op is None or op.type_rule is None:
            if writes is None or writes:
                self.lists.written(operands[0] if operands else None, writes, applied=False)
            self._without_rule(node, operands)
            return
        named: dict[str, Fact] = {}
        if schema is not None and not schema.is_vararg:
            for index, argument in enumerate(schema.arguments):
                named[argument.name] = operands[index] if index < len(operands) else argument.default
        try:
            result = op.type_rule(**named) if named else op.type_rule(*operands)
        except ArgumentError as error:
            result = self._failed(node, error)
        except _SLIPS as error:
            result = _NoAnswer(f"the type rule of {node.op} does not cover this call ({type(error).__name__}: {error})")
        if writes is None or writes:
            applied = not isinstance(result, Unknown | _NoAnswer)
            self.lists.written(operands[0] if operands else None, writes, applied=applied)
        self._store(node, op, operands, named, result)

    def _constant(self, node: Node) -> None:
        output = node.outputs[0]
        fact = fact_of_payload(constant_value(node), output.type)
        inner = output.type.element if isinstance(output.type, OptionalType) else output.type
        is_list = isinstance(fact, tuple) and isinstance(inner, ListType)
        self._set(output, self.lists.constant(node, fact, inner) if is_list else fact)

    def _store(self, node: Node, op: Op, operands: Sequence[Fact], named: Mapping[str, Fact], result: Fact) -> None:
        outputs = node.outputs
        if isinstance(result, _NoAnswer):
            self._give_up(node, result.because)
            return
        if isinstance(result, Unknown) and (result.because or len(outputs) != 1 or node.op in _UNPACKING):
            self._give_up(node, result.because)
            return
        if not outputs:
            return
        results = result if len(outputs) != 1 or node.op in _UNPACKING else (result,)
        if len(results) != len(outputs):
            self._give_up(node, f"{node.op} gives {len(results)} values here, and {len(outputs)} are named")
            return
        device = None if named.get("device") is not None else _common_device(operands)
        for output, fact in zip(outputs, results, strict=True):
            self._set(output, self._placed(fact, device, output.type))

    def _placed(self, fact: Fact, device: str | None, declared: Type) -> Fact:
        """A result with the device of the operands, and a list that the op makes as a list of this run."""
        if isinstance(fact, TensorType):
            return fact if device is None or fact.device is not None else fact.with_(device=device)
        if type(fact) is list:
            return self.lists.make([self._placed(item, device, _element(declared)) for item in fact], declared)
        return fact

    def _give_up(self, node: Node, because: str) -> None:
        for output in node.outputs:
            if because:
                self.reasons.setdefault(output, because)
            self._set(output, Unknown(output.type, because))

    def _without_rule(self, node: Node, operands: Sequence[Fact]) -> None:
        from irscope.ops.torch_meta import meta_types

        found = meta_types(node, operands)
        if isinstance(found, str):
            self._give_up(node, found)
            return
        device = _common_device(operands)
        for output, fact in zip(node.outputs, found, strict=True):
            self._set(output, self._placed(fact, device, output.type))

    def _failed(self, node: Node, error: ArgumentError) -> Fact:
        if not self.strict or not self._certain:
            return _NoAnswer(f"{node.op} fails here: {error.what}")
        hint = error.hint or "check the shapes of the example arguments and parameters against the program"
        raise ArgumentError(
            f"{node.op} cannot run: {error.what}", where=excerpt(self.graph, {node: "here"}), rule=error.rule, hint=hint
        ) from None


class _NoAnswer:
    """What stands for the result of a rule that had none."""

    def __init__(self, because: str) -> None:
        self.because = because


_FIXED: Final = frozenset({TensorType, bool, int, float, str, type(None)})
"""Facts that cannot change, and that are therefore as good as their identity."""

_UNPACKING: Final = frozenset({"prim::TupleUnpack", "prim::ListUnpack"})


def _element(type: Type) -> Type:
    return type.element if isinstance(type, ListType) else type


def _always_raises(block: Block) -> bool:
    return any(node.op == "prim::RaiseException" for node in block.nodes)


def _only_type(fact: Fact, declared: Type) -> Fact:
    if isinstance(fact, TensorType) and isinstance(declared, TensorType):
        return declared
    return Unknown(declared, "a loop changes it")


def _same_fact(a: Fact, b: Fact) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, KnownList) and repr(a) == repr(b))


def _common_device(operands: Sequence[Fact]) -> str | None:
    """The device that all tensors among the operands share."""
    found: set[str | None] = set()
    for operand in operands:
        if isinstance(operand, TensorType):
            found.add(operand.device)
        elif isinstance(operand, list | tuple):
            found.update(item.device for item in operand if isinstance(item, TensorType))
    return found.pop() if len(found) == 1 else None
