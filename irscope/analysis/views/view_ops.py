"""Applies view ops to the layouts of their operands, once for each op, layout and arguments."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from irscope.analysis.views.facts import Facts, Failure, Origin, Placement, is_tensor
from irscope.ir import Node, Value
from irscope.ops.traits import JOINS
from irscope.ops.view_steps import (
    FRESH,
    RULES,
    Cut,
    Extent,
    Failed,
    Layout,
    Lowered,
    Num,
    Place,
    Step,
    Steps,
    Undecided,
    apply,
    lower,
    make_layout,
)


class Result(NamedTuple):
    """The effect of a view op on one layout."""

    layout: Layout | None
    is_view: bool
    is_decided: bool
    failure: Failure | None


class ViewOps:
    """Lowers view ops to steps with `lower`, and applies the steps."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._results: dict[tuple[Any, ...], tuple[Result, ...] | str | None] = {}
        self._kept: list[object] = []
        """Objects that keys of `_results` refer to by identity, kept alive."""

    def results_of(self, node: Node, operand: Placement) -> tuple[Result, ...] | str | None:
        layout = operand.layout
        assert layout is not None
        takes_another = any(is_tensor(value.type) for value in node.inputs[1:])
        form, device = None if takes_another else self._facts.shapes.form(node), self._facts.device_of(node.inputs[0])
        key: tuple[Any, ...] = (id(form), id(layout), device)
        if form is not None and key in self._results:
            return self._results[key]
        named = self._facts.arguments_of(node)
        if named is None:
            return None
        if form is None:
            frozen = ((name, tuple(given) if isinstance(given, list) else given) for name, given in named.items())
            key = (node.op, id(layout), device, *frozen)
            if key in self._results:
                return self._results[key]
        lowered = lower(node.op, layout.shape, layout.dtype, device, named)
        if _is_placed(lowered):
            return self._after(lowered, layout, self._base(operand))
        results = self._after(lowered, layout, None)
        if isinstance(results, tuple):
            results = tuple([each if each.layout is None else each._replace(layout=self._facts.shared(each.layout)) for each in results])
        self._results[key] = results
        self._kept.append(named)
        return results

    def outcome(self, node: Node, layout: Layout, index: int) -> tuple[Layout | None, bool]:
        """The layout of one result of a view op for an operand of this layout, and whether it is a view."""
        named = self._facts.arguments_of(node) if node.op in RULES else None
        if named is None:
            return None, False
        lowered = lower(node.op, layout.shape, layout.dtype, self._facts.device_of(node.inputs[0]), named)
        results = None if _is_placed(lowered) else self._after(lowered, layout, None)
        if not isinstance(results, tuple) or index >= len(results):
            return None, False
        return results[index].layout, results[index].is_view

    def _after(self, lowered: Lowered, layout: Layout, base: Num | None) -> tuple[Result, ...] | str | None:
        if lowered is None or lowered is FRESH:
            return lowered
        return tuple([after(each, layout, base) for each in lowered if not isinstance(each, str)])

    def _base(self, operand: Placement) -> Num | None:
        """The offset of the root's first element in its storage, in bytes."""
        if operand.origin == "made":
            return 0
        return None if operand.origin == "open" else Extent.of(f"first_byte(%{self._facts.graph.names[operand.root]})")  # type: ignore[index]

    def possible_view(self, value: Value) -> tuple[Value, Layout] | None:
        """The value that a copy could be a view of, and its layout in the buffer of that value's root; None for most."""
        node = self._facts.graph.producer.get(value)
        if node is None or not node.inputs:
            return None
        if node.op in JOINS:
            return self._side_by_side(node)
        operand, named = self._facts.of.get(node.inputs[0]), self._facts.arguments_of(node)
        if operand is None or operand.layout is None or named is None:
            return None
        found = _possible_steps(node.op, operand.layout.shape, named)
        result = None if found is None else after(found, operand.layout, None)
        return None if result is None or result.layout is None else (node.inputs[0], result.layout)

    def _side_by_side(self, node: Node) -> tuple[Value, Layout] | None:
        """The view that replaces a concatenation of parts already adjacent along the concatenated axis; None if there is none."""
        parts = list(self._facts.tensors_of(node))
        axis, placements = self._facts.argument(node.inputs[1]) if len(node.inputs) > 1 else 0, [self._facts.of.get(part) for part in parts]
        layouts = [placement.layout for placement in placements if placement is not None and placement.layout is not None]
        if node.op == "aten::stack" or len(layouts) != len(parts) or not layouts or not isinstance(axis, int):
            return None
        first, root = layouts[0], self._facts.of[parts[0]].root
        axis %= max(len(first.shape), 1)
        if not all(layout.is_known for layout in layouts) or any(self._facts.of[part].root is not root for part in parts):
            return None
        length: Any = 0
        for layout in layouts:
            past: Num | None = None
            if first.strides and first.offset is not None and first.item_size is not None:
                past = first.offset + first.strides[axis] * length * first.item_size
            rest = layout.shape[:axis] + layout.shape[axis + 1 :]
            if layout.strides != first.strides or layout.offset != past or rest != first.shape[:axis] + first.shape[axis + 1 :]:
                return None
            length += layout.shape[axis]
        shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        return parts[0], make_layout(shape, first.strides, first.offset, first.dtype)


def _is_placed(lowered: Lowered) -> bool:
    """Whether a step sets the strides: it may count from the start of the storage, which is not that of the root."""
    return isinstance(lowered, tuple) and any(isinstance(step, Place) for steps in lowered for step in steps)


def after(lowered: Steps, layout: Layout, base: Num | None) -> Result:
    is_view, is_decided, failure = True, True, None
    here: Layout = layout
    for step in lowered:
        outcome = apply(step, here, base)
        if isinstance(outcome, Layout):
            here = outcome
            continue
        failure = failure or Failure(step, here, outcome)
        if isinstance(outcome, Failed):
            return Result(None, True, False, failure)
        if isinstance(outcome, Undecided):
            is_decided = False
        is_view, here, base = False, outcome.layout, 0
    return Result(here, is_view, is_decided, failure)


def placed(result: Result, operand: Placement, source: Value) -> Placement:
    if result.is_view:
        return Placement(
            "view", operand.root, operand.origin, result.layout, source, False, operand.is_decided and result.is_decided, result.failure
        )
    origin: Origin = "made" if result.is_decided else "open"
    layout = result.layout
    if layout is not None and not result.is_decided:
        layout = make_layout(layout.shape, layout.strides, 0, layout.dtype)
    return Placement("copy", None, origin, layout, source, False, result.is_decided, result.failure)


def _possible_steps(op: str, shape: tuple[Num, ...], arguments: Mapping[str, Any]) -> Steps | None:
    """Return the steps of a view that could replace a copy by torch: a padding whose margins are all zero or negative."""
    pad = arguments.get("pad")
    if op not in _PADS or arguments.get("mode", "constant") != "constant" or not isinstance(pad, list | tuple):
        return None
    if len(pad) % 2 or len(pad) > 2 * len(shape) or not all(isinstance(width, int) and width <= 0 for width in pad):
        return None
    steps: list[Step] = []
    for index in range(0, len(pad), 2):
        axis = len(shape) - 1 - index // 2
        if pad[index] or pad[index + 1]:
            steps.append(Cut(axis, -pad[index], shape[axis] + pad[index] + pad[index + 1]))
    return tuple(steps)


_PADS: Final = frozenset({"aten::constant_pad_nd", "aten::pad"})
