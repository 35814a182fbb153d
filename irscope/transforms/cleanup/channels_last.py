"""Converts a program's two-dimensional convolutions, and the tensors between them, to the channels-last layout."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from irscope._base.frozen import EMPTY
from irscope.analysis.alias import AliasDb
from irscope.analysis.per_graph import alias_db_of, once, shapes_of
from irscope.analysis.shapes import Shapes
from irscope.analysis.views import ViewAliases, following, with_new_strides
from irscope.errors import ArgumentError
from irscope.ir import (
    INT,
    Created,
    Edit,
    Erased,
    Graph,
    Node,
    OptionalType,
    Replaced,
    Rewriter,
    TensorType,
    Type,
    Value,
    make_block,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.numpy_layout import type_suggests_channels_last
from irscope.ops.traits import LAYOUT_READERS, MAX_POOLS, PACKS
from irscope.ops.type_rules import channels_last_strides, contiguous_strides, lies_in_rows, static_shape, suggests_channels_last
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.fold import constant_node

# Finds the tensors that a caller gets from a program: its results, and those in tuples, lists and dictionaries among them.
#
# A pass that changes layouts asks here which values are visible outside. A tuple cannot change, and an unwritten list or
# dictionary does not: the caller finds in it exactly the values that it was built from. For any other container, and for
# arguments that the program writes, only the alias db says what may be in it.


@dataclass(frozen=True, slots=True)
class Results:
    """The tensors that a caller gets, in order, and the containers that may hold further ones."""

    tensors: tuple[Value, ...]
    makers: frozenset[Node]
    """The nodes that build tuples, lists and dictionaries of them."""
    containers: tuple[Value, ...]
    """Results, and written arguments, that may hold tensors of the program, without it being known which."""

    def hidden(self, values: Iterable[Value], db: AliasDb) -> Value | None:
        """The first of these values that the caller may find in one of the containers."""
        if not self.containers:
            return None
        return next((value for value in values if any(db.may_contain_alias(value, held) for held in self.containers)), None)


def results_of(graph: Graph, db: AliasDb) -> Results:
    """Returns the tensors that a caller gets, and the containers that may hold further ones."""
    tensors, makers, containers = list[Value](), set[Node](), list[Value]()
    todo = list(reversed(graph.outputs))
    while todo:
        value = todo.pop()
        node = graph.producer.get(value)
        if isinstance(value.type, TensorType):
            tensors.append(value)
        elif node is not None and node.op in PACKS and graph.block_of[node] is graph.body and not db.is_written(value):
            if node not in makers:
                makers.add(node)
                todo.extend(reversed(node.inputs))
        elif db.is_memory(value):
            containers.append(value)
    held = (value for value in graph.inputs if not isinstance(value.type, TensorType) and db.is_memory(value))
    containers += [value for value in held if db.is_written(value)]
    return Results(tuple(tensors), frozenset(makers), tuple(dict.fromkeys(containers)))


def shared_results(views: ViewAliases, tensors: Iterable[Value]) -> list[tuple[int, bool]]:
    """For each tensor that the caller gets, the index of the first one in the same buffer, and whether that buffer existed before
    the run."""
    first: dict[object, int] = {}
    found: list[tuple[int, bool]] = []
    for index, value in enumerate(tensors):
        placement = views.placement(value)
        found.append((first.setdefault(placement.root, index), placement.origin != "made"))
    return found


def may_share_more(views: ViewAliases, db: AliasDb, tensors: Iterable[Value], copied: Iterable[Value]) -> Value | None:
    """The first `copied` tensor that may share memory with another that the caller gets, or with an argument, where this is not
    decided before the run."""
    found = list(dict.fromkeys(tensors))
    unknown = [value for value in found if views.decided_root(value) is None]
    given = [value for value in views.graph.inputs if db.is_memory(value)]
    for value in copied:
        others = [*found, *given] if value in unknown else unknown
        if any(other is not value and db.may_alias(value, other) for other in others):
            return value
    return None


def layout_reader(graph: Graph, db: AliasDb, values: Iterable[Value]) -> Node | None:
    """The first node whose result depends on the strides of one of these values, or of a possible view of it."""
    readers = [node for node in graph.nodes() if node.op in LAYOUT_READERS]
    found = list(values) if readers else []
    return next((node for node in readers if any(db.may_alias(node.inputs[0], value) for value in found)), None)


# Folds copies into another layout into the group whose result they copy, so that its kernel writes them.
#
# An unwritten copy of a group's result becomes one more result of the group, and replaces the original where that has no other
# users: no launch, and no bytes read again. Groups with max pooling run as several kernels, and are left as they are.

_GROUP: Final = "prim::FusionGroup"


def group_before(graph: Graph, value: Value) -> Node | None:
    """The top-level group that produces a value, if its kernel can write it in another layout; otherwise None."""
    node = graph.producer.get(value)
    if node is None or node.op != _GROUP or graph.block_of[node] is not graph.body:
        return None
    return None if any(inner.op in MAX_POOLS for inner in node.blocks[0].nodes) else node


def with_copies_in_groups(graph: Graph, copies: Collection[Value]) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph in which groups write these copies (by `aten::contiguous`) of their results, where possible; and the edits."""
    db, found = alias_db_of(graph), dict[Node, list[Node]]()
    for node in graph.body.nodes:
        if node.op == "aten::contiguous" and node.output in copies:
            group = group_before(graph, node.inputs[0])
            if group is not None and not db.is_written(node.inputs[0]) and not db.is_written(node.output):
                found.setdefault(group, []).append(node)
    rewriter, reason = Rewriter(graph), "the kernel that produces it writes it in this layout"
    codes: dict[Value, Node] = {}
    for group, nodes in found.items():
        rewriter.replace_node(group, [_with_copies(graph, group, nodes)], reason=reason)
        for node in nodes:
            rewriter.erase(node, reason=reason)
            codes[node.inputs[1]] = graph.producer[node.inputs[1]]
    folded = {node for nodes in found.values() for node in nodes}
    for code, constant in codes.items():
        if all(use.user in folded for use in graph.users.get(code, ())):
            rewriter.erase(constant, reason="it is unused")
    return rewriter.finish(), rewriter.edits


def _with_copies(graph: Graph, group: Node, nodes: Sequence[Node]) -> Node:
    """The group with these copies of its results as further outputs, without the results that have no other users."""
    (block,) = group.blocks
    inside: Mapping[Value, Value] = dict(zip(group.outputs, block.returns, strict=True))
    body, outputs, returns = list(block.nodes), list[Value](), list[Value]()
    for value in group.outputs:
        if any(use.user not in nodes for use in graph.users.get(value, ())):
            outputs.append(value)
            returns.append(inside[value])
    for node in nodes:
        constant = graph.producer[node.inputs[1]]
        made = make_value(new_id(), node.output.type, node.output.name)
        body += copied_as(inside[node.inputs[0]], made, constant.attrs["value"], node)
        outputs.append(node.output)
        returns.append(made)
    new = make_block(new_id(), block.params, tuple(body), tuple(returns))
    return replace(group, id=new_id(), outputs=tuple(outputs), blocks=(new,))


# **Why.** A convolution of oneDNN (torch 2.13, CPU) copies an operand that is laid out channel by channel into an order of its
# own, and copies its result back from another: twice its operands' memory while it runs, and two passes over it. It reads and
# writes channels-last tensors in place.
#
# **How.** The operand of each such convolution is copied channels last, and all types that follow are inferred again. Elementwise
# ops, normalisations, pooling, joins and the convolutions themselves keep the order, so most of these copies are of tensors that
# have the layout already, and are removed. Copies remain where values enter, and for results: the caller gets each laid out as
# before. The kernel of a group can write such a copy of its result itself; and a convolution whose result goes only to the caller
# is left as it is, if its operand comes from a group, which can write rows.
#
# **When.** Only if every layout on the way is still known, no tensor whose layout changed is written, no results share memory
# that did not, and the added copies have fewer bytes than those that convolutions no longer make.

_CONVOLUTIONS: Final = frozenset({"aten::conv2d", "aten::convolution", "aten::_convolution"})
_LAST, _ROWS = 2, 0
_RULE: Final = "channels-last"


@timed
@starts_at("channels-last", _CONVOLUTIONS)
def channels_last(graph: Graph) -> PassRecord:
    """Lay out the operands and results of two-dimensional convolutions channels last, if that copies fewer bytes than they do."""
    return PassRecord("channels-last", graph, *_tried(graph))


_Tried = tuple[Graph, tuple[Edit, ...], tuple[Remark, ...]]


def _tried(graph: Graph) -> _Tried:
    shapes = shapes_of(graph)
    found = [node for node in graph.body.nodes if node.op in _CONVOLUTIONS and _is_planar(node, shapes)]
    exits = _exits(graph, found, shapes) if found else []
    planar = [node for node in found if node not in exits]
    if not planar:
        return graph, (), unknown_sizes(graph, _RULE, _CONVOLUTIONS)

    def declined(because: str, *evidence: Value | Node) -> _Tried:
        return graph, (), (Remark("missed", _RULE, planar[0], because, evidence or (planar[0],)),)

    padded = next((node for node in found if reads_padding_alone(shapes.type(node.inputs[1]), *map(shapes.known, node.inputs[4:6]))), None)
    if padded is not None:
        return declined("windows that lie in the padding alone may crash torch 2.13 in that layout", padded)
    copied, edits, entrances = _with_layout_copies(graph, {node: _ROWS if node in exits else _LAST for node in found})
    try:
        relaid, known = with_new_strides(copied, entrances, strict=True)
    except ArgumentError as error:
        return declined(f"an op would not accept the new layout: {error.what}")
    once(relaid, Shapes, lambda: known)
    edits += _retyped_edits(copied, relaid)
    before = {value.id: shapes.type(value) for value in graph.values()}
    led_to = {value.id for value in following(copied, entrances.keys())} & before.keys()
    changed = [value for value in relaid.values() if value.id in led_to and not _has_layout_of(known.type(value), before[value.id])]
    unclear = next((value for value in changed if _is_unclear(known.type(value), before[value.id])), None)
    if unclear is not None:
        return declined(f"the layout of %{relaid.names[unclear]} would be unknown", unclear)
    db = alias_db_of(relaid)
    written = next((value for value in changed if db.has_writers(value)), None)
    if written is not None:
        return declined(f"%{relaid.names[written]} is written, and in another layout views of it may become copies", written)
    reader = layout_reader(relaid, db, changed)
    if reader is not None:
        return declined(f"{reader.op} depends on the strides of its operand", reader)
    hidden = results_of(relaid, db).hidden(changed, db)
    if hidden is not None:
        return declined(f"the caller may find %{relaid.names[hidden]} in a container, in another layout", hidden)
    fixed = _finished(relaid, graph, known, entrances, {value.id for value in changed})
    if isinstance(fixed, str):
        return declined(fixed)
    finished, last = fixed
    copies = {value for value in finished.values() if value.id not in before}
    after, folded = with_copies_in_groups(finished, copies)
    edits += last + folded
    old, new = ViewAliases(graph, shapes), ViewAliases(after, shapes_of(after))
    given_before, given_now = (results_of(each, alias_db_of(each)).tensors for each in (graph, after))
    if shared_results(old, given_before) != shared_results(new, given_now):
        return declined("results would not share memory as they do now")
    made = (finished.producer.get(value) for value in copies)
    # what a group writes instead of the original is not copied
    instead = [node for node in made if node is not None and node.op == "aten::contiguous" and node.inputs[0] not in after.block_of]
    written_so = sum(bytes_of(shapes_of(finished).type(node.output)) for node in instead)
    added = max(0, new.copied_bytes - old.copied_bytes - written_so)
    saved = sum(bytes_of(shapes.type(value)) for node in planar for value in (node.inputs[0], node.output))
    if added >= saved:
        return declined(f"{added:,} bytes would be copied for {saved:,} that convolutions copy now")
    names = f"{len(planar)} convolutions copy" if len(planar) > 1 else "its convolution copies"
    summary = f"{names} {saved:,} bytes less at each call, and the program {added:,} more"
    subject = planar[0]
    return after, edits, (Remark("passed", _RULE, subject, summary, tuple(planar)),)


def unknown_sizes(graph: Graph, rule: str, ops: Collection[str]) -> tuple[Remark, ...]:
    """A remark about the first node of these ops whose operand has extents or strides that only a run decides; none if there is none."""
    shapes = shapes_of(graph)
    for node in graph.nodes():
        type = shapes.type(node.inputs[0]) if node.op in ops else None
        if isinstance(type, TensorType) and (static_shape(type) is None or type.strides is None):
            what = f"%{graph.names[node.inputs[0]]} has extents or strides that are not known before a run"
            return (Remark("missed", rule, node, f"{what}: irs.load(program, *example arguments) makes them known", (node.inputs[0],)),)
    return ()


def reads_padding_alone(kernel: object, margins: object, gaps: object) -> bool:
    """Whether some windows of a convolution, with weights of type `kernel`, lie in the padding alone."""
    if not (isinstance(kernel, TensorType) and isinstance(margins, tuple | list) and isinstance(gaps, tuple | list)):
        return False
    sizes = (static_shape(kernel) or ())[2:]
    each = zip(sizes, [*margins] * (3 - len(margins)), [*gaps] * (3 - len(gaps)), strict=False)  # one number is for both axes
    return any(margin > (size - 1) * gap for size, margin, gap in each)


def _is_planar(node: Node, shapes: Shapes) -> bool:
    """Whether a convolution reads a contiguous 4-D tensor with one plane per channel, on the CPU, and is not transposed."""
    given, made = shapes.type(node.inputs[0]), shapes.type(node.output)
    if not isinstance(given, TensorType) or not isinstance(made, TensorType) or given.rank != 4 or made.rank != 4:
        return False
    shape = static_shape(given)
    if shape is None or given.strides is None or not made.is_static or given.device not in (None, "cpu"):
        return False
    turned = shapes.known(node.inputs[6]) if node.op != "aten::conv2d" else False
    return turned is False and lies_in_rows(given) and not suggests_channels_last(shape, given.strides)


def bytes_of(type: Type) -> int:
    return type.nbytes or 0 if isinstance(type, TensorType) else 0


def _exits(graph: Graph, planar: Sequence[Node], shapes: Shapes) -> list[Node]:
    """Convolutions whose result only the caller reads, and whose operand a group produces for them alone: both stay row by row."""
    db, found = alias_db_of(graph), list[Node]()
    makers = results_of(graph, db).makers
    for node in planar:
        source, weight = node.inputs[0], shapes.type(node.inputs[1])
        if group_before(graph, source) is None or db.is_written(source) or len(graph.users.get(source, ())) > 1:
            continue
        is_turned = not isinstance(weight, TensorType) or type_suggests_channels_last(weight) is not False
        if not is_turned and all(use.user is graph.body or use.user in makers for use in graph.users.get(node.output, ())):
            found.append(node)
    return found


def _with_layout_copies(graph: Graph, formats: Mapping[Node, int]) -> tuple[Graph, tuple[Edit, ...], dict[Value, TensorType]]:
    """The graph in which each of these nodes reads a copy in the given format, and the copies with their types; users of one value
    share one copy, unless the value is ever written."""
    shapes, db, rewriter = shapes_of(graph), alias_db_of(graph), Rewriter(graph)
    copies: dict[tuple[Value, int], Value] = {}
    entrances: dict[Value, TensorType] = {}
    for node, format in formats.items():
        source, reason = node.inputs[0], "its operand is channels last" if format == _LAST else "the caller gets its result in rows"
        new: list[Node] = []
        if (source, format) not in copies or db.has_writers(source):
            type = shapes.type(source)
            assert isinstance(type, TensorType)
            steps = channels_last_strides if format == _LAST else contiguous_strides
            laid = type.with_(strides=steps(static_shape(type) or ()))
            copy = make_value(new_id(), laid, f"{source.name or 'x'}_{'last' if format == _LAST else 'rows'}")
            copies[source, format] = copy
            entrances[copy] = laid
            new = copied_as(source, copy, format, node)
        new.append(replace(node, id=new_id(), inputs=(copies[source, format], *node.inputs[1:])))
        rewriter.replace_node(node, new, reason=reason)
    return rewriter.finish(), rewriter.edits, entrances


def copied_as(source: Value, copy: Value, format: int, like: Node) -> list[Node]:
    """The nodes that copy a value into a memory format, by torch's number of it."""
    code = make_value(new_id(), INT, "memory_format")
    constant = constant_node(code, format, like=like)
    return [constant, make_node(new_id(), "aten::contiguous", (source, code), (copy,), EMPTY, (), like.location, like.scope)]


def _retyped_edits(before: Graph, after: Graph) -> tuple[Edit, ...]:
    """The edits for nodes whose results have other types now; each was rebuilt as another node."""
    reason, edits = "its result has another layout now", list[Edit]()
    for old, new in zip(before.body.nodes, after.body.nodes, strict=True):
        if old is not new:
            edits += [Erased(old, reason), Created(new, reason)]
            edits += [Replaced(a, b, reason) for a, b in zip(old.outputs, new.outputs, strict=True) if a is not b]
    return tuple(edits)


def _has_layout_of(type: Type, old: Type) -> bool:
    """Whether values of these types have the same known layout, or have no layout at all."""
    if isinstance(type, TensorType) and isinstance(old, TensorType):
        return type.strides is not None and type.strides == old.strides
    return not isinstance(type, TensorType | OptionalType)


def _is_unclear(type: Type, old: Type) -> bool:
    """Whether the old type's layout was known and the new type's is not."""
    return isinstance(old, TensorType) and old.strides is not None and isinstance(type, TensorType) and type.strides is None


def _finished(
    relaid: Graph, graph: Graph, known: Shapes, entrances: Mapping[Value, TensorType], changed: Collection[int]
) -> tuple[Graph, tuple[Edit, ...]] | str:
    """The graph without needless copies and with its results in their former layouts, or the reason why that is impossible."""
    here, edits = _without_needless(relaid, known, {value.id for value in entrances})
    before, after = results_of(graph, alias_db_of(graph)), results_of(here, alias_db_of(here))
    was_known, shapes = shapes_of(graph), shapes_of(here)
    wanted: dict[Value, Value] = {}
    copied: list[Value] = []
    for was, now in zip(before.tensors, after.tensors, strict=True):
        old, new = was_known.type(was), shapes.type(now)
        if now.id in changed and now not in wanted:
            assert isinstance(old, TensorType)
            assert isinstance(new, TensorType)
            shape, producer = static_shape(old), here.producer.get(now)
            if shape is None or not lies_in_rows(old) or producer is None:
                return f"the caller would get %{here.names[now]} in another layout"
            users = [use.user for use in here.users.get(now, ())]
            are_at_the_top = all(user is here.body or (isinstance(user, Node) and here.block_of[user] is here.body) for user in users)
            if here.block_of[producer] is not here.body or not are_at_the_top:
                return "a result is read inside a block, and the caller would get it in another layout"
            wanted[now] = make_value(new_id(), old.with_(strides=contiguous_strides(shape)), now.name)
            copied.append(was)
    uses = (use for node in after.makers for use in here.users.get(node.output, ()))
    if not all(use.user is here.body or use.user in after.makers for use in uses):
        return "the program itself also reads a tuple, list or dictionary of results"
    if may_share_more(ViewAliases(graph, was_known), alias_db_of(graph), before.tensors, copied) is not None:
        return "results may share memory now, and would not afterwards"
    return (here, edits) if not wanted else _with_rows(here, wanted, after.makers, edits)


def _without_needless(graph: Graph, known: Shapes, copies: set[int]) -> tuple[Graph, tuple[Edit, ...]]:
    rewriter = Rewriter(graph)
    for node in graph.body.nodes:
        if node.op != "aten::contiguous" or node.output.id not in copies:
            continue
        type, made = known.type(node.inputs[0]), known.type(node.output)
        if isinstance(type, TensorType) and isinstance(made, TensorType) and type.strides == made.strides:
            rewriter.replace(node.output, node.inputs[0], reason="it has this layout already")
            rewriter.erase(node, reason="it has this layout already")
            if len(graph.users[node.inputs[1]]) == 1:
                rewriter.erase(graph.producer[node.inputs[1]], reason="it is unused")
    return rewriter.finish(), rewriter.edits


def _with_rows(
    graph: Graph, wanted: Mapping[Value, Value], makers: frozenset[Node], edits: tuple[Edit, ...]
) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph in which the caller gets these results row by row: each value gets a new name, and a contiguous copy takes its own
    name, which only the caller and the producers of its containers read."""
    rewriter = Rewriter(graph)
    inner = {value: make_value(new_id(), value.type, f"{value.name or 'y'}_last") for value in wanted}
    rows = {value: make_value(new_id(), wanted[value].type, value.name) for value in wanted}
    for node in graph.body.nodes:
        made = [value for value in node.outputs if value in inner]
        inputs = tuple([inner.get(value, value) for value in node.inputs])
        if node in makers or (not made and inputs == node.inputs):
            continue
        new = [replace(node, id=new_id(), inputs=inputs, outputs=tuple(inner.get(value, value) for value in node.outputs))]
        for value in made:
            *code, copy = copied_as(inner[value], rows[value], _ROWS, node)
            if lies_in_rows(value.type):
                copy = replace(copy, op="aten::clone")  # of one channel or one point: rows already, for torch, in other strides
            new += (*code, copy)
        rewriter.replace_node(node, new, reason="the caller gets it row by row, as before")
    for value, row in rows.items():
        rewriter.replace(value, row, reason="the caller gets it row by row, as before")
    return rewriter.finish(), (*edits, *rewriter.edits)
