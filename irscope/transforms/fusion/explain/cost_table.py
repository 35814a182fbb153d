"""Costs of fusion groups as a table: memory traffic of the ops and of the kernel, arithmetic, and time at a memory bandwidth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from irscope.errors import ArgumentError, loading
from irscope.ir import CONTROL_FLOW, GROUPS, Block, Graph, Node, TensorType
from irscope.ops.registry import category_of, effect_of
from irscope.ops.view_steps import Num, formula, is_unknown, tensor_bytes
from irscope.transforms.fusion.legality import Eligibility, format_space
from irscope.transforms.fusion.policy import BlockPlan

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_BANDWIDTH", "Cost", "bytes_per_second", "group_table", "group_traffic", "program_cost"]

DEFAULT_BANDWIDTH: Final = "20 GB/s"
"""About the memory bandwidth that two cores of a server reach."""

_UNITS: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def bytes_per_second(bandwidth: str | float) -> float:
    """Returns a memory bandwidth in bytes per second.
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
    """Returns one row per group of the fused graph; `members` maps it to its nodes in the graph before."""
    with loading("pandas"):
        from irscope._base.tables import Table

    speed = bytes_per_second(bandwidth)
    bandwidth_text = bandwidth if isinstance(bandwidth, str) else f"{speed / 1e9:g} GB/s"
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
            "space": space, "bytes before": _cell(before), "bytes after": _cell(after),
            "bytes saved": _cell(before) if is_unknown(before) else _cell(before - after),
            "flops": _cell(sum(_flops(rules, node) for node in nodes)),
            f"µs at {bandwidth_text}": round(_microseconds(after, speed), 3),
        })  # fmt: skip
    columns = ["group", "result", "nodes", "ops", "kind", "space", "bytes before", "bytes after", "bytes saved"]
    return Table(rows, columns=[*columns, "flops", f"µs at {bandwidth_text}"]).set_index("group")


def group_traffic(group: Node, nodes: Sequence[Node], rules: Eligibility) -> tuple[Num, Num]:
    """Returns the bytes moved before and after; a group of views moves none, even if kernels cannot see through some of them."""
    moving = [] if group.attrs["kind"] == "view" else [node for node in nodes if not rules.is_view(node)]
    return sum(_bytes(rules, node) for node in moving), _bytes(rules, group) if moving else 0


class Cost(NamedTuple):
    """The cost of one run of a fused program."""

    kernels: int
    """The number of groups that run as a kernel."""
    calls: int
    """The number of ops that the library runs, without views, containers, scalars and control flow."""
    bytes: Num
    """The bytes that both move, a formula of the extents that are unknown."""

    def microseconds(self, bandwidth: str | float = DEFAULT_BANDWIDTH) -> float:
        """The time to move the bytes at a memory bandwidth, which is the time of a memory-bound run; NaN where they are a formula."""
        return _microseconds(self.bytes, bytes_per_second(bandwidth))


_PASSES_ON: Final = ("container", "scalar", "control")


def program_cost(graph: Graph, rules: Eligibility) -> Cost:
    """Returns the cost of a fused graph; the nodes in the block of an if or a loop count once."""
    kernels = calls = 0
    moved: Num = 0
    inside: set[Block] = set()
    for node in graph.nodes():
        if graph.block_of[node] in inside:
            continue
        if node.op in GROUPS:
            inside.update(node.blocks)
            if node.attrs.get("kind") == "view":
                continue
            kernels += 1
        elif node.op.startswith("prim::") or node.op in CONTROL_FLOW or category_of(node) in _PASSES_ON or effect_of(node) == "view":
            continue
        else:
            calls += 1
        moved += _bytes(rules, node)
    return Cost(kernels, calls, moved)


def _ops(nodes: Sequence[Node]) -> str:
    return ", ".join(node.op.partition("::")[2] for node in nodes[:8]) + (", …" if len(nodes) > 8 else "")


def _bytes(rules: Eligibility, node: Node) -> Num:
    """The bytes that a node moves if it runs alone."""
    return sum(map(rules.size_in_bytes, (*dict.fromkeys(node.inputs), *node.outputs)))


def _flops(rules: Eligibility, node: Node) -> Num:
    """The operations of the op's expression over all points of its space."""
    space = rules.space(node)
    return tensor_bytes(TensorType("uint8", space)) * rules.operations(node)


def _cell(number: Num) -> int | str:
    return number if isinstance(number, int) else "unknown" if is_unknown(number) else formula(number)


def _microseconds(moved: Num, speed: float) -> float:
    return moved / speed * 1e6 if isinstance(moved, int) else float("nan")
