"""Decides which nodes can be part of a kernel.

A node qualifies when its op has a kernel expression, when every argument that determines the code is known, and when a
fresh result cannot be distinguished from one that shares an argument's memory. Every refusal names the missing property.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, Final

from irscope._base.words import listed
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    ITEM_SIZE,
    NOT_CONSTANT,
    NUMBER,
    ClassType,
    Dim,
    Graph,
    Node,
    Opaque,
    OpSchema,
    OptionalType,
    TensorData,
    TensorType,
    Type,
    Value,
    constant_of,
    new_id,
)
from irscope.ops.accuracy import why_inexact
from irscope.ops.expr import NoExpression, cycles_at_a_point, flops_at_a_point, input_element, number, reduced_axes
from irscope.ops.op import Op, draws_random_numbers
from irscope.ops.registry import bind, effect_of, known_names, named_inputs, op_of, schema_of
from irscope.ops.traits import CUTS, GIVES_TO_HOST, JOINS, MAY_COPY, MOVES_STATISTICS, PATCHES, RESHAPES, SEEN_THROUGH
from irscope.ops.view_steps import Num, tensor_bytes
from irscope.transforms.grouping import Refusal

# Builds an op's expression once, with placeholder elements for the tensors, to find its properties.

_GUESSES: Final = ("float32", "int64", "bool")  # element types to try where a tensor's is unknown


@dataclass(frozen=True, slots=True)
class _Trial:
    """The properties of an op's expression for certain arguments."""

    complaint: str
    """Why there is no expression; empty when there is one."""
    results: int = 1
    axes: tuple[int, ...] = ()
    """The axes along which it reduces."""
    operations: int = 0
    """The additions and multiplications at each point."""
    cycles: float = 0.0
    """The cycles that these take."""
    inexact: str = ""
    """Why a kernel's result may not have torch's bits; empty if it has them."""


def _try_expression(op: Op, arguments: dict[str, Any], types: dict[str, tuple[str | None, int | None]]) -> _Trial:
    """Try the expression with each guess for unknown element types; return the first complaint when all fail."""
    assert op.expression is not None
    complaint = ""
    for guess in _GUESSES if any(dtype is None for dtype, _ in types.values()) else _GUESSES[:1]:
        given = dict(arguments)
        for index, (name, (dtype, rank)) in enumerate(types.items()):
            element = dtype or guess
            given[name] = number(index, element) if rank == -1 else input_element(index, element, rank=rank)
        try:
            made = op.expression(**given)
        except NoExpression as error:
            complaint = complaint or error.what
        else:
            results = made if isinstance(made, tuple) else (made,)
            each = {name: number(0, given[name].dtype) for name in op.operand_axes if name in types}  # a channel's values count as numbers
            counted = op.expression(**(given | each)) if each else made
            flops = flops_at_a_point(counted if isinstance(counted, tuple) else (counted,))
            axes = {axis for expr in results for axis in reduced_axes(expr)}
            inexact = why_inexact(op.name, results)
            return _Trial("", len(results), tuple(sorted(axes)), flops, cycles_at_a_point(results), inexact)
    return _Trial(complaint)


# Iteration spaces: shapes in which some extents, or all, may be unknown.

Space = tuple[Dim, ...] | None
"""The points over which a node iterates; None when the rank is unknown."""


def same_space(a: Space, b: Space) -> bool:
    """Whether two iteration spaces are the same, or may be where extents are unknown.

    >>> same_space((2, 3), (2, 3)), same_space((2, None), (2, 3)), same_space(None, (2,)), same_space((2, 1), (2, 3))
    (True, True, True, False)
    """
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(a, b, strict=True))


def format_space(space: Space) -> str:
    """Returns an iteration space as text.

    >>> format_space((2, None)), format_space(None)
    ('(2, *)', 'of unknown rank')
    """
    return "of unknown rank" if space is None else "(" + ", ".join("*" if dim is None else str(dim) for dim in space) + ")"


# Views that a kernel can see through: those whose element's place in the operand follows from its place in the view by
# adding, multiplying and leaving out indices.
#
# This holds for cuts (select, slice, chunk, ...), transposes, and splitting an axis. Merging axes would need divisions,
# which kernels avoid: they walk a finer space, in which both shapes are products of adjacent axes. Such a space exists
# when, counted from the last axis, the sizes of the tails of both shapes divide each other.


def has_finer_space(node: Node, before: Sequence[Dim] | None, after: Sequence[Dim] | None) -> bool:
    """Whether a view and its operand can be walked together; true for all views but some reshapes."""
    if node.op not in RESHAPES or (before is not None and before == after and None not in before):
        return True
    tails = sorted({*_tails(before), *_tails(after)})
    return None not in (before, after) and 0 not in tails and all(big % small == 0 for small, big in pairwise(tails))


def _tails(shape: Sequence[Dim] | None) -> Iterator[int]:
    """Yields the number of elements in the last n axes, for each n; 0 where unknown."""
    return accumulate((dim if isinstance(dim, int) else 0 for dim in reversed(shape or ())), mul, initial=1)


def unpacked_cut(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """Returns a cut and the node that unpacks its list, given either, if the list has no other use."""
    return _through_list(graph, node, CUTS, frozenset({"prim::ListUnpack"}))


def _through_list(graph: Graph, node: Node, makers: Set[str], readers: Set[str]) -> tuple[Node, Node] | None:
    """The node that makes a list and the one that reads it, given either, if the list has no other use and both are of one block."""
    made = node if node.op in makers else graph.producer.get(node.inputs[0]) if node.op in readers else None
    if made is None or made.op not in makers:
        return None
    uses = graph.users.get(made.output, ())
    reader = uses[0].user if len(uses) == 1 else None
    if not isinstance(reader, Node) or reader.op not in readers or reader.inputs[0] is not made.output:
        return None
    return (made, reader) if graph.block_of[reader] is graph.block_of[made] else None


def patched_range(rules: "Eligibility", node: Node) -> tuple[int, int, int] | None:
    """Returns the axis along which a `slice_scatter` or `select_scatter` replaces a contiguous range, its start, and its end;
    None where these are unknown."""
    whole = rules.tensor_type(node.inputs[0])
    given = [rules.known(value) for value in node.inputs[2:]]
    if node.op == "aten::slice_scatter":
        given += _WHOLE_AXIS[len(given) :]
    if whole is None or not whole.is_static or not whole.shape or not _are_places(given, node):
        return None
    rank = len(whole.shape)
    if not -rank <= given[0] < rank:
        return None
    axis = given[0] % rank
    extent = whole.shape[axis]
    assert isinstance(extent, int)
    if node.op == "aten::select_scatter":
        start = given[1] % max(extent, 1)
        return (axis, start, start + 1) if -extent <= given[1] < extent else None
    start, stop, _ = slice(*given[1:3]).indices(extent)
    return (axis, start, max(start, stop)) if given[3] == 1 else None


_WHOLE_AXIS: Final = (0, None, None, 1)
"""The defaults of `slice_scatter` for the axis, the start, the end and the step."""


def _are_places(given: Sequence[Any], node: Node) -> bool:
    """Whether these are known integers: the axis, then a place, or a start, an end and a step that may be None."""
    absent = (None,) if node.op == "aten::slice_scatter" else ()
    return bool(given) and given[0].__class__ is int and all(one.__class__ is int or one in absent for one in given[1:])


_LIBRARY_WORDS: Final = {
    "reduction": "is a windowed or prefix reduction", "normalization": "is a normalisation without a kernel",
    "matmul": "is a matrix product", "convolution": "is a convolution", "memory": "moves or makes elements",
    "random": "draws random numbers", "other": "is not of a kind known to fuse", "pointwise": "has no expression",
}  # fmt: skip
"""Why ops stay with the library, by their categories."""
_OTHER_WORDS: Final = {
    "view": "is a view, which needs no kernel", "container": "works on containers", "scalar": "computes with numbers",
    "control": "is control flow",
}  # fmt: skip

_EXACT: Final = 'without exact="torch" a kernel computes it'
EXAMPLES: Final = "irs.load(program, *example arguments) makes them known"

_RUN_TIME_NUMBERS: Final[Mapping[Type, str]] = {FLOAT: "float64", INT: "int64", BOOL: "bool", NUMBER: "float64"}
_GROUP_NORM_WORK: Final = 8, 0.5
"""The operations and cycles of a group norm at each point, as of a layer norm: it has no expression to count them in."""


@cache
def _question(op: str) -> str:
    near = get_close_matches(op, known_names(), 1, 0.85) if op[:5] != "prim:" else []
    return f"; did you mean {near[0]}?" if near else ""


class Eligibility:
    """The fusion-related properties of the nodes of one graph, each computed on first use."""

    def __init__(self, graph: Graph, *, exact: bool = False) -> None:
        """`exact`: a node qualifies only if its kernel's results have torch's bits."""
        self.graph = graph
        self.exact = exact
        self.db = alias_db_of(graph)
        self._shapes = shapes_of(graph)
        self.is_made = self._shapes.is_made
        self.refusal = cache(self._judge)
        """Returns why a node cannot be in any group; None when it can."""
        self._trials: dict[object, _Trial] = {}
        self._axes: dict[Node, tuple[int, ...]] = {}
        self._work: dict[Node, tuple[int, float]] = {}
        self._parts: dict[Node, int] = {}
        self._types: dict[Value, TensorType | None] = {}

    def tensor_type(self, value: Value) -> TensorType | None:
        if value in self._types:
            return self._types[value]
        found = self._shapes.type(value) if isinstance(value.type, TensorType) else None
        self._types[value] = found if isinstance(found, TensorType) else None
        return self._types[value]

    def is_view(self, node: Node) -> bool:
        """Whether a node that qualifies is a view, or packs or unpacks a list of tensors."""
        if node.op == "prim::ListConstruct":
            return bool(node.inputs) and isinstance(node.inputs[0].type, TensorType)
        return node.op in SEEN_THROUGH or node.op == "prim::ListUnpack"

    def copies(self, node: Node) -> bool:
        """Whether a node that kernels see through copies where it runs by itself, as `contiguous` of a transposed tensor does."""
        return node.op in MAY_COPY and not self.db.may_alias(node.inputs[0], node.outputs[0])

    def axes(self, node: Node) -> tuple[int, ...]:
        """The axes along which a node that qualifies reduces its first tensor; empty for most nodes."""
        return () if self.refusal(node) else self._axes.get(node, ())

    def parts(self, node: Node) -> int:
        """The number of parts into which a reduction cuts the first of its axes: a group norm reduces each part separately."""
        return self._parts.get(node, 1)

    def operations(self, node: Node) -> int:
        """The additions and multiplications that a node that qualifies does at each point of its space."""
        return self._work_of(node)[0]

    def cycles(self, node: Node) -> float:
        """The cycles of one core that these take."""
        return self._work_of(node)[1]

    def _work_of(self, node: Node) -> tuple[int, float]:
        if self.refusal(node) or self.is_view(node) or node.op in JOINS | PATCHES:
            return 0, 0.0
        return self._work.get(node, _GROUP_NORM_WORK)

    def space(self, node: Node) -> tuple[Dim, ...] | None:
        """The iteration space of a node that qualifies: the shape of the tensor that it reduces, or else of its result."""
        source = next((v for v in node.inputs if self.tensor_type(v)), None) if self.axes(node) else node.outputs[0]
        found = None if source is None else self.tensor_type(source)
        return None if found is None else found.shape

    def name(self, value: Value) -> str:
        """Returns a value's printed name, for use in a sentence."""
        return f"%{self.graph.names[value]}"

    def size_in_bytes(self, value: Value) -> Num:
        """What a policy counts for a value: its bytes, or 0 for a view that kernels see through."""
        producer = self.graph.producer.get(value)
        return 0 if producer is not None and self.is_view(producer) and self.refusal(producer) is None else self.bytes_of(value)

    def bytes_of(self, value: Value) -> Num:
        """The bytes of a tensor, a formula where extents are unknown; 0 for other values. Nothing is known of a foreign type, such as
        `!stablehlo.future`."""
        found = self.tensor_type(value)
        if found is None:
            is_foreign = isinstance(value.type, ClassType) and value.type.name.startswith("!") and not value.type.name.endswith("token")
            return tensor_bytes(TensorType("uint8", None)) if is_foreign else 0
        return tensor_bytes(found)

    def known(self, value: Value) -> Any:
        """Returns the constant value of a number, string, or None; NOT_CONSTANT for tensors and for computed values."""
        if isinstance(value.type, TensorType):
            return NOT_CONSTANT
        payload = constant_of(self.graph, value)
        if payload is NOT_CONSTANT:
            payload = self._shapes.known(value)
        return NOT_CONSTANT if isinstance(payload, TensorData | Opaque | Graph) else payload

    def is_known(self, value: Value) -> bool:
        return self.known(value) is not NOT_CONSTANT

    def _judge(self, node: Node) -> Refusal | None:
        if node.op == "prim::Constant":
            what = f"{self.name(node.output)} is a constant, which is copied into each group that uses it"
            return Refusal("not-pointwise", what, (node,))
        if node.op in JOINS or (node.op == "prim::ListConstruct" and self.is_view(node)):
            return self._join_refusal(node)
        if self.is_view(node):  # which moves nothing, and so is useful only between two nodes of one kernel
            if what := self._why_opaque(node):
                return Refusal("view", what, (node,))
            what = f"{node.op} is a view at the edge of a group: a kernel has only views between two of its nodes"
            if node not in self._views_between and self.copies(node):
                what = f"{node.op} copies, and is at the edge of a group: a kernel has it only between two of its nodes"
            return None if node in self._views_between else Refusal("not-pointwise", what, (node,))
        if node.op in PATCHES:
            return self._patch_refusal(node)
        op, schema = op_of(node), schema_of(node)
        if node.blocks or op is None or schema is None:
            known = node.blocks or op is not None
            unknown = _OTHER_WORDS["container"] if op is not None and op.category == "container" else "has no known overload"
            what = "has blocks of its own" if node.blocks else unknown if known else f"has no schema{_question(node.op)}"
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        effect = effect_of(node)
        if effect == "in-place":
            effect = effect_of(node, self._known_arguments(node))
        if effect == "in-place":
            trains = ": in eval mode it writes nothing" if {"training", "use_input_stats"} & bind(node).keys() else ""
            return Refusal("in-place", f"{node.op} writes {self._written(node, schema)} in place, and groups are pure{trains}", (node,))
        if op.expression is None:
            library = _LIBRARY_WORDS.get(op.category)
            what = f"{library}, and stays with the library" if library else _OTHER_WORDS[op.category]
            if op.category == "scalar" and any(isinstance(value.type, TensorType) for value in node.inputs):
                what = "makes a Python value of a tensor" + self._without_host(node)
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        if effect == "opaque":
            return Refusal("side-effect", f"{node.op} has side effects", (node,))
        judge = self._judge_arguments if op.channel_parts is None else self._judge_parts
        refusal = self.types_refusal(node) or judge(node, op, schema)
        if refusal is None and effect == "view":
            refusal = self._judge_aliasing(node, schema)
        return refusal

    def _without_host(self, node: Node) -> str:
        """What could read the tensor itself in place of the number that a node makes of its element; empty where not all users can."""
        users = [use.user for value in node.outputs for use in self.graph.users.get(value, ())]
        if node.op not in GIVES_TO_HOST or not users or len(node.inputs) != 1:
            return ""
        for user in users:
            if not isinstance(user, Node) or self.refusal(user) is not None:
                return ""
            direct = tuple([node.inputs[0] if value is node.outputs[0] else value for value in user.inputs])
            if self.refusal(replace(user, id=new_id(), inputs=direct)) is not None:
                return ""
        readers = listed(list(dict.fromkeys(user.op for user in users if isinstance(user, Node))))
        return f"; {readers} could read {self.name(node.inputs[0])} itself"

    def _known_arguments(self, node: Node) -> dict[str, Any]:
        """The constant arguments by name; they show, for example, that a batch norm does not train and so writes nothing."""
        known = {name: self.known(value) for name, value in named_inputs(node).items()}
        return {name: value for name, value in known.items() if value is not NOT_CONSTANT}

    def types_refusal(self, node: Node) -> Refusal | None:
        """Returns why kernels do not support the types of a node's operands or results; None when they do."""
        if not node.outputs or not all(isinstance(value.type, TensorType) for value in node.outputs):
            return Refusal("not-pointwise", f"{node.op} here does not return tensors", (node,))
        for value in (*node.inputs, *node.outputs):
            type = self.tensor_type(value)
            if type is not None and type.dtype is not None and type.dtype not in ITEM_SIZE:
                if node.op in ("aten::to", "aten::_to_copy", "aten::type_as"):
                    change = "what follows the cast may be in one"
                elif type.dtype.startswith("complex"):
                    change = "with its .real and .imag they do"
                else:
                    change = "cast to a type of theirs, such as float32 or int64, it could be in one"
                what = f"{node.op} works on {self.name(value)} of {type.dtype}, which kernels do not compute with; {change}"
                return Refusal("element-type", what, (node, value))
        return None

    def _judge_arguments(self, node: Node, op: Op, schema: OpSchema) -> Refusal | None:
        """Judge a node by building its expression once, with stand-ins for arguments known only at run time."""
        assert op.expression is not None
        arguments: dict[str, Any] = {}
        known_flags: dict[str, Any] = {}
        bound = bind(node)
        for argument in schema.arguments:
            operand = bound[argument.name]
            if not isinstance(operand, Value):
                arguments[argument.name] = operand
                continue
            payload = self.known(operand)
            declared = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
            is_number = declared in (NUMBER, FLOAT)  # which the kernel may take at run time
            if argument.name == "device" and payload == self._device(node):
                arguments["device"] = None  # where it is already
            elif payload is not NOT_CONSTANT:
                arguments[argument.name] = known_flags[argument.name] = payload
            elif isinstance(operand.type, TensorType) or (is_number and operand.type in _RUN_TIME_NUMBERS):
                arguments[argument.name] = operand
            else:
                needed = f"{argument.name!r} of {node.op} must be known before the program runs"
                what = f"{needed}, and {self.name(operand)} is computed; a number in the program would do"
                return Refusal("unknown-argument", what, (node, operand))
        if draws_random_numbers(node.op, known_flags):
            stops = "; model.eval() turns it off" if "dropout" in node.op else ""
            return Refusal("random", f"{node.op} draws random numbers{stops}", (node,))
        trial = self._try_expression(op, arguments)
        if trial.complaint:
            return Refusal("no-expression", f"{node.op} has no kernel: {trial.complaint}", (node,))
        if self.exact and trial.inexact:
            return Refusal("inexact", f"{node.op} {trial.inexact}; {_EXACT}", (node,))
        if trial.results != len(node.outputs):
            return Refusal("not-pointwise", f"{node.op} here does not return {trial.results} tensors", (node,))
        self._axes[node] = trial.axes
        self._work[node] = trial.operations, trial.cycles
        return None

    def _judge_parts(self, node: Node, op: Op, schema: OpSchema) -> Refusal | None:
        """Judge a normalization that reduces each part of the channels separately."""
        assert op.channel_parts is not None
        if self.exact:
            return Refusal("inexact", f"{node.op} adds up in another order than torch; {_EXACT}", (node,))
        found = self.tensor_type(node.inputs[0])
        channels = found.shape[1] if found is not None and found.shape is not None and len(found.shape) > 1 else None
        if found is None or found.shape is None or not isinstance(channels, int):
            return Refusal("no-expression", f"{node.op} has no kernel: the number of channels is not known; {EXAMPLES}", (node,))
        if found.dtype is not None and not found.dtype.startswith(("float", "bfloat")):
            return Refusal("no-expression", f"torch does not compute {node.op} of {found.dtype}", (node,))
        given = {name: value for name, value in bind(node).items() if not isinstance(value, Value)} | self._known_arguments(node)
        assert op.expression is not None
        try:
            self._parts[node] = op.channel_parts(channels=channels, **given)
            scales = {name: number(0, "float32") for name in op.operand_axes if name not in given}
            expression = op.expression(**{**given, **scales, "input": input_element(0, found.dtype or "float32", rank=3)})
        except NoExpression as error:
            return Refusal("no-expression", f"{node.op} has no kernel: {error.what}", (node,))
        self._axes[node] = tuple(range(1, len(found.shape)))
        self._work[node] = flops_at_a_point((expression,)), cycles_at_a_point((expression,))
        return None

    def _device(self, node: Node) -> str | None:
        """The device that the type of a node's first operand declares."""
        found = self.tensor_type(node.inputs[0])
        return None if found is None else found.device

    def _written(self, node: Node, schema: OpSchema) -> str:
        """The operands that a node writes, by name; its first one where the schema marks none."""
        given = bind(node)
        marked = [argument.name for argument in schema.arguments if argument.alias is not None and argument.alias.is_write]
        if not marked and node.op in MOVES_STATISTICS:
            marked = ["running_mean", "running_var"]
        written = [given[name] for name in marked if isinstance(given[name], Value)] or node.inputs[:1]
        return " and ".join(map(self.name, written))

    def _try_expression(self, op: Op, arguments: dict[str, Any]) -> _Trial:
        """Try the op's expression with arguments of these types; results are cached."""
        types: dict[str, tuple[str | None, int | None]] = {}
        for name, value in arguments.items():
            if isinstance(value, Value):
                type = self.tensor_type(value)
                types[name] = (_RUN_TIME_NUMBERS[value.type], -1) if type is None else (type.dtype, type.rank)
        key = (op.name, tuple(types.items()), tuple((n, repr(a)) for n, a in arguments.items() if n not in types))
        found = self._trials.get(key)
        if found is None:
            found = self._trials[key] = _try_expression(op, arguments, types)
        return found

    def _judge_aliasing(self, node: Node, schema: OpSchema) -> Refusal | None:
        """Refuse an op that may return its argument where that is observable, as a kernel always returns fresh memory."""
        result = node.outputs[0]
        for argument, operand in zip(schema.arguments, node.inputs, strict=False):
            if argument.alias is None or not self.db.may_alias(operand, result):
                continue
            safe = self.db.safe_to_change_aliasing(operand, result)
            if not safe:
                certain = self.db.must_alias(operand, result)
                same = f"{node.op} {'returns' if certain else 'may return'} {self.name(operand)} itself"
                what = f"{same}, and a copy would be observable: {safe.because}; a clone(), which always copies, could be in a kernel"
                return Refusal("may-alias-argument", what, (node, operand))
        return None

    # Decides which nodes that only move elements can be in kernels: views, joins, and replaced ranges.
    #
    # A kernel sees through a view between two of its nodes, writes joined tensors directly to their places, and takes the
    # elements of a replaced range from the tensor that replaces it.

    def _join_refusal(self, node: Node) -> Refusal | None:
        """Returns why a join cannot be in a kernel; all joined tensors but one must be computed by kernels for it alone, which
        then write them directly to their places."""
        pair = _through_list(self.graph, node, frozenset({"prim::ListConstruct"}), JOINS)
        if pair is None:
            what = (
                "works on containers"
                if node.op == "prim::ListConstruct"
                else "joins a list that is used otherwise, or whose tensors are not known"
            )
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        packed, join = pair
        refusal = self.types_refusal(join)
        if refusal is not None:
            return refusal
        found = self.tensor_type(join.output)
        if any(self.known(value) is NOT_CONSTANT for value in join.inputs[1:]) or found is None or not found.is_static:
            return Refusal("not-pointwise", f"{join.op} joins tensors of unknown extents; {EXAMPLES}", (join,))
        computed = sum(map(self._is_computed_for, packed.inputs))
        if computed < max(len(packed.inputs) - 1, 1) or len(set(packed.inputs)) < len(packed.inputs):
            such = f"{computed or 'none'} of the {len(packed.inputs)} that {join.op} joins {'are' if computed > 1 else 'is'} such"
            detail = f"a kernel spares the copy of a tensor that it makes and nothing else reads: {such}"
            return Refusal("not-pointwise", detail, (join,))
        return None

    def _patch_refusal(self, node: Node) -> Refusal | None:
        """Returns why a replaced range cannot be in a kernel; the range and the layout of the whole must be known."""
        refusal = self.types_refusal(node)
        if refusal is not None:
            return refusal
        found = patched_range(self, node)
        whole, part, result = (self.tensor_type(value) for value in (*node.inputs[:2], node.output))
        if found is None or whole is None or part is None or result is None or result.strides is None:
            return Refusal("not-pointwise", f"{node.op} replaces a part that is only known when the program runs", (node,))
        assert whole.shape is not None
        axis, start, stop = found
        own = (*whole.shape[:axis], stop - start, *whole.shape[axis + 1 :])
        seen = part.shape if node.op == "aten::slice_scatter" or part.shape is None else (*part.shape[:axis], 1, *part.shape[axis:])
        if seen != own or part.dtype is None or part.dtype != whole.dtype:
            return Refusal("not-pointwise", f"{node.op} replaces a range of another shape or element type than its source", (node,))
        return None

    def _is_computed_for(self, value: Value) -> bool:
        """Whether a pointwise node produces the value, and it has a single use."""
        producer = self.graph.producer.get(value)
        if producer is None or producer.op in JOINS or self.is_view(producer) or len(self.graph.users.get(value, ())) != 1:
            return False
        return self.refusal(producer) is None and not self.axes(producer)

    def _why_opaque(self, node: Node) -> str:
        """Returns why a kernel cannot see through a view; empty when it can."""
        if node.op == "prim::ListUnpack" and unpacked_cut(self.graph, node) is None:
            return f"{node.op} works on containers"
        if node.op == "prim::ListUnpack":
            return ""
        schema = schema_of(node)
        if schema is None or not node.inputs or self.tensor_type(node.inputs[0]) is None:
            return f"{node.op} has no known overload"
        if any(self.known(value) is NOT_CONSTANT for value in node.inputs[1:]):
            return f"{node.op} is a view of a part that is only known when the program runs"
        if len(node.outputs) != 1:
            return f"{node.op} here returns {len(node.outputs)} results"
        if isinstance(node.output.type, TensorType):
            before, after = (self.tensor_type(value) for value in (node.inputs[0], node.output))
            if before is None or after is None or before.shape is None or after.shape is None:
                return f"{node.op} is a view of a tensor of unknown shape"
            if before.dtype != after.dtype:
                return f"{node.op} sees the bytes of {before.dtype or 'some type'} as {after.dtype or 'another'}, which no kernel does"
            if not has_finer_space(node, before.shape, after.shape):
                detail = f"{format_space(before.shape)} as {format_space(after.shape)}"
                return f"{node.op} sees {detail}, and no strides lead from one to the other"
        elif unpacked_cut(self.graph, node) is None:
            return f"{node.op} returns a list of views that is not only unpacked"
        return ""

    @cached_property
    def _views_between(self) -> set[Node]:
        """The views that a kernel can see through and that are between eligible nodes of one block."""
        graph, fit, below = self.graph, set[Node](), set[Node]()
        nodes = list(graph.nodes())
        views = {n for n in nodes if self.is_view(n) and n.op != "prim::ListConstruct" and not self._why_opaque(n)}
        above, block_of = set[Node](), graph.block_of
        for node in nodes:
            if node in views:
                producer = graph.producer.get(node.inputs[0])
                if producer is not None and (producer in fit or producer in above) and block_of[producer] is block_of[node]:
                    above.add(node)
            elif not self.is_view(node) and self.refusal(node) is None:
                fit.add(node)
        for node in reversed(nodes):
            if node in above:
                users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
                if any(isinstance(u, Node) and (u in fit or u in below) and block_of[u] is block_of[node] for u in users):
                    below.add(node)
        return below
