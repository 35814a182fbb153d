"""Computing a value once where the program computes it twice.

Two nodes compute the same if op, operands (up to what was found equal), attributes and result types are equal, if the
memory that they read is as it was, and if neither does anything else. Then the later one goes, where the earlier one is
visible: in the same block or one around it. The table of what has been computed forgets a block's entries at its end.

* **Memory.** Reads and writes are those of the alias db, with blocks counted in. Each region of memory has a count of the
  writes so far, for data and for shapes, and the counts are part of what must be equal. A loop's writes are counted as it
  is entered, too: what its body writes is written before the next round reads.
* **Effects.** A node that writes, prints, calls or draws random numbers is never computed once for twice.
* **Aliasing.** Of results that are new memory one may stand for two only if nobody can tell: nothing writes either, and
  a caller does not get both (`irscope.transforms.cleanup.replaceability`). Views of one memory are one memory already; they stay
  two where a
  caller gets both tensors, and could change one of them by `t_`.

One walk with hash tables; linear. What is computed once is not computed earlier than before: nothing moves.
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
"""Ops that give what is there already, or a tuple, which cannot be told from another of the same things."""

_Key = tuple[object, ...]


def eliminate_common_subexpressions(graph: Graph) -> PassRecord:
    """Remove nodes that compute what a node before them has computed; linear.

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
    """The state of one walk: what has been computed and is visible, and how often each memory was written."""

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
        """The same without the counts of writes: what would be equal but for them."""
        self._added: list[list[tuple[dict[_Key, Node], _Key, Node | None]]] = []
        self._hidden: list[tuple[Block, dict[_Key, Node], dict[_Key, Node]]] = []
        """Tables that a group's block does not see."""
        self._writes: Counter[tuple[int, bool]] = Counter()
        self._writer: dict[tuple[int, bool], Node] = {}

    def visit(self, step: Step) -> None:
        """One moment of the walk."""
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
            self._meet(node, known)
            return
        earlier = self._before_writes.get(plain)
        if earlier is not None:
            self._tell_write(node, earlier, places)
        self._set(self._known, key, node)
        self._set(self._before_writes, plain, node)

    def _set(self, table: dict[_Key, Node], key: _Key, node: Node) -> None:
        self._added[-1].append((table, key, table.get(key)))
        table[key] = node

    def _meet(self, node: Node, known: Node) -> None:
        """Let the known node stand for this one, unless somebody could tell."""
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
                told = "is written" if obstacle == "written" else f"a caller may get hold of {'one of them' if lasting else 'both'}"
                because = f"{both}, but {'one of them ' if obstacle == 'written' else ''}{told}"
                self.remarks.append(Remark("missed", f"{obstacle}-memory", value, because, (value, other)))
                return
        for value, other in zip(node.outputs, known.outputs, strict=True):
            self._onlookers.become_one(value, other)
            self._held.become_one(value, other)
            self.rewriter.replace(value, other, reason=f"%{names[other]} is the same")
            self.remarks.append(Remark("passed", "same-value", value, f"%{names[other]} is the same", (other,)))
        self.rewriter.erase(node, reason="it computes what is known")

    def _is_same_memory(self, node: Node) -> bool:
        """Whether two such nodes give the same memory anyway, or numbers."""
        views = all(isinstance(value.type, TensorType) and value not in self._reshaped for value in node.outputs)
        return node.op in _SAME_THING or (node.op in READS_SHAPE and views)

    def _tell_write(self, node: Node, earlier: Node, places: list[tuple[int, bool]]) -> None:
        """Equal but for a write in between: worth telling where one of the memories read has a writer since."""
        writer = next((self._writer[place] for place in places if place in self._writer), None)
        if writer is None or not isinstance(node.outputs[0].type, TensorType):
            return
        names = self.graph.names
        told = f"it is %{names[earlier.outputs[0]]} once more, but {self.db.node_words(writer)} writes what it reads"
        self.remarks.append(Remark("missed", "written-between", node.outputs[0], told, (earlier, writer)))


_EVERYTHING_AT: Final = ((-1, False), (-1, True))
"""The counts of writes to all memory."""
