"""What each group costs, as a table: the memory that its ops and its kernel move, its arithmetic, its time on a bandwidth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from irscope.errors import ArgumentError, loading
from irscope.ir import Block, Graph, Node
from irscope.transforms.fusion.legality import Eligibility, format_space
from irscope.transforms.fusion.policy import BlockPlan

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_BANDWIDTH", "bytes_per_second", "group_table", "group_traffic"]

DEFAULT_BANDWIDTH: Final = "20 GB/s"
"""About what two cores of a server get out of its memory."""

_UNITS: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def bytes_per_second(bandwidth: str | float) -> float:
    """A memory bandwidth as a number.

    >>> bytes_per_second("20 GB/s"), bytes_per_second("3.35 TB/s"), bytes_per_second(5e9)
    (20000000000.0, 3350000000000.0, 5000000000.0)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?B)/s\s*", bandwidth) if isinstance(bandwidth, str) else None
    try:
        speed = float(found[1]) * _UNITS[found[2]] if found else float(bandwidth)
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed < float("inf"):
        hint = "a text such as '20 GB/s', or bytes per second as a number"
        raise ArgumentError(f"{bandwidth!r} is not a bandwidth", hint=hint)
    return speed


def group_table(
    graph: Graph, members: Mapping[Node, Sequence[Node]], plans: Mapping[Block, BlockPlan], rules: Eligibility,
    bandwidth: str | float,
) -> pd.DataFrame:  # fmt: skip
    """One row per group of the fused graph; `members` are its nodes in the graph before."""
    with loading("pandas"):
        import pandas as pd

    speed = bytes_per_second(bandwidth)
    told = bandwidth if isinstance(bandwidth, str) else f"{speed / 1e9:g} GB/s"
    rows = []
    for index, (group, nodes) in enumerate(members.items()):
        plan = plans[rules.graph.block_of[nodes[-1]]]
        space = str(plan.group(plan.index[nodes[-1]]).domain)
        if group.attrs["kind"] == "view":
            space = format_space(rules.space(nodes[-1]))
        before, after = group_traffic(group, nodes, rules)
        rows.append({
            "group": index, "result": ", ".join(f"%{graph.names[value]}" for value in group.outputs),
            "nodes": len(nodes), "ops": _ops(nodes), "kind": group.attrs["kind"],
            "space": space, "bytes before": before, "bytes after": after,
            "bytes saved": before - after, "flops": sum(_flops(rules, node) for node in nodes),
            f"µs at {told}": round(after / speed * 1e6, 3),
        })  # fmt: skip
    columns = ["group", "result", "nodes", "ops", "kind", "space", "bytes before", "bytes after", "bytes saved"]
    return pd.DataFrame(rows, columns=[*columns, "flops", f"µs at {told}"]).set_index("group")


def group_traffic(group: Node, nodes: Sequence[Node], rules: Eligibility) -> tuple[int, int]:
    """Bytes before and after; a group of views moves none, though kernels do not see through some of them."""
    moving = [] if group.attrs["kind"] == "view" else [node for node in nodes if not rules.is_view(node)]
    return sum(_bytes(rules, node) for node in moving), _bytes(rules, group) if moving else 0


def _ops(nodes: Sequence[Node]) -> str:
    return ", ".join(node.op.partition("::")[2] for node in nodes[:8]) + (", …" if len(nodes) > 8 else "")


def _bytes(rules: Eligibility, node: Node) -> int:
    """What a node moves that runs alone."""
    return sum(map(rules.size_in_bytes, (*dict.fromkeys(node.inputs), *node.outputs)))


def _flops(rules: Eligibility, node: Node) -> int:
    """The operations of the op's expression, one for each point; 0 where the points are not known."""
    points = 1
    for extent in rules.space(node) or (0,):
        points *= extent if isinstance(extent, int) else 0
    return points * rules.operations(node)
