"""Traces forward and backward of a torch function into one FX graph, as AOTAutograd does: below autograd, with fake
tensors.

The function runs once, on tensors with shapes but no elements, and then `torch.autograd.grad`; every call that reaches
torch's dispatcher below autograd is a node. So the graph holds everything autograd does, for whatever reason: custom
functions, hooks, `no_grad`, `detach`. AOTAutograd then functionalises its trace; this one keeps in-place ops and views
as they are, for the alias analysis.

A node of the backward pass carries the source line and the module of the forward op that it differentiates: autograd
numbers both (`seq_nr`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from irscope.frontends.torch.values import require_torch

__all__ = ["fake_tensors", "note_gradients", "swapped", "trace"]


def fake_tensors(tensors: Sequence[Any], differentiable: Sequence[bool]) -> tuple[Any, list[Any]]:
    """Returns a fake tensor mode, and a fake leaf for each tensor; a tensor that occurs twice has one fake."""
    torch = require_torch("to differentiate a model")
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, Any] = {}
    for tensor, wanted in zip(tensors, differentiable, strict=True):
        if id(tensor) not in made:
            made[id(tensor)] = mode.from_tensor(tensor.detach(), static_shapes=True).requires_grad_(wanted)
    assert all(isinstance(fake, torch.Tensor) for fake in made.values())
    return mode, [made[id(tensor)] for tensor in tensors]


@contextmanager
def swapped(roots: Mapping[str, Any], tensors: Mapping[str, Any]) -> Iterator[None]:
    """Swaps the parameters and buffers of modules within a `with`, tied ones together; `tensors` are keyed by dotted
    path."""
    from contextlib import ExitStack

    from torch.nn.utils.stateless import _reparametrize_module

    with ExitStack() as stack:
        for prefix, module in roots.items():
            own = {path.removeprefix(prefix): held for path, held in tensors.items() if path.startswith(prefix)}
            stack.enter_context(_reparametrize_module(module, own, tie_weights=True))
            stack.enter_context(_noting_scopes(module, prefix))
        yield


@contextmanager
def _noting_scopes(root: Any, prefix: str) -> Iterator[None]:
    """Makes the FX nodes of each module's forward carry its path."""
    from torch.fx import traceback

    paths: list[str] = []

    def note() -> None:
        meta = traceback.current_meta
        meta["nn_module_stack"] = {path: (path, "") for path in paths}

    def hooks(path: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def enter(*_: object) -> None:
            paths.append(path)
            note()

        def leave(*_: object) -> None:
            paths.pop()
            note()

        return enter, leave

    handles = []
    try:
        for path, module in root.named_modules():
            enter, leave = hooks((prefix + path).rstrip("."))
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def trace(function: Callable[..., Sequence[Any]], inputs: Sequence[Any], mode: Any) -> Any:
    """Returns the FX graph module of a function of fake tensors that returns a flat list, without dead code."""
    from torch.fx import traceback
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

    def forward(*given: Any) -> Sequence[Any]:  # torch keeps stack frames from the first of this name on
        tracing = get_proxy_mode()
        assert tracing is not None
        tracing.tracer._record_forward_stack_traces_only = False  # else it keeps only frames of this name, and functions have others
        return function(*given)

    with mode, traceback.preserve_node_meta():
        module = make_fx(forward, record_stack_traces=True)(*inputs)
    _assign_places(module)
    _forget_detached(module)
    module.graph.eliminate_dead_code()
    return module


def note_gradients(outputs: Sequence[Any]) -> None:
    """Marks the start of the backward pass of these results, whose nodes carry the numbers of their forward ops."""
    from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    tracing = get_proxy_mode()
    assert tracing is not None
    tracing.tracer.record_stack_traces = False  # every trace would end here
    setup_stacktrace_preservation_hooks([output.grad_fn for output in outputs if output.grad_fn is not None])


def _assign_places(module: Any) -> None:
    """Gives each node of the backward pass the location and module of the forward op with its number, or none."""
    forward: dict[Any, Any] = {}
    in_backward = False
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        in_backward = in_backward or node.meta.get("autograd_backward", False)
        number = node.meta.get("seq_nr")
        if not in_backward:
            forward.setdefault(number, node)
            continue
        origin = forward.get(number) if node.meta.get("autograd_backward") else None
        for key in ("stack_trace", "nn_module_stack"):
            known = origin.meta.get(key) if origin is not None else None
            node.meta[key] = known if known is not None else {} if key == "nn_module_stack" else ""


def _forget_detached(module: Any) -> None:
    """Removes `detach` and `alias`: autograd saves results as detached tensors, which below autograd are the same
    tensors.

    Does nothing if the program changes the shape of a tensor in place (`t_`): the detached one keeps the old shape.
    """
    torch = require_torch("to differentiate a model")
    overloads = [node for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    if any(torch.Tag.inplace_view in node.target.tags for node in overloads):
        return
    for node in overloads:
        if node.target._schema.name in ("aten::detach", "aten::alias"):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
