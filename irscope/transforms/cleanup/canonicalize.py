"""Simplifies a program by small local rewrites, each with its proof."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.shapes import CallerVisible, reshaped_objects
from irscope.ir import NOT_CONSTANT, Block, Edit, Erased, Graph, Node, Rewriter, TensorType, Value, constant_of
from irscope.ops.registry import bind
from irscope.ops.traits import UNPACKS
from irscope.ops.type_rules import is_integral, lies_in_rows
from irscope.transforms.base import PassRecord, Remark, timed
from irscope.transforms.cleanup.cse import EscapeInfo

# The rules of `canonicalize`: for each, the ops that it applies to, the values that their results are equal to, and the proof.
#
# A rule finds equal values; the walk decides whether they may replace the results.


@dataclass(frozen=True, slots=True)
class Site:
    """A node, with its operands as simplified so far."""

    node: Node
    operands: tuple[Value, ...]
    maker: Callable[[Value], tuple[Node, tuple[Value, ...]] | None]
    """Returns the producer of a value, with its operands as simplified so far."""
    constant: Callable[[Value], Any]
    is_written: Callable[[Value], bool]

    def argument(self, name: str) -> Any:
        """An argument by its name in the schema: the constant, the default, or NOT_CONSTANT."""
        given = bind(self.node).get(name, NOT_CONSTANT)
        return self.constant(given) if isinstance(given, Value) else given

    def inner(self, *ops: str) -> tuple[Node, tuple[Value, ...]] | None:
        """The producer of the first operand, with its operands, if it is one of these ops."""
        made = self.maker(self.operands[0]) if self.operands else None
        return made if made is not None and made[0].op in ops else None


Equals = tuple[Value, ...] | None


def _plus_zero(site: Site) -> Equals:
    """x + 0 and x - 0 are x; for floats only x - 0 and x + -0, as -0 + 0 is 0."""
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


def _times_one(site: Site) -> Equals:
    """x * 1 and x / 1 are x, NaN and -0 included; the type check excludes whole numbers, whose quotient is a float. An infinite
    complex number times 1 + 0i is not a number."""
    number = site.constant(site.operands[1]) if len(site.operands) == 2 else NOT_CONSTANT
    is_real = not (_dtype(site.operands[0]) or "complex").startswith("complex")
    return site.operands[:1] if is_real and _is_number(number) and number == 1 else None


def _twice_negated(site: Site) -> Equals:
    """-(-x) is x: only the sign bit flips, and whole numbers wrap around twice."""
    made = site.inner("aten::neg")
    return made[1][:1] if made is not None else None


def _done_already(site: Site) -> Equals:
    """f(f(x)) is f(x), for f that leaves its own results as they are; NaN stays NaN."""
    made = site.inner(site.node.op)
    return site.operands[:1] if made is not None and len(site.operands) == 1 else None


def _copied_whole(site: Site) -> Equals:
    """A tensor overwritten as a whole equals its source; broadcasting and conversion fail the check of types."""
    return site.operands[1:2] if len(site.operands) >= 2 else None


def _transposed_back(site: Site) -> Equals:
    """Exchanging the same two dimensions twice restores the original strides."""
    made = site.inner(site.node.op)
    if made is None:
        return None
    if site.node.op == "aten::t":
        return made[1][:1]
    here, there = map(site.constant, site.operands[1:3]), map(site.constant, made[1][1:3])
    dims, others = list(here), list(there)
    known = all(isinstance(dim, int) for dim in (*dims, *others))
    return made[1][:1] if known and sorted(dims) == sorted(others) else None


def _permuted_back(site: Site) -> Equals:
    """Permuting dimensions and then back, or by the identity, restores the original strides."""
    order = _numbers(site, site.operands[1]) if len(site.operands) == 2 else None
    if order is None:
        return None
    rank = len(order)
    if [dim % rank for dim in order] == list(range(rank)):
        return site.operands[:1]
    made = site.inner("aten::permute")
    inner = _numbers(site, made[1][1]) if made is not None else None
    if made is None or inner is None or len(inner) != rank:
        return None
    back = [inner[dim % rank] % rank for dim in order]
    return made[1][:1] if back == list(range(rank)) else None


def _squeezed_back(site: Site) -> Equals:
    """`squeeze` removes the dimension that `unsqueeze` added, if both name it by the same number."""
    made = site.inner("aten::unsqueeze")
    if made is None or len(site.operands) != 2:
        return None
    dims = site.constant(site.operands[1]), site.constant(made[1][1])
    return made[1][:1] if isinstance(dims[0], int) and dims[0] == dims[1] else None


def _cast_to_itself(site: Site) -> Equals:
    """Torch returns the same tensor when it already has the element type and device and no copy is requested."""
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


def _contiguous_already(site: Site) -> Equals:
    """Torch returns the same tensor when it is contiguous already."""
    return site.operands[:1] if lies_in_rows(site.operands[0].type) and site.argument("memory_format") == 0 else None


def _drops_nothing(site: Site) -> Equals:
    """Outside training, dropout returns the same tensor, and its in-place form writes nothing."""
    return site.operands[:1] if site.argument("train") is False else None


def _taken_out_of_a_tuple(site: Site) -> Equals:
    """An element of a tuple is the value that it was built from, as tuples never change."""
    made = site.inner("prim::TupleConstruct")
    return None if made is None else _elements_taken(site, made[1])


def _taken_out_of_a_list(site: Site) -> Equals:
    """An element of a list that is never written is the value that it was built from."""
    made = site.inner("prim::ListConstruct")
    return None if made is None or site.is_written(made[0].output) else _elements_taken(site, made[1])


def _elements_taken(site: Site, elements: tuple[Value, ...]) -> Equals:
    if site.node.op in UNPACKS:
        return elements if len(elements) == len(site.node.outputs) else None
    index = site.constant(site.operands[1])
    return (elements[index],) if isinstance(index, int) and -len(elements) <= index < len(elements) else None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite."""

    name: str
    ops: tuple[str, ...]
    find: Callable[[Site], Equals]
    """The values that the node's results are equal to, or None."""
    is_same_thing: bool
    """Whether the results are those values themselves, so that the rewrite is not observable."""
    is_another_object: bool = False
    """Whether they are views of exactly the same elements: a caller who holds both could distinguish them by `a.t_()`."""


def _aten(words: str) -> tuple[str, ...]:
    return tuple(f"aten::{word}" for word in words.split())


RULES: Final = (
    Rule("plus-zero", _aten("add sub"), _plus_zero, False),
    Rule("times-one", _aten("mul div"), _times_one, False),
    Rule("twice-negated", _aten("neg"), _twice_negated, False),
    Rule("done-already", _aten("relu relu6 abs floor ceil trunc sign"), _done_already, False),
    Rule("copied-whole", _aten("copy"), _copied_whole, False),
    Rule("transposed-back", _aten("t transpose swapaxes swapdims"), _transposed_back, True, True),
    Rule("permuted-back", _aten("permute"), _permuted_back, True, True),
    Rule("squeezed-back", _aten("squeeze"), _squeezed_back, True, True),
    Rule("cast-to-itself", _aten("to type_as"), _cast_to_itself, True),
    Rule("contiguous-already", _aten("contiguous"), _contiguous_already, True),
    Rule("drops-nothing", _aten("dropout dropout_"), _drops_nothing, True),
    Rule("out-of-a-tuple", ("prim::TupleUnpack", "prim::TupleIndex"), _taken_out_of_a_tuple, True),
    Rule("out-of-a-list", ("prim::ListUnpack", "aten::__getitem__"), _taken_out_of_a_list, True),
)
"""The rules in the order in which they are tried."""


def _numbers(site: Site, value: Value) -> list[int] | None:
    """The whole numbers of a constant list, or None."""
    known = site.constant(value)
    made = site.maker(value)
    if known is NOT_CONSTANT and made is not None and made[0].op == "prim::ListConstruct" and not site.is_written(value):
        known = [site.constant(each) for each in made[1]]
    if not isinstance(known, list | tuple) or not all(isinstance(each, int) for each in known):
        return None
    return list(known)


def _is_number(payload: Any) -> bool:
    return isinstance(payload, int | float) and not isinstance(payload, bool)


def _dtype(value: Value) -> str | None:
    return value.type.dtype if isinstance(value.type, TensorType) else None


# One walk in textual order. A rule looks at one node and the producers of its operands, simplified already, and names values
# that the node's results are equal to; the node is then removed. There are two kinds of equality:
#
# * *the same thing*: the result is that value, or a view of exactly its elements in its layout. The difference is observable
#   only to a caller who would get one tensor instead of two: a `t_` on one would change both. Such a view stays.
# * *an equal tensor*: the result has new memory with the same elements. It is replaced only if element type, shape and strides
#   are known to be the same, neither is written, and a caller does not get both (`irscope.transforms.cleanup.cse`).
#
# Proofs are exact: NaN, the sign of zero and infinities are preserved, or the rule says for which types it holds. Ifs and
# loops that are known to run one way are replaced by their contents. A second run may find a little more: a list whose only
# writes were in a branch that never runs is then unwritten.

_BY_OP: Final = {op: rule for rule in RULES for op in rule.ops}


@timed
def canonicalize(graph: Graph) -> PassRecord:
    """Apply the rules wherever they hold, and inline ifs and loops that are known to run one way; linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(3, 2) = aten::t(%x)
    ...   %b : Float(2, 3) = aten::t(%a)
    ...   %c : Float(2, 3) = aten::relu(%b)
    ...   return (%c)''')
    >>> [remark.rule for remark in canonicalize(g).remarks], str(canonicalize(g).after.node("c").inputs[0].type)
    (['transposed-back'], 'Float(2, 3)')
    """
    walk = _Walk(graph)
    pending = [graph.body]
    while pending:
        block = pending.pop()
        nodes = walk.block(block)
        pending.extend(reversed([inner for node in nodes for inner in node.blocks]))
    return PassRecord("canonicalize", graph, walk.rewriter.finish(), walk.rewriter.edits, tuple(walk.remarks))


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._onlookers: EscapeInfo | None = None
        self._reshaped = reshaped_objects(graph)
        self._held = CallerVisible(graph)

    def block(self, block: Block) -> list[Node]:
        """Simplify one block; return its nodes, including those of inlined ifs."""
        out: list[Node] = []
        edits: list[Edit] = []
        stack: list[Iterator[Node]] = [iter(block.nodes)]
        while stack:
            for node in stack[-1]:
                if node.blocks and (inner := self._inlined(node)) is not None:
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

    def _inlined(self, node: Node) -> tuple[Node, ...] | None:
        """The nodes that replace an if or loop that always runs one way; None for any other node."""
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
        operands = tuple(map(self.rewriter.resolve, node.inputs))
        equals = rule.find(Site(node, operands, self._producer, self._constant, self._is_written))
        if equals is None or not all(map(self._is_as_good, equals, node.outputs)):
            return False
        if not rule.is_same_thing and not all(map(_has_same_layout, equals, node.outputs)):
            return False
        name = f"%{self.graph.names[equals[0]]}" if equals else "nothing"
        if rule.is_another_object and self._held.identity_is_observable(node, equals[0]):
            because = f"it shows all of {name}, but a caller may get hold of both tensors"
            self.remarks.append(Remark("missed", "seen-apart", node.output, because, equals))
            return False
        for value, other in zip(node.outputs, equals, strict=True):
            if rule.is_same_thing or not isinstance(value.type, TensorType):
                continue
            if self._onlookers is None:
                self._onlookers = EscapeInfo(alias_db_of(self.graph))
            if obstacle := self._onlookers.obstacle(value, other):
                reason = "one of them is written" if obstacle == "written" else "a caller may get hold of both"
                self.remarks.append(Remark("missed", f"{obstacle}-memory", value, f"it equals {name}, but {reason}", (other,)))
                return False
        if self._onlookers is not None:
            for value, other in zip(node.outputs, equals, strict=True):
                self._onlookers.become_one(value, other)
        if rule.is_another_object:
            self._held.become_one(node.output, equals[0])
        self._replace(node, equals, rule.name, f"it is {name}" if rule.is_same_thing else f"it equals {name}")
        return True

    def _replace(self, node: Node, equals: tuple[Value, ...], rule: str, because: str) -> None:
        for value, other in zip(node.outputs, equals, strict=True):
            self.rewriter.replace(value, other, reason=because)
        self.remarks.append(Remark("passed", rule, node.outputs[0] if node.outputs else node, because, equals))

    def _is_as_good(self, new: Value, old: Value) -> bool:
        """Whether the new value may be read wherever the old one was, and its type is known at least as well."""
        if new in self._reshaped or old in self._reshaped:
            return False
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType):
            return new.type == old.type or not (old.type.is_static and not new.type.is_static)
        return new.type == old.type

    def _producer(self, value: Value) -> tuple[Node, tuple[Value, ...]] | None:
        node = self.graph.producer.get(value)
        return None if node is None else (node, tuple(map(self.rewriter.resolve, node.inputs)))

    def _constant(self, value: Value) -> Any:
        return constant_of(self.graph, self.rewriter.resolve(value))

    def _is_written(self, value: Value) -> bool:
        return alias_db_of(self.graph).is_written(value)


def _has_same_layout(a: Value, b: Value) -> bool:
    """Whether two values have one type; of tensors, one that fixes element type, shape, layout and device."""
    if not isinstance(a.type, TensorType):
        return a.type == b.type
    return a.type.is_static and a.type.strides is not None and a.type == b.type
