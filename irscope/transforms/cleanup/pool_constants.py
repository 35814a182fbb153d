"""Keeps one of all equal constants, at a place that dominates all its users.

Equal constants have one type and the same payload to the bit. The first one in the text stays; if it is inside an if or
a loop, it moves up to directly before the outermost of them, from where it is visible to all later nodes. Bodies of
groups see nothing from outside, so each is pooled separately. A constant tensor or list is memory: two become one only
if neither is written and no caller gets either of them (`irscope.transforms.cleanup.replaceability`). Linear.
"""

from __future__ import annotations

from time import perf_counter

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import ISOLATED, Block, Graph, Node, Rewriter, steps
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup.replaceability import EscapeInfo, payload_key

__all__ = ["pool_constants"]


def pool_constants(graph: Graph) -> PassRecord:
    """Keep one of all equal constants, and move it up as far as its users need.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor, %c : bool):
    ...   %y : Tensor = prim::If(%c)
    ...     block0():
    ...       %one : int = prim::Constant[value=1]()
    ...       %a : Tensor = aten::add(%x, %one, %one)
    ...       -> (%a)
    ...     block1():
    ...       %eins : int = prim::Constant[value=1]()
    ...       %b : Tensor = aten::sub(%x, %eins, %eins)
    ...       -> (%b)
    ...   return (%y)''')
    >>> print(pool_constants(g).after)
    graph(%x : Tensor,
          %c : bool):
      %one : int = prim::Constant[value=1]()
      %y : Tensor = prim::If(%c)
        block0():
          %a : Tensor = aten::add(%x, %one, %one)
          -> (%a)
        block1():
          %b : Tensor = aten::sub(%x, %one, %one)
          -> (%b)
      return (%y)
    """
    started = perf_counter()
    pool = _Pool(graph)
    for node, home, anchor in _constants(graph):
        pool.add(node, home, anchor)
    after = pool.rewriter.finish()
    return PassRecord(
        "pool-constants", graph, after, pool.rewriter.edits, tuple(pool.remarks), perf_counter() - started
    )


def _constants(graph: Graph) -> list[tuple[Node, Block, Node]]:
    """Each constant in textual order, the block whose constants are pooled with it, and the node there that holds it."""
    found: list[tuple[Node, Block, Node]] = []
    homes: list[Block] = []
    holders: list[Node | None] = []
    for step in steps(graph):
        node = step.node
        if step.kind == "enter":
            opens = node is None or node.op in ISOLATED
            homes.append(step.block if opens else homes[-1])
            holders.append(None if opens else holders[-1] or node)
        elif step.kind == "leave":
            homes.pop()
            holders.pop()
        elif step.kind == "node" and node is not None and node.op == "prim::Constant":
            found.append((node, homes[-1], holders[-1] or node))
    return found


class _Pool:
    """The constants found so far, by the block where they are visible."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._onlookers: EscapeInfo | None = None
        self._kept: dict[tuple[Block, object], Node] = {}

    def add(self, node: Node, home: Block, anchor: Node) -> None:
        """Pool one constant, which `anchor`, a node of `home`, is or contains."""
        key = (home, payload_key(node.attrs.get("value"), node.output.type))
        kept = self._kept.setdefault(key, node)
        if kept is node:
            if anchor is not node:
                why = "all its users can see it there"
                self.rewriter.move_before(node, anchor, reason=why)
            return
        value, other = node.output, kept.output
        name = f"%{self.graph.names[other]}"
        obstacle = self._obstacle(node, kept)
        if obstacle:
            cause = "one of them is written" if obstacle == "written" else "a caller may get hold of one of them"
            because = f"{name} is the same constant, but {cause}"
            self.remarks.append(Remark("missed", f"{obstacle}-memory", value, because, (other,)))
            return
        if self._onlookers is not None:
            self._onlookers.become_one(value, other)
        self.rewriter.replace(value, other, reason=f"{name} is the same constant")
        self.rewriter.erase(node, reason=f"{name} is the same constant")
        self.remarks.append(Remark("passed", "same-constant", value, f"{name} is the same constant", (other,)))

    def _obstacle(self, node: Node, kept: Node) -> str:
        if isinstance(node.attrs.get("value"), int | float | complex | str | None):
            return ""
        if self._onlookers is None:
            self._onlookers = EscapeInfo(alias_db_of(self.graph))
        return self._onlookers.obstacle(node.output, kept.output, lasting=True)
