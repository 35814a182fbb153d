"""Names, words and colours that are the same in every view."""

import re
from collections.abc import Mapping
from typing import Final

from irscope._base.words import time_words
from irscope.analysis.per_graph import per_graph, views_of
from irscope.ir import DictType, Graph, ListType, Node, OptionalType, TensorType, TupleType, Type, Value
from irscope.ops.registry import category_of
from irscope.ops.traits import MAY_COPY
from irscope.transforms.base import History

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
    "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def short_type(type: Type) -> str:
    """A type in a few characters.

    >>> short_type(TensorType("float32", (1, 3, None)))
    'f32[1, 3, ?]'
    """
    match type:
        case TensorType():
            dims = "" if type.shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in type.shape)}]"
            return (_SHORT.get(type.dtype, type.dtype) if type.dtype else "tensor") + dims
        case ListType(element):
            return f"{short_type(element)} list"
        case OptionalType(element):
            return f"{short_type(element)} or none"
        case DictType(key, value):
            return f"{short_type(key)} → {short_type(value)}"
        case TupleType(elements) if elements:
            return f"({', '.join(map(short_type, elements))})"
    return str(type)


def short_op(op: str) -> str:
    """An op without its namespace."""
    return op.partition("::")[2] or op


@per_graph
def records_of(graph: Graph) -> Mapping[int, Value | Node]:
    """Every value and node of a graph by id; selections refer to these ids."""
    found: dict[int, Value | Node] = {value.id: value for value in graph.values()}
    return found | {node.id: node for node in graph.nodes()}


def value_of(record: Value | Node) -> Value | None:
    """A value itself, or the first result of a node."""
    return record if isinstance(record, Value) else next(iter(record.outputs), None)


def duration(milliseconds: float) -> str:
    """A time with the unit that keeps it readable.

    >>> duration(0.0123), duration(1234.5)
    ('12.3 µs', '1.23 s')
    """
    return time_words(milliseconds * 1e6)


# One colour for each op category, in every view, and the words of the legend.

PALETTE: Final = {
    "pointwise": "#4c78a8",
    "reduction": "#f58518",
    "normalization": "#b279a2",
    "matmul": "#e45756",
    "convolution": "#9d4edd",
    "view": "#54a24b",
    "memory": "#72b7b2",
    "random": "#ff9da6",
    "container": "#9d9da1",
    "scalar": "#bab0ac",
    "control": "#eeca3b",
    "other": "#8c8c8c",
    "module": "#6b7280",
    "input": "#2f855a",
    "output": "#2f855a",
}
"""Category to colour; readable as a border on light and dark backgrounds."""
COMPARED: Final = {"same": "#8b95a3", "here": "#2f7fd8", "there": "#d9721f", "both": "#a04fc0", "unmatched": "#9d9da1"}
"""The colours of two groupings beside each other: as in the other, only here, only there, some of each."""
WRITES: Final = "#d62728"
"""The colour of an in-place write."""


@per_graph
def copying(graph: Graph) -> frozenset[Node]:
    """The view ops whose result has memory of its own in every run."""
    asked = {value: node for node in graph.nodes() if node.op in MAY_COPY and category_of(node) == "view" for value in node.outputs}
    if not asked:
        return frozenset()
    views = views_of(graph)
    return frozenset(
        asked[value] for value in views.tensors() if value in asked and views.kind(value) == "copy" and views.is_decided(value)
    )


def kind_of(graph: Graph, node: Node) -> str:
    """The kind of work that views say a node does: one that always copies works on memory, whatever views its op can make."""
    return "memory" if node in copying(graph) else category_of(node)


# One name for each value of a history, the same in every state.
#
# The printer numbers unnamed values, so their names change after every pass. Views of a history use the names of the last
# graph; a removed value keeps its earlier name, with the suffix `.old` if another value has that name now (unless that is
# its copy inside a group).

_NAME = re.compile(r"%([\w.$-]*\w)")


def names_in(history: History) -> dict[Value, str]:
    """The name, without `%`, of every value of every graph of a history.

    >>> import irscope as irs
    >>> f = irs.fuse(irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::tanh(%a)
    ...   return (%b)'''))
    >>> sorted(names_in(f.history).values())
    ['a', 'b', 'b.1', 'x', 'x.1']
    """
    names = dict(history.final.names)
    owner = {name: value for value, name in names.items()}
    copied = _copied(history)
    for record in reversed(history.records):
        for value, name in record.before.names.items():
            if value in names:
                continue
            while name in owner and copied.get(owner[name]) is not value:
                name += ".old"
            names[value] = name
            owner.setdefault(name, value)
    return names


def _copied(history: History) -> dict[Value, Value]:
    """Values inside the groups of the last graph, mapped from the values they replace, whose names they may share."""
    inside = {
        node.id: node for group in history.final.nodes() if group.op.endswith("Group") and group.blocks for node in group.blocks[0].nodes
    }
    found: dict[Value, Value] = {}
    for record in history.records:
        for node in record.before.nodes():
            inner = inside.get(node.id)
            if inner is not None and inner is not node:
                found.update(zip(inner.inputs, node.inputs, strict=False))  # a later pass may have rewritten the group
    return found


def depth_of(graph: Graph, node: Node) -> int:
    """The indentation of a node in the text: two levels for each block around it below the body."""
    depth = 0
    while (owner := graph.owner.get(graph.block_of[node])) is not None:
        depth, node = depth + 2, owner
    return depth


class Renaming:
    """Rewrites sentences about one graph with the names that values have in another, by id."""

    def __init__(self, graph: Graph, names: Mapping[int, str]) -> None:
        self._name = {name: names.get(value.id, name) for value, name in graph.names.items()}

    def __call__(self, text: str) -> str:
        """The sentence with every value name replaced."""
        return _NAME.sub(lambda match: f"%{self._name.get(match[1], match[1])}", text)
