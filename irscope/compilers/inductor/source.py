"""Inductor, the compiler behind `torch.compile`: what it decides is observed while it compiles a program once more, beside the user's.

*No machine code is made.* Decisions and texts are there before a C++ or Triton compiler is started, which takes most of the time. So none
is: where the program is run, for Dynamo to go on, each graph runs op by op.

*What stays as it is.* The program is compiled by a backend object of irscope's own, on a copy of the function or module that has a code
object of its own: Dynamo keeps what it compiled on code objects, and nothing of ours matches the user's entries. Inductor's caches are
not read, as a hit would skip the scheduler, and what it writes goes to a folder of irscope. Options, counters and the random state are put
back; the program runs on copies of the arguments, and buffers and parameters that it writes get their contents back. What the user's own
Python code does while it runs, it does. A function or submodule that a graph break makes Dynamo compile on its own has no such copy: an
entry of ours stays on its code, isolated from the user's.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest import mock

from irscope._base.nested import grouped
from irscope._base.nested import leaves as leaves_of
from irscope._base.running import progress
from irscope._base.words import listed
from irscope.compilers.inductor.dynamo import (
    TraceRecord,
    breaks_and_compiles,
    listening,
    optimizers_used,
    original_of,
    recompiles,
    tensors_held,
    users_names,
    with_own_code,
)  # fmt: skip
from irscope.compilers.inductor.program import SeenGraph, program_seen
from irscope.compilers.inductor.watch import Watch, inductor_module, internals_changed
from irscope.compilers.record import Decisions, Program
from irscope.errors import ArgumentError, CaptureError, IrscopeError
from irscope.frontends.torch.capture import CAPTURE_LOCK
from irscope.frontends.torch.export_source import check_arguments, trimmed
from irscope.frontends.torch.types import require_torch
from irscope.ir import Graph
from irscope.runtime.device import user_cache_directory
from irscope.runtime.measure import not_returned, threads_for, with_threads

compiler: Final = "inductor"
name: Final = "the result of torch.compile, with arguments to call it with"

_PURPOSE: Final = "to ask Inductor"
_NO_CACHE: Final = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
"""What keeps Inductor from finding a graph that it compiled before, for which it would schedule nothing."""


def reads(source: object, compiler: str | None) -> bool:
    """Accepts what torch.compile returned, and for `compiler="inductor"` any module or function."""
    if sys.modules.get("torch") is None:
        return compiler is not None and callable(source)
    return original_of(source) is not None or (compiler is not None and callable(source))


def decisions(
    source: Any, args: Sequence[Any], *, measure: bool = False, backward: bool = False, calls: Sequence[Sequence[Any]] = ()
) -> Decisions:  # fmt: skip
    """Compiles the program once more, for inference, and returns what Inductor decided.

    `calls` are the arguments of further calls, one after the other, each of which may make Dynamo compile again: why, says the program that
    was compiled then (`recompiled_because`), and a note how often.
    With `backward` it is compiled for training, as it is where gradients are asked for: into a program that also returns what is saved for
    the backward pass, and one that computes the gradients. With `measure` it is compiled another time, with a C++ compiler, and run: `k.ms`
    is then the median of some runs, as torch's profiler sees them. A function that holds several kernels has one time, which is in the
    program's notes; where other programs keep the processors busy, one thread is measured, and a note says so. Raises CaptureError where
    the program cannot be compiled, and where this torch does not have what is watched.
    """
    torch = require_torch(_PURPOSE)
    original = original_of(source) or source
    options = _options_of(source)
    title = str(getattr(original, "__name__", type(original).__name__))
    called = f"torch.compile({title})" if source is not original else title
    if not isinstance(calls, list | tuple):
        raise ArgumentError(f"calls is a list of the arguments of further calls, not {type(calls).__name__}", hint="calls=[(x,), (y,)]")
    every = [tuple(args), *(tuple(each) if isinstance(each, list | tuple) else (each,) for each in calls)]
    for given in every:
        check_arguments(original.forward if isinstance(original, torch.nn.Module) else original, given, called, "irs.decisions")
    notes = list[str]()
    with CAPTURE_LOCK:
        try:
            seen, records = observe(original, every, options, backward=backward)
        except _AsksForGradients:
            notes.append("it asks for gradients itself, so it is compiled as it trains")
            backward = True
            seen, records = observe(original, every, options, backward=True)
        threads = threads_for(None) if measure else None
        times = with_threads(threads.count, _times, original, args, options, seen) if threads is not None else {}
    version, programs, learns = str(torch.__version__), list[Program](), _learns(torch, every, seen)
    breaks, compiles = breaks_and_compiles(records)
    by_id = {each.id: each for each in compiles}
    learned = {graph.compile_id for graph in seen if graph.is_backward}
    forward = {graph.compile_id: graph for graph in seen if not graph.is_backward}
    try:
        for index, graph in enumerate(seen):
            name = title if len({each.compile_id for each in seen}) == 1 else f"{title}_{index}"
            if graph.compile_id in learned:
                name += " backward" if graph.is_backward else " forward"
            before = forward.get(graph.compile_id, graph)
            made = program_seen(graph, before, original, name, by_id.get(graph.compile_id), times)
            programs.append(replace(made, given_back=graph.given_back, notes=(*made.notes, *_kept_notes(made.graph, graph))))
    except IrscopeError:
        raise
    except Exception as error:
        raise internals_changed(version, f"{type(error).__name__}: {error}") from error
    finally:
        for graph in seen:  # Dynamo may keep them on code that it shares with the user
            graph.inputs, graph.leaves, graph.nodes = [], [], []
    notes += [threads.warning] if threads is not None and threads.warning else []
    if learns and torch.is_grad_enabled() and not backward:
        notes.append("compiled for inference: backward=True shows the two programs of a training step, forward and backward")
    if not programs:
        notes.append("Dynamo gave Inductor no graph: nothing was compiled")
    notes += recompiles(compiles)
    call = source if source is not original else None
    return Decisions(compiler, tuple(programs), breaks, version=version, notes=tuple(notes), call=call, eager=original)


# The user's program, and the options of its torch.compile.


@dataclass(frozen=True)
class _Options:
    """What the user asked torch.compile for."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Inductor, those of its mode included."""
    dynamic: bool | None = None
    fullgraph: bool = False


def _options_of(source: Any) -> _Options:
    """The options of the torch.compile that returned the source. Raises ArgumentError if that compiles by something else."""
    context = getattr(source, "dynamo_ctx", None)
    held = source if context is None else None
    if held is not None and getattr(held, "_compiled_call_impl", None) is not None:
        held = held._compiled_call_impl
    cells = zip(getattr(getattr(held, "__code__", None), "co_freevars", ()), getattr(held, "__closure__", None) or (), strict=False)
    found = {name: cell.cell_contents for name, cell in cells if name == "self"}
    context = context or found.get("self")
    backend = getattr(context, "callback", None)
    for name in ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable"):  # the second is that of torch 2.6
        while getattr(backend, name, None) is not None:
            backend = getattr(backend, name)
    if backend is None:
        return _Options()
    if getattr(backend, "compiler_name", None) != "inductor":
        what = f"this was compiled by {getattr(backend, 'compiler_name', None) or backend!r}, whose decisions irscope does not read"
        raise ArgumentError(what, hint='irs.decisions(torch.compile(model), x), or irs.decisions(model, x, compiler="inductor")')
    dynamic = getattr(backend, "dynamic", None)
    return _Options(dict(getattr(backend, "config", {})), dynamic, bool(getattr(context, "fullgraph", False)))


def _learns(torch: Any, calls: Sequence[Any], seen: Sequence[SeenGraph]) -> bool:
    """Whether gradients could be asked for: of an argument of a call, or of what a graph reads, unless it is the step that changes it."""
    read = [each for graph in seen for place, each in enumerate(graph.inputs) if place not in graph.written]
    return any(getattr(each, "requires_grad", False) for each in (*torch.utils._pytree.tree_leaves(list(calls)), *read))


# Observing.


def observe(
    original: Any, calls: Sequence[Sequence[Any]], options: _Options, *, backward: bool = False
) -> tuple[list[SeenGraph], list[TraceRecord]]:  # fmt: skip
    """Compiles a function or module anew, calls it, and returns what was seen of each of its graphs, and what Dynamo said."""
    torch = require_torch(_PURPOSE)
    compile_fx = inductor_module("compile_fx").compile_fx
    given = [_copied(torch, args) for args in calls]
    with ExitStack() as stack:
        step = stack.enter_context(progress(8 * len(calls), "compiling with Inductor"))
        copies = {id(leaf) for leaves, _ in given for leaf in leaves}
        watch = Watch(step, stack.enter_context(_traceless(torch, original)), copies, backward)
        watch.patches(stack)
        records = stack.enter_context(listening(torch))
        stack.enter_context(torch.set_grad_enabled(backward))
        if backward and hasattr(torch._functorch.config, "force_non_lazy_backward_lowering"):
            # else the backward program may be compiled later, on a thread of autograd's
            stack.enter_context(torch._functorch.config.patch(force_non_lazy_backward_lowering=True))

        def backend(module: Any, examples: Sequence[Any]) -> Any:
            step()
            watch.names = users_names(module)
            patches = {**options.config, **_NO_CACHE}
            made = compile_fx(module, examples, inner_compile=watch.inner, config_patches=patches)

            def run(*given: Any) -> Any:
                returned[:] = made(*given)
                return tuple(returned)

            return run

        returned = list[Any]()
        compiled = _compiled(original, options, backend)
        try:
            for leaves, shape in given:
                count, told = len(watch.graphs), len(records)
                results = compiled(*torch.utils._pytree.tree_unflatten(leaves, shape))
                new, broken = watch.graphs[count:], any(each.kind == "dynamo_graph_break_reason" for each in records[told:])
                if backward and not any(each.is_backward and each.inputs for each in new):
                    _ask_for_gradients(torch, [*leaves, *(each for seen in new for each in seen.inputs)], results)
                held = {id(tensor): path for path, tensor in tensors_held(original).items()}
                for seen in new:
                    seen.held, seen.leaves, seen.shape = held, leaves, shape
                    seen.is_whole = sum(not each.is_backward for each in new) == 1 and not broken
                    if seen.is_whole and not backward:
                        _match_results(seen, returned, results)
                returned.clear()
        except IrscopeError:
            raise
        except Exception as error:
            call = "torch.compile(model)(x).sum().backward()" if backward else "torch.compile(model)(x)"
            problem = watch.problem or _own_problem(error)
            raise (internals_changed(str(torch.__version__), problem) if problem else _refused(error, call)) from None
    if watch.refused:
        raise CaptureError(f"irscope does not read this program as Inductor compiled it: {watch.refused}", hint="ask about the parts")
    if watch.problem:
        raise internals_changed(str(torch.__version__), watch.problem)
    return watch.graphs, records


def _match_results(seen: SeenGraph, own: Sequence[Any], results: Any) -> None:
    """Finds what the graph returned to Dynamo among what the call returns: it is passed on as the same object."""
    scheduled = next(node for node in seen.module.graph.nodes if node.op == "output").args[0]
    if len(own) != len(scheduled):  # also what it wrote, or what views are made of
        return
    torch, found, made = require_torch(_PURPOSE), [*leaves_of(results)], {id(each): index for index, each in enumerate(own)}
    if any(isinstance(each, torch.Tensor) and type(each) not in (torch.Tensor, torch.nn.Parameter) for each in found):
        return  # of a class of the user's, which holds what the graph returned
    is_same = len(found) == len(own) and all(one is other for one, other in zip(found, own, strict=True))
    seen.given_back = None if is_same else tuple([made.get(id(each)) for each in found])
    seen.is_seen_through = all(each is None or isinstance(each, torch.Tensor | int | float | complex | str) for each in found)


def _kept_notes(graph: Graph, seen: SeenGraph) -> Iterator[str]:
    """Says which results of a graph the user's call does not return."""
    kept = not_returned(graph, seen.given_back) if seen.given_back is not None else []
    where = "perhaps in an object, into which irscope does not look"
    if seen.is_seen_through:
        where = "kept in Python, as in a cache in a dictionary"
    if kept:
        yield f"computed and not among what the call returns: {listed(kept)}, {where}"


def _copied(torch: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
    """The leaves of the arguments of a call, and how they are nested. Of tensors they are copies that Dynamo cannot tell from them: of the
    same strides, sharing what they share, with or without gradient, and with what it was told of their sizes (`mark_dynamic`)."""
    leaves, shape = torch.utils._pytree.tree_flatten(tuple(args))
    tensors = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
    storages = {key: leaf.untyped_storage()._cdata if leaf.layout == torch.strided else key for key, leaf in tensors.items()}
    sharing = grouped((storages[key], leaf) for key, leaf in tensors.items())
    found = {id(leaf): made for group in sharing.values() for leaf, made in zip(group, _copies(torch, group), strict=True)}
    for key, made in found.items():
        made = torch.nn.Parameter(made, False) if isinstance(tensors[key], torch.nn.Parameter) else made
        found[key] = made.requires_grad_(tensors[key].requires_grad)
        made.__dict__.update({name: told for name, told in tensors[key].__dict__.items() if "_dynamo_" in name})
    return [found.get(id(leaf), leaf) for leaf in leaves], shape


def _copies(torch: Any, tensors: Sequence[Any]) -> list[Any]:
    """Copies of tensors of one storage, which share one: of the part of it that they reach, if there are several, or elements between."""
    made = [tensors[0].detach().clone()]
    if len(tensors) == 1 and (made[0].layout != torch.strided or made[0].stride() == tensors[0].stride()):
        return made
    reach = torch._prims_common.compute_required_storage_length
    ends = [each.itemsize * reach(each.shape, each.stride(), each.storage_offset()) for each in tensors]
    first = min(each.itemsize * each.storage_offset() for each in tensors) // 16 * 16
    old = torch.empty(0, dtype=torch.uint8, device=made[0].device).set_(tensors[0].untyped_storage(), first, (max(*ends, first) - first,))
    new = old.clone().untyped_storage()
    places = [(each.storage_offset() - first // each.itemsize, each.shape, each.stride()) for each in tensors]
    return [torch.empty(0, dtype=each.dtype, device=each.device).set_(new, *place) for each, place in zip(tensors, places, strict=True)]


def _ask_for_gradients(torch: Any, given: Sequence[Any], results: Any) -> None:
    """Runs the backward pass, which fills no `.grad`. Raises ArgumentError if nothing learns."""
    tensors = {id(each): each for each in given if isinstance(each, torch.Tensor)}
    asked = [each for each in tensors.values() if each.requires_grad and each.is_leaf]
    made = [each for each in torch.utils._pytree.tree_leaves(results) if isinstance(each, torch.Tensor) and each.requires_grad]
    if not asked or not made:
        what = "no argument or parameter requires a gradient" if not asked else "no result depends on what requires a gradient"
        raise ArgumentError(f"{what}, so that there is no backward program", hint="x.requires_grad_(), or leave out backward=True")
    torch.autograd.grad(made, asked, [torch.ones_like(each) for each in made], allow_unused=True)


# Times.

_RUNS: Final = 20


def _times(original: Any, args: Sequence[Any], options: _Options, seen: Sequence[SeenGraph]) -> dict[str, list[float]]:
    """Milliseconds of each generated function and library op, by name and in the order of its calls in one run: medians over some runs.

    Nothing where that order is not certain: for several graphs, and for an op that is called another number of times.
    """
    torch = require_torch(_PURPOSE)
    if len(seen) != 1:
        return {}
    compile_fx = inductor_module("compile_fx").compile_fx
    args = torch.utils._pytree.tree_unflatten(*_copied(torch, args))
    written = [seen[0].inputs[place] for place in seen[0].written]
    patches = {**options.config, **_NO_CACHE, "cpp.enable_kernel_profile": True}
    profiler = torch.profiler
    with ExitStack() as stack:
        step = stack.enter_context(progress(_RUNS + 1, "measuring Inductor's kernels"))
        kept = stack.enter_context(_traceless(torch, original))
        kept += [(tensor, tensor.detach().clone()) for tensor in written]
        stack.enter_context(listening(torch))
        stack.enter_context(torch.no_grad())

        def backend(module: Any, examples: Sequence[Any]) -> Any:
            return compile_fx(module, examples, config_patches=patches)

        compiled = _compiled(original, options, backend)
        try:
            compiled(*args)
        except Exception as error:
            raise _refused(error) from None
        step()
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(_RUNS):
                compiled(*args)
                step()
    return _by_call(profile.events())


def _by_call(events: Sequence[Any]) -> dict[str, list[float]]:
    """The median times of each function and op by the order of its calls; ops inside other ops are left out."""
    in_order = sorted(events, key=lambda each: each.time_range.start)
    outside = [each for each in in_order if each.cpu_parent is None or not each.cpu_parent.name.startswith(("aten::", "graph_"))]
    found = grouped((re.sub(r"^graph_\d+_", "", each.name), each.time_range.elapsed_us() / 1e3) for each in outside)
    return {
        name: [median(times[call :: len(times) // _RUNS]) for call in range(len(times) // _RUNS)]
        for name, times in found.items()
        if len(times) % _RUNS == 0
    }


def _compiled(original: Any, options: _Options, backend: Callable[..., Any]) -> Any:
    """The program compiled as a copy, whose entries are apart from the user's: also on code that both share, where this torch can."""
    torch, copied = require_torch(_PURPOSE), with_own_code(original)
    if copied is original:  # what has no code in Python

        def call(*args: Any) -> Any:
            return original(*args)

        copied = with_own_code(call)
    code = torch.compile.__code__
    can_isolate = "isolate_recompiles" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    isolated = {"isolate_recompiles": True} if can_isolate else {}
    return torch.compile(copied, backend=backend, dynamic=options.dynamic, fullgraph=options.fullgraph, **isolated)


@contextmanager
def _traceless(torch: Any, original: Any) -> Iterator[list[tuple[Any, Any]]]:
    """A `with` after which options, caches, the random state and buffers are what they were, and so is each tensor in the
    list that it gives, which has copies beside them."""
    classes = [each for each in vars(inductor_module("codecache")).values() if isinstance(each, type)]
    found = {id(held): held for each in classes if isinstance(held := getattr(each, "cache", None), dict)}
    caches = [(loaded, set(loaded)) for loaded in found.values()]  # the dictionaries of loaded code, and their keys
    optimizers, held = optimizers_used(original), list(tensors_held(original).values())
    states = [(each, {parameter: dict(state) for parameter, state in each.state.items()}) for each in optimizers]
    gradients = [(each, each.grad) for each in held if each.is_leaf and each.requires_grad]
    held = [each for each in held if optimizers or not isinstance(each, torch.nn.Parameter)]
    held = [each for each in held if not torch.nn.parameter.is_lazy(each) and not each.is_meta]
    kept = [(tensor, tensor.detach().clone()) for tensor in held]
    folder = user_cache_directory()
    with ExitStack() as stack:
        if folder is None:
            place = stack.enter_context(TemporaryDirectory(prefix="irscope-inductor-"))
        else:
            place = str(folder / "inductor")
        stack.enter_context(mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": place}))
        stack.enter_context(inductor_module("config").patch(_NO_CACHE))
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        stack.enter_context(torch.random.fork_rng())
        try:
            yield kept
        finally:
            for cache, before in caches:
                for key in [key for key in cache if key not in before]:
                    del cache[key]
            with torch.no_grad():
                for tensor, before in kept:
                    if tensor.layout != torch.strided or not torch.equal(tensor, before):
                        tensor.copy_(before)
            for optimizer, state in states:
                optimizer.state.clear()
                optimizer.state.update(state)
            for tensor, gradient in gradients:
                tensor.grad = gradient
            kept.clear()


def _own_problem(error: BaseException | None) -> str:
    """What irscope did not find while it watched, which torch tells as an error of the program; empty for any other error."""
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, AttributeError | LookupError) and frames and frames[-1].f_globals.get("__package__") == __package__:
            return f"{type(error).__name__}: {error}"
        error = error.__cause__ or error.__context__
    return ""


class _AsksForGradients(CaptureError):
    """The program asks for gradients itself, and was compiled for inference."""


def _refused(error: Exception, call: str = "torch.compile(model)(x)") -> CaptureError:
    """The error for a program that torch.compile does not compile, or not on this machine."""
    inner: BaseException | None = error
    while inner is not None and inner.__cause__ is not None:
        inner = inner.__cause__
    text = f"{type(error).__name__}: {error}"
    if "InvalidCxxCompiler" in text or "No working C++ compiler" in text:
        hint = "install g++ or clang, or name one in the environment variable CXX"
        return CaptureError("Inductor found no C++ compiler, without which it makes no kernels for a CPU", hint=hint)
    where = trimmed(f"{type(inner).__name__}: {inner}")
    if "does not require grad" in text and ".backward()" not in call:
        return _AsksForGradients("the program asks for gradients itself", where=where)
    return CaptureError("torch.compile fails on this program", where=where, hint=f"see whether {call} runs by itself")
