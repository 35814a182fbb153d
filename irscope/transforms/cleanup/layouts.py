"""Lays out results of convolutions channels last where a program permutes them so, which turns the copies after them into views.

A convolution's result is channels last if its weight is (torch 2.13), and elementwise ops keep that layout. So one copy of the
weight can save all copies that follow. Each such change is tried on the whole program and kept only if fewer bytes are copied,
those of the weight included, if memory that would be shared is not written, and if the caller gets every result laid out as before.
"""

from dataclasses import replace
from typing import Final

from irscope.analysis.per_graph import alias_db_of, shapes_of, views_of
from irscope.analysis.views import Recommendation
from irscope.ir import Edit, Graph, Node, Rewriter, TensorType, Value, make_value, new_id
from irscope.ops.registry import category_of
from irscope.transforms.base import PassRecord, Remark, timed
from irscope.transforms.cleanup.channels_last import bytes_of, copied_as, layout_reader, results_of, shared_results

_CHANNELS_LAST: Final = {4: 2, 5: 3}
"""Torch's number of the memory format, by rank."""
_CONVOLUTIONS: Final = frozenset({"aten::conv2d", "aten::conv3d", "aten::convolution", "aten::_convolution"})


@timed
def recommend_layouts(graph: Graph) -> PassRecord:
    """Make convolutions return channels-last results where that turns copies into views and saves more bytes than it copies.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3, 32, 32, strides=[3072, 1024, 32, 1]), %w : Float(8, 3, 3, 3, strides=[27, 9, 3, 1])):
    ...   %none : NoneType = prim::Constant()
    ...   %one : int[] = prim::Constant[value=[1, 1]]()
    ...   %zero : int[] = prim::Constant[value=[0, 0]]()
    ...   %groups : int = prim::Constant[value=1]()
    ...   %y : Tensor = aten::conv2d(%x, %w, %none, %one, %zero, %one, %groups)
    ...   %nhwc : int[] = prim::Constant[value=[0, 2, 3, 1]]()
    ...   %p : Tensor = aten::permute(%y, %nhwc)
    ...   %rows : int[] = prim::Constant[value=[1800, 8]]()
    ...   %z : Tensor = aten::reshape(%p, %rows)
    ...   return (%z)''')
    >>> record = recommend_layouts(g)
    >>> print(record.remarks[0])
    passed [channels-last] %y: its weight is copied channels last, and %z is a view then: 57,600 bytes are not copied, 864 are
    """
    here, passed, edits = graph, list[Remark](), list[Edit]()
    while True:  # each round copies fewer bytes than the one before, and changes one convolution
        after, made, remarks = _one_round(here)
        if after is here:
            return PassRecord("recommend-layouts", graph, here, tuple(edits), (*passed, *remarks))
        passed += remarks
        edits += made
        here = after


def _one_round(graph: Graph) -> tuple[Graph, tuple[Edit, ...], list[Remark]]:
    """The graph after the first recommendation that helps, the edits and the remark; or the graph itself, and why each was declined."""
    db, remarks = alias_db_of(graph), list[Remark]()
    for each in views_of(graph).recommend():
        node = _convolution_before(graph, each)
        if node is None:
            maker = graph.producer.get(each.value)
            who = "the program" if maker is None else maker.op
            remarks.append(_missed(graph, each, f"{who} lays out its result like its operands"))
        elif any(db.has_writers(value) for value in (each.value, *each.views)):
            remarks.append(_missed(graph, each, "one of these tensors is written, and the write would change all of them"))
        else:
            after, edits, added = _with_weight_last(graph, node)
            declined, saved = _gain(graph, after, added)
            if not declined:
                return after, edits, [_done(graph, each, node, saved)]
            remarks.append(_missed(graph, each, declined))
    return graph, (), remarks


def _done(graph: Graph, each: Recommendation, node: Node, saved: int) -> Remark:
    views, weight = ", ".join(f"%{graph.names[value]}" for value in each.views), bytes_of(shapes_of(graph).type(node.inputs[1]))
    verb = "is a view" if len(each.views) == 1 else "are views"
    sentence = f"its weight is copied channels last, and {views} {verb} then: {saved + weight:,} bytes are not copied, {weight:,} are"
    return Remark("passed", "channels-last", node.output, sentence, (node, *each.views))


def _missed(graph: Graph, each: Recommendation, because: str) -> Remark:
    names = ", ".join(f"%{graph.names[value]}" for value in each.views)
    sentence = f"with the axes in the order {each.order}, {names} would be a view and {each.saves:,} bytes not copied, but {because}"
    return Remark("missed", "layout", each.value, sentence, (each.value, *each.views))


def _convolution_before(graph: Graph, each: Recommendation) -> Node | None:
    """The convolution that decides a value's axis order: its producer, or one before it through elementwise ops and normalisations."""
    shapes = shapes_of(graph)
    rank = len(each.order)
    if rank not in _CHANNELS_LAST or each.order != (0, *range(2, rank), 1):
        return None

    def shape(value: Value) -> object:
        type = shapes.type(value)
        return type.shape if isinstance(type, TensorType) else ()

    value: Value | None = each.value
    while value is not None:
        node = graph.producer.get(value)
        if node is None or node.blocks or node not in graph.position:
            return None
        if node.op in _CONVOLUTIONS:
            return node if graph.block_of[node] is graph.body else None
        if category_of(node) not in ("pointwise", "normalization"):
            return None
        wanted = shape(value)
        value = next((v for v in node.inputs if shape(v) == wanted), None)
    return None


def _with_weight_last(graph: Graph, node: Node) -> tuple[Graph, tuple[Edit, ...], frozenset[Value]]:
    """The graph in which a convolution reads its weight channels last, the edits, and the added values."""
    weight = node.inputs[1]
    type = shapes_of(graph).type(weight)
    assert isinstance(type, TensorType)
    rewriter = Rewriter(graph)
    last = make_value(new_id(), TensorType(type.dtype, type.shape, device=type.device), f"{weight.name or 'weight'}_last")
    copies = copied_as(weight, last, _CHANNELS_LAST[len(type.shape or ())], node)
    read = replace(node, id=new_id(), inputs=(node.inputs[0], last, *node.inputs[2:]))
    rewriter.replace_node(node, [*copies, read], reason="its result is channels last then")
    after, edits = _with_true_types(rewriter.finish())
    return after, rewriter.edits + edits, frozenset(copy.output for copy in copies)


def _with_true_types(graph: Graph) -> tuple[Graph, tuple[Edit, ...]]:
    """The graph with every type that declares outdated strides replaced, and the edits."""
    shapes, rewriter = shapes_of(graph), Rewriter(graph)
    for node in graph.body.nodes:
        renewed: list[Value] = []
        for value in node.outputs:
            type = shapes.type(value)
            declared = value.type.strides if isinstance(value.type, TensorType) else None
            has_layout = declared is None or (isinstance(type, TensorType) and type.strides == declared)
            renewed.append(value if has_layout or node.blocks else make_value(new_id(), type, value.name))
        if any(a is not b for a, b in zip(renewed, node.outputs, strict=True)):
            rewriter.replace_node(node, [replace(node, id=new_id(), outputs=tuple(renewed))], reason="its result is channels last now")
            for a, b in zip(node.outputs, renewed, strict=True):
                if a is not b:
                    rewriter.replace(a, b, reason="the same elements in another layout")
    return rewriter.finish(), rewriter.edits


def _gain(before: Graph, after: Graph, added: frozenset[Value]) -> tuple[str, int]:
    """Why the changed graph, which has these `added` values, is not better (empty if it is), and how many bytes fewer it copies."""
    old, new = views_of(before), views_of(after)
    db = alias_db_of(before)
    was, now = results_of(before, db), results_of(after, alias_db_of(after))
    for a, b in zip(was.tensors, now.tensors, strict=True):
        before_it, after_it = old.layout(a), new.layout(b)
        if before_it is None or after_it is None or before_it.strides is None or (
            (before_it.shape, before_it.strides) != (after_it.shape, after_it.strides)
        ):  # fmt: skip
            return f"the caller would get %{before.names[a]} in another layout", 0
    if shared_results(old, was.tensors) != shared_results(new, now.tensors):
        return "results would not share memory as they do now", 0
    pairs = zip(old.tensors(), (value for value in new.tensors() if value not in added), strict=True)
    changed = [a for a, b in pairs if old.layout(a) != new.layout(b)]
    if any(db.is_written(value) for value in changed):
        return "a tensor whose layout would change is written", 0
    reader = layout_reader(before, db, changed)
    if reader is not None:
        return f"{reader.op} depends on the strides of its operand", 0
    if was.hidden(changed, db) is not None:
        return "the caller may find a tensor whose layout would change in a container", 0
    saved = old.copied_bytes - new.copied_bytes
    return ("" if saved > 0 else "copying the weight, and what is a view now, would cost more", saved)
