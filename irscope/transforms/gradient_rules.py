"""Decides which nodes can be part of a differentiable subgraph; every refusal names the property that is missing."""

from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from typing import Final

from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to import EVERYTHING
from irscope.analysis.per_graph import alias_db_of
from irscope.ir import NOT_CONSTANT, Block, Graph, Node, PrimitiveType, TensorData, TensorType, Use, Value, constant_of
from irscope.ops.registry import bind, effect_of, overloads, schema_of
from irscope.ops.traits import CUTS_GRADIENT
from irscope.transforms.grouping import Refusal

# The overloads that TorchScript differentiates inside a subgraph, for torch 2.13.
#
# Source: torch itself. For each schema of its registry, `torch._C._jit_pass_create_autodiff_subgraphs` with threshold 1 was
# run on a graph of that node between two that have formulas; an overload is listed if the node was put into the subgraph.
# `tests/transforms/autodiff/test_differentiable_ops.py` repeats this. The list says which ops torch has a formula for, not
# which have a derivative: `aten::ceil` and comparisons are in it, `aten::atan2` is not.

LEFT_OUTSIDE: Final = frozenset(
    "aten::view aten::view_as aten::reshape aten::reshape_as aten::transpose aten::expand aten::expand_as".split()
)
"""View ops that torch has formulas for, but leaves outside: a view that leaves a subgraph would be differentiated wrongly."""

DIFFERENTIABLE: Final = frozenset(
    """
    aten::_autocast_to_full_precision aten::_autocast_to_reduced_precision aten::_dim_arange aten::_grad_sum_to_size
    aten::_slow_conv2d_forward aten::abs aten::acos aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d aten::adaptive_avg_pool3d
    aten::add.Scalar aten::add.Tensor aten::addcmul aten::addmm aten::asin aten::atan aten::avg_pool2d aten::batch_norm aten::bmm aten::cat
    aten::ceil aten::clamp aten::clamp.Tensor aten::contiguous aten::cos aten::cosh aten::div.Scalar aten::div.Scalar_mode aten::div.Tensor
    aten::div.Tensor_mode aten::dot aten::dropout aten::embedding aten::eq.Scalar aten::erf aten::erfc aten::exp aten::expm1 aten::floor
    aten::fmod.Scalar aten::frac aten::ge.Scalar aten::gelu aten::gt.Scalar aten::hardshrink aten::hardsigmoid aten::hardswish
    aten::hardtanh aten::index.Tensor_hacked_twin aten::layer_norm aten::le.Scalar aten::leaky_relu aten::lerp.Scalar aten::lerp.Tensor
    aten::linear aten::log aten::log10 aten::log1p aten::log2 aten::log_softmax.int aten::logsumexp aten::lt.Scalar aten::matmul
    aten::max.other aten::max_pool2d aten::max_pool2d_with_indices aten::mean aten::mean.dim aten::min.other aten::mm aten::mul.Scalar
    aten::mul.Tensor aten::mv aten::native_batch_norm aten::ne.Scalar aten::neg aten::nll_loss aten::nonzero aten::permute aten::pow.Scalar
    aten::pow.Tensor_Scalar aten::pow.Tensor_Tensor aten::reciprocal aten::relu aten::relu6 aten::remainder.Scalar aten::round aten::rsqrt
    aten::rsub.Scalar aten::sigmoid aten::silu aten::sin aten::sinh aten::softmax.int aten::softplus aten::sqrt aten::squeeze
    aten::squeeze.dim aten::stack aten::std aten::std.correction aten::std.dim aten::sub.Scalar aten::sub.Tensor aten::t aten::tan
    aten::tanh aten::threshold aten::to.prim_Device aten::trunc aten::type_as aten::unsqueeze aten::var aten::var.correction aten::var.dim
    aten::where.self prim::AutogradAdd prim::AutogradZero prim::ConstantChunk
    """.split()
)
"""Names with overloads, such as `aten::add.Tensor`; `prim::ConstantChunk` has no schema and is listed by its name."""


# Finds the values that may require a gradient, by a forward data-flow analysis.
#
# The property flows along data (through containers, ifs, loops and groups), and through memory: once a node writes with an
# operand that may require a gradient, so may every value in the regions that it writes, including views made before the
# write. An op without a schema, and an attribute that is read, may bring in a parameter. "No" is certain; "may" is not.
# Regions are the alias db's, which never puts one memory into two of them. Each value is marked once and then followed to
# its users, so the work is linear in the uses.

_ENTRANCES: Final = frozenset({"prim::GetAttr", "prim::CallMethod", "prim::CallFunction"})
_CARRIES_GRADIENT: Final = ("float", "bfloat", "complex")


def may_require_grad(graph: Graph, db: AliasDb, inputs: Iterable[Value] | None = None) -> frozenset[Value]:
    """Returns the values that may require a gradient when the graph runs.

    `inputs` are those that do; without it, an input does unless its type (`requires_grad=0`) or its bound tensor says no.
    """
    flow = _Flow(graph, db)
    flow.mark(value for value in graph.inputs if _enters(graph, value)) if inputs is None else flow.mark(inputs)
    for node in graph.nodes():
        if _brings_in(graph, node):
            flow.reach(node)
    flow.run()
    return frozenset(flow.found)


def _enters(graph: Graph, value: Value) -> bool:
    """Whether an input may require a gradient, by its bound tensor, or else by its type."""
    known = getattr(graph.bound.get(value), "requires_grad", None)
    if known is None and isinstance(value.type, TensorType):
        known = value.type.requires_grad
    return known is not False


def _brings_in(graph: Graph, node: Node) -> bool:
    """Whether a result of a node may require a gradient although none of its inputs does."""
    if node.op == "prim::Constant":
        payload = node.attrs.get("value")
        return isinstance(payload, TensorData) and bool(getattr(payload.original, "requires_grad", False))
    if node.op in _ENTRANCES:
        return True
    if _known_not_to(node.op):
        return False
    if schema_of(node) is None:
        return not node.blocks and not node.op.startswith("prim::") and effect_of(node) == "opaque"
    flag = bind(node).get("requires_grad", False)
    if isinstance(flag, Value):
        flag = constant_of(graph, flag)
    return flag is NOT_CONSTANT or bool(flag)


@lru_cache(maxsize=1 << 12)
def _known_not_to(op: str) -> bool:
    """Whether every overload of an op is known, and none has a `requires_grad` argument."""
    found = overloads(op)
    return bool(found) and not any(argument.name == "requires_grad" for schema in found for argument in schema.arguments)


class _Flow:
    """The values marked so far, and the worklist of those still to be followed."""

    def __init__(self, graph: Graph, db: AliasDb) -> None:
        self.graph = graph
        self.db = db
        self.found: set[Value] = set()
        self._todo: list[Value] = []
        self._everything = False

    def mark(self, values: Iterable[Value]) -> None:
        """Mark values as possibly requiring a gradient, unless their type cannot."""
        for value in values:
            if value not in self.found and _can(value):
                self.found.add(value)
                self._todo.append(value)

    def run(self) -> None:
        """Follow every marked value to its users."""
        while self._todo:
            for use in self.graph.users.get(self._todo.pop(), ()):
                self._follow(use)

    def _follow(self, use: Use) -> None:
        user, index = use
        if isinstance(user, Block):
            owner = self.graph.owner.get(user)
            if owner is not None and owner.op != "prim::Loop":
                self.mark(owner.outputs[index : index + 1])
            elif owner is not None and index >= 1:
                self.mark((user.params[index], owner.outputs[index - 1]))
        elif user.op == "prim::Loop":
            if index >= 2:
                self.mark((user.blocks[0].params[index - 1], user.outputs[index - 2]))
        elif user.op == "prim::If":
            return
        elif user.blocks:
            self.mark(block.params[index] for block in user.blocks if index < len(block.params))
        elif user.op not in CUTS_GRADIENT:
            self.reach(user)

    def reach(self, node: Node) -> None:
        """Mark the results of a node that reads a marked value, and the memory that it writes."""
        self.mark(node.outputs)
        if effect_of(node) == "pure":
            return
        for write in self.db.accesses(node).writes:
            if write.place == EVERYTHING and not self._everything:
                self._everything = True
                self.mark(self.graph.values())
            elif write.place != EVERYTHING:
                self.mark(self._by_region.pop(self.db.region(write.place), ()))

    @cached_property
    def _by_region(self) -> dict[int, list[Value]]:
        found, sealed = dict[int, list[Value]](), self.db.sealed
        for value, element in sealed.element_of.items():
            found.setdefault(self.db.region(sealed.class_of[element]), []).append(value)
        return found


def _can(value: Value) -> bool:
    """Whether a value of its type can require a gradient, or hold one that does."""
    type = value.type
    if isinstance(type, TensorType):
        return type.dtype is None or type.dtype.startswith(_CARRIES_GRADIENT)
    return not isinstance(type, PrimitiveType) or type.name == "Any"


class GradientRules:
    """The refusals of the nodes of one graph, each computed on first use."""

    def __init__(self, graph: Graph, requires_grad: Iterable[Value] | None) -> None:
        self.graph = graph
        self.db = alias_db_of(graph)
        self.grads = may_require_grad(graph, self.db, requires_grad)
        self.refusal = cache(self._judge)
        """Returns why a node cannot be in any differentiable subgraph; None when it can."""

    def name(self, value: Value) -> str:
        """Returns a value's printed name, for use in a sentence."""
        return f"%{self.graph.names[value]}"

    def is_number(self, value: Value) -> bool:
        """Whether an unwritten non-tensor `prim::Constant` produces it: then each group that reads it has its own copy."""
        producer = self.graph.producer.get(value)
        if producer is None or producer.op != "prim::Constant" or isinstance(value.type, TensorType):
            return False
        return not self.db.is_written(value)

    def may_share(self, node: Node) -> bool:
        """Whether a result of a node may share memory with an older value."""
        return node.op == "prim::ConstantChunk" or effect_of(node) != "pure"

    def _judge(self, node: Node) -> Refusal | None:
        if node.op == "prim::Constant":
            what = f"{self.name(node.output)} is a constant, which is copied into each group that uses it"
            return Refusal("constant", what, (node,))
        if node.blocks:
            return Refusal("has-blocks", f"{node.op} has blocks of its own", (node,))
        if node.op in LEFT_OUTSIDE:
            what = f"{node.op} is a view, and a view that leaves a subgraph would be differentiated wrongly"
            return Refusal("view", what, (node,))
        if node.op == "aten::dropout" and constant_of(self.graph, node.inputs[-1]) is False:
            return Refusal("no-formula", "a dropout that does not train is left to the library", (node,))
        schema = schema_of(node)
        name = f"{node.op}.{schema.overload}" if schema is not None and schema.overload else node.op
        if name not in DIFFERENTIABLE:
            return Refusal("no-formula", f"there is no gradient formula for {node.op}", (node,))
        if self.grads.isdisjoint(node.inputs) and node.op != "prim::AutogradZero":
            return Refusal("no-gradient", f"nothing that {node.op} reads can require a gradient", (node, *node.inputs))
        return None
