"""Convolutions over channels that lie side by side, with the whole of a program laid out for them.

**Why.** Of an operand that lies channel by channel, a convolution of oneDNN (torch 2.13, processor) makes a copy in an order of
its own, and puts its result back from another: twice its operands' memory while it runs, and two passes over it. Channels last
it reads and writes as it is.

**How.** Before each such convolution its operand is copied channels last; then all types that follow are found anew. Elementwise ops,
normalisations, pooling, joins and the convolutions themselves keep the order, so that most of these copies are of what lies so
already, and go again. What is left are the entrances, and results: the caller gets each laid out as before.

**When.** Only if every layout on the way is still known, nobody writes what lies otherwise now, no results share memory that did
not, and the copies that are added have fewer bytes than those that convolutions no longer make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.analysis.per_graph import alias_db_of, once, shapes_of
from irscope.analysis.shapes import Shapes
from irscope.analysis.views import ViewAliases, with_new_strides
from irscope.errors import ArgumentError
from irscope.ir import (
    INT,
    Created,
    Edit,
    Erased,
    Graph,
    Node,
    Replaced,
    Rewriter,
    TensorType,
    Value,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.typing import channels_last_strides, contiguous_strides, is_channels_last, is_contiguous, static_shape
from irscope.transforms.base import PassRecord, Remark

__all__ = ["channels_last"]

_CONVOLUTIONS: Final = frozenset({"aten::conv2d", "aten::convolution", "aten::_convolution"})
_LAST, _ROWS = 2, 0
_RULE: Final = "channels-last"


def channels_last(graph: Graph) -> PassRecord:
    """Lay out what two-dimensional convolutions read and write channels last, if that copies fewer bytes than they do.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 8, 32, 32, strides=[8192, 1024, 32, 1]), %w : Float(8, 8, 3, 3, strides=[72, 9, 3, 1])):
    ...   %none : NoneType = prim::Constant()
    ...   %1 : int[] = prim::Constant[value=[1, 1]]()
    ...   %groups : int = prim::Constant[value=1]()
    ...   %a : Tensor = aten::conv2d(%x, %w, %none, %1, %1, %1, %groups)
    ...   %b : Tensor = aten::relu(%a)
    ...   %c : Tensor = aten::conv2d(%b, %w, %none, %1, %1, %1, %groups)
    ...   return (%c)''')
    >>> record = channels_last(g)
    >>> print(record.told(record.remarks[0]))
    passed [channels-last] %a: 262,144 bytes are not copied by 2 convolutions, and 131,072 are by the program
    """
    started = perf_counter()
    after, edits, remarks = _tried(graph)
    return PassRecord("channels-last", graph, after, edits, remarks, perf_counter() - started)


_Tried = tuple[Graph, tuple[Edit, ...], tuple[Remark, ...]]


def _tried(graph: Graph) -> _Tried:
    shapes = shapes_of(graph)
    planar = [node for node in graph.body.nodes if node.op in _CONVOLUTIONS and _is_planar(node, shapes)]
    if not planar:
        return graph, (), ()

    def declined(because: str, *evidence: Value | Node) -> _Tried:
        return graph, (), (Remark("missed", _RULE, planar[0], because, evidence or (planar[0],)),)

    copied, edits, entrances = _with_copies(graph, planar)
    try:
        relaid, known = with_new_strides(copied, entrances, strict=True)
    except ArgumentError as error:
        return declined(f"an op would not take what lies so: {error.what}")
    once(relaid, Shapes, lambda: known)
    edits += _retyped_edits(copied, relaid)
    unclear = _unclear(copied, relaid, shapes, known)
    if unclear is not None:
        return declined(f"it would not be known how %{relaid.names[unclear]} lies", unclear)
    db = alias_db_of(relaid)
    written = next((value for value in _changed(copied, relaid) if db.has_writers(value)), None)
    if written is not None:
        return declined(f"somebody writes %{relaid.names[written]}, and what is a copy of what might change", written)
    fixed = _finished(relaid, graph, known, entrances)
    if fixed is None:
        return declined("a result is read inside of a block, and the caller would get it in another layout")
    after, last = fixed
    edits += last
    old, new = ViewAliases(graph, shapes), ViewAliases(after, shapes_of(after))
    if _shared(old) != _shared(new):
        return declined("results would share memory that do not share it now")
    added, saved = new.copied_bytes - old.copied_bytes, sum(_around(node, shapes) for node in planar)
    if added >= saved:
        return declined(f"{added:,} bytes would be copied for {saved:,} that convolutions copy now")
    names = f"{len(planar)} convolutions" if len(planar) > 1 else "its convolution"
    told = f"{saved:,} bytes are not copied by {names}, and {max(added, 0):,} are by the program"
    subject = planar[0]
    return after, edits, (Remark("passed", _RULE, subject, told, tuple(planar)),)


def _is_planar(node: Node, shapes: Shapes) -> bool:
    """Whether a convolution has one plane for each channel before it, and does not go backwards."""
    given, made = shapes.type(node.inputs[0]), shapes.type(node.output)
    if not isinstance(given, TensorType) or not isinstance(made, TensorType) or given.rank != 4 or made.rank != 4:
        return False
    shape = static_shape(given)
    if shape is None or given.strides is None or not made.is_static or given.device not in (None, "cpu"):
        return False
    turned = shapes.known(node.inputs[6]) if node.op != "aten::conv2d" else False
    return turned is False and is_contiguous(shape, given.strides) and not is_channels_last(shape, given.strides)


def _around(node: Node, shapes: Shapes) -> int:
    """The bytes of a convolution's operand and of its result."""
    types = shapes.type(node.inputs[0]), shapes.type(node.output)
    return sum(type.nbytes or 0 for type in types if isinstance(type, TensorType))


def _with_copies(graph: Graph, planar: Sequence[Node]) -> tuple[Graph, tuple[Edit, ...], dict[Value, TensorType]]:
    """Each of these reads a copy that lies channels last; one copy for all that read one value, unless it is written between
    them. The copies with their types."""
    shapes, db, rewriter = shapes_of(graph), alias_db_of(graph), Rewriter(graph)
    copies: dict[Value, Value] = {}
    entrances: dict[Value, TensorType] = {}
    for node in planar:
        source, reason = node.inputs[0], "its operand lies channels last"
        new: list[Node] = []
        if source not in copies or db.has_writers(source):
            type = shapes.type(source)
            assert isinstance(type, TensorType)
            laid = type.with_(strides=channels_last_strides(static_shape(type) or ()))
            copies[source] = make_value(new_id(), laid, f"{source.name or 'x'}_last")
            entrances[copies[source]] = laid
            new = _copy(source, copies[source], _LAST, node)
        inputs = (copies[source], *node.inputs[1:])
        new.append(make_node(new_id(), node.op, inputs, node.outputs, node.attrs, (), node.location, node.scope))
        rewriter.replace_node(node, new, reason=reason)
    return rewriter.finish(), rewriter.edits, entrances


def _copy(source: Value, copy: Value, format: int, like: Node) -> list[Node]:
    code = make_value(new_id(), INT, "memory_format")
    place = (), like.location, like.scope
    constant = make_node(new_id(), "prim::Constant", (), (code,), FrozenDict(value=format), *place)
    return [constant, make_node(new_id(), "aten::contiguous", (source, code), (copy,), EMPTY, *place)]


def _retyped_edits(before: Graph, after: Graph) -> tuple[Edit, ...]:
    """What became of nodes whose results have other types now: each is another node."""
    reason, edits = "what it gives lies otherwise now", list[Edit]()
    for old, new in zip(before.body.nodes, after.body.nodes, strict=True):
        if old is not new:
            edits += [Erased(old, reason), Created(new, reason)]
            edits += [Replaced(a, b, reason) for a, b in zip(old.outputs, new.outputs, strict=True) if a is not b]
    return tuple(edits)


def _changed(before: Graph, after: Graph) -> Iterator[Value]:
    """The values of the later graph that lie otherwise than those of the earlier one."""
    old = {value.id: value for value in before.values()}
    for value in after.values():
        was = old.get(value.id)
        if was is not None and was.type != value.type and isinstance(value.type, TensorType):
            yield value


def _unclear(before: Graph, after: Graph, shapes: Shapes, known: Shapes) -> Value | None:
    """A value of which it was known how it lies, and is not any more."""
    old = {value.id: value for value in before.values()}
    for value in _changed(before, after):
        was, type = shapes.type(old[value.id]), known.type(value)
        if isinstance(was, TensorType) and was.strides is not None and isinstance(type, TensorType) and type.strides is None:
            return value
    return None


def _finished(relaid: Graph, graph: Graph, known: Shapes, entrances: Mapping[Value, TensorType]) -> tuple[Graph, tuple[Edit, ...]] | None:
    """The graph without copies of what lies so already, and with results as they lay before; None where that cannot be told."""
    here, edits = _without_needless(relaid, known, {value.id for value in entrances})
    shapes = shapes_of(here)
    wanted: dict[Value, Value] = {}
    for was, now in zip(graph.outputs, here.outputs, strict=True):
        old, new = shapes_of(graph).type(was), shapes.type(now)
        if isinstance(old, TensorType) and isinstance(new, TensorType) and old.strides != new.strides:
            shape = static_shape(old)
            producer = here.producer.get(now)
            is_plain = shape is not None and old.strides is not None and is_contiguous(shape, old.strides)
            users = [use.user for use in here.users.get(now, ())]
            if not is_plain or producer is None or here.block_of[producer] is not here.body:
                return None
            if any(user not in here.position or here.block_of[user] is not here.body for user in users if isinstance(user, Node)):
                return None
            assert shape is not None
            wanted[now] = make_value(new_id(), old.with_(strides=contiguous_strides(shape)), now.name)
    return (here, edits) if not wanted else _with_rows(here, wanted, edits)


def _without_needless(graph: Graph, known: Shapes, copies: set[int]) -> tuple[Graph, tuple[Edit, ...]]:
    rewriter = Rewriter(graph)
    for node in graph.body.nodes:
        if node.op != "aten::contiguous" or node.output.id not in copies:
            continue
        type, made = known.type(node.inputs[0]), known.type(node.output)
        if isinstance(type, TensorType) and isinstance(made, TensorType) and type.strides == made.strides:
            rewriter.replace(node.output, node.inputs[0], reason="it lies channels last already")
            rewriter.erase(node, reason="it lies channels last already")
            code = graph.producer[node.inputs[1]]
            if len(graph.users.get(code.output, ())) == 1:
                rewriter.erase(code, reason="nobody reads it")
    return rewriter.finish(), rewriter.edits


def _with_rows(graph: Graph, wanted: Mapping[Value, Value], edits: tuple[Edit, ...]) -> tuple[Graph, tuple[Edit, ...]]:
    """Results in rows: each of these values under another name, and a copy of it under its own, which only the caller gets."""
    rewriter = Rewriter(graph)
    inner = {value: make_value(new_id(), value.type, f"{value.name or 'y'}_last") for value in wanted}
    rows = {value: make_value(new_id(), wanted[value].type, value.name) for value in wanted}
    for node in graph.body.nodes:
        made = [value for value in node.outputs if value in inner]
        inputs = tuple([inner.get(value, value) for value in node.inputs])
        if not made and inputs == node.inputs:
            continue
        outputs = tuple([inner.get(value, value) for value in node.outputs])
        new = [make_node(new_id(), node.op, inputs, outputs, node.attrs, node.blocks, node.location, node.scope)]
        for value in made:
            new += _copy(inner[value], rows[value], _ROWS, node)
        rewriter.replace_node(node, new, reason="the caller gets it row by row, as before")
    for value, row in rows.items():
        rewriter.replace(value, row, reason="the caller gets it row by row, as before")
    return rewriter.finish(), (*edits, *rewriter.edits)


def _shared(views: ViewAliases) -> list[tuple[int, bool]]:
    """For each result the first one that lies in the same buffer, and whether that was there before the run."""
    first: dict[object, int] = {}
    found: list[tuple[int, bool]] = []
    for index, value in enumerate(views.graph.outputs):
        if isinstance(value.type, TensorType):
            placement = views.placement(value)
            found.append((first.setdefault(placement.root, index), placement.origin != "made"))
    return found
