"""Edits a frozen graph: edits are recorded with their reasons, then `finish` builds the next graph.

During a pass the available graph is the *old* one; `resolve` returns what a value was replaced by. Everything that no edit
touches is shared: an unchanged node, block or graph stays the same object, so a pass that did nothing returns its input.

`finish` costs one walk over the blocks that changed and the blocks around them. A value is replaced
everywhere, even in nested blocks; `irscope.ir.invariants` catches an erased node whose value is still used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from irscope.errors import PassError
from irscope.ir.core import Block, Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Created:
    """A new node."""

    node: Node
    reason: str


@dataclass(frozen=True, slots=True)
class Erased:
    """A removed node."""

    node: Node
    reason: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value whose users now use another value."""

    old: Value
    new: Value
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A node that moved within its block."""

    node: Node
    reason: str


@dataclass(frozen=True, slots=True)
class Merged:
    """Nodes that became part of one group."""

    nodes: tuple[Node, ...]
    group: Node
    reason: str
    rule: str = "merged"
    """The kind of merge."""


Edit = Created | Erased | Replaced | Moved | Merged


class Rewriter:
    """Records edits to one frozen graph; the only mutable object in the IR."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._edits: list[Edit] = []
        self._replaced: dict[Value, Value] = {}
        self._erased: set[Node] = set()
        self._before: dict[Node, list[Node]] = {}
        self._after: dict[Node, list[Node]] = {}
        self._blocks: dict[Block, tuple[Node, ...]] = {}

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits so far, in order."""
        return tuple(self._edits)

    def resolve(self, value: Value) -> Value:
        """The value that currently replaces a value of the old graph; itself if it was not replaced."""
        chain = []
        while (new := self._replaced.get(value)) is not None:
            chain.append(value)
            value = new
        for old in chain[:-1]:  # shorten the path, so that a chain of replacements stays linear
            self._replaced[old] = value
        return value

    def replace(self, old: Value, new: Value, *, reason: str) -> None:
        """Replace all uses of `old` by `new`."""
        new = self.resolve(new)
        if new is old or self.resolve(old) is new:
            raise PassError(f"cannot replace {old!r} by itself", rule="replace-is-acyclic")
        self._replaced[self.resolve(old)] = new
        self._edits.append(Replaced(old, new, reason))

    def erase(self, node: Node, *, reason: str) -> None:
        """Remove a node, with its blocks."""
        self._know(node)
        self._erased.add(node)
        self._edits.append(Erased(node, reason))

    def insert_before(self, anchor: Node, node: Node, *, reason: str) -> Node:
        """Insert a new node directly before `anchor` (after those inserted there earlier)."""
        self._know(anchor)
        self._before.setdefault(anchor, []).append(node)
        self._edits.append(Created(node, reason))
        return node

    def insert_after(self, anchor: Node, node: Node, *, reason: str) -> Node:
        """Insert a new node directly after `anchor` (after those inserted there earlier)."""
        self._know(anchor)
        self._after.setdefault(anchor, []).append(node)
        self._edits.append(Created(node, reason))
        return node

    def replace_node(self, old: Node, new: Sequence[Node], *, reason: str) -> None:
        """Replace one node by new nodes. Redirect its outputs by `replace`, or reuse the same Values in the new nodes."""
        for node in new:
            self.insert_before(old, node, reason=reason)
        self.erase(old, reason=reason)

    def move_before(self, node: Node, anchor: Node, *, reason: str) -> None:
        """Move a node of the same block to directly before `anchor`."""
        self._know(node)
        self._know(anchor)
        self._erased.add(node)
        self._before.setdefault(anchor, []).append(node)
        self._edits.append(Moved(node, reason))

    def set_nodes(self, block: Block, nodes: Iterable[Node], edits: Iterable[Edit]) -> None:
        """Give a block a whole new list of nodes, with the edits that explain it: for passes that reschedule a block.

        `finish` raises PassError if a node was inserted beside one that the list leaves out.
        """
        self._blocks[block] = tuple(nodes)
        self._edits.extend(edits)

    def _know(self, node: Node) -> None:
        if node not in self.graph.position:
            raise PassError(f"{node!r} is not a node of the graph being edited", rule="edit-own-graph")

    def finish(self) -> Graph:
        """The next graph; the same object if there was no edit."""
        if not self._edits:
            return self.graph
        # Rebuild changed blocks innermost first, with an explicit order instead of recursion.
        done: dict[Block, Block] = {}
        pending = [self.graph.body]
        order: list[Block] = []
        while pending:
            block = pending.pop()
            order.append(block)
            for node in self._final_nodes(block):
                pending.extend(node.blocks)
        self._check_anchors(order)
        for block in reversed(order):
            done[block] = self._rebuilt(block, done)
        body = done[self.graph.body]
        return self.graph if body is self.graph.body else replace(self.graph, body=body)

    def _check_anchors(self, blocks: Sequence[Block]) -> None:
        """Raise PassError if a node was inserted beside one that `set_nodes` left out, unless its whole block is gone."""
        anchors = self._before.keys() | self._after.keys()
        if not anchors or not self._blocks:
            return
        placed = {node for block in blocks for node in self._blocks.get(block, block.nodes)}
        alive = set(blocks)
        for anchor in anchors - placed:
            if self.graph.block_of[anchor] in alive:
                new = (self._before.get(anchor) or self._after[anchor])[0]
                raise PassError(
                    f"{new!r} was inserted beside {anchor!r}, which is not among the nodes that were set for its block",
                    rule="anchor-stays", hint="set_nodes with the new node among the nodes, or insert beside another",
                )  # fmt: skip

    def _final_nodes(self, block: Block) -> tuple[Node, ...]:
        """The nodes of a block in their new order, not yet renamed."""
        nodes = self._blocks.get(block, block.nodes)
        if not (self._erased or self._before or self._after):
            return nodes
        placed: list[Node] = []
        moved = self._erased
        for node in nodes:
            placed.extend(self._before.get(node, ()))
            if node not in moved:
                placed.append(node)
            placed.extend(self._after.get(node, ()))
        return tuple(placed)

    def _rebuilt(self, block: Block, done: dict[Block, Block]) -> Block:
        nodes = self._final_nodes(block)
        unchanged = self._replaced.keys().isdisjoint
        nodes = tuple([
            node if not node.blocks and unchanged(node.inputs) else self._renamed(node, done) for node in nodes
        ])  # fmt: skip
        returns = self._values(block.returns)
        same = returns is block.returns and len(nodes) == len(block.nodes)
        if same and all(new is old for new, old in zip(nodes, block.nodes, strict=True)):
            return block
        return Block(block.id, block.params, nodes, returns)

    def _renamed(self, node: Node, done: dict[Block, Block]) -> Node:
        inputs = self._values(node.inputs)
        blocks = tuple(done[block] for block in node.blocks) if node.blocks else node.blocks
        if inputs is node.inputs and all(new is old for new, old in zip(blocks, node.blocks, strict=True)):
            return node
        return replace(node, inputs=inputs, blocks=blocks)

    def _values(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        table = self._replaced
        for value in values:
            if value in table:
                return tuple(self.resolve(v) for v in values)
        return values
