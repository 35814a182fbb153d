"""Small rewrites that make a program simpler: a table of rules, each with its proof.

One walk in textual order. A rule looks at one node and what made its operands, simplified already, and names values that
its results are equal to; the node then goes. Two kinds of equality:

* *the same thing*: the result is that value, or a view of just its elements in its layout. Nobody can tell.
* *an equal tensor*: the result has new memory with the same elements. It may go only if element type, shape and strides
  are known to be the same, nothing writes either, and a caller does not get both (`irscope.transforms.sameness`).

Proofs are exact: NaN, the sign of zero and infinities come out as they went in, or the rule says for which types it holds.
Ifs and loops that are known to run one way are taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.tensor_objects import reshaped_objects
from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.payload import NOT_CONSTANT, constant_of, constant_value
from irscope.ir.rewriter import Edit, Erased, Rewriter
from irscope.ir.types import TensorType
from irscope.ops.promotion import is_integral
from irscope.ops.registry import bind, schema_of
from irscope.ops.strides import is_contiguous
from irscope.ops.type_rules import static_shape
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.sameness import Onlookers

__all__ = ["RULES", "canonicalize"]


@dataclass(frozen=True, slots=True)
class _Site:
    """A node, and what its operands are by now."""

    node: Node
    operands: tuple[Value, ...]
    maker: Callable[[Value], tuple[Node, tuple[Value, ...]] | None]
    """The node that makes a value, with its operands as they are by now."""
    constant: Callable[[Value], Any]
    is_written: Callable[[Value], bool]

    def argument(self, name: str) -> Any:
        """A number by its schema's name: the constant, the default, or NOT_CONSTANT."""
        schema = schema_of(self.node)
        given = bind(self.node, schema).get(name, NOT_CONSTANT) if schema is not None else NOT_CONSTANT
        return self.constant(given) if isinstance(given, Value) else given

    def inner(self, *ops: str) -> tuple[Node, tuple[Value, ...]] | None:
        """What made the first operand, if it is one of these ops."""
        made = self.maker(self.operands[0]) if self.operands else None
        return made if made is not None and made[0].op in ops else None


Equals = tuple[Value, ...] | None


def _plus_zero(site: _Site) -> Equals:
    """x + 0 and x - 0 are x. Of floats only x - 0 and x + -0: -0 + 0 is 0."""
    if len(site.operands) < 2:
        return None
    number, alpha = site.constant(site.operands[1]), site.argument("alpha")
    if not _is_number(number) or number != 0 or not _is_number(alpha) or alpha != 1:
        return None
    dtype = _dtype(site.operands[0])
    negative = isinstance(number, float) and str(number) == "-0.0"
    minus = site.node.op == "aten::sub"
    exact = dtype is not None and (is_integral(dtype) or (dtype.startswith(("float", "bfloat")) and minus != negative))
    return site.operands[:1] if exact else None


def _times_one(site: _Site) -> Equals:
    """x * 1 and x / 1 are x, NaN and -0 included; the type check sees to whole numbers, whose quotient is a float."""
    number = site.constant(site.operands[1]) if len(site.operands) == 2 else NOT_CONSTANT
    return site.operands[:1] if _is_number(number) and number == 1 else None


def _twice_negated(site: _Site) -> Equals:
    """-(-x) is x: only the sign bit flips, and whole numbers wrap around twice."""
    made = site.inner("aten::neg")
    return made[1][:1] if made is not None else None


def _done_already(site: _Site) -> Equals:
    """f(f(x)) is f(x), for f that leaves its own results as they are; NaN stays NaN."""
    made = site.inner(site.node.op)
    return site.operands[:1] if made is not None and len(site.operands) == 1 else None


def _copied_whole(site: _Site) -> Equals:
    """What is stored over a whole tensor is what it is then; broadcasting and conversion fail the check of types."""
    return site.operands[1:2] if len(site.operands) >= 2 else None


def _transposed_back(site: _Site) -> Equals:
    """Exchanging two dimensions twice gives back the strides there were."""
    made = site.inner(site.node.op)
    if made is None:
        return None
    if site.node.op == "aten::t":
        return made[1][:1]
    here, there = map(site.constant, site.operands[1:3]), map(site.constant, made[1][1:3])
    dims, others = list(here), list(there)
    known = all(isinstance(dim, int) for dim in (*dims, *others))
    return made[1][:1] if known and sorted(dims) == sorted(others) else None


def _squeezed_back(site: _Site) -> Equals:
    """The dimension that `unsqueeze` adds is the one that `squeeze` takes away, if both name it alike."""
    made = site.inner("aten::unsqueeze")
    if made is None or len(site.operands) != 2:
        return None
    dims = site.constant(site.operands[1]), site.constant(made[1][1])
    return made[1][:1] if isinstance(dims[0], int) and dims[0] == dims[1] else None


def _cast_to_itself(site: _Site) -> Equals:
    """Torch gives back the very tensor when element type and device are the wanted ones already and no copy is asked."""
    (result,) = site.node.outputs
    wanted, given = result.type, site.operands[0].type
    if not isinstance(wanted, TensorType) or not isinstance(given, TensorType):
        return None
    known = None not in (wanted.dtype, given.dtype, wanted.device, given.device)
    format_ = site.argument("memory_format")
    plain = site.argument("copy") in (False, NOT_CONSTANT) and format_ in (None, NOT_CONSTANT)
    if site.node.op != "aten::type_as" and (site.argument("copy") is not False or format_ is not None):
        return None
    same = (wanted.dtype, wanted.device) == (given.dtype, given.device)
    return site.operands[:1] if known and plain and same else None


def _contiguous_already(site: _Site) -> Equals:
    """Torch gives back the very tensor when its rows lie side by side already."""
    type = site.operands[0].type
    shape = static_shape(type) if isinstance(type, TensorType) else None
    if shape is None or not isinstance(type, TensorType) or type.strides is None:
        return None
    return site.operands[:1] if site.argument("memory_format") == 0 and is_contiguous(shape, type.strides) else None


def _drops_nothing(site: _Site) -> Equals:
    """Outside training, dropout gives back the very tensor."""
    return site.operands[:1] if site.argument("train") is False else None


def _taken_out_of_a_tuple(site: _Site) -> Equals:
    """Tuples do not change: what was put in is what comes out."""
    made = site.inner("prim::TupleConstruct")
    if made is None:
        return None
    if site.node.op == "prim::TupleUnpack":
        return made[1]
    index = site.constant(site.operands[1])
    return (made[1][index],) if isinstance(index, int) and -len(made[1]) <= index < len(made[1]) else None


def _taken_out_of_a_list(site: _Site) -> Equals:
    """So it is with a list that nobody ever writes."""
    made = site.inner("prim::ListConstruct")
    if made is None or site.is_written(made[0].output):
        return None
    if site.node.op == "prim::ListUnpack":
        return made[1] if len(made[1]) == len(site.node.outputs) else None
    index = site.constant(site.operands[1])
    return (made[1][index],) if isinstance(index, int) and -len(made[1]) <= index < len(made[1]) else None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite."""

    name: str
    ops: tuple[str, ...]
    find: Callable[[_Site], Equals]
    """The values that the node's results are equal to, or None."""
    is_same_thing: bool
    """Whether the results are those values themselves, so that nobody can tell."""


def _aten(words: str) -> tuple[str, ...]:
    return tuple(f"aten::{word}" for word in words.split())


RULES: Final = (
    Rule("plus-zero", _aten("add sub"), _plus_zero, False),
    Rule("times-one", _aten("mul div"), _times_one, False),
    Rule("twice-negated", _aten("neg"), _twice_negated, False),
    Rule("done-already", _aten("relu relu6 abs floor ceil trunc sign"), _done_already, False),
    Rule("copied-whole", _aten("copy"), _copied_whole, False),
    Rule("transposed-back", _aten("t transpose swapaxes swapdims"), _transposed_back, True),
    Rule("squeezed-back", _aten("squeeze"), _squeezed_back, True),
    Rule("cast-to-itself", _aten("to type_as"), _cast_to_itself, True),
    Rule("contiguous-already", _aten("contiguous"), _contiguous_already, True),
    Rule("drops-nothing", _aten("dropout"), _drops_nothing, True),
    Rule("out-of-a-tuple", ("prim::TupleUnpack", "prim::TupleIndex"), _taken_out_of_a_tuple, True),
    Rule("out-of-a-list", ("prim::ListUnpack", "aten::__getitem__"), _taken_out_of_a_list, True),
)
"""The rules in the order in which they are tried."""

_BY_OP: Final = {op: rule for rule in RULES for op in rule.ops}


def canonicalize(graph: Graph, db: AliasDb | None = None) -> PassRecord:
    """Apply the rules wherever they hold, and take apart ifs and loops that are known to run one way; linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(3, 2) = aten::t(%x)
    ...   %b : Float(2, 3) = aten::t(%a)
    ...   %c : Float(2, 3) = aten::relu(%b)
    ...   return (%c)''')
    >>> [remark.rule for remark in canonicalize(g).remarks], str(canonicalize(g).after.node("c").inputs[0].type)
    (['transposed-back'], 'Float(2, 3)')
    """
    started = perf_counter()
    walk = _Walk(graph, db)
    pending = [graph.body]
    while pending:
        block = pending.pop()
        nodes = walk.block(block)
        pending.extend(reversed([inner for node in nodes for inner in node.blocks]))
    after = walk.rewriter.finish()
    return PassRecord("canonicalize", graph, after, walk.rewriter.edits, tuple(walk.remarks), perf_counter() - started)


class _Walk:
    """The state of one walk."""

    def __init__(self, graph: Graph, db: AliasDb | None) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._db = db
        self._onlookers: Onlookers | None = None
        self._reshaped = reshaped_objects(graph)

    def block(self, block: Block) -> list[Node]:
        """Simplify one block; gives its nodes, those of ifs that were taken apart among them."""
        out: list[Node] = []
        edits: list[Edit] = []
        stack: list[Iterator[Node]] = [iter(block.nodes)]
        while stack:
            for node in stack[-1]:
                if node.blocks and (inner := self._taken_apart(node)) is not None:
                    edits.append(Erased(node, self.remarks[-1].because))
                    stack.append(iter(inner))
                    break
                if node.blocks or not self._simplified(node):
                    out.append(node)
                else:
                    edits.append(Erased(node, self.remarks[-1].because))
            else:
                stack.pop()
        if edits:
            self.rewriter.set_nodes(block, out, edits)
        return out

    def _taken_apart(self, node: Node) -> tuple[Node, ...] | None:
        """What stands in the place of an if or loop that always runs one way; None if it does not."""
        known = [constant_of(self.graph, value) for value in node.inputs[:2]]
        if node.op == "prim::If" and isinstance(known[0], bool):
            taken = node.blocks[0 if known[0] else 1]
            self._replace(node, taken.returns, "known-branch", f"the condition is always {known[0]}")
            return taken.nodes
        if node.op == "prim::Loop" and ((isinstance(known[0], int) and known[0] <= 0) or known[1] is False):
            self._replace(node, node.inputs[2:], "no-round", "the loop never runs a round")
            return ()
        return None

    def _simplified(self, node: Node) -> bool:
        rule = _BY_OP.get(node.op)
        if rule is None:
            return False
        equals = rule.find(self._site(node))
        if equals is None or not all(map(self._is_as_good, equals, node.outputs)):
            return False
        if not rule.is_same_thing and not all(map(_lies_alike, equals, node.outputs)):
            return False
        name = f"%{self.graph.names[equals[0]]}" if equals else "nothing"
        for value, other in zip(node.outputs, equals, strict=True):
            obstacle = "" if rule.is_same_thing else self._obstacle(value, other)
            if obstacle:
                told = "one of them is written" if obstacle == "written" else "a caller may get hold of both"
                self.remarks.append(
                    Remark("missed", f"{obstacle}-memory", value, f"it equals {name}, but {told}", (other,))
                )
                return False
        if self._onlookers is not None:
            for value, other in zip(node.outputs, equals, strict=True):
                self._onlookers.become_one(value, other)
        self._replace(node, equals, rule.name, f"it is {name}" if rule.is_same_thing else f"it equals {name}")
        return True

    def _replace(self, node: Node, equals: tuple[Value, ...], rule: str, because: str) -> None:
        for value, other in zip(node.outputs, equals, strict=True):
            self.rewriter.replace(value, other, reason=because)
        self.remarks.append(Remark("passed", rule, node.outputs[0] if node.outputs else node, because, equals))

    def _is_as_good(self, new: Value, old: Value) -> bool:
        """Whether the new value may be read wherever the old one was, and no less is known of its type."""
        if new in self._reshaped or old in self._reshaped:
            return False
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType):
            return new.type == old.type or not (old.type.is_static and not new.type.is_static)
        return new.type == old.type

    def _site(self, node: Node) -> _Site:
        return _Site(
            node, tuple(map(self.rewriter.resolve, node.inputs)), self._maker, self._constant, self._is_written
        )

    def _maker(self, value: Value) -> tuple[Node, tuple[Value, ...]] | None:
        node = self.graph.producer.get(value)
        return None if node is None else (node, tuple(map(self.rewriter.resolve, node.inputs)))

    def _constant(self, value: Value) -> Any:
        node = self.graph.producer.get(self.rewriter.resolve(value))
        return constant_value(node) if node is not None and node.op == "prim::Constant" else NOT_CONSTANT

    def _is_written(self, value: Value) -> bool:
        return self._alias_db().is_written(value)

    def _obstacle(self, a: Value, b: Value) -> str:
        if not isinstance(a.type, TensorType):
            return ""
        if self._onlookers is None:
            self._onlookers = Onlookers(self._alias_db())
        return self._onlookers.obstacle(a, b)

    def _alias_db(self) -> AliasDb:
        if self._db is None:
            self._db = AliasDb(self.graph)
        return self._db


def _lies_alike(a: Value, b: Value) -> bool:
    """Whether the types say that two tensors have one element type, shape, layout and device; or they are equal numbers."""
    if not isinstance(a.type, TensorType):
        return a.type == b.type
    return a.type.is_static and a.type.strides is not None and a.type == b.type


def _is_number(payload: Any) -> bool:
    return isinstance(payload, int | float) and not isinstance(payload, bool)


def _dtype(value: Value) -> str | None:
    return value.type.dtype if isinstance(value.type, TensorType) else None
