"""`AliasDb.follow` for one edit on a large graph: what a step costs, beside building the db of the next graph from scratch.

    python tests/benchmarks/bench_follow.py                  # 10^5 nodes, 300 steps of each kind
    python tests/benchmarks/bench_follow.py --nodes 1000000
    python tests/benchmarks/bench_follow.py --fusion         # the records of fusing YOLOv3, beside building from scratch

The program is pointwise nodes, a view after three of them, and a write through it. Each step is followed from the db of
the step before; the graphs that the steps lead to are made beforehand, twenty at a time (making one empties the
processor's caches), and their indexes are not touched. `step` is the median over all steps, `worst` the slowest one, in
microseconds; `build` is one build of the last graph, in milliseconds. `first question` is asked of the last db:
`may_alias` of two values.
"""

import gc
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.analysis.alias.alias_db import AliasDb
from irscope.ir.core import Block, Graph, Node, Value, new_id
from irscope.ir.rewriter import Created, Edit, Erased, Merged, Replaced
from irscope.ir.text.parser import parse
from irscope.ir.types import TENSOR
from tests.benchmarks.families import rounds
from tests.benchmarks.harness import command, head, median_ms, row


@dataclass
class Step:
    before: Graph
    after: Graph
    edits: tuple[Edit, ...]


PROGRAM = """\
  %a{i} : Tensor = aten::mul(%{last}, %y)
  %p{i} : Tensor = aten::relu(%a{i})
  %q{i} : Tensor = aten::mul(%p{i}, %y)
  %b{i} : Tensor = aten::t(%q{i})
  %c{i} : Tensor = aten::add_(%b{i}, %y, %one)"""


def group(first: Node, second: Node) -> Node:
    """What fusion makes of two pointwise nodes, the second the only user of the first."""
    params = {v: Value(new_id(), TENSOR, v.name) for v in (*first.inputs, *second.inputs) if v is not first.output}
    inside = {**params, first.output: Value(new_id(), TENSOR), second.output: Value(new_id(), TENSOR)}
    body = tuple(replace(n, inputs=tuple(inside[v] for v in n.inputs), outputs=(inside[n.output],)) for n in (first, second))
    block = Block(new_id(), tuple(params.values()), body, (inside[second.output],))
    return Node(new_id(), "prim::FusionGroup", tuple(params), second.outputs, blocks=(block,))


def steps(graph: Graph, kind: str, count: int) -> Iterator[Step]:
    """Edits at places spread over the graph, the last place first."""
    whole = len(graph.body.nodes) // 5
    for index in range(whole - 1, 0, -max(1, whole // count)):
        place = 1 + 5 * index
        nodes = list(graph.body.nodes)
        first, second, third, view, write = nodes[place : place + 5]
        edits: tuple[Edit, ...]
        if kind == "merge":
            merged = group(first, second)
            nodes[place : place + 2] = [merged]
            edits = (Merged((first, second), merged, "neighbours"),)
        elif kind == "replace":
            copy = Node(new_id(), "aten::relu", second.inputs, (Value(new_id(), TENSOR),))
            nodes[place + 1] = copy
            nodes[place + 2] = replace(third, inputs=(copy.output, *third.inputs[1:]))
            edits = (Created(copy, "again"), Replaced(second.output, copy.output, "again"), Erased(second, "again"))
        elif kind == "insert a view":
            node = Node(new_id(), "aten::t", view.outputs, (Value(new_id(), TENSOR),))
            nodes.insert(place + 4, node)
            edits = (Created(node, "new"),)
        else:
            nodes.pop(place + 4)
            edits = (Erased(write, "nobody looks"),)
        after = Graph(replace(graph.body, nodes=tuple(nodes)), graph.name)
        yield Step(graph, after, edits)
        graph = after


def measure(nodes: int, kind: str, count: int) -> tuple[float, float, float, float]:
    text = rounds("%x : Tensor, %y : Tensor", PROGRAM, nodes=5, carries="q", constants="  %one : int = prim::Constant[value=1]()")
    db = AliasDb(parse("\n".join(text(nodes))))
    times = []
    coming = steps(db.graph, kind, count)
    while batch := list(islice(coming, 20)):
        for step in batch:
            started = time.perf_counter_ns()
            following = db.follow(step)
            times.append((time.perf_counter_ns() - started) / 1e3)
            assert following is not db and not following.was_rebuilt, following.was_rebuilt
            db = following
    a, b = [node.output for node in db.graph.body.nodes if node.op == "aten::t"][-2:]
    started = time.perf_counter_ns()
    db.may_alias(a, b)
    question = (time.perf_counter_ns() - started) / 1e3
    started = time.perf_counter_ns()
    AliasDb(db.graph)
    return statistics.median(times), max(times), question, (time.perf_counter_ns() - started) / 1e6


def fusion_records() -> None:
    """Every record of fusing YOLOv3: medians of processor time, following against building the db of the next graph."""
    import irscope as irs
    from tests.benchmarks.models import scripted_yolov3

    model, images = scripted_yolov3()
    fusion = irs.fuse(irs.load(model, *images))
    head("pass", "edits", "follow ms", "build ms")
    for record in fusion.history.records:
        db = AliasDb(record.before)
        following = median_ms(lambda _, db=db, record=record: db.follow(record), lambda: None, 60)
        building = median_ms(lambda _, record=record: AliasDb(record.after), lambda: None, 60)
        row(record.name, len(record.edits), following, f"{building:.2f}{' (rebuilt)' if db.follow(record).was_rebuilt else ''}")


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fusion", action="store_true")
    options = parser.parse_args()
    if options.fusion:
        fusion_records()
        return
    print(f"{options.nodes} nodes")
    head("edit", "step µs", "worst µs", "first question µs", "build ms")
    gc.disable()
    for kind in ("merge", "replace", "insert a view", "erase a write"):
        row(kind, *measure(options.nodes, kind, options.steps))


if __name__ == "__main__":
    main()
