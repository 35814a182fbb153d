"""Applies view ops to the layouts of their operands, once for each op, layout and arguments."""

from typing import Any, NamedTuple

from irscope.analysis.views.facts import Facts, Failure, Origin, Placement, is_tensor
from irscope.ir import Node, Value
from irscope.ops.view_steps import FRESH, RULES, Extent, Failed, Layout, Lowered, Num, Place, Steps, Undecided, apply, lower, make_layout


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
        key: tuple[Any, ...]
        if form is not None:
            key = (id(form), id(layout), device)
            if key in self._results:
                return self._results[key]
        named = self._facts.arguments_of(node)
        if named is None:
            return None
        if form is None:
            key = (node.op, id(layout), device, *map(_frozen, named.items()))
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


def _frozen(item: tuple[str, Any]) -> Any:
    name, argument = item
    return (name, tuple(argument)) if isinstance(argument, list) else item
