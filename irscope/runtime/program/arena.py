"""The memory of planned programs: results of kernels are placed where the memory plan puts them. And the peak of any run.

A run allocates each block of its plan (`irscope.analysis.memory_plan`) when the first buffer in it is created. A block is either an
arena, or the memory of a result that holds other buffers before the result is written. A tensor in an arena keeps the arena
allocated, so no tensor can refer to freed memory; the run itself releases a block once its last buffer has been created. Inside
a loop's body the last buffer is not known, so the run holds such a block to its end. Each run of each thread has its own blocks.

A result that is written in place of an operand is not allocated: the operand's tensor is the result from then on. Elementwise
library ops outside of groups take part by their in-place form: `gelu` becomes `gelu_` where the operand is dead afterwards. A
result whose type or size differs from the plan is allocated as in any other program.

A plan has a place for each tensor that the program names, but a library op may need more while it runs. Products are torch's own, also
where oneDNN is quicker, which takes workspace for each: linears that it does with an activation are two ops again (`split_linears`). Two
other ops are rewritten. Max pooling, which stores the indices of its maxima, gets a kernel instead (`group_pools`); a convolution over
planes, which copies its operand and its result, is converted to channels last (`channels_last`). The latter sums in another
order than torch does over planes; among zeros of both signs, torch's max pooling may return the other one.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from irscope._base.nested import address_range, leaves
from irscope.analysis.live_ranges import Offers
from irscope.analysis.memory_placement import Place
from irscope.analysis.memory_plan import MemoryPlan, memory_plan
from irscope.codegen.kernel import ITEM_SIZE
from irscope.ir import Graph, Node, TensorType, make_node, new_id
from irscope.ops.registry import effect_of, op_of, schema_of
from irscope.runtime.arrays import Memory, extents
from irscope.runtime.program.code import Code, Slots
from irscope.transforms.base import Remark
from irscope.transforms.cleanup import split_linears
from irscope.transforms.cleanup.channels_last import channels_last
from irscope.transforms.fusion import group_pools


def without_workspaces(graph: Graph, *, exact: bool) -> tuple[Graph, tuple[Remark, ...]]:
    """Returns the program with less workspace, and remarks on what was done and declined; `exact` keeps torch's bits.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Float(4)):\\n  %y : Float(4) = aten::neg(%x)\\n  return (%y)")
    >>> without_workspaces(g, exact=False) == (g, ())
    True
    """
    if exact:
        return graph, ()
    linears = split_linears(graph)
    pools = group_pools(linears.after)
    laid = channels_last(pools.after)
    return laid.after, (*linears.remarks, *pools.remarks, *laid.remarks)


_BYTES = np.dtype("uint8")
_Blocks = list[dict[Any, Any] | None]
"""For each block of the plan, the tensors that cover all of it, by element type; None before it is allocated."""


class Arena:
    """The blocks of one planned program."""

    def __init__(self, graph: Graph, groups: Sequence[Node], offers: Offers | None = None) -> None:
        """`groups`: the nodes whose kernels accept a place for each result; `offers`: the operands that kernels may overwrite."""
        fused = set(groups)
        self.plan: MemoryPlan = memory_plan(graph, is_told=fused.__contains__, offers=offers)
        makers = dict.fromkeys(graph.producer[value] for value in self.plan.in_place)
        self.instead = {node: form for node in makers if node not in fused and (form := in_place_form(node)) is not None}
        """Library ops that are replaced by their in-place form, mapped to that form."""
        self._run = _Run()
        # by their node, and results of one node in their order
        made = sorted(self.plan.places, key=lambda place: (place.buffer.birth, place.buffer.maker.outputs.index(place.buffer.value)))
        last, body = {place.block: place.buffer for place in made}, set(self.plan.graph.body.nodes)
        self._last = {block: buffer for block, buffer in last.items() if buffer.maker in body}
        """The last buffer created in each block, for blocks where the body of the program creates it, hence once."""

    def taken(self, group: Node) -> dict[int, int]:
        """Returns which of a group's outputs are written in place of which of its inputs, by position."""
        in_place = self.plan.in_place
        return {index: group.inputs.index(in_place[value]) for index, value in enumerate(group.outputs) if value in in_place}

    def enter(self) -> _Blocks | None:
        """Begins a run in this thread; returns the state that `leave` restores."""
        before, self._run.blocks = self._run.blocks, [None] * len(self.plan.blocks)
        return before

    def leave(self, before: _Blocks | None) -> None:
        self._run.blocks = before

    def maker(self, group: Node, output: int, type: TensorType, memory: Memory) -> Callable[[], Any]:
        """Returns the allocator of a group's result: its place in a block if it has one and fits there."""
        plain, value = memory.maker(type), group.outputs[output]
        place = self.plan.place(value)
        size = span(type)
        if place is None or place.buffer.value is not value or not 0 < size <= place.buffer.bytes:
            return plain
        guests = (each for each in self.plan.places if each.block is place.block and each.buffer is not place.buffer)
        if place.block.result is place.buffer and next(guests, None) is None:
            return plain
        cut = _cut_torch(memory, type, place) if memory.library == "torch" else _cut_numpy(type, place)
        run, block = self._run, place.block
        index, is_last = block.index, self._last.get(block) is place.buffer
        whole = block.bytes if block.result is None else block.result.bytes
        of_torch: Any = getattr(memory, "torch", None)
        pool: Any = getattr(memory, "pool", None)

        def make() -> Any:
            blocks = run.blocks
            if blocks is None:  # outside of a run
                return plain()
            views = blocks[index]
            if views is None:
                raw = pool.empty((whole,), "uint8") if of_torch is None else of_torch.empty(whole, dtype=of_torch.uint8)
                views = blocks[index] = {raw.dtype: raw}
            if is_last:
                blocks[index] = None
            return cut(views)

        return make


class _Run(threading.local):
    """The blocks of the run that is in progress in each thread."""

    blocks: _Blocks | None = None


def span(type: TensorType) -> int:
    """Returns the bytes from the first element to the last one, for the strides of the type."""
    assert type.dtype is not None
    shape = extents(type)
    if 0 in shape:
        return 0
    if type.strides is None:
        return type.nbytes or 0
    reach = sum((size - 1) * stride for size, stride in zip(shape, type.strides, strict=True))
    return (reach + 1) * ITEM_SIZE[type.dtype]


def _cut_torch(memory: Any, type: TensorType, place: Place) -> Callable[[dict[Any, Any]], Any]:
    assert type.dtype is not None
    torch, dtype, item = memory.torch, memory.dtypes[type.dtype], ITEM_SIZE[type.dtype]
    shape, offset = extents(type), place.offset // item
    strides = type.strides if type.strides is not None else torch.empty(shape, device="meta").stride()

    def cut(views: dict[Any, Any]) -> Any:
        whole = views.get(dtype)
        if whole is None:
            raw = views[torch.uint8]
            whole = views[dtype] = raw[: raw.numel() // item * item].view(dtype)
        return whole.as_strided(shape, strides, offset)

    return cut


def _cut_numpy(type: TensorType, place: Place) -> Callable[[dict[Any, Any]], Any]:
    assert type.dtype is not None
    item = ITEM_SIZE[type.dtype]
    dtype = np.dtype("uint16" if type.dtype == "bfloat16" else type.dtype)
    shape, offset = extents(type), place.offset
    strides = None if type.strides is None else tuple(stride * item for stride in type.strides)

    def cut(views: dict[Any, Any]) -> Any:
        return np.ndarray(shape, dtype, views[_BYTES], offset, strides)

    return cut


def in_place_form(node: Node) -> Node | None:
    """Returns the node that computes the same in its first operand; None if there is none, or it might not be the same.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Float(4, strides=[1])):\\n  %y : Float(4, strides=[1]) = aten::tanh(%x)\\n  return (%y)")
    >>> in_place_form(g.node("y")).op
    'aten::tanh_'
    """
    op = op_of(node)
    if op is None or op.category != "pointwise" or op.operand_axes or node.blocks or len(node.outputs) != 1:
        return None
    tensors = [value for value in node.inputs if isinstance(value.type, TensorType)]
    if len(tensors) != 1 or node.inputs[0] is not tensors[0] or effect_of(node) != "pure":
        return None
    given, made = tensors[0].type, node.output.type
    assert isinstance(given, TensorType)
    if not given.is_static or given.strides is None or given.dtype is None or given != made:
        return None
    variant = make_node(new_id(), f"{node.op}_", node.inputs, node.outputs, node.attrs, (), node.location, node.scope)
    return variant if schema_of(variant) is not None and effect_of(variant) == "in-place" else None


# The peak memory that the tensors of one run take at once.
#
# It counts the blocks behind the tensors that the run creates: a view adds nothing to its base, however many slots hold
# it, and a block is alive while a slot, or a list, tuple or dictionary in a slot, leads to it. Arguments, parameters and
# constants exist before the run and are not counted; neither is the workspace that a library op takes and returns while it
# runs. The peak is updated after each instruction, before the slots that are dead after it are cleared: an op's operands
# and results are alive together.


def blocks_of(value: Any) -> Iterator[tuple[int, int]]:
    """Yields address and bytes of the memory behind each tensor in a value, at its allocated size."""
    for item in leaves(value):
        found = address_range(item) if hasattr(item, "dtype") else None
        if found is not None and found[0] < found[1]:
            yield found[0], found[1] - found[0]


class PeakMemory:
    """Follows the memory of one run of a program; pass `after` to `Code.run`."""

    def __init__(self, code: Code, slots: Slots) -> None:
        self.code = code
        self.slots = slots
        self.peak = 0
        """Bytes."""
        self.curve: list[tuple[int, int, int]] = []
        """For each instruction that has run: its position, the bytes that it allocated, and those alive right after it."""
        self._now = 0
        self._outside = {address for value in slots for address, _ in blocks_of(value)}
        self._held: dict[int, tuple[tuple[int, int], ...]] = {}
        self._holders: Counter[tuple[int, int]] = Counter()

    def after(self, position: int) -> None:
        """Records the memory that the instruction at this position created, then what dies after it."""
        slots, before, step = self.slots, self._now, self.code.instructions[position]
        for slot in step.writes:
            self._hold(slot)
        for slot in step.reads:
            if isinstance(slots[slot], list | dict):  # whose contents a node may change
                self._hold(slot)
        self.peak = max(self.peak, self._now)
        self.curve.append((position, max(self._now - before, 0), self._now))
        for slot in step.dead:
            self._release(slot)

    def _hold(self, slot: int) -> None:
        blocks = tuple([block for block in blocks_of(self.slots[slot]) if block[0] not in self._outside])
        for block in blocks:
            self._holders[block] += 1
            if self._holders[block] == 1:
                self._now += block[1]
        self._release(slot)
        self._held[slot] = blocks

    def _release(self, slot: int) -> None:
        for block in self._held.pop(slot, ()):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._now -= block[1]
