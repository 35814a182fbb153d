"""What IREE says beside its dispatches: which ops of the program vanished before them, the compiled program itself, and its times.

*What vanished.* IREE keeps the location of an op on what it makes of it, through inlining and fusing. An op whose location is on nothing of
IREE's output has no op of its own there. Why is told where the program before says it: nothing reads the op; its operands are constants;
another op, whose location is there, is the same of the same operands; its result is its operand, or that in another shape; it leads to a
softmax alone, which IREE makes of several ops. Otherwise nothing is said but that it is not seen. Ops that share one location are not told
apart: while one of them may be there, none is called vanished.

An op whose location is on constants alone is one, too.

*Its times.* IREE's runtime for CPUs, with one thread, writes when each dispatch began and ended, into a file that its own tool reads.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from irscope._base.nested import grouped
from irscope._base.words import listed
from irscope.compilers.record import Change, Kernel
from irscope.errors import ArgumentError, LoadError, MissingExtra
from irscope.frontends.emit import Place
from irscope.frontends.mlir.importer import operations_in
from irscope.ir import Graph, Node

# What vanished.


_NO_OPS: Final = frozenset({
    "constant", "broadcast_in_dim", "broadcast", "iota", "call", "while", "if", "case", "for", "tuple", "get_tuple_element",
    "optimization_barrier", "return", "Constant", "empty", "splat",
})  # fmt: skip
"""Ops that are none of the user's: numbers spread to a shape, calls, and control flow, whose inner ops are."""
_CONTROL: Final = ("func.func", "util.func", "stablehlo.while", "stablehlo.if", "stablehlo.case", "scf.while", "scf.if", "scf.for")
_CONSTANTS: Final = (".constant", ".return", "util.global", "util.global.load")
"""How ops of the output end that compute nothing: an op that is a constant there leaves its place on it."""
_VALUES: Final = ("stablehlo.", "chlo.", "mhlo.", "arith.", "math.", "linalg.", "tensor.", "tosa.", "torch.")
"""Dialects of ops on values."""
_NOT_PURE: Final = ("custom_call", "rng", "random", "bernoulli", "multinomial", "dropout", "feed", "send", "recv", "all_", "collective")
_SAME: Final = {
    "multiply": (1, (0, 1)), "divide": (1, (1,)), "power": (1, (1,)), "subtract": (0, (1,)),
    "maximum": (-np.inf, (0, 1)), "minimum": (np.inf, (0, 1)),
}  # fmt: skip
"""For an op the number that leaves its other operand as it is, and where that number may stand."""
_SPREADING: Final = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")
_MOST: Final = 256
"""Characters of the type of a constant and of its elements that are compared."""


class Output:
    """The places of IREE's output, which are gathered once for all of its functions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @cached_property
    def locations(self) -> set[str]:
        """The locations of what computes, and those that they are made of: what was inlined, fused, or named."""
        found = set[str]()
        todo = [each.location for each in walked(self._module) if not each.name.endswith(_CONSTANTS)]
        while todo:
            location = todo.pop()
            text = _text(location)
            if text not in found:  # two objects of one location have other hashes
                found.add(text)
                todo += _parts(location)
        return found

    @cached_property
    def softmaxes(self) -> set[str]:
        """The locations of each softmax."""
        made = [each.location for each in walked(self._module) if each.name == "linalg.softmax"]
        return {_text(getattr(each, "callee", each)) for each in made}


def vanished(
    before: Any, output: Output, title: str, graph: Graph, bindings: Any, places: Callable[[Any], Place], file: str
) -> Iterator[Change]:  # fmt: skip
    """Yields the ops of a program whose locations are on nothing of IREE's output; `before` is a module, `graph` is what was read of the
    output, `title` the function. `places` reads locations, which are in `file` in the output, and in no file before. Raises LoadError if
    the output has no place of the program."""
    there = {each.replace(f'"{file}":', '"-":') for each in output.locations}
    functions = [each for each in walked(before) if each.name == "func.func"]
    own = [each for each in functions if each.attributes["sym_name"].value == title]
    others = [each for each in functions if not is_public(each)]
    if not own:
        return
    program = _Before([*own, *others])
    if not any(_text(each.location) in there for each in program.operations):
        raise LoadError("IREE's output has none of its places")
    part_of = program.parts(output.softmaxes, there)
    shown: dict[tuple[object, ...], tuple[Node, ...]] = {}
    for node in graph.nodes():
        for value in node.outputs[:1]:
            key = node.location, node.scope, value.name
            shown[key] = (*shown.get(key, ()), node)

    def nodes_of(operation: Any) -> tuple[Node, ...]:
        place = places(operation.location)
        return () if place.location is None else shown.get((place.location, place.scope, place.name), ())

    for operation in program.operations:
        where = _text(operation.location)
        named = name_of(operation)
        if where in there or named in _NO_OPS or named.startswith("constant.") or operation.parent.operation.name not in _CONTROL:
            continue
        because, other = program.cause(operation, lambda each: _text(each.location) in there and bool(nodes_of(each)))
        if not because and operation in part_of:
            because, other = "part of the softmax that IREE made at {}", part_of[operation]
        place = places(operation.location)
        if because and other is not None:
            its = places(other.location)
            because = because.format(f"{its.name or name_of(other)}{f' ({its.location})' if its.location is not None else ''}")
        became = nodes_of(other) if other is not None else ()
        label = place.name or name_of(operation)
        yield Change("vanished", name_of(operation), label, became, because, place.location, place.scope, certainty="matched")


def is_public(function: Any) -> bool:
    """Whether a function can be called from outside of its module."""
    return "sym_visibility" not in function.attributes or function.attributes["sym_visibility"].value == "public"


def name_of(operation: Any) -> str:
    """The name of an op without its dialect; of an op of ONNX that IREE imported, ONNX's."""
    known = operation.attributes["name"].value if operation.name == "torch.operator" else operation.name
    return str(known).partition(".")[2]


def walked(root: Any) -> Iterator[Any]:
    """Yields the ops inside of an op, those of its regions after it."""
    todo = [*operations_in(root)][::-1]
    while todo:
        each = todo.pop()
        yield each
        todo += [*operations_in(each)][::-1]


def _text(location: Any) -> str:
    return str(location).removeprefix("loc(").removesuffix(")")


def _parts(location: Any) -> list[Any]:
    """Returns the locations that one is made of."""
    found = [getattr(location, each) for each in ("child_loc", "callee", "caller") if hasattr(location, each)]
    return [*found, *getattr(location, "locations", ())]


class _Before:
    """The program before IREE, and what can be told of an op in it: that nothing reads it, that its result is a constant or its operand, or
    that another computes the same."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.operations = [each for function in functions for each in walked(function)]
        self.unread = set[Any]()
        for each in reversed(self.operations):
            users = (use.owner for result in each.results for use in result.uses)
            if len(each.results) and _is_value(each) and all(getattr(user, "operation", user) in self.unread for user in users):
                self.unread.add(each)
        self.constants = set[Any]()
        """Results of ops whose operands are constants."""
        self.same: dict[Any, Any] = {}
        """For a result, that of the first op that is the same of the same operands."""
        self.twins: dict[Any, list[Any]] = {}
        """The ops that are the same of the same operands, by the first result of the first of them."""
        self.present: dict[Any, Any] = {}
        """The first of these that is in the output, as far as that was asked."""
        forms: dict[tuple[object, ...], Any] = {}
        for each in self.operations:
            if not len(each.results) or not _is_value(each):
                continue
            if all(operand in self.constants for operand in each.operands) and not len(each.regions):
                self.constants.update(each.results)
            form = self._form(each)
            first = forms.setdefault(form, each) if form is not None else each
            self.same.update(zip(each.results, first.results, strict=True))
            self.twins.setdefault(first.results[0], []).append(each)

    def _form(self, operation: Any) -> tuple[object, ...] | None:
        """What an op computes, but for its operands' names; None for one that cannot be compared."""
        if any(word in name_of(operation).lower() for word in _NOT_PURE):
            return None
        if not len(operation.operands) and len(str(operation.results[0].type)) + 8 * _elements(operation.results[0].type) > _MOST:
            return None
        text = operation.clone().get_asm(print_generic_op_form=True, enable_debug_info=False, use_local_scope=True)
        if text.count("<<UNKNOWN SSA VALUE>>") != len(operation.operands):
            return None  # its region reads values from outside of it
        return operation.block, text, tuple([self.same.get(operand, operand) for operand in operation.operands])

    def cause(self, operation: Any, is_there: Callable[[Any], bool]) -> tuple[str, Any]:
        """Returns why an op vanished, in words with a place for another op's name, and that op; nothing if the program does not say."""
        if operation in self.unread:
            return "nothing reads its result", None
        if all(result in self.constants for result in operation.results):
            return "its result is a constant", None
        if len(operation.results) != 1:
            return "", None
        result = operation.results[0]
        first = self.same.get(result, result)
        if first not in self.present:
            self.present[first] = next((each for each in self.twins.get(first, ()) if is_there(each)), None)
        twin = self.present[first]
        if twin is not None:
            return "the same as {}, which is computed once", twin
        operand = self._kept_operand(operation)
        if operand is None:
            return "it changes the shape alone" if name_of(operation) == "reshape" else "", None
        maker = getattr(operand.owner, "operation", operand.owner)
        is_made = maker is not None and not hasattr(maker, "arguments") and is_there(maker)
        return ("its result is that of {}, unchanged", maker) if is_made else ("its result is its operand, unchanged", None)

    def parts(self, wholes: set[str], there: set[str]) -> dict[Any, Any]:
        """Returns, for ops whose location is not in the output, an op at the one location of `wholes` to which alone their results lead."""
        ends, at = dict[Any, str](), {_text(each.location): each for each in self.operations}
        for each in reversed(self.operations) if wholes else ():
            if _text(each.location) not in there:
                users = [getattr(use.owner, "operation", use.owner) for result in each.results for use in result.uses]
                found = {where if (where := _text(user.location)) in wholes else ends.get(user) for user in users}
                if len(found) == 1 and (end := found.pop()) is not None:
                    ends[each] = end
        return {each: at[end] for each, end in ends.items()}

    def _kept_operand(self, operation: Any) -> Any:
        """Returns the operand that an op leaves as it is; None if there is none."""
        name, operands = name_of(operation), list(operation.operands)
        if name in ("convert", "reshape", "broadcast_in_dim", "slice") and operands[0].type == operation.results[0].type:
            return operands[0] if name != "broadcast_in_dim" else None
        if name in _SAME and operation.name.startswith("stablehlo."):
            number, where = _SAME[name]
            return next((operands[1 - at] for at in where if _number(operands[at]) == number), None)
        return None


def _is_value(operation: Any) -> bool:
    if operation.name.endswith((".return", ".yield")) or not operation.name.startswith(_VALUES):
        return False
    return operation.name not in _CONTROL and not any(word in name_of(operation).lower() for word in _NOT_PURE)


def _elements(type: Any) -> int:
    shape = getattr(type, "shape", None)
    return int(np.prod(shape)) if isinstance(shape, list) and all(extent >= 0 for extent in shape) else _MOST


def _number(value: Any) -> float | None:
    """Returns the number that all elements of a value of StableHLO are; None if it is not known."""
    while True:
        maker = getattr(value.owner, "operation", value.owner)
        if getattr(maker, "name", "") == "stablehlo.constant":
            held = maker.attributes["value"]
            try:
                return float(held.get_splat_value().value) if held.is_splat else None
            except (AttributeError, TypeError, ValueError):
                return None
        if getattr(maker, "name", "") not in _SPREADING:
            return None
        value = maker.operands[0]


# The compiled program.


class Compiled:
    """The whole program as IREE compiled it, when it is called first, and how it runs on the CPU."""

    def __init__(self, compile: Callable[[], bytes], device: str) -> None:
        self._compile, self.device = compile, device

    @cached_property
    def _code(self) -> bytes:
        return self._compile()

    @cached_property
    def _module(self) -> Any:
        """The loaded program. Raises MissingExtra without IREE's runtime, LoadError where it does not load it."""
        runtime = _runtime()
        try:
            context = runtime.SystemContext(config=runtime.Config(device=runtime.get_device(self.device)))
            module = runtime.VmModule.copy_buffer(context.instance, self._code)
            context.add_vm_module(module)
            return getattr(context.modules, module.name)
        except (RuntimeError, ValueError, AttributeError, TypeError) as error:
            said = str(error).partition("\n")[0][:200]
            what = f"IREE's runtime does not load what its compiler made: {type(error).__name__}: {said}"
            hint = "give device='local-task' or 'local-sync', and install iree-base-runtime of the version of iree-base-compiler"
            raise LoadError(what, hint=hint) from None

    def why_not_run(self, flags: Sequence[str]) -> Iterator[str]:
        """Yields why the program of these flags of the compiler is not run here."""
        if not any("llvm-cpu" in flag for flag in flags):
            yield "IREE's own program is not run: only one for processors (llvm-cpu) is"
        elif find_spec("iree.runtime") is None:
            yield "IREE's own program is not run: its runtime is not installed (pip install iree-base-runtime)"

    def function(self, title: str) -> Callable[..., Any]:
        """A function of it, called with arrays: one result is returned as it is, several as a tuple."""
        return partial(self._call, title)

    def _call(self, title: str, *args: Any) -> Any:
        function, arrays = getattr(self._module, title), list(map(_array, args))
        try:
            made = function(*arrays)
        except (RuntimeError, TypeError, ValueError) as error:
            given = listed([f"{each.dtype}{list(each.shape)}" for each in arrays])
            said = (str(error).rpartition(".c:")[2].partition(": ")[2] or str(error)).partition("; while ")[0]
            raise ArgumentError(f"IREE's program {title} does not run with {given}", where=said[:300]) from None
        results = made if isinstance(made, tuple | list) else (made,)
        found = tuple([np.asarray(each) for each in results])
        return found[0] if len(found) == 1 else found

    def times(self, title: str, args: Sequence[Any], kernels: Sequence[Kernel]) -> tuple[list[float | None], str]:
        """Returns the milliseconds of each kernel in a run of a function, medians of several runs with one thread, and what is to be said
        of them. Dispatches of one name run in the order of the program; those of one that is in a loop have the time of all its turns."""
        _runtime()
        programs = Path(import_module("iree._runtime_libs").__file__ or "").parent
        if not (programs / "iree-profile").exists():
            return [None] * len(kernels), "this version of IREE's runtime does not say how long a dispatch takes; that of 3.13 does"
        told = (event for event in self._events(programs, title, args) if event.get("type") == "host_dispatch_event")
        spent = grouped((str(event["key"]), event["duration_ns"] / 1e6) for event in told if event.get("valid", True))
        times: list[float | None] = [None] * len(kernels)
        for key, where in grouped((kernel.name, place) for place, kernel in enumerate(kernels)).items():
            events = spent.get(key, [])
            each, rest = divmod(len(events), _RUNS)
            if not each or rest or (len(where) > 1 and each != len(where)):
                continue
            runs = [events[run * each : (run + 1) * each] for run in range(_RUNS)]
            for number, place in enumerate(where):
                times[place] = median([run[number] if len(where) > 1 else sum(run) for run in runs])
        silent = sum(each is None for each in times)
        return times, f"IREE's profile has no times of {silent} of {len(times)} dispatches" if silent else ""

    def _events(self, programs: Path, title: str, args: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """Yields what IREE's tools write of some runs. Raises LoadError where they do not run it."""
        with TemporaryDirectory(prefix="irscope-iree-") as folder:
            (Path(folder) / "module.vmfb").write_bytes(self._code)
            inputs = [f"--input=@{Path(folder) / f'{number}.npy'}" for number in range(len(args))]
            for number, each in enumerate(args):
                np.save(Path(folder) / f"{number}.npy", _array(each))
            profile = Path(folder) / "runs.ireeprof"
            run = [
                programs / "iree-benchmark-module", f"--module={folder}/module.vmfb", "--device=local-sync", f"--function={title}", *inputs,
                f"--benchmark_min_time={_RUNS}x", "--device_profiling_mode=host-execution", f"--device_profiling_output={profile}",
            ]  # fmt: skip
            said = b""
            for command in (run, [programs / "iree-profile", "dispatch", "--dispatch_events", "--format=jsonl", profile]):
                said = ran(list(map(str, command)), "IREE's own benchmark does not run this program", "leave measure out")
        yield from (json.loads(line) for line in said.splitlines() if line.startswith(b"{"))


_RUNS: Final = 10
_FAILED: Final = re.compile(r"error:|INVALID_ARGUMENT|[A-Z]{4,};|\.c:\d")
_SECONDS: Final = 600


def ran(command: Sequence[str], what: str, hint: str, given: bytes = b"") -> bytes:
    """Returns what one of IREE's programs writes. Raises LoadError, which says `what`, where it fails, and where it takes too long."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{what}: it takes over {_SECONDS} s", hint="give it a smaller program") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        said = [line for line in lines if _FAILED.search(line)] or lines[-3:]
        raise LoadError(what, where="\n".join(line[:300] for line in said[:6]), hint=hint)
    return done.stdout


def _array(arg: Any) -> np.ndarray[Any, Any]:
    return np.asarray(arg.detach().cpu() if hasattr(arg, "detach") else arg, order="C")


def _runtime() -> Any:
    try:
        return import_module("iree.runtime")
    except ImportError:
        raise MissingExtra("iree-base-runtime", extra="mlir", purpose="to run what IREE compiled") from None
