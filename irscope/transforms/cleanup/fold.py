"""Folds what is known before the program runs into constants and ifs into their branch, and removes nodes that nothing needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.nested import is_fixed
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.analysis.shapes import Shapes
from irscope.ir import (
    BOOL,
    CONTROL_FLOW,
    DEVICE,
    FLOAT,
    GROUPS,
    INT,
    NONE,
    NOT_CONSTANT,
    STR,
    Block,
    Created,
    Edit,
    Erased,
    Graph,
    ListType,
    Node,
    PrimitiveType,
    Rewriter,
    TensorData,
    TensorType,
    Type,
    Value,
    constant_of,
    count_uses,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import bind, constant_arguments, effect_of, op_of, remembering_default, schema_of
from irscope.ops.traits import CREATES, CREATES_LIKE, LOGICAL
from irscope.ops.type_rules import SLIPS, contiguous_strides, dtype_name, static_shape
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.canonicalize import RULES, Site


def has_effect(node: Node, graph: Graph | None = None) -> bool:
    """Whether running the node is observable other than by its results, ignoring the nodes in its blocks.

    Writes count, even to memory that is never read again, and so does drawing random numbers, which changes those
    drawn later. Given its graph, a batch norm or a dropout that is known not to train has no effect.
    """
    if node.op in CONTROL_FLOW or node.op in GROUPS:  # their effects are those of the nodes inside
        return False
    if effect_of(node) not in ("in-place", "opaque") and not draws_random_numbers(node.op):
        return False
    known = {} if graph is None else constant_arguments(graph, node)
    return effect_of(node, known) in ("in-place", "opaque") or draws_random_numbers(node.op, known)


@timed
def remove_dead_nodes(graph: Graph) -> PassRecord:
    """Remove the nodes without effects whose results lead to no output and to no effect.

    An unused parameter or result of a kept if or loop stays. Linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::exp(%a)
    ...   return (%x)''')
    >>> [node.op for node in remove_dead_nodes(g).after.nodes()]
    []
    """
    dead = _dead_nodes(graph)
    if not dead:
        return PassRecord("dce", graph, graph)
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        if graph.owner.get(block) in dead:
            continue
        found = [node for node in block.nodes if node in dead]
        if found:
            edits = [Erased(node, "its results are unused, and it does nothing else") for node in found]
            rewriter.set_nodes(block, [node for node in block.nodes if node not in dead], edits)
    return PassRecord("dce", graph, rewriter.finish(), rewriter.edits, keeps_facts=True)


def cleaned(name: str, rewriter: Rewriter, remarks: Iterable[Remark] = ()) -> PassRecord:
    """The record of a pass that rewrote a graph so, without the nodes that nothing needs since then."""
    before, after = rewriter.graph, rewriter.finish()
    if after is before:
        return PassRecord(name, before, before, (), tuple(remarks))
    record = remove_dead_nodes(after)
    return PassRecord(name, before, record.after, (*rewriter.edits, *record.edits), tuple(remarks))


def _dead_nodes(graph: Graph) -> set[Node]:
    """The nodes without effects whose results are unused, those used only by these, and so on."""
    readings = count_uses(graph)
    dead: set[Node] = set()
    acting: set[Node] | None = None
    pending = [node for node in graph.nodes() if not any(map(readings.get, node.outputs))]
    while pending:
        node = pending.pop()
        if node in dead or has_effect(node, graph) or any(readings[value] for value in node.outputs):
            continue
        if node.blocks:
            acting = _acting_holders(graph) if acting is None else acting
            if node in acting:
                continue
        for value in _all_reads(node, dead):
            readings[value] -= 1
            producer = graph.producer.get(value)
            if producer is not None and not readings[value]:
                pending.append(producer)
    return dead


def _acting_holders(graph: Graph) -> set[Node]:
    """The nodes whose blocks contain a node with an effect, at any depth."""
    acting: set[Node] = set()
    inside = (node for block in graph.blocks() if block is not graph.body for node in block.nodes)
    for node in inside:
        if has_effect(node, graph):
            around = graph.owner.get(graph.block_of[node])
            while around is not None and around not in acting:
                acting.add(around)
                around = graph.owner.get(graph.block_of[around])
    return acting


def _all_reads(node: Node, dead: set[Node]) -> Iterator[Value]:
    """Yield what a node and all live nodes inside it read, and mark them dead."""
    dying = [node]
    for node in dying:  # grows
        dead.add(node)
        yield from node.inputs
        for block in node.blocks:
            yield from block.returns
            dying.extend(inner for inner in block.nodes if inner not in dead)


# Constant folding: replaces numbers that are known before the program runs by constants, and ifs by the branch that is
# known to be taken; removes assertions that the types settle, and ops that are known to return their operand itself.
#
# Scripted models compute with numbers: `bn_training` is the result of an if, extents of `size`, and assertions about
# ranks raise in a branch. `irscope.analysis.shapes` knows these numbers; this pass writes them into the program, so that
# later passes see straight-line code.

_PYTHON_TYPE: Final[Mapping[Type, type]] = {INT: int, FLOAT: float, BOOL: bool, STR: str}
"""The types of values that are folded, and the Python types that their payloads must have."""


@timed
def fold_constants(graph: Graph) -> PassRecord:
    """Fold known numbers and ifs, then remove nodes that became unused.

    A folded value stays the same Value, now produced by a `prim::Constant`. The nodes of a folded if's taken branch
    move out of it, and the branch's results replace those of the if.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %n : int = aten::dim(%x)
    ...   %y : Tensor = aten::add(%x, %x, %n)
    ...   return (%y)''')
    >>> print(fold_constants(g).after)
    graph(%x : Float(2, 3)):
      %n : int = prim::Constant[value=2]()
      %y : Tensor = aten::add(%x, %x, %n)
      return (%y)
    """
    rewriter = Rewriter(graph)
    shapes = shapes_of(graph)
    pending = [graph.body]
    while pending:
        block = pending.pop()
        nodes, edits = _folded(block, shapes, rewriter)
        if edits:
            rewriter.set_nodes(block, nodes, edits)
        pending.extend(inner for node in nodes for inner in node.blocks)
    record = remove_dead_nodes(rewriter.finish())
    after = remembering_default(record.after, record.edits)
    return PassRecord("fold-constants", graph, after, (*rewriter.edits, *record.edits), keeps_facts=True)


def _folded(block: Block, shapes: Shapes, rewriter: Rewriter) -> tuple[list[Node], list[Edit]]:
    """A block's nodes, with constants for known numbers and the nodes of known branches instead of their ifs; and the edits."""
    out: list[Node] = []
    edits: list[Edit] = []
    stack: list[Iterator[Node]] = [iter(block.nodes)]
    while stack:
        for node in stack[-1]:
            taken = shapes.known(node.inputs[0]) if node.op == "prim::If" else NOT_CONSTANT
            if taken is not NOT_CONSTANT:
                branch = node.blocks[0 if taken else 1]
                reason = f"its condition %{rewriter.graph.names[node.inputs[0]]} is always {bool(taken)}"
                for old, new in zip(node.outputs, branch.returns, strict=True):
                    rewriter.replace(old, new, reason=reason)
                edits.append(Erased(node, reason))
                stack.append(iter(branch.nodes))
                break
            if node.op in _ASSERTIONS and _always_holds(node, shapes):
                edits.append(Erased(node, "the types say that it holds"))
                continue
            same = _operand_returned(node, shapes, rewriter)
            if same is not None:
                reason = f"it returns %{rewriter.graph.names[same]} itself"
                rewriter.replace(node.output, same, reason=reason)
                edits.append(Erased(node, reason))
                continue
            constants = _constants_for(node, shapes)
            out.extend(constants or (node,))
            if constants:
                edits.append(Erased(node, "its results are known"))
                edits.extend(Created(new, f"%{rewriter.graph.names[new.output]} is always {new.attrs['value']!r}") for new in constants)
        else:
            stack.pop()
    return out, edits


_ASSERTIONS: Final = frozenset({
    "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::sym_constrain_range", "aten::sym_constrain_range_for_size",
})  # fmt: skip


def _always_holds(node: Node, shapes: Shapes) -> bool:
    """Whether an assertion about a number, or about a tensor's type and layout, holds in every run."""
    if schema_of(node) is None:
        return False
    (_, subject), *given = bind(node).items()
    asked = {name: shapes.known(each) if isinstance(each, Value) else each for name, each in given}
    if NOT_CONSTANT in asked.values():
        return False
    if node.op != "aten::_assert_tensor_metadata":
        number = shapes.known(subject)
        low, high = asked.get("min"), asked.get("max")
        within = number is not NOT_CONSTANT and (low is None or number >= low) and (high is None or number <= high)
        return within and (node.op != "aten::_assert_scalar" or bool(number))
    type = shapes.type(subject)
    if not isinstance(type, TensorType):
        return False
    # elements of what some ops make are not laid out by strides
    may_be_sparse = (any(word in node.op for word in ("sparse", "mkldnn", "nested")) for node in shapes.graph.nodes())
    strided = type.strides is not None or type.shape == () or not any(may_be_sparse)
    facts = {
        "size": type.shape, "stride": type.strides, "dtype": type.dtype, "device": type.device, "layout": 0 if strided else None,
    }  # fmt: skip
    asked["dtype"] = dtype_name(asked["dtype"], None)
    return all(wanted is None or (tuple(wanted) if isinstance(wanted, list) else wanted) == facts[name] for name, wanted in asked.items())


_RETURNS_OPERAND: Final = {
    op: rule for rule in RULES if rule.name in ("cast-to-itself", "contiguous-already", "drops-nothing") for op in rule.ops
}


def _operand_returned(node: Node, shapes: Shapes, rewriter: Rewriter) -> Value | None:
    """The operand that a node is known to return as an object: a cast to its own type, a dropout that does not train."""
    rule = _RETURNS_OPERAND.get(node.op)
    if rule is None or not shapes.reshaped.isdisjoint((node.inputs[0], node.output)):
        return None
    site = Site(node, tuple(map(rewriter.resolve, node.inputs)), lambda value: None, shapes.known, lambda value: True)
    found = rule.find(site)
    if found is None or not isinstance(found[0].type, TensorType) or not isinstance(node.output.type, TensorType):
        return None
    return None if node.output.type.is_static and not found[0].type.is_static else found[0]


def _constants_for(node: Node, shapes: Shapes) -> list[Node]:
    """Constants for all outputs of a node that only computes known numbers and strings; an empty list for any other node."""
    if node.op == "prim::Constant" or node.blocks or not node.outputs or isinstance(node.outputs[0].type, TensorType):
        return []
    payloads = [shapes.known(value) if value.type in _PYTHON_TYPE else NOT_CONSTANT for value in node.outputs]
    is_exact = all(type(payload) is _PYTHON_TYPE.get(value.type) for value, payload in zip(node.outputs, payloads, strict=True))
    if not is_exact or has_effect(node):
        return []
    return [constant_node(v, payload, like=node) for v, payload in zip(node.outputs, payloads, strict=True)]


def constant_node(value: Value, payload: Any, *, like: Node | None = None) -> Node:
    """Build a `prim::Constant` that produces this Value itself, with the location and scope of `like`, if given."""
    attrs = EMPTY if payload is None else FrozenDict(value=int(payload) if isinstance(payload, bool) else payload)
    location, scope = (None, "") if like is None else (like.location, like.scope)
    return make_node(new_id(), "prim::Constant", (), (value,), attrs, (), location, scope)


def with_constants(like: Node, op: str, output: Value, operands: Iterable[Any]) -> list[Node]:
    """A node, behind the constants that it reads: numbers, lists of whole numbers, None, and names of devices."""
    types: dict[type, Type] = {int: INT, float: FLOAT, bool: BOOL, type(None): NONE, list: ListType(INT)}
    nodes, inputs = list[Node](), list[Value]()
    for operand in operands:
        if not isinstance(operand, Value):
            value = make_value(new_id(), types.get(type(operand), DEVICE), "")
            nodes.append(constant_node(value, tuple(operand) if isinstance(operand, list) else operand, like=like))
            operand = value
        inputs.append(operand)
    return [*nodes, make_node(new_id(), op, tuple(inputs), (output,), EMPTY, (), like.location, like.scope)]


# Replaces small tensors that are the same at every run by constants: positions, masks built from them, initial states.
#
# Known tensors follow from the nodes: one created from numbers is known when the numbers are, and a view or a pure op of known
# tensors produces a known one. NumPy computes it, so only ops are folded whose results are the same in every library:
# no exponentials, no sums of floats.
#
# A constant is one object for all runs. So a known tensor becomes a constant only where it cannot be distinguished from a
# fresh one: its users produce memory of their own, or are themselves known and used so; it is not a result, not written, and not
# an element of a list that is not known. A node whose result is used in another way stays, and so do the nodes of the known tensors
# that it reads; a known view with gaps stays a view.

_MOST_BYTES: Final = 1 << 15
_EXACT: Final = frozenset(
    f"aten::{name}"
    for name in (
        "add sub mul neg abs where eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not "
        "__and__ __or__ to _to_copy clone minimum maximum clamp masked_fill diff index"
    ).split()
) | LOGICAL  # fmt: skip
_WHOLE_ONLY: Final = frozenset({"aten::arange", "aten::cumsum"})
"""Ops that are exact on whole numbers only: torch adds the steps of an `arange` in the lanes of its vectors."""
_CANDIDATES: Final = CREATES | CREATES_LIKE | _EXACT | _WHOLE_ONLY


@timed
def fold_tensors(graph: Graph) -> PassRecord:
    """Replace nodes that compute the same tensor at every run by constants of at most 32 KiB."""
    shapes = shapes_of(graph)
    known = _known_tensors(graph, shapes)
    kept = _replaceable(graph, known, lambda node: _is_dense(shapes.type(node.output)))
    rewriter = Rewriter(graph)
    for node in graph.nodes() if kept else ():
        if node in kept:
            constant = constant_node(node.output, TensorData.of(np.asarray(known[node.output], order="C")), like=node)
            rewriter.replace_node(node, [constant], reason=f"%{graph.names[node.output]} is the same at every run")
    record = cleaned("fold-tensors", rewriter)
    return replace(record, after=remembering_default(record.after, record.edits), keeps_facts=True) if record.edits else record


Known = dict[Value, Any]
"""Tensors and lists of tensors, with their elements as arrays."""


def _known_tensors(graph: Graph, shapes: Shapes, held: Known | None = None, ops: Set[str] = _CANDIDATES, most: int = _MOST_BYTES) -> Known:
    """The tensors that are never written and that nodes compute, by these ops and views, from numbers alone or from what is `held`;
    and lists of them."""
    known = dict(held or {})
    nodes = list(graph.nodes())
    if not known and not any(node.op in CREATES or node.op in CREATES_LIKE for node in nodes):
        return known
    nodes = _candidates(nodes, set(known), ops)
    unwritten = _unwritten(graph, nodes)
    for node in nodes:
        if len(node.outputs) != 1 or node.output not in unwritten:
            continue
        if node.op == "prim::ListConstruct":
            if known.keys() >= set(node.inputs):
                known[node.output] = [known[value] for value in node.inputs]
        elif node.op in CREATES or node.op in CREATES_LIKE or not known.keys().isdisjoint(node.inputs):
            array = _computed(node, known, shapes, most)
            if array is not None:
                known[node.output] = array
    return known


def _candidates(nodes: Iterable[Node], made: set[Value], ops: Set[str]) -> list[Node]:
    """The nodes that create tensors, and those that compute from or view such or `made` tensors, judged by their ops, in order."""
    found: list[Node] = []
    for node in nodes:
        begins = node.op in ops and (node.op in CREATES or node.op in CREATES_LIKE)
        if begins or (not made.isdisjoint(node.inputs) and (node.op in ops or _shares_memory(node))):
            found.append(node)
            made.update(node.outputs)
    return found


def _shares_memory(node: Node) -> bool:
    """Whether a node only views its operand, or lists its operands."""
    return node.op == "prim::ListConstruct" or (not node.blocks and effect_of(node) == "view")


def _unwritten(graph: Graph, nodes: Sequence[Node]) -> set[Value]:
    """Values that are only read, as are all views of them; users are visited before the values that they read."""
    found: set[Value] = set()

    def only_looks(user: Node | Block) -> bool:
        """Whether a user neither writes a tensor, nor passes it to something that may."""
        if isinstance(user, Block):
            return user is graph.body
        if _shares_memory(user):
            return found.issuperset(user.outputs)
        return not user.blocks and effect_of(user) == "pure" and all(isinstance(v.type, TensorType | PrimitiveType) for v in user.outputs)

    for node in reversed(nodes):
        found.update(value for value in node.outputs if all(only_looks(use.user) for use in graph.users.get(value, ())))
    return found


def _computed(node: Node, known: Known, shapes: Shapes, most: int) -> np.ndarray[Any, Any] | None:
    """The elements of a node's result, if it is a small tensor on the CPU; otherwise None."""
    op = op_of(node)
    found = shapes.type(node.output) if len(node.outputs) == 1 else None
    if op is None or schema_of(node) is None or op.reference is None or not isinstance(found, TensorType):
        return None
    if not found.is_static or found.dtype == "bfloat16" or found.device not in (None, "cpu"):
        return None
    if found.nbytes is None or found.nbytes > most:
        return None
    arguments: dict[str, Any] = {}
    for name, operand in bind(node).items():
        arguments[name] = _argument(node, operand, known, shapes) if isinstance(operand, Value) else operand
        if arguments[name] is NOT_CONSTANT:
            return None
    if node.op in _WHOLE_ONLY and any(_is_float(value) for value in arguments.values()):
        return None
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(op.reference(**arguments))
    except (*SLIPS, MemoryError):  # what fails when it is computed fails when the program runs
        return None
    if array.dtype.kind == "f" and arguments.get("alpha", 1) not in (1, -1):  # torch rounds once, the reference after the product too
        return None
    return array if array.shape == found.shape and str(array.dtype) == found.dtype else None


def _argument(node: Node, operand: Value, known: Known, shapes: Shapes) -> Any:
    if operand in known:
        return known[operand]
    if not isinstance(operand.type, TensorType):
        payload = constant_of(shapes.graph, operand)
        payload = shapes.known(operand) if payload is NOT_CONSTANT else payload
        return NOT_CONSTANT if isinstance(payload, TensorData | Graph) else payload
    found = shapes.type(operand)
    if node.op in CREATES_LIKE and operand is node.inputs[0] and isinstance(found, TensorType) and found.dtype is not None:
        shape = () if found.shape is None or not found.is_static else found.shape
        exact = node.op.startswith("aten::new_") or (found.is_static and found.shape is not None)
        sizes = tuple(dim for dim in shape if isinstance(dim, int))
        return np.broadcast_to(np.zeros((), found.dtype), sizes) if exact and found.dtype != "bfloat16" else NOT_CONSTANT
    return NOT_CONSTANT


def _is_float(value: Any) -> bool:
    """Whether a number has a fraction, or a tensor may."""
    return (isinstance(value, float) and not value.is_integer()) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _replaceable(graph: Graph, known: Iterable[Value], is_replaced: Callable[[Node], bool]) -> set[Node]:
    """The nodes of known results that something reads, nothing distinguishes from constants, and are to be replaced; later nodes are
    decided first."""
    made = {graph.producer[value]: value for value in known if value in graph.producer}
    kept, replaced = set(made), set[Node]()
    viewing = set[Node]()

    def reads_only(user: object) -> bool:
        """Whether a user produces memory of its own, or is itself known and used so."""
        if not isinstance(user, Node) or user.blocks:
            return False
        return user in kept or (effect_of(user) == "pure" and all(isinstance(v.type, TensorType) for v in user.outputs))

    for node in reversed(made):
        users = [use.user for use in graph.users.get(made[node], ())]
        if not all(map(reads_only, users)):
            kept.discard(node)
        elif any(user not in kept or user in viewing for user in users):
            (replaced if is_replaced(node) else viewing).add(node)
    return replaced


def _is_dense(type: Type) -> bool:
    """Whether a static tensor is laid out row by row, as a constant is."""
    shape = static_shape(type)
    return isinstance(type, TensorType) and shape is not None and type.strides == contiguous_strides(shape)


# Lays out weights once: what a program makes of weights, by moving their elements alone, is a weight of its own.
#
# ONNX has other orders of gates than torch, and exporters join and turn weights. The arrays are a file's own, which nobody can write, and
# the elements are moved as they are, so that all libraries agree. Views stay: they copy nothing. Large weights stay as well, as the
# model may keep its own beside those of the program.

_MOVES: Final = frozenset({"aten::cat", "aten::stack", "aten::clone", "aten::index", "aten::flip"})
_MOST_WEIGHTS: Final = 1 << 20


@timed
@starts_at("fold-weights", _MOVES)
def fold_weights(graph: Graph) -> PassRecord:
    """Replace what only moves the elements of bound arrays that nobody can write by new bound arrays, of at most 1 MiB each."""
    held = {value: array for value, array in graph.bound.items() if isinstance(array, np.ndarray) and is_fixed(array)}
    if not any(node.op in _MOVES for node in _candidates(graph.nodes(), set(held), _MOVES)):
        return PassRecord("fold-weights", graph, graph)
    db, shapes, rewriter = alias_db_of(graph), shapes_of(graph), Rewriter(graph)
    for value in list(held):
        if db.is_written(value) or any(db.may_contain_alias(output, value) for output in graph.outputs):
            del held[value]
    known = _known_tensors(graph, shapes, held, _MOVES, _MOST_WEIGHTS)
    source = _sources(graph, known)
    made, remarks = dict[Value, list[tuple[Value, Any]]](), list[Remark]()
    kept = _replaceable(graph, known, lambda node: node.op in _MOVES and _is_dense(shapes.type(node.output)))
    for node in graph.nodes():
        if node not in kept:
            continue
        old, array = node.output, np.array(known[node.output], order="C")
        array.flags.writeable = False
        new = make_value(new_id(), shapes.type(old), f"{graph.names[source[old]]}_moved")
        because = f"weights are moved once, not at each call: {array.nbytes:,} bytes"
        rewriter.replace(old, new, reason=because)
        rewriter.erase(node, reason=because)
        made.setdefault(source[old], []).append((new, array))
        remarks.append(Remark("passed", "weights", node, because, (source[old],)))
    record = cleaned("fold-weights", rewriter, remarks)
    return replace(record, after=with_bound(record.after, made, set(held))) if made else record


def _sources(graph: Graph, known: Known) -> dict[Value, Value]:
    """The bound input that each known value is made of, the first of several."""
    found: dict[Value, Value] = {}
    for value in known:  # operands come before what is made of them
        node = graph.producer.get(value)
        found[value] = value if node is None else next(found[operand] for operand in node.inputs if operand in found)
    return found


def with_bound(graph: Graph, made: dict[Value, list[tuple[Value, Any]]], folded: set[Value]) -> Graph:
    """The graph with new bound inputs, each behind the weight that it was made of, and without those of `folded` that nothing reads."""
    params, bound, storages = list[Value](), dict(graph.bound), dict(graph.storages)
    for value in graph.inputs:
        if value in bound and value in folded and value not in graph.users:
            del bound[value]
            storages.pop(value, None)
        else:
            params.append(value)
        for new, tensor in made.get(value, ()):
            params.append(new)
            bound[new] = tensor
            if storages:
                storages[new] = max(storages.values()) + 1
    return replace(graph, body=replace(graph.body, params=tuple(params)), bound=bound, storages=storages)
