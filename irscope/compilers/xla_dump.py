"""What XLA says beside its optimized program: the code that it generated, the program before its rewrites, its buffers, its times.

A dump has a file for each, with the same beginning of the name. What is not there is said to be not known, and never guessed.

*What vanished.* XLA keeps the `op_name` of JAX on what it makes of an op. An op whose name is on nothing of the optimized program was
removed, or merged into another; an op of the same kind and operands whose name is there is that other one. A name says no more than that:
where one has several instructions before and one of their kinds after, none of them is called vanished.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from irscope._base.nested import grouped
from irscope._base.words import listed
from irscope.analysis.memory_plan import Allocation, OwnMemory
from irscope.compilers.record import Change
from irscope.errors import CaptureError
from irscope.files import read_file
from irscope.frontends.hlo_text import HloText, Instruction
from irscope.ir import Location, Node

_GENERATED: Final = (".ir-no-opt.ll", ".ptx", ".ir-with-opt.ll")
"""The ends of files that hold generated code, those that are read first before others: LLVM before its own passes is the shortest."""
_BEFORE: Final = "before_optimizations.txt"
_BUFFERS: Final = "-buffer-assignment.txt"
_LIVE: Final = "-live-range.txt"
_MOST_FILES: Final = 20_000


class Dump:
    """The files that XLA wrote for one module."""

    def __init__(self, dump: Path, module: str) -> None:
        """`dump` is `module_0001.jit_f.cpu_after_optimizations.txt` for the module `jit_f`: what belongs to it begins like that."""
        before, found, _ = dump.name.partition(f"{module}.")
        self._prefix = before + found
        names = sorted(path.name for path in islice(dump.parent.iterdir(), _MOST_FILES)) if found else []
        self._names = [name for name in names if name.startswith(self._prefix) and name.endswith((*_GENERATED, _BEFORE, _BUFFERS, _LIVE))]
        self._folder = dump.parent
        self._texts: dict[str, str] = {}

    def code(self, kernel: str) -> tuple[str, str] | None:
        """Returns the text of a kernel and its language, `llvm` or `ptx`; None if it is not there."""
        for end in _GENERATED:
            language = "ptx" if end == ".ptx" else "llvm"
            own = f"{self._prefix}{kernel}_kernel_module{end}"
            if own in self._names:
                return self._text(own), language
            for name in self._names:
                found = _function(self._text(name), kernel, language) if name.endswith(end) and "_kernel_module" not in name else ""
                if found:
                    return found, language
        return None

    def before(self) -> str:
        """Returns the text of the program before XLA's rewrites; nothing if it is not there."""
        return self._ending(_BEFORE)

    def memory(self) -> OwnMemory | None:
        """Returns what XLA says of its buffers; None if it is not there."""
        return _memory(self._ending(_BUFFERS), self._ending(_LIVE))

    def _ending(self, end: str) -> str:
        return next((self._text(name) for name in self._names if name.endswith(end)), "")

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = read_file(self._folder / name).getvalue().decode("utf-8", "replace")
        return self._texts[name]


def _function(text: str, kernel: str, language: str) -> str:
    """Returns a function of a module of LLVM or PTX; nothing if it is not there. PTX has no dots and dashes in names."""
    symbol = re.sub(r"\W", "_", kernel) if language == "ptx" else kernel
    head = rf"^[^\n]*\.entry {re.escape(symbol)}\(" if language == "ptx" else rf'^define [^\n]*@"?{re.escape(symbol)}"?\('
    start = re.search(head, text, re.MULTILINE)
    end = text.find("\n}", start.start()) if start is not None else -1
    return text[start.start() : end + 2] + "\n" if start is not None and end > 0 else ""


# Memory and times.
#
# `allocation 3: size 512, maybe-live-out:` heads the values that lie in it, one after the other; parameters and constants are not the
# program's to allocate. The live ranges count the instructions in the order in which they run; an operand is there while its last
# reader runs.


_ALLOCATION: Final = re.compile(r"allocation (\d+): size (\d+), (.*):$")
_VALUE: Final = re.compile(r" value: <\d+ (\S+)(?: \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\)")
_RANGE: Final = re.compile(r"    (\S+):(\d+)-(\d+)$")
_STEP: Final = re.compile(r"    (\d+):(\S+)$")
_GIVEN: Final = ("parameter", "constant", "thread-local")


def _memory(buffers: str, live: str) -> OwnMemory | None:
    ranges = {found[1]: (int(found[2]), int(found[3])) for line in live.splitlines() if (found := _RANGE.match(line))}
    moments = tuple(found[2] for line in live.splitlines() if (found := _STEP.match(line)))
    allocations, total, how = list[Allocation](), 0, ""
    blocks: dict[tuple[str, str], int] = {}
    for line in buffers.splitlines():
        if head := _ALLOCATION.match(line):
            is_given = any(word in head[3].split(" ")[0] for word in _GIVEN)
            kind = "a result" if "live-out" in head[3] else "temporary memory"
            how = "" if is_given else f"{kind}, in allocation {head[1]}"
            total += 0 if is_given else int(head[2])
        elif how and (value := _VALUE.match(line)):
            place = ranges.get(value[1] if value[1].endswith("}") else f"{value[1]}{{}}")
            if place is not None:
                last = min(place[1], len(moments) - 1)
                block = blocks.setdefault((how, value[3]), len(blocks) + 1)
                allocations.append(Allocation(value[1], int(value[2]), place[0], last, how, block))
    if not allocations or not moments:
        return None
    return OwnMemory("XLA's buffer assignment and live ranges", moments, tuple(allocations), total=total)


_RUNS: Final = 10


def times_of(made: Any, args: Sequence[Any]) -> dict[tuple[str, str], float]:
    """Runs a compiled function and returns the milliseconds of each instruction in a run, by its module and name: medians, as JAX's
    profiler sees them. An instruction in a loop has the time of all its rounds. Raises CaptureError where JAX cannot say so."""
    jax = import_module("jax")
    with TemporaryDirectory(prefix="irscope-xla-") as folder:
        try:
            jax.block_until_ready(made(*args))
            with jax.profiler.trace(folder):
                for _ in range(_RUNS):
                    jax.block_until_ready(made(*args))
            files = sorted(Path(folder).rglob("*.xplane.pb"))
            profile = jax.profiler.ProfileData.from_file(str(files[-1]))
        except Exception as error:
            what = f"JAX {jax.__version__} does not say how long its kernels take: {type(error).__name__}: {error}"
            hint = "check that the function runs on these arguments, and that no other profile is being taken"
            raise CaptureError(what, hint=hint) from None
        spent: dict[tuple[str, str], dict[Any, float]] = {}
        for event in (event for plane in profile.planes for line in plane.lines for event in line.events):
            said = dict(event.stats)
            if "hlo_op" in said and "run_id" in said:
                runs = spent.setdefault((str(said.get("hlo_module")), str(said["hlo_op"])), {})
                runs[said["run_id"]] = runs.get(said["run_id"], 0.0) + event.duration_ns / 1e6
    return {key: median(runs.values()) for key, runs in spent.items() if len(runs) == _RUNS}


# What vanished.


_NO_OPS: Final = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "call", "while", "conditional", "after-all", "opt-barrier", "domain", "iota",
    "broadcast",
})  # fmt: skip
"""Instructions that are no op of the user's: names of values, control flow, and numbers spread to a shape."""


def vanished(before: HloText, after: HloText, named: Mapping[str, Sequence[Node]]) -> Iterator[Change]:
    """Yields the ops of the program before XLA's rewrites whose kind has none of their name after them; `named` has the nodes that each
    instruction of the optimized program became."""
    made = (each for _, each in after.instructions() if each.opcode not in ("parameter", "fusion"))
    now = grouped((name, each) for each in made for name in after.provenance(each).names if name)
    was = grouped((before.provenance(each).op_name, each.opcode) for _, each in before.instructions() if each.opcode not in _NO_OPS)
    kinds = {name: {*opcodes} for name, opcodes in was.items()}
    combining = {name for _, each in before.instructions() if each.opcode not in ("call", "while", "conditional") for name in each.called}
    kept: dict[tuple[object, ...], str] = {}
    ops = [(where, each) for where, each in before.instructions() if where not in combining and each.opcode not in _NO_OPS]
    for where, each in ops:
        if before.provenance(each).op_name in now:
            kept.setdefault(_computation(where, each), before.provenance(each).op_name)
    for where, each in ops:
        made_from = before.provenance(each)
        those = now.get(made_from.op_name, [])
        if not made_from.op_name or any(other.opcode in kinds[made_from.op_name] for other in those):
            continue
        twin = kept.get(_computation(where, each)) if not those else None
        those = now.get(twin, []) if twin is not None else those
        because = f"the same as {twin}, which is computed once" if twin is not None else _became(those)
        nodes = tuple(dict.fromkeys(node for other in those for node in named.get(other.name, ()) if node.op != "prim::Constant"))
        frame = next(iter(made_from.frames), None)
        place = Location(frame.file, frame.line) if frame is not None and frame.line > 0 else None
        yield Change("vanished", each.opcode, made_from.op_name.rpartition("/")[2] or each.name, nodes, because, place, certainty="matched")


def _computation(where: str, each: Instruction) -> tuple[object, ...]:
    attrs = tuple(sorted((key, text) for key, text in each.attrs.items() if key not in ("metadata", "frontend_attributes", "sharding")))
    own = each.name if each.opcode.startswith(("rng", "custom-call")) else ""
    return where, each.opcode, each.operands, attrs, each.shape, own


def _became(those: Sequence[Instruction]) -> str:
    """Returns what instructions of an op's name make of it; nothing if there are none."""
    opcodes = dict.fromkeys(each.opcode for each in those)
    if not opcodes:
        return ""
    if opcodes.keys() <= {"bitcast"}:
        return "a view: XLA has a bitcast, which runs nothing"
    if opcodes.keys() <= {"constant"}:
        return "its result is a constant"
    called = [each.attrs.get("custom_call_target", "").strip('"') for each in those if each.opcode == "custom-call"]
    return f"a part of the library call {listed(called)}" if any(called) else f"rewritten into {listed(list(opcodes))}"
