"""The backward pass: the joint graph of a torch model's forward computation and its gradients.

Gradients need a starting point. With a `loss` it is the loss of the model's outputs and the targets; without one the conventions are those
of `Tensor.backward`: a model that returns one number is its own loss, and for any other the graph takes the gradient of each differentiable
output as an input (`%grad_output`), after the arguments. AOTAutograd calls them tangents.

The results are the loss, or the outputs, followed by one gradient for each parameter and each argument that
`requires_grad`, named after it (`%grad_fc.weight`, `%grad_x`). `Graph.gradients` maps names to results.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

from irscope._base.nested import argument_names
from irscope.errors import ArgumentError, CaptureError, IrscopeError
from irscope.frontends.torch.capture import CAPTURE_LOCK, capturing, modes_of, roots_of
from irscope.frontends.torch.export_importer import import_exported
from irscope.frontends.torch.export_source import check_arguments, surroundings_of, trimmed
from irscope.frontends.torch.types import require_torch, tensor_type
from irscope.ir import Graph, TensorType, nested_paths

_REASONS: Final = (
    ("a leaf Variable that requires grad", "it writes in place into a parameter or argument that requires a gradient",
     "write into a copy (x.clone()), or take the gradient of something else (requires_grad_(False))"),
    ("view of a leaf Variable that requires grad", "it writes in place into a view of a parameter or argument that "
     "requires a gradient", "write into a copy (x.clone())"),
    ("modified by an inplace operation", "it overwrites a tensor that the backward pass needs unchanged",
     "use the out-of-place form of that op"),
    ("does not require grad", "no gradient flows from its result to a parameter or argument: it was detached, or computed "
     "under no_grad", "compute the result from the parameters with gradients on"),
    ("data-dependent", "the model branches on the values of a tensor, which a graph does not have",
     "write it with torch.where, or differentiate the parts on either side"),
    ("DataDependent", "the model reads the values of a tensor (.item(), a branch), which a graph does not have",
     "write it with torch.where, or differentiate the parts on either side"),
    ("DynamicOutputShape", "the shape of one of its results depends on the values of a tensor",
     "write it with a mask of fixed shape (torch.where)"),
    ("derivative for", "one of its ops has no derivative", "make the loss independent of that op"),
)  # fmt: skip
"""A part of torch's message; what went wrong; what to do."""


def joint_graph(
    source: Any, args: Sequence[Any], *, loss: Callable[..., Any] | None = None, targets: Sequence[Any] = (),
    name: str | None = None,
) -> Graph:  # fmt: skip
    """Return forward and gradients of a torch module or function as one graph.

    Parameters are those of the module, or of the modules that the function is a method of or closes over. `loss` is called with the model's
    result and `targets`, which become inputs after the arguments. Arguments that are not tensors are specialised.

    Raises ArgumentError, CaptureError or MissingExtra.
    """
    torch = require_torch("to differentiate a model")
    source = source.module() if isinstance(source, torch.export.ExportedProgram) else source
    title = name or str(getattr(source, "__name__", type(source).__name__))
    _check(source, args, loss, targets, title)
    with CAPTURE_LOCK:
        capture, modes = _Capture(source, args, loss, targets, title), modes_of(source)
        try:
            with capturing():
                graph = capture.run()
        except IrscopeError:
            raise
        except Exception as error:
            raise _failed(error, title) from None
    return replace(graph, modes=modes.holding(source, graph.bound.values()))


def unit_cotangents(graph: Graph, given: Sequence[Any]) -> tuple[Any, ...]:
    """Return ones for the output gradients that a joint graph takes after these arguments: the gradient of the outputs' sum."""
    torch = require_torch("to differentiate a model")
    places = graph.free_inputs[len(torch.utils._pytree.tree_leaves(tuple(given))) :]
    types = [value.type for value in places if isinstance(value.type, TensorType)]
    assert len(types) == len(places)
    return tuple(
        torch.empty_strided(type.shape, type.strides, dtype=getattr(torch, str(type.dtype)), device=type.device).fill_(1) for type in types
    )


def _check(source: Any, args: Sequence[Any], loss: Any, targets: Sequence[Any], title: str) -> None:
    torch = require_torch("to differentiate a model")
    if not callable(source):
        what = f"backward=True takes a torch module or function, and not {type(source).__module__}.{type(source).__qualname__}"
        raise ArgumentError(what, hint="load the model itself; of a JAX function load jax.value_and_grad(function)")
    check_arguments(source.forward if isinstance(source, torch.nn.Module) else source, args, title)
    if loss is not None and not callable(loss):
        hint = "irs.load(model, x, backward=True, loss=torch.nn.functional.mse_loss, targets=(y,))"
        raise ArgumentError(f"a loss is a function of the model's result, and not {type(loss).__name__}", hint=hint)
    if loss is None and len(targets):
        raise ArgumentError("targets are for a loss, and none is given", hint="pass loss=function(result, *targets)")


def _failed(error: Exception, title: str) -> CaptureError:
    message = f"{type(error).__name__}: {error}"
    for mark, why, hint in _REASONS:
        if mark in message:
            return CaptureError(f"the gradients of {title} cannot be captured: {why}", where=trimmed(str(error)), hint=hint)
    return CaptureError(
        f"the gradients of {title} cannot be captured: {type(error).__name__}", where=trimmed(str(error)),
        hint=surroundings_of(error) or "check that the model runs forward and backward with these arguments",
    )  # fmt: skip


@dataclass
class _Entry:
    """One input of the graph."""

    name: str
    kind: str
    """`PARAMETER`, `BUFFER` or `USER_INPUT`."""
    held: Any
    """The tensor, or a plain value that is specialised."""
    differentiable: bool = False


class _Capture:
    """The capture of one model: its inputs, and the number and names of its results."""

    def __init__(self, source: Any, args: Sequence[Any], loss: Any, targets: Sequence[Any], title: str) -> None:
        self.torch = require_torch("to differentiate a model")
        self.source, self.loss, self.title = source, loss, title
        roots = dict(roots_of(source))
        self.roots = {f"{path}." if path else "": module for path, module in roots.items()}
        own = [
            _Entry(prefix + path, kind, tensor, kind == "PARAMETER" and tensor.requires_grad)
            for prefix, module in self.roots.items()
            for kind, tensors in (("PARAMETER", module.named_parameters()), ("BUFFER", module.named_buffers()))
            for path, tensor in tensors
        ]  # fmt: skip
        first = {id(entry.held): entry for entry in reversed(own)}
        self.held = [entry for entry in own if first[id(entry.held)] is entry]  # each tensor once, by its first path
        self.paths = {entry.name: first[id(entry.held)].name for entry in own}
        taken = {entry.name for entry in self.held}
        pytree = self.torch.utils._pytree
        self.nested = (*args, *targets)
        leaves, self.shape = pytree.tree_flatten((tuple(args), tuple(targets)))
        ways, given = ([path for path, _ in pytree.tree_flatten_with_path(each)[0]] for each in ((*args,), (None, *targets)))
        names = argument_names(source, ways) + argument_names(loss, given, "target")[1:]
        self.given = [
            _Entry(apart(name, taken), "USER_INPUT", leaf, isinstance(leaf, self.torch.Tensor) and leaf.requires_grad)
            for name, leaf in zip(names, leaves, strict=True)
        ]
        self.tangents: list[_Entry] = []
        self.results: list[str] = []
        """The names of the results; empty for those without one."""

    @property
    def tensors(self) -> list[_Entry]:
        """The inputs so far that are tensors."""
        return [e for e in (*self.held, *self.given, *self.tangents) if isinstance(e.held, self.torch.Tensor)]

    @property
    def wanted(self) -> list[_Entry]:
        return [entry for entry in self.tensors if entry.differentiable]

    def run(self) -> Graph:
        if not self.wanted:
            what = f"{self.title} has nothing to differentiate: no parameter of it and no argument requires a gradient"
            raise ArgumentError(what, hint="call requires_grad_() on the arguments, or on the model")
        with self.torch.enable_grad():
            self.find_tangents()
            mode, fakes = self.fakes()
            module = trace(self.joint, fakes, mode)
        return self.imported(module)

    def fakes(self) -> tuple[Any, list[Any]]:
        """Return fakes; each argument is a separate tensor, even if it is passed twice or belongs to the model."""
        entries = self.tensors
        tensors = [entry.held if entry.kind != "USER_INPUT" else entry.held.detach() for entry in entries]
        return fake_tensors(tensors, [entry.differentiable for entry in entries])

    def outputs(self, fakes: Mapping[str, Any]) -> list[Any]:
        """Return the leaves of the model's result, or its loss."""
        leaves = [fakes.get(entry.name, entry.held) for entry in self.given]
        args, targets = self.torch.utils._pytree.tree_unflatten(leaves, self.shape)
        with swapped(self.roots, {path: fakes[name] for path, name in self.paths.items()}):
            result = self.source(*args)
            if self.loss is not None:
                result = self.loss(result, *targets)
        if self.loss is not None and not isinstance(result, self.torch.Tensor):
            what = f"the loss of {self.title} is {type(result).__name__}, and not a tensor"
            raise ArgumentError(what, hint="return the one number to minimise")
        if self.loss is not None and (result.numel() != 1 or result.dim()):
            what = f"the loss of {self.title} is not one number but {tensor_type(result)}"
            raise ArgumentError(what, hint="reduce it: loss=lambda *given: loss(*given).mean()")
        if self.loss is not None and not result.requires_grad:
            raise self.detached()
        return list(self.torch.utils._pytree.tree_leaves(result, is_leaf=lambda item: item is None))

    def detached(self) -> CaptureError:
        _, why, hint = _REASONS[3]
        return CaptureError(f"the gradients of {self.title} cannot be captured: {why}", hint=hint)

    def find_tangents(self) -> None:
        """Run forward alone to find which results take a gradient as input; a single number takes none."""
        mode, fakes = self.fakes()
        with mode:
            outputs = self.outputs({entry.name: fake for entry, fake in zip(self.tensors, fakes, strict=True)})
        differentiable = [index for index, output in enumerate(outputs) if self.flows(output)]
        if not differentiable:
            raise self.detached()
        only = len(differentiable) == 1 and not outputs[differentiable[0]].dim()
        self.results = ["" for _ in outputs]
        if only:
            self.results[differentiable[0]] = "loss" if self.loss is not None or len(outputs) == 1 else ""
            return
        taken = {entry.name for entry in (*self.held, *self.given)} | {f"grad_{entry.name}" for entry in self.wanted}
        for index in differentiable:
            name = "grad_output" if len(outputs) == 1 else f"grad_output_{index}"
            with mode:
                like = self.torch.empty_like(outputs[index])
            held = self.torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
            self.tangents.append(_Entry(apart(name, taken), "USER_INPUT", held))

    def flows(self, output: Any) -> bool:
        return isinstance(output, self.torch.Tensor) and output.requires_grad

    def joint(self, *given: Any) -> list[Any]:
        fakes = {entry.name: fake for entry, fake in zip(self.tensors, given, strict=True)}
        outputs = self.outputs(fakes)
        starts = [output for output in outputs if self.flows(output)]
        note_gradients(starts)
        gradients = self.torch.autograd.grad(
            starts, [fakes[entry.name] for entry in self.wanted], [fakes[entry.name] for entry in self.tangents] or None, allow_unused=True
        )
        return [*outputs, *gradients]

    def imported(self, module: Any) -> Graph:
        """Return the FX graph as a Graph, with the names of inputs and results."""
        self.refuse_strangers(module)
        specs = self.name_inputs(module)
        returned = next(iter(module.graph.find_nodes(op="output"))).args[0]
        gradients = {entry.name: len(self.results) + index for index, entry in enumerate(self.wanted)}
        call_results(module, returned, [*self.results, *(f"grad_{name}" for name in gradients)])
        output = SimpleNamespace(kind=SimpleNamespace(name="USER_OUTPUT"), target=None)
        signature = SimpleNamespace(input_specs=specs, output_specs=[output for _ in returned])
        state = {entry.name: entry.held for entry in self.held}
        for prefix, root in self.roots.items():
            state |= {prefix + path: tensor for path, tensor in root.named_parameters(remove_duplicate=False)}  # tied ones, too
        program = SimpleNamespace(graph_module=module, graph_signature=signature, state_dict=state, constants={})
        title = self.title if self.title.isidentifier() else "joint"
        graph = import_exported(program, title, lambda _: True)
        arguments = (*self.nested, *(entry.held for entry in self.tangents))
        paths = nested_paths(arguments, len(graph.free_inputs))
        return replace(graph, gradients=gradients, argument_paths=paths)

    def refuse_strangers(self, module: Any) -> None:
        """Raise for a tensor from outside the function that requires a gradient: it would get none."""
        for node in module.graph.find_nodes(op="get_attr"):
            held = getattr(module, str(node.target), None)
            if isinstance(held, self.torch.Tensor) and held.requires_grad:
                raise CaptureError(
                    f"{self.title} reads a tensor {tuple(held.shape)} that requires a gradient and is neither an argument "
                    "nor a parameter of its module", hint="pass it as an argument",
                )  # fmt: skip

    def name_inputs(self, module: Any) -> list[Any]:
        """Add a placeholder per input, in order, plain values included; return the specs of their kinds."""
        placeholders = dict(zip([e.name for e in self.tensors], module.graph.find_nodes(op="placeholder"), strict=True))
        specs = []
        before = next(node for node in module.graph.nodes if node.op != "placeholder")
        for entry in (*self.held, *self.given, *self.tangents):
            node = placeholders.get(entry.name)
            if node is None:
                with module.graph.inserting_before(before):
                    node = module.graph.placeholder(entry.name)
                node.meta["val"] = entry.held
            else:
                before.prepend(node)
            if entry.kind == "USER_INPUT":
                node.name = entry.name
            value = None if isinstance(entry.held, self.torch.Tensor) else entry.held
            specs.append(SimpleNamespace(
                kind=SimpleNamespace(name=entry.kind), target=entry.name, arg=SimpleNamespace(name=node.name, value=value)
            ))  # fmt: skip
        return specs


# Traces forward and backward of a torch function into one FX graph, as AOTAutograd does: below autograd, with fake tensors.
#
# The function runs once, on tensors with shapes but no elements, and then `torch.autograd.grad`; every call that reaches torch's dispatcher
# below autograd is a node. So the graph holds everything autograd does, for whatever reason: custom functions, hooks, `no_grad`, `detach`.
# AOTAutograd then functionalises its trace; this one keeps in-place ops and views as they are, for the alias analysis.
#
# A node of the backward pass carries the source line and the module of the forward op that it differentiates: autograd
# numbers both (`seq_nr`).


def fake_tensors(tensors: Sequence[Any], differentiable: Sequence[bool]) -> tuple[Any, list[Any]]:
    """Returns a fake tensor mode, and a fake leaf for each tensor; a tensor that occurs twice has one fake."""
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, Any] = {}
    for tensor, wanted in zip(tensors, differentiable, strict=True):
        if id(tensor) not in made:
            made[id(tensor)] = mode.from_tensor(tensor.detach(), static_shapes=True).requires_grad_(wanted)
    return mode, [made[id(tensor)] for tensor in tensors]


@contextmanager
def swapped(roots: Mapping[str, Any], tensors: Mapping[str, Any]) -> Iterator[None]:
    """Swaps the parameters and buffers of modules within a `with`, tied ones together; `tensors` are keyed by dotted path."""
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

    def hook(path: str | None) -> Callable[..., None]:
        """Enters the module of a path, or leaves the innermost one."""

        def note(*_: object) -> None:
            if path is None:
                paths.pop()
            else:
                paths.append(path)
            traceback.current_meta["nn_module_stack"] = {each: (each, "") for each in paths}

        return note

    with ExitStack() as stack:
        for path, module in root.named_modules():
            stack.callback(module.register_forward_pre_hook(hook((prefix + path).rstrip("."))).remove)
            stack.callback(module.register_forward_hook(hook(None), always_call=True).remove)
        yield


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
    """Gives each node of the backward pass the location and module of the forward op with its number, or none.

    A sum of gradients, which autograd makes between its nodes, has the number of the last forward op: once nodes of other numbers have
    run, that is no node of this op, whose turn was first.
    """
    forward: dict[Any, Any] = {}
    in_backward = others_ran = False
    last = None
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        in_backward = in_backward or node.meta.get("autograd_backward", False)
        number = node.meta.get("seq_nr")
        if not in_backward:
            forward.setdefault(number, node)
            last = last if number is None else number
            continue
        is_last = number == last
        others_ran = others_ran or not is_last
        origin = forward.get(number) if node.meta.get("autograd_backward") and not (is_last and others_ran) else None
        for key in ("stack_trace", "nn_module_stack"):
            known = origin.meta.get(key) if origin is not None else None
            node.meta[key] = known if known is not None else {} if key == "nn_module_stack" else ""


def _forget_detached(module: Any) -> None:
    """Removes `detach` and `alias`: autograd saves results as detached tensors, which below autograd are the same tensors.

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


# Names of the inputs and the results of a joint graph.


def apart(name: str, taken: set[str]) -> str:
    """Returns the name, with a number if it is taken, and marks it as taken."""
    plain, number = name, 0
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def call_results(module: Any, returned: Sequence[Any], names: Sequence[str]) -> None:
    """Records the names of the results. A value returned several times has the first name; an input keeps its own."""
    clear = set()
    for node, name in zip(returned, names, strict=True):
        if not name or not hasattr(node, "target") or node.op != "call_function":
            continue
        producer, index = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, 0)
        if index not in producer.meta.setdefault("result_names", {}):
            producer.meta["result_names"][index] = name
            clear.add(name)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.name in clear:
            node.name += "_"
