"""Common subexpression elimination: computes a value once where the program computes it twice.

Two nodes compute the same if op, operands (up to values found equal), attributes and result types are equal, if the memory
that they read did not change between them, and if neither has an effect. Then the later one is removed where the earlier one
is visible: in the same block or one around it. A block's entries leave the table of known nodes at its end.

* **Memory.** Reads and writes are those of the alias db, including those inside blocks. Each region of memory has a count of
  the writes so far, for data and for shapes, and the counts are part of the key. A loop's writes are also counted as it is
  entered: its body's writes come before the next iteration's reads.
* **Effects.** A node that writes, prints, calls or draws random numbers is never merged.
* **Aliasing.** Two results in new memory may become one only if the difference is not observable: neither is written, and a
  caller does not get both, or either of two constants (`irscope.transforms.cleanup.replaceability`). Views of one memory share
  it already; they stay two where a caller gets both tensors, and could change one of them by `t_`.

One walk with hash tables; linear. No node moves, so no value is computed earlier than before.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import Final

from irscope.analysis.alias.query import AliasDb
from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.shapes import CallerVisible, reshaped_objects
from irscope.ir import CONTROL_FLOW, ISOLATED, Block, Graph, Node, Rewriter, Step, TensorType, steps
from irscope.ops.traits import NARROWS, READS_SHAPE, UNPACKS
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup.replaceability import EscapeInfo, attribute_key

__all__ = ["eliminate_common_subexpressions"]

_SAME_THING: Final = NARROWS | UNPACKS | {
    "prim::GetAttr", "prim::TupleConstruct", "prim::TupleIndex", "prim::TupleSlice", "aten::__getitem__",
}  # fmt: skip
"""Ops that return an existing value, or a tuple, which cannot be distinguished from another of the same elements."""

_Key = tuple[object, ...]


def eliminate_common_subexpressions(graph: Graph) -> PassRecord:
    """Remove nodes that recompute the result of an earlier node; linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::neg(%x)
    ...   %b : Tensor = aten::neg(%x)
    ...   %c : Tensor = aten::mul(%a, %b)
    ...   return (%c)''')
    >>> print(eliminate_common_subexpressions(g).after)
    graph(%x : Tensor):
      %a : Tensor = aten::neg(%x)
      %c : Tensor = aten::mul(%a, %a)
      return (%c)
    """
    started = perf_counter()
    walk = _Walk(graph, alias_db_of(graph))
    for step in steps(graph):
        walk.visit(step)
    after = walk.rewriter.finish()
    edits = walk.rewriter.edits
    return PassRecord("cse", graph, after, edits, tuple(walk.remarks), perf_counter() - started)


class _Walk:
    """The state of one walk: the visible nodes computed so far, and how often each region of memory was written."""

    def __init__(self, graph: Graph, db: AliasDb) -> None:
        self.graph = graph
        self.db = db
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._onlookers = EscapeInfo(db)
        self._reshaped = reshaped_objects(graph)
        self._held = CallerVisible(graph)
        self._known: dict[_Key, Node] = {}
        self._before_writes: dict[_Key, Node] = {}
        """The same, keyed without the counts of writes: nodes that would be equal but for a write."""
        self._added: list[list[tuple[dict[_Key, Node], _Key, Node | None]]] = []
        self._hidden: list[tuple[Block, dict[_Key, Node], dict[_Key, Node]]] = []
        """Tables that a group's block does not see."""
        self._writes: Counter[tuple[int, bool]] = Counter()
        self._writer: dict[tuple[int, bool], Node] = {}

    def visit(self, step: Step) -> None:
        """Process one step of the walk."""
        if step.kind == "enter":
            self._added.append([])
            if step.node is not None and step.node.op in ISOLATED:
                self._hidden.append((step.block, self._known, self._before_writes))
                self._known, self._before_writes = {}, {}
            elif step.node is not None and step.node.op == "prim::Loop":
                self._note_writes(step.node)
        elif step.kind == "leave":
            for table, key, before in reversed(self._added.pop()):
                if before is None:
                    del table[key]
                else:
                    table[key] = before
            if self._hidden and self._hidden[-1][0] is step.block:
                _, self._known, self._before_writes = self._hidden.pop()
        elif step.kind == "node" and step.node is not None and not step.node.blocks:
            self._node(step.node)
        elif step.kind == "done" and step.node is not None and step.node.op not in CONTROL_FLOW:
            self._note_writes(step.node)

    def _note_writes(self, node: Node) -> None:
        for access in self.db.accesses(node).writes:
            place = self.db.region(access.place)
            for shape in (False, True) if access.shape else (False,):
                self._writes[place, shape] += 1
                self._writer[place, shape] = access.node

    def _node(self, node: Node) -> None:
        accesses = self.db.accesses(node)
        self._note_writes(node)
        if accesses.writes or accesses.side_effect or accesses.random or not node.outputs:
            return
        resolve = self.rewriter.resolve
        plain: _Key = (node.op, tuple(map(resolve, node.inputs)), attribute_key(node), *(v.type for v in node.outputs))
        places = sorted({(self.db.region(access.place), access.shape) for access in accesses.reads})
        key = (plain, tuple((place, self._writes[place]) for place in (*places, *_EVERYTHING_AT)))
        known = self._known.get(key)
        if known is not None:
            self._merge(node, known)
            return
        earlier = self._before_writes.get(plain)
        if earlier is not None:
            self._report_write(node, earlier, places)
        self._set(self._known, key, node)
        self._set(self._before_writes, plain, node)

    def _set(self, table: dict[_Key, Node], key: _Key, node: Node) -> None:
        self._added[-1].append((table, key, table.get(key)))
        table[key] = node

    def _merge(self, node: Node, known: Node) -> None:
        """Replace this node by the known one, unless the difference is observable."""
        names = self.graph.names
        if len(node.outputs) == 1 and self._held.identity_is_observable(node, known.output):
            because = f"it shows what %{names[known.output]} does, but a caller may get hold of both tensors"
            self.remarks.append(Remark("missed", "seen-apart", node.output, because, (known.output,)))
            return
        for value, other in zip(node.outputs, known.outputs, strict=True):
            lasting = node.op == "prim::Constant"
            obstacle = "" if self._is_same_memory(node) else self._onlookers.obstacle(value, other, lasting=lasting)
            if obstacle:
                both = f"%{names[value]} and %{names[other]} are equal, and would become one memory"
                cause = "is written" if obstacle == "written" else f"a caller may get hold of {'one of them' if lasting else 'both'}"
                because = f"{both}, but {'one of them ' if obstacle == 'written' else ''}{cause}"
                self.remarks.append(Remark("missed", f"{obstacle}-memory", value, because, (value, other)))
                return
        for value, other in zip(node.outputs, known.outputs, strict=True):
            self._onlookers.become_one(value, other)
            self._held.become_one(value, other)
            self.rewriter.replace(value, other, reason=f"%{names[other]} is the same")
            self.remarks.append(Remark("passed", "same-value", value, f"%{names[other]} is the same", (other,)))
        self.rewriter.erase(node, reason="an earlier node computes the same")

    def _is_same_memory(self, node: Node) -> bool:
        """Whether two such nodes return the same memory anyway, or numbers."""
        views = all(isinstance(value.type, TensorType) and value not in self._reshaped for value in node.outputs)
        return node.op in _SAME_THING or (node.op in READS_SHAPE and views)

    def _report_write(self, node: Node, earlier: Node, places: list[tuple[int, bool]]) -> None:
        """Report a node that is equal but for a write in between, if a region that it reads has been written."""
        writer = next((self._writer[place] for place in places if place in self._writer), None)
        if writer is None or not isinstance(node.outputs[0].type, TensorType):
            return
        names = self.graph.names
        because = f"it repeats %{names[earlier.outputs[0]]}, but {self.db.node_words(writer)} writes memory that it reads"
        self.remarks.append(Remark("missed", "written-between", node.outputs[0], because, (earlier, writer)))


_EVERYTHING_AT: Final = ((-1, False), (-1, True))
"""The counts of writes to all memory."""
