"""Computes a value once where the program computes it twice, and keeps one of all equal constants."""

from collections import Counter
from typing import Any, Final, Literal

from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to.graph import closure
from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.shapes import CallerVisible, reshaped_objects
from irscope.ir import CONTROL_FLOW, ISOLATED, Block, Graph, Node, Opaque, Rewriter, Step, TensorData, TensorType, Type, Value, steps
from irscope.ir.text.constant_text import constant_text
from irscope.ops.traits import NARROWS, READS_SHAPE, UNPACKS
from irscope.transforms.base import PassRecord, Remark, timed

# Decides when one value may replace another: equal constants have one key, and fresh memory is shared only if unobservable.

_SMALL: Final = 1 << 20
"""Constant tensors of at most this many bytes are compared by content, larger ones by identity."""


class EscapeInfo:
    """Decides whether merging two values into one memory is observable: by writers, or by a caller who gets hold of both.

    The classes that can be reached from outputs, inputs and unseen code are found once; then each query is a look-up.
    A region (`AliasDb.region`) is larger than an alias set, so a value may be reported as seen although it is not.
    """

    def __init__(self, db: AliasDb) -> None:
        self._db = db
        points_to, reach = db.sealed, db.reach
        self._values = set(db.graph.outputs)
        """The outputs, and values merged with seen ones; some have no region, as they share memory with nothing."""
        element_of, class_of = points_to.element_of, points_to.class_of
        seen = {class_of[element_of[value]] for value in self._values if value in element_of} | points_to.outside
        self._regions = {reach.region[place] for place in closure(seen, points_to.targets, reach.inside)}

    def see(self, value: Value) -> bool:
        """Whether a caller, or code that is not in the graph, may get hold of the value."""
        return value in self._values or self._region(value) in self._regions

    def become_one(self, a: Value, b: Value) -> None:
        """Record that two values are one from now on: whoever sees one sees the other."""
        if self.see(a) or self.see(b):
            self._values.update((a, b))
            self._regions.update(region for region in (self._region(a), self._region(b)) if region is not None)

    def _region(self, value: Value) -> int | None:
        points_to = self._db.sealed
        element = points_to.element_of.get(value)
        return None if element is None else self._db.reach.region[points_to.class_of[element]]

    def obstacle(self, a: Value, b: Value, *, lasting: bool = False) -> Literal["", "written", "seen"]:
        """Returns what keeps two equal fresh values from becoming one; empty if nothing does. Of `lasting` values, the program's
        constants, neither may be seen: a caller who writes the one it got would change the other for the next call.
        """
        if self._db.is_written(a) or self._db.is_written(b):
            return "written"
        seen = self.see(a), self.see(b)
        return "seen" if all(seen) or (lasting and any(seen)) else ""


def payload_key(payload: Any, type: Type) -> object:
    """A key that is equal for payloads of one constant; it distinguishes 1, 1.0 and True, and 0.0 and -0.0.

    >>> from irscope.ir.types import FLOAT, INT
    >>> payload_key(1, INT) == payload_key(1, FLOAT), payload_key(0.0, FLOAT) == payload_key(-0.0, FLOAT)
    (False, False)
    """
    if isinstance(payload, TensorData):
        small = payload.array is not None and payload.array.nbytes <= _SMALL
        return (type, payload if small else id(payload))
    items = payload if isinstance(payload, tuple) else ()
    if isinstance(payload, Opaque) or any(isinstance(item, TensorData | Opaque | tuple) for item in items):
        return (type, id(payload))
    return (type, constant_text(payload, type))


def attribute_key(node: Node) -> object:
    """A key that is equal for nodes with the same attributes."""
    if not node.attrs:
        return ()
    if node.op == "prim::Constant":
        return payload_key(node.attrs.get("value"), node.output.type)
    return tuple((name, _plain_key(value)) for name, value in sorted(node.attrs.items()))


def _plain_key(value: Any) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain_key, value))
    plain = value is None or isinstance(value, bool | int | float | complex | str)
    return (type(value), repr(value)) if plain else id(value)


# Common subexpression elimination: computes a value once where the program computes it twice.
#
# Two nodes compute the same if op, operands (up to values found equal), attributes and result types are equal, if the memory
# that they read did not change between them, and if neither has an effect. Then the later one is removed where the earlier one
# is visible: in the same block or one around it. A block's entries leave the table of known nodes at its end.
#
# * **Memory.** Reads and writes are those of the alias db, including those inside blocks. Each region of memory has a count of
#   the writes so far, for data and for shapes, and the counts are part of the key. A loop's writes are also counted as it is
#   entered: its body's writes come before the next iteration's reads.
# * **Effects.** A node that writes, prints, calls or draws random numbers is never merged.
# * **Aliasing.** Two results in new memory may become one only if the difference is not observable: neither is written, and a
#   caller does not get both, or either of two constants (`irscope.transforms.cleanup.cse`). Views of one memory share
#   it already; they stay two where a caller gets both tensors, and could change one of them by `t_`.
#
# One walk with hash tables; linear. No node moves, so no value is computed earlier than before.

_SAME_THING: Final = NARROWS | UNPACKS | {
    "prim::GetAttr", "prim::TupleConstruct", "prim::TupleIndex", "prim::TupleSlice", "aten::__getitem__",
}  # fmt: skip
"""Ops that return an existing value, or a tuple, which cannot be distinguished from another of the same elements."""

_Key = tuple[object, ...]


@timed
def eliminate_common_subexpressions(graph: Graph) -> PassRecord:
    """Remove nodes that recompute the result of an earlier node; linear."""
    walk = _Walk(graph, alias_db_of(graph))
    for step in steps(graph):
        walk.visit(step)
    return PassRecord("cse", graph, walk.rewriter.finish(), walk.rewriter.edits, tuple(walk.remarks))


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
        are_views = all(isinstance(value.type, TensorType) and value not in self._reshaped for value in node.outputs)
        is_same_memory = node.op in _SAME_THING or (node.op in READS_SHAPE and are_views)  # or they are numbers
        for value, other in zip(node.outputs, known.outputs, strict=True):
            lasting = node.op == "prim::Constant"
            obstacle = "" if is_same_memory else self._onlookers.obstacle(value, other, lasting=lasting)
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


# Keeps one of all equal constants, at a place that dominates all its users.
#
# Equal constants have one type and the same payload to the bit. The first one in the text stays; if it is inside an if or
# a loop, it moves up to directly before the outermost of them, from where it is visible to all later nodes. Bodies of
# groups see nothing from outside, so each is pooled separately. A constant tensor or list is memory: two become one only
# if neither is written and no caller gets either of them (`irscope.transforms.cleanup.cse`). Linear.


@timed
def pool_constants(graph: Graph) -> PassRecord:
    """Keep one of all equal constants, and move it up as far as its users need."""
    pool = _Pool(graph)
    for node, home, anchor in _constants(graph):
        pool.add(node, home, anchor)
    return PassRecord("pool-constants", graph, pool.rewriter.finish(), pool.rewriter.edits, tuple(pool.remarks))


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
        obstacle = ""
        if not isinstance(node.attrs.get("value"), int | float | complex | str | None):
            if self._onlookers is None:
                self._onlookers = EscapeInfo(alias_db_of(self.graph))
            obstacle = self._onlookers.obstacle(value, other, lasting=True)
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
