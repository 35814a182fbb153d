"""Whether a reason for which two nodes stayed apart is true: take away what it names, and see them fuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irscope.analysis.dependence import dependences
from irscope.analysis.shapes.inference import infer, refine
from irscope.ir.core import Block, Graph, Node, Value, new_id
from irscope.ir.types import TENSOR, TensorType
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.grouping import Refusal

PATHS = {"cycle", "blocked-by-write", "side-effect-between", "random-order"}
LIMITS = {"argument-limit", "size-limit"}


def typed(graph: Graph) -> Graph:
    """The graph with all that is known of its types written down, so that its parts know it too."""
    return refine(graph, infer(graph))


def neighbours(fusion: Fusion) -> Iterator[tuple[Node, Node, Refusal]]:
    """Each producer and each of its readers that are fit for groups, in one block, and apart; with the reason."""
    before = fusion.history.graph(-2)
    fits = fusion._plans.rules.refusal
    for reader in before.nodes():
        makers = dict.fromkeys(before.producer.get(value) for value in reader.inputs)
        for maker in makers if fits(reader) is None else ():
            if maker is not None and fits(maker) is None and before.block_of[maker] is before.block_of[reader]:
                found = fusion.obstacle(maker, reader)
                if found is not None:
                    yield maker, reader, found


def confirm(fusion: Fusion, a: Node, b: Node, found: Refusal) -> None:
    """Fail unless the reason is true and, without what it names, the two become one kernel."""
    before = fusion.history.graph(-2)
    ours, theirs = _side(fusion, a), _side(fusion, b)
    both = [*ours, *theirs]
    both += _makers_above(fusion, filter(fusion._plans.rules.is_view, both))
    assert found.because and found.evidence
    assert all(isinstance(record, Value) or record in before.position for record in found.evidence)
    if found.rule in PATHS:
        assert _leads_back(fusion, a, {*ours, *theirs}), f"there is no path as in: {found.because}"
        other = _apart(before, both, a, b)
        assert other is None or other.rule not in PATHS, f"{found.because}, and without that: {other}"
    elif found.rule in LIMITS:
        other = _apart(before, both, a, b)
        assert other is None, f"{found.because}, and without that: {other}"
    elif found.rule in ("other-partner", "declined"):
        other = _apart(before, [a, b], a, b)
        assert other is None, f"{found.because}, and without that: {other}"
    elif found.rule == "too-small":
        assert ours == theirs or set(ours) == set(theirs), found.because
        assert sum(not fusion._plans.rules.is_view(node) for node in ours) < 2, found.because
    elif found.rule == "view":  # it costs nothing where it stands, so nothing is lost
        assert fusion._plans.rules.is_view(a) or (theirs == [b] and fusion._plans.rules.is_view(b)), found.because
        assert "outside" not in found.because or _is_read_outside(before, {*ours, *theirs}, ours), found.because
    elif found.rule == "iteration-space" and "outside" in found.because:
        assert _is_read_outside(before, {*ours, *theirs}, ours), found.because
        other = _apart(before, both, a, b)
        assert other is None, f"{found.because}, and without that: {other}"
    else:
        raise AssertionError(f"nobody knows how to replay {found}")


def _apart(graph: Graph, nodes: Iterable[Node], a: Node, b: Node) -> Refusal | None:
    """What keeps two nodes apart in a program of a few nodes alone, of which only the second leaves."""
    alone = fuse(_excerpt(graph, nodes, b), max_arguments=10**6, max_nodes=10**6)
    found = alone.obstacle(a, b)
    at_the_edge = found is not None and found.rule in (
        "not-pointwise",
        "view",
    )  # a view without the node on its other side
    return None if at_the_edge else found


def _side(fusion: Fusion, node: Node) -> list[Node]:
    """The group of a node as the plan has it, or the node itself."""
    plan = fusion._plans.by_block[fusion.history.graph(-2).block_of[node]]
    return list(plan.members(plan.index[node]))


def _makers_above(fusion: Fusion, nodes: Iterable[Node]) -> list[Node]:
    """What some nodes read, through views up to the nodes that compute it."""
    producer, is_view = fusion.history.graph(-2).producer, fusion._plans.rules.is_view
    found: list[Node] = []
    todo = list(nodes)
    for node in todo:  # grows
        makers = [producer[value] for value in node.inputs if value in producer]
        found += makers
        todo += filter(is_view, makers)
    return found


def _excerpt(graph: Graph, nodes: Iterable[Node], last: Node) -> Graph:
    """A program of some nodes between products of matrices, which nothing fuses with and which share no memory; numbers
    are made as they were."""
    wanted = dict.fromkeys(nodes)
    todo = list(wanted)
    for node in todo:  # grows
        for value in node.inputs:
            maker = graph.producer.get(value)
            if (
                maker is not None
                and maker not in wanted
                and not isinstance(value.type, TensorType)
                and not maker.blocks
            ):
                wanted[maker] = None
                todo.append(maker)
    body = sorted(wanted, key=graph.position.__getitem__)
    made = {value for node in body for value in node.outputs}
    inputs = dict.fromkeys(value for node in body for value in node.inputs if value not in made)
    params, before = [], []
    for value in inputs:
        given = Value(new_id(), value.type) if isinstance(value.type, TensorType) else value
        params.append(given)
        if given is not value:
            before.append(Node(new_id(), "aten::matmul", (given, given), (value,)))
    results = [Value(new_id(), TENSOR) for _ in last.outputs]
    after = [Node(new_id(), "aten::matmul", (v, v), (result,)) for v, result in zip(last.outputs, results, strict=True)]
    return Graph(Block(new_id(), tuple(params), (*before, *body, *after), tuple(results)))


def _leads_back(fusion: Fusion, a: Node, union: set[Node]) -> bool:
    """Whether something outside a set of nodes waits for one of them and is waited for by another; a group waits as a
    whole."""
    before = fusion.history.graph(-2)
    plan = fusion._plans.by_block[before.block_of[a]]
    fresh = dependences(before, plan.block)
    seen: set[Node] = set()
    pending = [after for node in union for after in fresh.successors[node] if after not in union]
    while pending:
        here = pending.pop()
        for node in plan.members(plan.index[here]) if here not in seen else ():
            seen.add(node)
            for after in fresh.successors[node]:
                if after in union:
                    return True
                pending.append(after)
    return False


def _is_read_outside(graph: Graph, union: set[Node], makers: list[Node]) -> bool:
    return any(use.user not in union for node in makers for value in node.outputs for use in graph.users.get(value, ()))
