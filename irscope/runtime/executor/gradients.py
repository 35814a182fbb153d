"""Gradients that torch would record: a compiled program computes none, and raises an error where one is needed.

Where torch records gradients and an argument or a parameter requires one, the model's results require one too. The
program's results must as well, since they would silently count as constants otherwise; differentiating through them
raises an error with the way out. The program also refuses the writes that torch would refuse or record for the model:
to a leaf that requires a gradient, and to an argument that would depend on one afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from irscope._base.leaves import leaves
from irscope.analysis.alias import AliasDb
from irscope.errors import RunError
from irscope.ir import Graph, Value
from irscope.ops.registry import schema_of

__all__ = ["Gradients", "may_write"]

_NONE_HERE: Final = (
    "a program compiled by irscope computes no gradients, and one is asked for of its result: call it inside of "
    "torch.no_grad() if none is needed, or differentiate the model itself"
)


def may_write(graph: Graph) -> bool:
    """Checks whether any node of a program may write memory that it receives."""
    return any(
        not node.op.startswith("prim::") if (schema := schema_of(node)) is None else schema.is_mutable
        for node in graph.nodes()
    )


class Gradients:
    """The handling of gradients in a program that runs while torch records them."""

    def __init__(self, graph: Graph, torch: Any) -> None:
        self.graph = graph
        self.torch = torch
        self.held = [held for held in leaves(list(graph.bound.values())) if isinstance(held, torch.Tensor)]
        self.token: tuple[list[bool], Any] = ([], None)
        """Which of the held tensors require a gradient, and one tensor that depends on all of those."""

    @cached_property
    def written(self) -> frozenset[Value]:
        """The inputs that the program may write; writes through another input that shares their memory do not count."""
        if not may_write(self.graph):
            return frozenset()
        db = AliasDb(replace(self.graph, distinct_inputs=True))
        return frozenset(value for value in self.graph.inputs if db.has_writers(value))

    def wanted(self, given: Sequence[Any]) -> list[Any]:
        """Returns the arguments (one per free input) that require a gradient, and one tensor for all parameters that do.

        Raises RunError if the program may write memory whose write torch would refuse or record.
        """
        if self._is_traced():
            return []  # torch sees the ops, and differentiates them
        wanting = [leaf for leaf in leaves(given) if isinstance(leaf, self.torch.Tensor) and leaf.requires_grad]
        flags = [held.requires_grad for held in self.held]
        if True in flags:
            wanting.append(self._one_for(flags))
        if wanting and self.written:
            self._refuse_writes(given)
        return [] if self.graph.gradients else wanting  # a backward pass returns plain tensors, as torch.autograd.grad does

    def _is_traced(self) -> bool:
        binding = self.torch._C
        making = binding._len_torch_dispatch_stack() and binding._get_dispatch_mode(binding._TorchDispatchModeKey.PROXY)
        return bool(making) or binding._get_tracing_state() is not None

    def _one_for(self, flags: list[bool]) -> Any:
        known, token = self.token
        if known != flags:
            ends = [held for held, flag in zip(self.held, flags, strict=True) if flag]
            token = self._closed([self.torch.empty(0), *ends])[0]
            self.token = flags, token
        return token

    def _refuse_writes(self, given: Sequence[Any]) -> None:
        names, bound = self.graph.names, self.graph.bound
        for value, argument in [*zip(self.graph.free_inputs, given, strict=True), *bound.items()]:
            if value not in self.written:
                continue
            for leaf in leaves(argument):
                if not isinstance(leaf, self.torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
                    continue
                if leaf.requires_grad and leaf.is_leaf:
                    raise _may_not(f"%{names[value]} requires a gradient, and the program may write into it in place")
                if value not in bound:
                    raise _may_not(
                        f"the program may write into %{names[value]}, which would then depend on a tensor that requires a gradient"
                    )

    def _closed(self, tensors: list[Any]) -> Sequence[Any]:
        closed: Sequence[Any] = self.torch._C._functions.DelayedError(_NONE_HERE, len(tensors))(*tensors)
        return closed

    def closed(self, results: tuple[Any, ...], wanting: list[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the results; those computed without a gradient become tensors that require one but raise on backward."""
        known = {id(leaf) for leaf in leaves([list(given), self.held])}
        found = {
            id(leaf): leaf for leaf in leaves(results)
            if type(leaf) is self.torch.Tensor and id(leaf) not in known
            and not leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())
        }  # fmt: skip
        if not found:
            return results
        made = dict(zip(found, self._closed([*found.values(), *wanting]), strict=False))
        return tuple([_inside(result, made) for result in results])


def _inside(result: Any, made: dict[int, Any]) -> Any:
    if isinstance(result, list | tuple):
        return type(result)([_inside(item, made) for item in result])
    if isinstance(result, dict):
        return {key: _inside(item, made) for key, item in result.items()}
    return made.get(id(result), result)


def _may_not(what: str) -> RunError:
    return RunError(
        f"{what}, which torch would refuse or record",
        rule="gradients",
        hint="call it inside of torch.no_grad(), or pass x.detach()",
    )
