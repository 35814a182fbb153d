"""A program as Python: a flat list of instructions over numbered slots, and functions generated from it.

Every value of every block has its own slot; a run is a list of slots and a position. Nested blocks are placed between the
instructions that enter and leave them, so one Python loop runs them at any depth. The stretches between jumps become
functions when a run first reaches them: slots are local variables there, and only what outlives a stretch is stored in the
list. A loop or branch that is neither long nor deep is a `while` or `if` of Python inside the function of its stretch, which
no jump leaves then. A fusion group is one call of `irscope.runtime.program.groups.GroupCall`.

Each instruction carries the slots that are dead after it. A value dies after the last node, in its own block, that
reads it or contains a reader; constants, inputs and the program's results never die.

Two options of the generator add lines and change nothing else: with a *stamp* each instruction ends in `mark(clock())`, so
the time between two stamps is that of an instruction, of freeing its operands' memory, and of one stamp; a *watched* run,
which keeps every value in its slot, calls `visit` before each node and `after` behind each instruction. Both leave a function
at each jump.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from irscope.analysis.loop_rows import is_functional, rows_in_place
from irscope.errors import ArgumentError, IrscopeError, RunError
from irscope.ir import BOOL, GROUPS, Block, Node, TensorType, Value, nest_of
from irscope.runtime.arrays import Function, Library
from irscope.runtime.foreign_ops import has_runner
from irscope.runtime.program.own_memory import copied, last_uses, may_reach_caller, row_writer

Slots = list[Any]
Stamp = tuple[Callable[[int], object], Callable[[], int]]
"""The function that records a time, and the clock that it is read from."""
NodeCall = Callable[[Node], Any]
"""Returns the object whose `call` runs a group on its operands; None inlines the group's block. For a loop: the object whose `call`
runs all of it, with the `owner` that it counts for and what the body has `captured`; None where its instructions alone do."""
Prepare = Callable[[Node, Function, Callable[[Value], Any]], Function]  # the last returns the constant behind a value, or None
Visit = Callable[[Node], object]
After = Callable[[int], object]

_LONGEST: Final = 2000
"""Instructions of one function: Python compiles several short ones in less memory than one long one."""
_DEEPEST: Final = 15
"""Loops and branches of one function inside each other: Python takes 20 nested loops, and 100 levels of indentation."""

_LITERALS: Final = {"prim::ListConstruct": "[{}]", "prim::TupleConstruct": "({},)"}
"""Ops that have a literal form in Python."""


@dataclass(eq=False, slots=True)
class Target:
    """A jump position that is filled in later."""

    position: int = -1


Kind = Literal["call", "group", "move", "branch", "start", "turn", "native", "fail"]


@dataclass(frozen=True, eq=False, slots=True)
class Instruction:
    """One step of a program: `writes = …(reads)`, and then perhaps a jump."""

    kind: Kind
    """`call`: of a node's `function`; `group`: of its `function.call`; `move`: all at once, then to the target if there is one;
    `branch`: to the target if the condition is false; `start` of a loop, whose first write iterates over the trip count;
    `turn`: the next iteration, or to the target; `native`: of its `function.call`, which runs a whole loop and says so in the first
    write, or leaves it to the instructions of the loop; `fail`: raises `function`."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    node: Node | None
    """The node that it serves; None if it leaves or repeats a block."""
    owner: Node
    """As `node`, but the one that owns the blocks where they are left and repeated."""
    dead: tuple[int, ...] = ()
    """The slots that are dead after it."""
    function: Any = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The function of some consecutive instructions."""

    function: Callable[..., int]
    """Runs them on slots; returns the position to continue at."""
    lines: tuple[int, ...]
    """The position of the instruction behind each line of the text, counted from 1; line 0 does not exist."""

    def position_of(self, error: Exception) -> int:
        """Returns the position of the instruction that raised an error; the first one if Dynamo ran another text instead. In a frame of
        its own: a variable of `Code.run` would keep the tensors of the run alive."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self.function.__code__:
            trace = trace.tb_next
        return self.lines[0 if trace is None else trace.tb_lineno]


@dataclass(eq=False)
class Code:
    """Instructions, the contents of the slots before they start, and the functions generated so far."""

    instructions: list[Instruction] = field(default_factory=list)
    targets: frozenset[int] = frozenset()
    """Positions that jumps lead to."""
    template: Slots = field(default_factory=list)
    """Constants and bound inputs in their slots."""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    stamp: Stamp | None = None
    """Records the time at the start of a run and after each instruction."""
    path: list[tuple[int, int]] = field(default_factory=list)
    """The stretches of the last stamped run in order, as half-open ranges of positions."""
    observer: "Callable[[Code, Slots], After] | None" = None
    """Creates the `after` of each run; runs with an observer are not stamped."""
    unwatched: list[Instruction] | None = None
    """The instructions of a run that nobody watches, at the same positions, where these are others."""
    _plain: dict[int, _Stretch] = field(default_factory=dict, repr=False)
    _watched: dict[int, _Stretch] = field(default_factory=dict, repr=False)

    def stamped(self, stamp: Stamp) -> "Code":
        """Returns the same code, whose runs are stamped."""
        return replace(self, stamp=stamp, path=[], _plain={}, _watched={})

    def run(self, slots: Slots, visit: Visit | None = None, after: After | None = None) -> None:
        """Runs to the end; raises RunError, which names the node, when an op fails.

        `visit` is called with each node before it runs. `after` is called with the position of each instruction that has
        run, before the slots that are dead after it are cleared.
        """
        if self.observer is not None:
            after = self.observer(self, slots)
        watched = visit is not None or after is not None
        stretches = self._watched if watched else self._plain
        more = (visit or _ignore, after or _ignore) if watched else ()
        position, end = 0, len(self.instructions)
        stretch: _Stretch | None = None
        try:
            if self.stamp is not None and not watched:
                self.path.clear()
                mark, clock = self.stamp
                mark(clock())
            while position < end:
                stretch = stretches.get(position)
                if stretch is None:  # two threads may both generate it
                    stretch = stretches[position] = _Writer(self, position, watched).written()
                position = stretch.function(slots, *more)
        except Exception as error:
            if isinstance(error, IrscopeError) and not (isinstance(error, ArgumentError) and not error.where):
                raise
            here = position if stretch is None else stretch.position_of(error)
            step = self.instructions[here] if here < end else None
            raise _failed(None if step is None else step.owner if step.kind == "native" else step.node, error) from error


def _ignore(given: object) -> None:
    pass


class _Writer:
    """Generates the function of the stretch that begins at a position."""

    def __init__(self, code: Code, start: int, watched: bool) -> None:
        self.code = code
        self.start = start
        self.watched = watched
        self.steps = code.instructions if watched or code.unwatched is None else code.unwatched
        self.stamp = None if watched else code.stamp
        self.is_nested = not watched and self.stamp is None
        self.stop = _end_of_stretch(code, start, is_nested=self.is_nested)
        self.names: dict[str, Any] = {}
        if self.stamp is not None:
            self.names = {"mark": self.stamp[0], "clock": self.stamp[1], "path": code.path}
        self.text = ["def run(slots, visit, after):" if watched else "def run(slots):"]
        self.indent = "    "
        self.lines = [start, start]
        self.local: set[int] = set()
        """Slots whose values are in variables."""
        self.kept: set[int] = set()
        """Slots that hold a value besides the variable."""
        self.dies: dict[int, int] = {}
        """The last position at which each slot dies here."""

    def written(self) -> _Stretch:
        steps = self.steps[self.start : self.stop]
        for position, step in enumerate(steps, self.start):
            self.dies.update(dict.fromkeys(step.dead, position))
        self.block(self.start, self.stop)
        self.leave(steps[-1])
        text = compile("\n".join(self.text), "<a stretch of a program>", "exec")
        exec(text, self.names)  # it has only slot numbers
        return _Stretch(self.names["run"], tuple(self.lines))

    def block(self, start: int, stop: int) -> None:
        """Adds the instructions of a range; each loop or branch in it is one statement if it can be."""
        position = start
        while position < stop:
            end = _end_of_statement(self.code, position) if self.is_nested else position + 1
            if end == position + 1:
                self.instruction(position)
            else:
                self.load(position, end)
                (self.loop if self.steps[position].kind == "start" else self.branch)(position, end)
            position = end

    def instruction(self, position: int) -> None:
        step = self.steps[position]
        if self.watched and step.node is not None:
            self.names[f"n{position}"] = step.node
            self.line(position, f"visit(n{position})")
        self.statement(position, step)
        for slot in step.writes:
            if self.watched or self.dies.get(slot, -1) < position:
                self.line(position, f"slots[{slot}] = v{slot}")
                self.kept.add(slot)
        if self.watched:
            self.line(position, f"after({position})")
        held = [slot for slot in dict.fromkeys(step.dead) if slot in self.local]
        for slot in step.dead:
            if slot in self.kept or slot not in self.local:
                self.line(position, f"slots[{slot}] = None")
        if held:
            self.line(position, f"del {', '.join([f'v{slot}' for slot in held])}")
        self.local.difference_update(held)
        self.kept.difference_update(held)
        if self.stamp is not None:
            self.line(position, "mark(clock())")

    def load(self, start: int, stop: int) -> None:
        """Reads the slots that a loop or branch reads and does not write: on no path inside would another have read them."""
        written: set[int] = set()
        for step in self.steps[start:stop]:
            for slot in step.reads:
                if slot not in written:
                    self.read(start, slot)
            written.update(step.writes)

    def branch(self, position: int, end: int) -> None:
        step = self.steps[position]
        otherwise = _place(step)
        self.line(position, f"if {self.read(position, step.reads[0])}:")
        local, kept = self.local.copy(), self.kept.copy()
        self.indented(position + 1, otherwise)
        then = self.local, self.kept
        self.local, self.kept = local, kept
        self.line(position, "else:")
        self.indented(otherwise, end)
        self.local &= then[0]
        self.kept |= then[1]

    def loop(self, position: int, end: int) -> None:
        self.instruction(position)
        turn = self.steps[position + 1]
        (state, turns), (count,) = turn.reads, turn.writes
        self.line(position + 1, f"while (v{count} := next(v{turns}, None) if v{state} else None) is not None:")
        local, kept = self.local.copy(), self.kept.copy()
        self.local.add(count)
        self.indented(position + 2, end - 1)
        self.local, self.kept = local, kept  # values of the body have died in it
        self.instruction(end - 1)

    def indented(self, start: int, stop: int) -> None:
        before, count = self.indent, len(self.text)
        self.indent += "  "
        self.block(start, stop)
        if len(self.text) == count:
            self.line(start, "pass")
        self.indent = before

    def line(self, position: int, text: str) -> None:
        self.text.append(self.indent + text)
        self.lines.append(position)

    def read(self, position: int, slot: int) -> str:
        """Returns the variable that has a slot's value; before the stretch writes it, the slot itself is read once."""
        if slot not in self.local:
            held = self.code.template[slot]
            if held is not None:  # a constant
                self.names[f"v{slot}"] = held
                return f"v{slot}"
            self.line(position, f"v{slot} = slots[{slot}]")
            self.local.add(slot)
            self.kept.add(slot)
        return f"v{slot}"

    def statement(self, position: int, step: Instruction) -> None:
        """Adds what the instruction does, but for the jump."""
        operands = [self.read(position, slot) for slot in step.reads]
        given = ", ".join(operands)
        if step.function is not None:
            self.names[f"f{position}"] = step.function
        match step.kind:
            case "call":
                literal = _LITERALS.get("" if step.node is None else step.node.op) if operands else None
                self.assign(position, step.writes, literal.format(given) if literal else f"f{position}({given})")
            case "group":
                self.assign(position, step.writes, f"f{position}.call({given})")
            case "native":
                not_run = f"(False{', None' * (len(step.writes) - 1)},)"  # a watched run shows each node
                self.assign(position, step.writes, not_run if self.watched else f"f{position}.call({given})")
            case "move":
                for_all = ", ".join([f"v{slot}" for slot in step.writes])
                if for_all:
                    self.line(position, f"{for_all} = {given}")
            case "branch":
                self.line(position, f"to = {position + 1} if {given} else {_place(step)}")
            case "start":
                limit, *others = operands
                for_all = ", ".join([f"v{slot}" for slot in step.writes])
                self.line(position, f"{for_all} = {', '.join([f'iter(range({limit}))', *others])}")
            case "turn":
                state, turns = operands
                count = f"v{step.writes[0]}"
                self.line(position, f"{count} = next({turns}, None) if {state} else None")
                self.line(position, f"to = {_place(step)} if {count} is None else {position + 1}")
            case "fail":
                self.line(position, f"raise f{position}")
        self.local.update(step.writes)

    def assign(self, position: int, writes: tuple[int, ...], text: str) -> None:
        left = ", ".join([f"v{slot}" for slot in writes])
        self.line(position, f"{left} = {text}" if writes else text)

    def leave(self, last: Instruction) -> None:
        position = self.stop - 1
        if self.stamp is not None:
            self.line(position, f"path.append(({self.start}, {self.stop}))")
        if last.kind in ("branch", "turn"):
            self.line(position, "return to")
        else:
            self.line(position, f"return {self.stop if last.target is None else _place(last)}")


def _end_of_stretch(code: Code, start: int, *, is_nested: bool) -> int:
    """Returns the position after the next jump, or before the next position that a jump leads to; with `is_nested`, jumps inside
    a loop or branch that is one statement do not count."""
    position, limit = start, min(start + _LONGEST, len(code.instructions))
    while position < limit:
        end = _end_of_statement(code, position) if is_nested else position + 1
        if end > limit:
            return position
        if end == position + 1 and (code.instructions[position].target is not None or end in code.targets):
            return end
        position = end
    return limit


def _end_of_statement(code: Code, position: int) -> int:
    """Returns the position after the loop or branch that begins here, or after this instruction if it begins none that is
    short and shallow enough for one function."""
    end = _end_of_construct(code, position)
    if end - position > _LONGEST:
        return position + 1
    open_ends = [end]
    for inner in range(position + 1, end):
        while inner >= open_ends[-1]:
            open_ends.pop()
        inner_end = _end_of_construct(code, inner)
        if inner_end > inner + 1:
            open_ends.append(inner_end)
            if len(open_ends) > _DEEPEST:
                return position + 1
    return end


def _end_of_construct(code: Code, position: int) -> int:
    """Returns the position after the loop or branch that begins here, or after this instruction."""
    steps = code.instructions
    match steps[position].kind:
        case "start":
            return _place(steps[position + 1]) + 1  # after the move that the last turn leads to
        case "branch":
            return _place(steps[_place(steps[position]) - 1])  # where the move goes that ends the first block
    return position + 1


def _place(step: Instruction) -> int:
    assert step.target is not None, "a jump leads somewhere"
    return step.target.position


def stamp_cost(stamp: Stamp, forget: Callable[[], object], *, lines: int = 500, rounds: int = 25) -> float:
    """Returns the nanoseconds of one stamp: the median over rounds of many in a row; `forget` discards their times."""
    names: dict[str, Any] = {"mark": stamp[0], "clock": stamp[1]}
    exec("def run():\n" + "    mark(clock())\n" * lines, names)
    run, taken = names["run"], []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        run()
        taken.append((time.perf_counter_ns() - start) / lines)
        forget()
    return statistics.median(taken)


def flatten(
    body: Block, library: Library, *, bound: Mapping[Value, Any] | None = None, call: NodeCall | None = None,
    instead: Mapping[Node, Node] | None = None, prepare: Prepare = lambda node, function, constant: function,
) -> Code:  # fmt: skip
    """Returns the code of a block with all nested blocks.

    `call` says what runs a group; a node in `instead` is replaced by the node it maps to; `prepare` may exchange a library's function."""
    return _Planner(library, call or (lambda node: None), instead or {}, prepare).plan(body, bound or {})


class _Planner:
    def __init__(self, library: Library, call: NodeCall, instead: Mapping[Node, Node], prepare: Prepare) -> None:
        self.library = library
        self.call = call
        self.instead = instead
        self.prepare = prepare
        self.slot_of: dict[Value, int] = {}
        self.steps: list[Instruction] = []
        self.constants: dict[int, Any] = {}
        self.dying: dict[Node | Block, list[Value]] = {}
        self.is_functional = False
        self.in_place: set[Node] = set()
        """Nodes that write a row of what a loop carries, instead of copying all of it."""

    def plan(self, body: Block, bound: Mapping[Value, Any]) -> Code:
        inputs = self.slots(body.params)
        self.dying = last_uses(body)
        self.is_functional = is_functional(body)
        if self.is_functional:  # `squeeze_` would change a view for all runs
            self.expand_constants(body)
        stack = [self.block(body)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(self.block(inner))
        outputs = self.slots(body.returns)
        template: Slots = [None] * len(self.slot_of)
        for slot, payload in self.constants.items():
            template[slot] = payload
        for value, held in bound.items():
            template[self.slot_of[value]] = held
        targets = frozenset([_place(step) for step in self.steps if step.target is not None])
        return Code(self.steps, targets, template, inputs, outputs)

    def slot(self, value: Value) -> int:
        return self.slot_of.setdefault(value, len(self.slot_of))

    def slots(self, values: Sequence[Value]) -> tuple[int, ...]:
        return tuple([self.slot_of.setdefault(value, len(self.slot_of)) for value in values])

    def emit(
        self, kind: Kind, owner: Node, reads: tuple[int, ...], writes: tuple[int, ...] = (), *, node: Node | None = None,
        ends: Sequence[Node | Block] = (), dead: Sequence[int] = (), function: Any = None, target: Target | None = None,
    ) -> None:  # fmt: skip
        """Appends an instruction; afterwards the values last read by `ends` are dead, and the slots in `dead`."""
        ended = [self.slot(value) for end in ends for value in self.dying.get(end, ())]
        gone = tuple([slot for slot in (*ended, *dead) if slot not in self.constants])
        self.steps.append(Instruction(kind, reads, writes, node, owner, gone, function, target))

    def block(self, block: Block) -> Iterator[Block]:
        """Emits a block's nodes; yields the nested blocks that must be emitted in between."""
        for node in block.nodes:
            if node.op == "prim::Constant":
                self.constant(node)
            elif node.op == "aten::expand" and self.slot(node.output) in self.constants:
                continue
            elif node.op == "prim::If":
                yield from self.branch(node)
            elif node.op == "prim::Loop":
                yield from self.loop(node)
            elif node.blocks and not has_runner(node):
                yield from self.inline(node)
            else:
                self.library_call(node)

    def constant(self, node: Node) -> None:
        slot = self.slot(node.output)
        if slot not in self.constants:
            self.constants[slot] = self.library.constant(node)

    def library_call(self, node: Node) -> None:
        try:
            function = self._in_place(node) if node in self.in_place else self.library.function(self.instead.get(node, node))
            self.serve("call", node, self.prepare(node, function, lambda value: self.constants.get(self.slot(value))))
        except RunError as error:
            self.serve("fail", node, error)

    def _in_place(self, node: Node) -> Any:
        if node.op in ("aten::index_put", "aten::index_copy"):
            return self.library.function(replace(node, op=f"{node.op}_"))
        return row_writer(node, self.library.function(node))

    def serve(self, kind: Kind, node: Node, function: Any) -> None:
        """Emits the only instruction of a node."""
        self.emit(kind, node, self.slots(node.inputs), self.slots(node.outputs), node=node, ends=[node], function=function)

    def inline(self, node: Node) -> Iterator[Block]:
        """Emits a group: one instruction where a kernel may run it, otherwise its nodes in its place."""
        if node.op not in GROUPS or len(node.blocks) != 1:
            self.serve("fail", node, RunError(f"the blocks of {node.op} cannot be run", where=repr(node), rule="unknown-op"))
            return
        called = self.call(node)
        if called is not None:
            self.serve("group", node, called)
            return
        (body,) = node.blocks
        # operands that are dead once the block has them: the block may release them early
        ending = set[Value]() if any(inner.blocks for inner in body.nodes) else set(self.dying.get(node, ()))
        read = {value for inner in body.nodes for value in inner.inputs}.union(body.returns)
        taken = self.slots([value for value in node.inputs if value in ending and value not in read])
        self.emit("move", node, self.slots(node.inputs), self.slots(body.params), dead=taken)
        yield body
        self.emit("move", node, self.slots(body.returns), self.slots(node.outputs), ends=[body, node])

    def branch(self, node: Node) -> Iterator[Block]:
        then, other = node.blocks
        otherwise, end = Target(), Target()
        self.emit("branch", node, (self.slot(node.inputs[0]),), node=node, target=otherwise)
        outputs = self.slots(node.outputs)
        yield then
        self.emit("move", node, self.slots(then.returns), outputs, ends=[then, node], target=end)
        otherwise.position = len(self.steps)
        yield other
        self.emit("move", node, self.slots(other.returns), outputs, ends=[other, node])
        end.position = len(self.steps)

    def loop(self, node: Node) -> Iterator[Block]:
        native = self.call(node)
        if native is None:
            yield from self.turns(node)
            return
        is_done, outputs = self.slot(Value(0, BOOL)), self.slots(node.outputs)
        self.emit("native", native.owner, self.slots((*node.inputs, *native.captured)), (is_done, *outputs), function=native)
        otherwise, end = Target(), Target()
        self.emit("branch", native.owner, (is_done,), target=otherwise)
        self.emit("move", native.owner, (), ends=[node], target=end)
        otherwise.position = len(self.steps)
        yield from self.turns(node)
        end.position = len(self.steps)

    def turns(self, node: Node) -> Iterator[Block]:
        """Emits a loop turn by turn, with rows that are written in place into copies of their initial tables."""
        (body,) = node.blocks
        rows = rows_in_place(node) if self.is_functional else {}
        given = list(self.slots(node.inputs))
        copies = {place + 2: self.slot(Value(0, node.inputs[place + 2].type)) for place in rows.values()}
        for place, slot in copies.items():
            self.emit("call", node, (given[place], *given[:2]), (slot,), function=copied)
            given[place] = slot
        self.in_place.update(rows)
        count, *params = self.slots(body.params)
        turns, state = own = [self.slot(Value(0, value.type)) for value in node.inputs[:2]]  # loop state, not values of the program
        self.emit("start", node, tuple(given), (turns, state, *params), node=node, dead=tuple(copies.values()))
        head, end = Target(len(self.steps)), Target()
        self.emit("turn", node, (state, turns), (count,), target=end)
        yield body
        self.emit("move", node, self.slots(body.returns), (state, *params), ends=[body], target=head)
        end.position = len(self.steps)
        self.emit("move", node, tuple(params), self.slots(node.outputs), ends=[node], dead=(*own, *params))

    def expand_constants(self, body: Block) -> None:
        """Computes the expanded constants of all blocks, which are the same views in each run; not those that a caller may get, whose
        `squeeze_` would change them for all runs."""
        nodes = list(nest_of(body))
        passed = may_reach_caller(nodes, body.returns)
        for node in nodes:
            if node.op == "prim::Constant":
                self.constant(node)
            elif node.op == "aten::expand" and isinstance(node.output.type, TensorType) and node.output.type.is_static:
                given = self.slots(node.inputs)
                if node.output not in passed and self.constants.keys() >= set(given):
                    with suppress(RunError, RuntimeError, TypeError, ValueError):  # which the run will raise
                        self.constants[self.slot(node.output)] = self.library.function(node)(*[self.constants[slot] for slot in given])


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
