"""A program as one flat list of instructions over numbered slots, with jumps for branches and loops.

Every value of every block has its own slot; a run is a list of slots and a program counter. Nested blocks are placed
between the instructions that enter and leave them, so one Python loop runs them at any depth.

Each instruction carries the slots that are dead after it. A value dies after the last node, in its own block, that
reads it or contains a reader; constants, inputs and the program's results never die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from irscope.errors import ArgumentError, IrscopeError, RunError
from irscope.ir import GROUPS, Block, Node, Value
from irscope.runtime.arrays import Library
from irscope.runtime.executor.instructions import (
    Instruction,
    Slots,
    Target,
    assignment,
    jump_unless,
    jump_when_done,
    moves,
    raising,
    start_loop,
)
from irscope.runtime.foreign_ops import has_runner

__all__ = ["FlatCode", "Instruction", "Plain", "Run", "Slots", "flatten"]

NodeCall = Callable[[Node, tuple[int, ...], tuple[int, ...]], Instruction | None]
"""Returns a group's instruction, given the slots of its operands and results; None inlines the group's block."""


@dataclass(frozen=True, slots=True)
class Plain:
    """An instruction that only assigns: `writes = function(reads)`, or without a function `writes = reads`."""

    function: Callable[..., Any] | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class Run(Protocol):
    """A compiled replacement for several consecutive instructions, used when no callback observes the run."""

    @property
    def stop(self) -> int:
        """The position after the last of them."""

    @property
    def function(self) -> Callable[[Slots], int]:
        """Runs the instructions; returns `stop`, or the position of the instruction before which it gave up."""

    def position_of(self, error: Exception) -> int:
        """Returns the position of the instruction that raised this error."""


@dataclass(eq=False)
class FlatCode:
    """Instructions, and the contents of the slots before they start."""

    instructions: list[tuple[Instruction, tuple[int, ...]]] = field(default_factory=list)
    """Each with the slots that are dead after it."""
    nodes: list[Node | None] = field(default_factory=list)
    """The node that each instruction serves."""
    owners: list[Node | None] = field(default_factory=list)
    """As `nodes`, but instructions that enter, leave and repeat blocks have the node that owns the blocks."""
    writes: list[tuple[int, ...]] = field(default_factory=list)
    """The slots that each instruction writes."""
    reads: list[tuple[int, ...]] = field(default_factory=list)
    """The slots whose containers each instruction may fill or empty."""
    plain: dict[int, Plain] = field(default_factory=dict)
    """The instructions that only assign, by position."""
    targets: set[int] = field(default_factory=set)
    """Positions that jumps lead to."""
    runs: Mapping[int, Run] = field(default_factory=dict)
    """By the position of their first instruction."""
    strayed: bool = False
    """Whether a run has given up before its end."""
    template: Slots = field(default_factory=list)
    """Constants and bound inputs in their slots."""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def run(
        self, slots: Slots, visit: Callable[[Node], None] | None = None, after: Callable[[int], None] | None = None
    ) -> None:
        """Runs to the end; raises RunError, which names the node, when an op fails.

        `visit` is called with each node before it runs. `after` is called with the position of each instruction that has
        run, before the slots that are dead after it are cleared.
        """
        code, nodes = self.instructions, self.nodes
        position, here, end = 0, 0, len(code)
        runs = self.runs if visit is None and after is None else None
        run: Run | None = None
        try:
            while position < end:
                if runs and (run := runs.get(position)) is not None:
                    position = run.function(slots)
                    if position == run.stop:
                        continue
                    self.strayed, run = True, None
                step, dead = code[position]
                here = position
                if visit is not None and (node := nodes[here]) is not None:
                    visit(node)
                position += 1
                target = step(slots)
                if target is not None:
                    position = target
                if after is not None:
                    after(here)
                for slot in dead:
                    slots[slot] = None
        except Exception as error:
            if isinstance(error, IrscopeError) and not (isinstance(error, ArgumentError) and not error.where):
                raise
            raise _failed(nodes[here if run is None else run.position_of(error)], error) from error


def flatten(
    body: Block, library: Library, *, bound: Mapping[Value, Any], call: NodeCall, instead: Mapping[Node, Node] | None = None
) -> FlatCode:
    """Returns the code of a block with all nested blocks.

    `call` creates the instructions of fusion groups; a node in `instead` is replaced by the node it maps to."""
    return _Planner(library, call, instead or {}).plan(body, bound)


class _Planner:
    def __init__(self, library: Library, call: NodeCall, instead: Mapping[Node, Node]) -> None:
        self.library = library
        self.call = call
        self.instead = instead
        self.slot_of: dict[Value, int] = {}
        self.code = FlatCode()
        self.constants: dict[int, Any] = {}
        self.jumps: list[Target] = []
        self.dying: dict[Node | Block, list[Value]] = {}

    def plan(self, body: Block, bound: Mapping[Value, Any]) -> FlatCode:
        code = self.code
        code.inputs = self.slots(body.params)
        self.dying = _last_uses(body)
        stack = [self.block(body)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(self.block(inner))
        code.outputs = self.slots(body.returns)
        code.targets = {target.position for target in self.jumps}
        code.template = [None] * len(self.slot_of)
        for slot, payload in self.constants.items():
            code.template[slot] = payload
        for value, held in bound.items():
            code.template[self.slot_of[value]] = held
        return code

    def slot(self, value: Value) -> int:
        return self.slot_of.setdefault(value, len(self.slot_of))

    def slots(self, values: Sequence[Value]) -> tuple[int, ...]:
        return tuple(self.slot_of.setdefault(value, len(self.slot_of)) for value in values)

    def emit(
        self, instruction: Instruction, node: Node | None = None, ends: Sequence[Node | Block] = (),
        dead: Sequence[int] = (), writes: tuple[int, ...] = (), plain: Plain | None = None, owner: Node | None = None,
    ) -> None:  # fmt: skip
        """Appends an instruction; afterwards the values last read by `ends` are dead, and the slots in `dead`.

        It writes the results of its node, or `writes`; without a node it belongs to `owner`.
        """
        if plain is not None:
            self.code.plain[self.here] = plain
        self.code.writes.append(writes if node is None or writes else self.slots(node.outputs))
        self.code.reads.append(() if node is None else self.slots(node.inputs))
        ended = [self.slot(value) for end in ends for value in self.dying.get(end, ())]
        self.code.instructions.append((instruction, tuple(s for s in (*ended, *dead) if s not in self.constants)))
        self.code.nodes.append(node)
        self.code.owners.append(owner if node is None else node)

    @property
    def here(self) -> int:
        return len(self.code.instructions)

    def block(self, block: Block) -> Iterator[Block]:
        """Emits a block's nodes; yields the nested blocks that must be emitted in between."""
        for node in block.nodes:
            if node.op == "prim::Constant":
                self.constants[self.slot(node.output)] = self.library.constant(node)
            elif node.op == "prim::If":
                yield from self.branch(node)
            elif node.op == "prim::Loop":
                yield from self.loop(node)
            elif node.blocks and not has_runner(node):
                yield from self.inline(node)
            else:
                self.assignment(node)

    def target(self, position: int = -1) -> Target:
        self.jumps.append(Target(position))
        return self.jumps[-1]

    def assignment(self, node: Node) -> None:
        reads, writes = self.slots(node.inputs), self.slots(node.outputs)
        try:
            function = self.library.function(self.instead.get(node, node))
        except RunError as error:
            self.emit(raising(error), node, [node])
            return
        self.emit(assignment(function, reads, writes), node, [node], plain=Plain(function, reads, writes))

    def move(
        self, owner: Node, reads: tuple[int, ...], writes: tuple[int, ...], ends: Sequence[Node | Block],
        dead: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.emit(moves(reads, writes), None, ends, dead, writes, Plain(None, reads, writes), owner)

    def inline(self, node: Node) -> Iterator[Block]:
        """Emits a group: one instruction where a kernel may run it, otherwise its nodes in its place."""
        if node.op not in GROUPS or len(node.blocks) != 1:
            why = RunError(f"the blocks of {node.op} cannot be run", where=repr(node), rule="unknown-op")
            self.emit(raising(why), node, [node])
            return
        called = self.call(node, self.slots(node.inputs), self.slots(node.outputs))
        if called is not None:
            self.emit(called, node, [node])
            return
        (body,) = node.blocks
        taken = self.slots(self.released(node, body))
        self.move(node, self.slots(node.inputs), self.slots(body.params), (), taken)
        yield body
        self.move(node, self.slots(body.returns), self.slots(node.outputs), [body, node])

    def released(self, node: Node, body: Block) -> list[Value]:
        """Returns a group's operands that are dead once its block has them, so that the block may release them early."""
        ending = set(self.dying.get(node, ()))
        if any(inner.blocks for inner in body.nodes):
            return []
        read = {value for inner in body.nodes for value in inner.inputs} | set(body.returns)
        return [value for value in node.inputs if value in ending and value not in read]

    def branch(self, node: Node) -> Iterator[Block]:
        then, other = node.blocks
        otherwise, end = self.target(), self.target()
        self.emit(jump_unless(self.slot(node.inputs[0]), otherwise), node)
        outputs = self.slots(node.outputs)
        yield then
        self.emit(moves(self.slots(then.returns), outputs, end), None, [then, node], writes=outputs, owner=node)
        otherwise.position = self.here
        yield other
        self.move(node, self.slots(other.returns), outputs, [other, node])
        end.position = self.here

    def loop(self, node: Node) -> Iterator[Block]:
        (body,) = node.blocks
        limit, start, *carried = self.slots(node.inputs)
        count, *params = self.slots(body.params)
        own = [self.slot(Value(0, value.type)) for value in node.inputs[:2]]  # loop state, not values of the program
        turns, state = own
        self.emit(start_loop((limit, start, *carried), (turns, state, *params)), node, writes=tuple(params))
        head, end = self.target(self.here), self.target()
        self.emit(jump_when_done(state, turns, count, end), owner=node)
        yield body
        returns = self.slots(body.returns)
        self.emit(moves(returns, (state, *params), head), None, [body], writes=tuple(params), owner=node)
        end.position = self.here
        outputs = self.slots(node.outputs)
        self.emit(moves(tuple(params), outputs), None, [node], dead=(*own, *params), writes=outputs, owner=node)


def _last_uses(body: Block) -> dict[Node | Block, list[Value]]:
    """Returns the values that die after each node, or with the results of each block.

    The walk keeps the current node of each nesting depth; a use inside nested blocks counts as a use by the node at the
    depth where the value is defined. Uses are visited in textual order, so the last one remains.
    """
    depth_of: dict[Value, int] = {}
    last: dict[Value, Node | Block] = {}
    path: list[Node] = []
    stack: list[tuple[Block, Iterator[Node], int]] = [(body, iter(body.nodes), 0)]

    def use(values: Sequence[Value], here: Node | Block, depth: int) -> None:
        for value in values:
            own = depth_of.get(value)
            if own is not None:
                last[value] = here if own == depth else path[own]

    while stack:
        block, nodes, depth = stack[-1]
        node = next(nodes, None)
        if node is None:
            use(block.returns, block, depth)
            stack.pop()
            continue
        path[depth:] = [node]
        use(node.inputs, node, depth)
        for value in node.outputs:
            depth_of[value], last[value] = depth, node
        for inner in node.blocks:
            depth_of.update(dict.fromkeys(inner.params, depth + 1))
        stack.extend((inner, iter(inner.nodes), depth + 1) for inner in reversed(node.blocks))
    dying: dict[Node | Block, list[Value]] = {}
    for value, end in last.items():
        if end is not body and not (isinstance(end, Block) and value in end.params):
            dying.setdefault(end, []).append(value)
    return dying


def _failed(node: Node | None, error: Exception) -> RunError:
    text = error.what if isinstance(error, IrscopeError) else str(error).strip()
    lines = text.splitlines() or [type(error).__name__]
    if node is None:
        return RunError(f"the program failed: {lines[0]}")
    place = f"\n{node.location}" if node.location is not None else ""
    operands = ", ".join(map(repr, node.inputs))
    hint = "with example arguments, irs.load checks shapes and types before anything runs"
    reason = lines[0].partition(" This could be because")[0]  # torch continues with the list of all its backends
    what = f"{node.op} failed: {reason.rstrip(':')}"
    return RunError(what, where=f"{node!r}({operands}){place}", rule="op-failed", hint=hint)
