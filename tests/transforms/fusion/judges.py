"""What fusion is judged by: an alias db built again after each merge, reasons replayed, and what PyTorch's legacy fuser groups."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.analysis.dependence import dependences, dependences_by
from irscope.analysis.shapes import infer, refined
from irscope.ir import TENSOR, Block, Edit, Erased, Graph, Merged, Node, TensorType, Value, new_id
from irscope.runtime.reference import run_reference
from irscope.transforms.base import History, PassRecord
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.grouping import MAKES_NUMBERS, Refusal
from tests.analysis.ties import successors
from tests.random_programs.graphs import Program


def leaves(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield np.asarray(value)


def assert_same(ours: Any, theirs: Any, **tolerance: float) -> None:
    for x, y in zip(leaves(ours), leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, **{"rtol": 0.0, "atol": 0.0, **tolerance})


def assert_same_runs(before: Graph, after: Graph, program: Program, **tolerance: float) -> None:
    """In the reference both graphs give the same results, and write their arguments alike."""
    given, other = program.fresh(), program.fresh()
    assert_same(run_reference(after, *other), run_reference(before, *given), **tolerance)
    assert_same(other, given, **tolerance)


def as_torch(arguments: Any) -> Any:
    """Tensors over the same memory."""
    import torch

    return [
        as_torch(value) if isinstance(value, list) else torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for value in arguments
    ]


def run_by_torch(text: str, arguments: Any) -> Any:
    import torch

    function = torch._C._create_function_from_graph("f", torch._C.parse_ir(text))
    optimised = torch._C._get_graph_executor_optimize()
    torch._C._get_graph_executor_optimize(False)
    try:
        with torch.no_grad():
            return function(*arguments)
    finally:
        torch._C._get_graph_executor_optimize(optimised)


def eager(program: Program) -> tuple[Any, Any]:
    """What torch makes of a program, and its arguments afterwards."""
    given = as_torch(program.fresh())
    return run_by_torch(program.text, given), given


def assert_as_eager(program: Program, graphs: Iterable[Graph], runs: Iterable[Callable[..., Any]]) -> None:
    """Graphs in the reference, and compiled programs, do to results and arguments what torch does op by op."""
    import torch

    wanted = eager(program)
    for graph in graphs:
        given = program.fresh()
        found = run_reference(graph, *given)
        assert_same((found if len(found) != 1 else found[0], given), wanted, rtol=1e-4, atol=1e-5)
    for run in runs:
        given = as_torch(program.fresh())
        with torch.no_grad():
            assert_same((run(*given), given), wanted, rtol=1e-4, atol=1e-5)


def assert_no_dependence_is_reversed(before: Graph, after: Graph) -> None:
    """Nodes come after what they depend on, but for the numbers of which groups have their own."""
    place, db = {node.id: index for index, node in enumerate(after.nodes())}, AliasDb(before)
    for block in before.blocks():
        for later, ties in dependences_by(db, block).predecessors.items():
            for tie in ties:
                if tie.node.op not in MAKES_NUMBERS:
                    assert place[tie.node.id] < place[later.id], tie.because


_FEW: Final = 64
"""Values of which every pair is compared."""


def check_following(history: History, db: AliasDb | None = None) -> None:
    """Follow the merges of the last pass one by one, and compare the answers with a db built again after each.

    `db` is the one of the graph before the pass.
    """
    db = AliasDb(history.records[-1].before) if db is None else db
    steps = len(history.steps)
    merges = sum(isinstance(edit, Merged) for edit in history.records[-1].edits)
    for step in range(steps - merges, steps):
        record = _one_merge(history, step)
        db = db.follow(record)
        difference = next(differences(db, AliasDb(record.after)), None)
        assert difference is None, f"after step {step + 1} the followed alias db and a new one disagree: {difference}"


def _one_merge(history: History, step: int) -> PassRecord:
    """The record of one merge: what went into the group that is new, and the constants that it has copied."""
    before, after = history.graph_after(step), history.graph_after(step + 1)
    kept = set(after.nodes())
    ids = {node.id for node in kept}
    known = set(before.nodes())
    (group,) = [node for node in kept - known if node.op == "prim::FusionGroup"]
    inside = {node.id for node in group.blocks[0].nodes}
    edits: list[Edit] = []
    for block in before.blocks():
        owner = before.owner.get(block)
        if owner is not None and owner.op == "prim::FusionGroup":
            continue
        if block.id == after.block_of[group].id:
            grown = [n for n in block.nodes if n.id in inside or (n.op == "prim::FusionGroup" and n not in kept)]
            edits.append(Merged(tuple(grown), group, "merged"))
        edits += [Erased(node, "copied") for node in block.nodes if node.op in MAKES_NUMBERS and node.id not in ids]
    return PassRecord("merge", before, after, tuple(edits))


def differences(followed: AliasDb, built: AliasDb) -> Iterator[str]:
    """What two dbs of one graph answer differently."""
    graph = built.graph
    values = [value for value in graph.values() if isinstance(value.type, TensorType)]
    for value in values:
        if followed.is_written(value) != built.is_written(value):
            yield f"whether %{graph.names[value]} is written"
        if followed.writers(value) != built.writers(value):
            yield f"who writes %{graph.names[value]}"
    some: list[Value] = values[:: max(1, len(values) // _FEW)]
    for a in some:
        for b in some:
            if bool(followed.may_alias(a, b)) != bool(built.may_alias(a, b)):
                yield f"whether %{graph.names[a]} may alias %{graph.names[b]}"


PATHS = {"cycle", "blocked-by-write", "side-effect-between", "random-order"}
LIMITS = {"argument-limit", "size-limit"}


def typed(graph: Graph) -> Graph:
    """The graph with all that is known of its types written down, so that its parts know it too."""
    return refined(graph, infer(graph))[0]


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
    at_the_edge = found is not None and found.rule in ("not-pointwise", "view")  # a view without the node on its other side
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
            if maker is not None and maker not in wanted and not isinstance(value.type, TensorType) and not maker.blocks:
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
    fresh = successors(dependences(before, plan.block))
    seen: set[Node] = set()
    pending = [after for node in union for after in fresh[node] if after not in union]
    while pending:
        here = pending.pop()
        for node in plan.members(plan.index[here]) if here not in seen else ():
            seen.add(node)
            for after in fresh[node]:
                if after in union:
                    return True
                pending.append(after)
    return False


def _is_read_outside(graph: Graph, union: set[Node], makers: list[Node]) -> bool:
    return any(use.user not in union for node in makers for value in node.outputs for use in graph.users.get(value, ()))


TORCH_PLAN_TENSOR = "Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu)"

Groups = list[list[int]]


def program(seed: int, size: int) -> str:
    """Sums with a factor of their own each, and products of matrices, which do not fuse."""
    choices = random.Random(seed)
    values = ["x", "y"]
    lines = [f"graph(%x : {TORCH_PLAN_TENSOR}, %y : {TORCH_PLAN_TENSOR}):"]
    for i in range(size):
        a, b = choices.choice(values[-8:]), choices.choice(values[-8:])
        if choices.random() < 0.25:
            lines.append(f"  %v{i} : {TORCH_PLAN_TENSOR} = aten::matmul(%{a}, %{b})")
        else:
            lines.append(f"  %k{i} : int = prim::Constant[value={i + 100}]()")
            lines.append(f"  %v{i} : {TORCH_PLAN_TENSOR} = aten::{choices.choice(['add', 'sub'])}(%{a}, %{b}, %k{i})")
        values.append(f"v{i}")
    kept = choices.sample(values[2:], min(size, 2))
    return "\n".join([*lines, f"  return ({', '.join(f'%{value}' for value in kept)})"])


def torch_groups(text: str) -> Groups:
    import torch

    before = torch._C._jit_can_fuse_on_cpu_legacy()
    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    try:
        graph = torch._C.parse_ir(text)
        torch._C._jit_pass_dce(graph)
        torch._C._jit_pass_fuse(graph, False)
    finally:
        torch._C._jit_override_can_fuse_on_cpu_legacy(before)
    bodies = [node.g("Subgraph") for node in graph.nodes() if node.kind() == "prim::FusionGroup"]
    return sorted(sorted(node.output().toIValue() for node in body.nodes() if node.kind() == "prim::Constant") for body in bodies)


def our_groups(text: str) -> Groups:
    """The same of ours."""
    fusion = fuse(irs.parse(text), policy="torch-legacy")
    return sorted(sorted(node.attrs["value"] for node in group.blocks[0].nodes if node.op == "prim::Constant") for group in fusion.groups)
