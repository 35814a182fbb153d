"""What the turns of a loop have on operands of certain types: layouts, allocators, kernels, and the memory of each result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, NamedTuple

from irscope.ir import INT, Block, Node, TensorType, Value
from irscope.ops.traits import MAY_COPY
from irscope.ops.type_rules import contiguous_strides, is_contiguous
from irscope.runtime.arrays import Allocate, Library, Memory, extents
from irscope.runtime.cpu import LaunchCall
from irscope.runtime.program.groups import GroupKernels
from irscope.runtime.program.loops.form import JOINS, PUT, TAKE, LoopForm, is_tensor_of_number

_MOST_BYTES: Final = 1 << 20
"""Of all buffers of one turn. More take 30 µs at least, beside which Python's microsecond a kernel does not matter."""
MOST_PIECES: Final = 32
"""Copies of a turn for one op, at 20 ns each."""
WORD: Final = 1 << 62
"""Numbers from here on might not fit a word."""


class Piece(NamedTuple):
    """What is copied of a tensor that is joined to others: which one it is, the bytes to the place in the result and to that in it."""

    part: int
    to: int
    origin: int
    size: int


@dataclass(eq=False)
class Turns:
    """What a loop runs on operands of certain layouts, and for certain whole numbers among them."""

    launches: dict[Node, Sequence[LaunchCall]] = field(default_factory=dict)
    makers: dict[Value, Allocate] = field(default_factory=dict)
    """The allocators of what kernels write, and of numbers as tensors."""
    copies: dict[Value, Allocate] = field(default_factory=dict)
    """The allocators of initial values that are copied: they are written in place, or laid out otherwise than the following ones."""
    same: dict[Value, Value] = field(default_factory=dict)
    """For what a branch returns, the result whose memory it has."""
    pieces: dict[Node, list[Piece]] = field(default_factory=dict)
    """What an op copies that joins tensors."""
    most: dict[Node, int] = field(default_factory=dict)
    """The most turns of each loop in which every cut stays inside of its tensor, and every number inside of a word."""


class Layouts:
    """A loop in a program for one library."""

    def __init__(self, form: LoopForm, groups: Mapping[Node, GroupKernels], memory: Memory, library: Library) -> None:
        self.form = form
        self.groups = {node: groups[node] for node in form.groups}
        self.memory = memory
        body = form.body
        inner = [node for node in form.steps if node.op in ("prim::If", "prim::Loop")]
        blocks = [body, *[block for node in inner for block in node.blocks]]
        constants = [node for block in blocks for node in block.nodes if node.op == "prim::Constant"]
        self.fixed = {node.output: library.constant(node) for node in constants}
        is_ours = {*self.groups, *inner, *[node for node in form.steps if node.op in (TAKE, PUT)]}
        self.functions = {node: library.function(node) for node in form.steps if node not in is_ours}
        self.loop_of = {value: node for node in inner if node.op == "prim::Loop" for value in node.blocks[0].params}
        """The inner loop that a value is a parameter of."""
        self.alias = {
            param: start
            for node in set(self.loop_of.values())
            for start, param, after, result in zip(
                node.inputs[2:], node.blocks[0].params[1:], node.blocks[0].returns[1:], node.outputs, strict=True
            )
            if after is param and param.type != INT and result not in form.read
        }
        """For what inner loops carry and never change, and nothing reads afterwards, what it is."""
        self.around: dict[Node, tuple[Node, ...]] = dict.fromkeys(body.nodes, ())
        """The inner loops that a node is in."""
        for node in inner:  # each before what is in it
            loops = (*self.around[node], node) if node.op == "prim::Loop" else self.around[node]
            self.around.update({each: loops for block in node.blocks for each in block.nodes})
        self.maker_of = {value: node for node in form.steps for value in node.outputs}
        self.place_of = {value: place for place, value in enumerate(body.params)}

    def turns(self, given: Sequence[Any]) -> Turns:
        """Returns what runs on operands like these. Raises ValueError where a layout changes from turn to turn, or a kernel is
        missing, and what the ops of a turn that is wrong raise."""
        turns, changed = self._first_turn(given, {})
        if changed:
            turns, changed = self._first_turn(given, changed)
        if changed:
            raise ValueError("what it carries is laid out otherwise after each turn")
        return turns

    def _first_turn(self, given: Sequence[Any], copies: dict[Value, Allocate]) -> tuple[Turns, dict[Value, Allocate]]:
        """Returns the layouts of a turn on these operands, and if carried values are laid out otherwise after it, the allocators of all
        that is to be copied."""
        form, inner = self.form, set(self.loop_of.values())
        turns = Turns(copies=copies, most=dict.fromkeys([form.node, *inner], WORD))
        values = dict(self.initial(given, {param: make() for param, make in copies.items()}))
        self._lay(form.body, values, turns)
        size = sum(self.type_of(values[value]).nbytes or 0 for value in turns.makers)
        if size > _MOST_BYTES:
            raise ValueError(f"a turn writes {size >> 10} KiB, beside which the time of Python does not matter")
        for tensor in form.flags.values():
            if (flag := self.type_of(values[tensor])).dtype != "bool" or flag.numel != 1:
                raise ValueError("its condition is not one bool in a tensor")
        return turns, self._changed(values, copies)

    def _lay(self, block: Block, values: dict[Value, Any], turns: Turns) -> None:
        """Adds the tensors of a block, which stand for those of all turns."""
        for node in block.nodes:
            if node in self.groups:
                self._lay_group(node, values, turns)
            elif node in self.functions:
                self._lay_call(node, values, turns)
            elif node.op == PUT:
                values[node.output] = values[node.inputs[0]]
                self._rows(node, values)
            elif node.op == TAKE:
                self._own(node.output, self._rows(node, values), values, turns)
            elif node.op == "prim::If":
                self._lay_branches(node, values, turns)
            elif node.op == "prim::Loop":
                self._lay_loop(node, values, turns)

    def _own(self, value: Value, type: TensorType, values: dict[Value, Any], turns: Turns) -> None:
        turns.makers[value] = self.memory.maker(type)
        values[value] = turns.makers[value]()

    def _lay_group(self, node: Node, values: dict[Value, Any], turns: Turns) -> None:
        ready = self.groups[node].ready([values[value] for value in node.inputs], self.memory)
        if ready is None or ready.in_place or not ready.plan.serial:
            ops = [each.op for each in node.blocks[0].nodes if each.op != "prim::Constant"]
            raise ValueError(f"{ops[0] if len(ops) == 1 else 'a group'} of its body has no kernel here, or several threads run one")
        turns.launches[node] = ready.plan.serial
        for value, make in zip(node.outputs, ready.makers, strict=True):
            turns.makers[value], values[value] = make, make()

    def _lay_call(self, node: Node, values: dict[Value, Any], turns: Turns) -> None:
        memory, operands = self.memory, [values[value] for value in node.inputs]
        made = self.functions[node](*operands)
        values.update(zip(node.outputs, made if len(node.outputs) > 1 else [made], strict=True))
        if node.op in MAY_COPY and memory.address(values[node.output]) != memory.address(operands[0]):
            raise ValueError(f"{node.op} of its body copies")
        if is_tensor_of_number(node):
            self._own(node.output, TensorType("int64", (), ()), values, turns)
        if node.op in JOINS:
            type, turns.pieces[node] = self._joined(node, values)
            self._own(node.output, type, values, turns)

    def _lay_branches(self, node: Node, values: dict[Value, Any], turns: Turns) -> None:
        for block in node.blocks:
            self._lay(block, values, turns)
        for output, *returned in zip(node.outputs, *[block.returns for block in node.blocks], strict=True):
            types = [self.type_of(values[value]) for value in returned]
            if len({(type.dtype, type.shape) for type in types}) > 1:
                raise ValueError("its branches return tensors of other types or extents")
            self._own(output, self._dense(types[0]), values, turns)
            for block, value in zip(node.blocks, returned, strict=True):
                made = self.maker_of.get(value)
                is_own = made in self.groups and made in block.nodes and list(block.returns).count(value) == 1
                if is_own and self.type_of(values[value]) == self.type_of(values[output]):
                    turns.same[value] = output

    def _lay_loop(self, node: Node, values: dict[Value, Any], turns: Turns) -> None:
        (body,) = node.blocks
        values[body.params[0]] = 0
        carried = list(zip(node.inputs[2:], body.params[1:], body.returns[1:], node.outputs, strict=True))
        for start, param, _, output in carried:
            if param.type == INT or param in self.alias:
                values[param] = values[start]
            else:
                self._own(output, self._dense(self.type_of(values[start])), values, turns)
                values[param] = values[output]
        self._lay(body, values, turns)
        for _, param, after, _ in carried:
            if param.type != INT and param not in self.alias:
                before, then = self.type_of(values[param]), self.type_of(values[after])
                if (before.dtype, before.shape) != (then.dtype, then.shape):
                    raise ValueError("what an inner loop carries changes its type or its extents")

    def _dense(self, type: TensorType) -> TensorType:
        """Returns the type row by row, unless its elements are in one piece anyway."""
        shape = extents(type)
        axes = sorted([(step, size) for step, size in zip(type.strides or (), shape, strict=True) if size != 1])
        is_dense = all(step == prod([size for _, size in axes[:place]]) for place, (step, _) in enumerate(axes))
        return type if is_dense else type.with_(strides=contiguous_strides(shape))

    def _rows(self, node: Node, values: Mapping[Value, Any]) -> TensorType:
        """Returns the type of the rows that an op takes or puts by index. Raises ValueError where memory has them in another order."""
        whole, axis = self.type_of(values[node.inputs[0]]), values[node.inputs[1]]
        indices, shape = self.type_of(values[node.inputs[2]]), list(extents(whole))
        types = [whole, indices]
        axis %= max(len(shape), 1)
        if shape:
            shape[axis] = indices.numel or 0
        row = whole.with_(shape=tuple(shape), strides=contiguous_strides(shape))
        if node.op == PUT:
            given = self.type_of(values[node.inputs[3]])
            types.append(given)
            if (given.dtype, given.shape) != (row.dtype, row.shape):
                raise ValueError("rows that it writes by index have other types or extents")
        is_dense = all(is_contiguous(extents(each), each.strides or ()) for each in types)
        if not is_dense or not shape or not row.nbytes or indices.dtype not in ("int32", "int64") or len(extents(indices)) > 1:
            raise ValueError(f"{node.op} of its body reads memory in another order")
        return row

    def initial(self, given: Sequence[Any], copies: Mapping[Value, Any]) -> Iterator[tuple[Value, Any]]:
        """Yields what a loop starts with, with what it captures, and with initial values in their copies."""
        params, carried = self.form.body.params, len(self.form.node.outputs)
        yield params[0], 0
        for param, value in zip(params[1:], given[:carried], strict=True):
            if param in copies:
                copies[param][...] = value
            yield param, copies.get(param, value)
        yield from zip(self.form.captured, given[carried:], strict=True)
        yield from self.fixed.items()

    def _joined(self, node: Node, values: Mapping[Value, Any]) -> tuple[TensorType, list[Piece]]:
        """Returns the type of the tensor that an op joins, and the pieces of memory that it copies. Raises ValueError for many."""
        whole, parts = self.type_of(values[node.output]), [self.type_of(part) for part in values[node.inputs[0]]]
        rows = prod(extents(whole)[: values[node.inputs[1]] % len(extents(whole))])
        is_dense = all(is_contiguous(extents(each), each.strides or ()) and each.dtype == whole.dtype for each in (whole, *parts))
        sizes = [(part.nbytes or 0) // max(rows, 1) for part in parts]
        if not is_dense or rows * sum(sizes) != whole.nbytes or rows * len(sizes) > MOST_PIECES:
            raise ValueError("what it joins is in too many pieces")
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        places = [(row, place) for row in range(rows) for place in range(len(sizes))]
        pieces = [Piece(place, row * sum(sizes) + starts[place], row * sizes[place], sizes[place]) for row, place in places]
        return whole, [piece for piece in pieces if piece.size]

    def row_of(self, node: Node, whole: Any, places: Sequence[Any]) -> Any:
        """Returns the part that an op replaces, as a view."""
        axis, *ends = places
        cut = ends[0] if node.op == "aten::select_scatter" else slice(*ends)
        return whole[(slice(None),) * (axis % whole.ndim) + (cut,)]

    def type_of(self, tensor: Any) -> TensorType:
        types = self.memory.types([tensor])
        if types is None or not isinstance(types[0], TensorType):
            raise ValueError("it has a tensor that kernels do not read")
        return types[0]

    def _changed(self, values: Mapping[Value, Any], copies: dict[Value, Allocate]) -> dict[Value, Allocate]:
        """Returns the allocators of all copies, if not all are in `copies`. Raises ValueError for another type after a turn."""
        body, needed = self.form.body, dict(copies)
        for before, after in zip(body.params[1:], body.returns[1:], strict=True):
            if before is after or before.type == INT:
                continue
            first, then = self.type_of(values[before]), self.type_of(values[after])
            if (first.dtype, first.shape) != (then.dtype, then.shape) or (first != then and before in copies):
                raise ValueError("what it carries changes its type or its extents")
            if first != then or (before in self.form.owned.values() and before not in self.form.fresh):
                needed[before] = self.memory.maker(then)
        return needed if needed.keys() != copies.keys() else {}
