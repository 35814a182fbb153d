"""The modes and transforms around a call in torch that change what ops compute, but that kernels do not see.

Torch's ops check what is active around them: autocast, another default floating-point type, the transforms of torch.func,
dual numbers, tracing, dispatch modes. A program was captured without any of these, and a kernel reads and writes memory
without a check. So each call checks first, and does one of three things:

* Under tracing (`torch.jit.trace`, `make_fx`), mapping (`torch.vmap`) or a dispatch mode, the program runs node by node
  through torch's own ops, which these can see.
* Where its numbers or types would differ from the model's (autocast, another default), or a derivative would be lost, the
  call is refused.
* In all other cases the program runs as compiled.

Torch's own guard of a specialised call (`TorchMemory.guards`) sees autocast, transforms and tracing by the dispatch keys that
they add, so the fast path pays only for the rest.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from irscope._base.nested import leaves
from irscope.errors import RunError
from irscope.ir import Graph, Node
from irscope.ops.registry import DEFAULT, category_of, gives_default_floats, schema_of

_UNTOUCHED: Final = ("pointwise", "view", "memory", "container", "scalar", "control")
"""Categories of ops that autocast never changes, except where an op has its own autocast kernel."""
_KEYS: Final = {"cpu": "AutocastCPU", "reference": "AutocastCPU", "cuda": "AutocastCUDA"}


class Surroundings:
    """The checks of a program's surroundings at a call with torch tensors."""

    def __init__(self, graph: Graph, device: str) -> None:
        self.graph = graph
        self.device = device

    @cached_property
    def asks_default(self) -> bool:
        """Whether the default floating-point type may matter."""
        graph = self.graph
        return bool(graph.default_floats) or any(gives_default_floats(node) is not False for node in graph.nodes())

    @cached_property
    def torch(self) -> Any:
        """The package, which is imported by the time a tensor is passed."""
        return sys.modules["torch"]

    @cached_property
    def is_plain(self) -> Callable[..., bool]:
        """Checks whether nothing surrounds a call with these arguments, all tensors; takes half a microsecond."""
        torch = self.torch
        binding, levels, default = torch._C, torch.autograd.forward_ad, torch.float32
        modes, tracing, cast = (binding._len_torch_dispatch_stack, binding._get_tracing_state, binding._is_any_autocast_enabled)
        level, recording = binding._functorch.maybe_current_level, torch.is_grad_enabled
        default_of = torch.get_default_dtype if self.asks_default else lambda: default

        def is_plain(*tensors: Any) -> bool:
            if levels._current_level >= 0 or modes() or tracing() is not None or level() is not None:
                return False
            if cast() and self._first_cast is not None:
                return False
            if default_of() is not default:
                return False
            return not (recording() and True in [tensor.requires_grad for tensor in tensors])

        return is_plain

    def unguarded(self, names: dict[str, Any]) -> str:
        """Returns a Python condition for what torch's guard does not see; adds what it needs to `names`."""
        torch = self.torch
        names["modes"], names["levels"] = torch._C._len_torch_dispatch_stack, torch.autograd.forward_ad
        names["default_of"], names["float32"] = torch.get_default_dtype, torch.float32
        names["is_plain"] = self.is_plain
        other = " and default_of() is float32" if self.asks_default else ""
        return f"levels._current_level < 0 and not modes(){other}"

    def node_by_node(self, arguments: Sequence[Any]) -> bool:
        """Checks whether torch must see the program's ops. Raises RunError if even running node by node would be wrong."""
        torch = self.torch
        tensors = [leaf for leaf in leaves([*arguments, *self.graph.bound.values()]) if isinstance(leaf, torch.Tensor)]
        self._refuse_autocast()
        seen = self._refuse_default()
        self._refuse_derivatives(tensors)
        functorch = torch._C._functorch
        if functorch.maybe_current_level() is not None:
            seen = seen or any(map(functorch.is_functorch_wrapped_tensor, tensors))
        seen = seen or torch._C._get_tracing_state() is not None or torch._C._len_torch_dispatch_stack() > 0
        if seen and self.device == "reference":
            raise RunError(
                'the device "reference" interprets with NumPy, which torch\'s tracing, transforms and modes do not see',
                rule="surroundings",
                hint='call it outside of them, or compile it for another device: irs.compile(program, device="cpu")',
            )
        return seen

    def _refuse_autocast(self) -> None:
        kind = "cuda" if self.device == "cuda" else "cpu"
        if not self.torch._C._is_any_autocast_enabled() or not self.torch.is_autocast_enabled(kind):
            return
        node = self._first_cast
        if node is not None:
            raise RunError(
                f"torch.autocast is on, and would make {node.op} compute in another type than the program",
                where=repr(node),
                rule="surroundings",
                hint=f'call it inside of torch.autocast("{kind}", enabled=False): a program that is loaded while autocast is on '
                "holds its casts, any other computes as it was captured",
            )

    @cached_property
    def _first_cast(self) -> Node | None:
        """The first node that autocast may change."""
        has_kernel, key = self.torch._C._dispatch_has_kernel_for_dispatch_key, _KEYS[self.device]
        for node in self.graph.nodes():
            schema = schema_of(node)
            if schema is None or node.blocks or node.op.startswith("prim::"):
                continue
            name = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
            try:
                composed = category_of(node) not in _UNTOUCHED and has_kernel(name, "CompositeImplicitAutograd")
                if composed or has_kernel(name, key):
                    return node
            except RuntimeError:  # not an op of the dispatcher
                continue
        return None

    def _refuse_default(self) -> bool:
        """Refuses a program compiled for another default type; returns whether torch's own ops must run to query the default."""
        default = self.torch.get_default_dtype()
        if not self.asks_default or default is self.torch.float32:
            return False
        made = next((node for node in self.graph.nodes() if gives_default_floats(node)), None)
        op = self.graph.default_floats or (made.op if made is not None else "")
        if op:
            raise RunError(
                f"torch's default floating-point type is {default} now, and the result of {op} was compiled as {DEFAULT}",
                where=repr(made) if made is not None else "",
                rule="surroundings",
                hint="torch.set_default_dtype(torch.float32), or a model that states the dtype of each tensor it creates",
            )
        return True

    def _refuse_derivatives(self, tensors: Sequence[Any]) -> None:
        torch = self.torch
        functorch, levels = torch._C._functorch, torch.autograd.forward_ad
        lost = ""
        if functorch.maybe_current_level() is not None and any(map(self._is_tracked, tensors)):
            lost = "torch.func differentiates through it, or maps over a tensor that requires a gradient"
        elif levels._current_level >= 0 and any(
            levels.unpack_dual(x).tangent is not None for x in tensors if x.is_floating_point() or x.is_complex()
        ):
            lost = "an argument is a dual number with a tangent"
        if lost:
            raise RunError(
                f"{lost}, and a compiled program computes no derivatives",
                rule="surroundings",
                hint="differentiate the model itself; where no derivative is needed, pass x.detach() and call it inside of torch.no_grad()",
            )

    def _is_tracked(self, tensor: Any) -> bool:
        """Checks whether autograd or a differentiating transform of torch.func, at any level, tracks the tensor."""
        functorch = self.torch._C._functorch
        if tensor.requires_grad and self.torch.is_grad_enabled():
            return True
        while functorch.is_functorch_wrapped_tensor(tensor):
            if functorch.is_gradtrackingtensor(tensor):
                return True
            if not functorch.is_batchedtensor(tensor):
                return False
            tensor = functorch.get_unwrapped(tensor)
        return False
