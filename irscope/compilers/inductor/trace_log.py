"""TORCH_TRACE logs of jobs that ran elsewhere: what was compiled, into which kernels, from which lines. Nothing in them is run.

A record is one line, `V1125 20:01:02.123000 4711 torch/file.py:12] {json}`. Where the JSON has `has_payload` (an MD5), the payload
follows, each line behind a tab. Strings are interned: {"str": ["path", 3]} says that file name 3 is "path". A record's kind is the one
key that is none of the common ones; artifacts have a name. Its compile is `frame_id/frame_compile_id`. A folder has one file for each
process, in which a rank of a distributed job has its number.

What a log has grew from version to version. `inductor_post_grad_graph` is an artifact in torch 2.13, and a record of its own before and
from a cache. Which nodes a kernel computes is in the provenance mapping if the job ran with INDUCTOR_PROVENANCE=1, and above the text
of each Triton kernel; otherwise kernels are shown without nodes, and a note says so. A damaged log is read as far as it can be.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from irscope._base.running import progress
from irscope._base.words import plural, printable
from irscope.compilers.inductor.dynamo import Compile, TraceRecord, breaks_and_compiles, compile_id, recompiles
from irscope.compilers.inductor.output_code import OutputCode, kernels_of, read_output_code
from irscope.compilers.record import Break, Decisions, Program, likely
from irscope.errors import ArgumentError, IrscopeError, LoadError
from irscope.files import read_file
from irscope.frontends.refusals import start_of
from irscope.frontends.torch.fx_text import read_fx_text

T = TypeVar("T")

_HEAD: Final = re.compile(r"^[VIWEC]\d{4} [\d:.]+ \d+ \S+:\d+\] (?P<json>\{.*)$")
_COMMON: Final = frozenset(
    {"rank", "frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "has_payload", "stack", "pathname", "lineno", "thread",
     "timestamp", "process", "subgraph_name"}
)  # fmt: skip
_WANTED: Final = frozenset(
    {"inductor_post_grad_graph", "inductor_output_code", "inductor_provenance_tracking_node_mappings", "aot_inference_graph",
     "aot_forward_graph", "aot_backward_graph", "dynamo_graph_break_reason", "recompile_reasons", "compilation_metrics",
     "dynamo_cpp_guards_str", "dynamo_start"}
)  # fmt: skip
_MOST_FILES: Final = 4096
_MOST_NOTES: Final = 100
"""The most sentences about what cannot be read in one file; a damaged one may have a million."""
_HINT: Final = "give the folder that TORCH_TRACE named, or one of the files in it"


compiler: Final = "inductor"
name: Final = "a log of TORCH_TRACE, or a folder of such logs"


def reads(source: object, compiler: str | None) -> bool:
    """Accepts a log, and a folder with one."""
    if not isinstance(source, Path) or compiler not in (None, "inductor"):
        return False
    return any(map(_is_trace, sorted(source.glob("*.log")))) if source.is_dir() else _is_trace(source)


def _is_trace(path: Path) -> bool:
    first = start_of(path)[: 1 << 12].decode("utf-8", "replace").partition("\n")[0] if path.is_file() else ""
    return bool(_HEAD.match(first[: 1 << 10] + "{"))


def decisions(source: Path, args: Sequence[Any]) -> Decisions:
    """Returns what a log, or each log in a folder, says. Raises LoadError if that is nothing."""
    if args:
        raise ArgumentError("a log is read, and nothing in it runs: it takes no arguments", hint="leave them out")
    programs, breaks, notes, compiles = list[Program](), list[Break](), list[str](), 0
    files = _files(source)
    versions: set[str] = set()
    for file in files:
        read = _Process(file.name if len(files) > 1 else "")
        records = list(read.records(file))
        said, made = breaks_and_compiles(records)
        breaks += said
        compiles += len(made)
        read.notes += map(printable, recompiles(made))
        programs += read.programs(records, {each.id: each for each in made})
        notes += read.notes
        versions |= read.versions
    if not programs and not breaks and not compiles:
        raise LoadError(f"{str(source)!r} holds no compile that can be read", where="\n".join(notes[:8]), hint=_HINT)
    return Decisions(compiler, tuple(programs), tuple(breaks), version=", ".join(sorted(versions)), notes=tuple(notes))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    logs = sorted(each for each in path.iterdir() if each.is_file() and each.suffix == ".log")
    if not logs:
        raise LoadError(f"the folder {str(path)!r} has no file that ends in .log", hint=_HINT)
    if len(logs) > _MOST_FILES:
        raise LoadError(f"the folder {str(path)!r} has {len(logs):,} logs, more than {_MOST_FILES:,}", hint="give one of the files")
    return logs


@dataclass
class _Process:
    """The reading of one file, the log of one process."""

    name: str
    """The file, for notes; empty if it is the only one."""
    notes: list[str] = field(default_factory=list)
    rank: int | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of torch that it names."""

    def note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(printable(f"{self.name}: {text}" if self.name else text))
        elif len(self.notes) == _MOST_NOTES:
            self.notes.append(f"{self.name + ': ' if self.name else ''}more could not be read, of which nothing is said here")

    # Records

    def records(self, path: Path) -> Iterator[TraceRecord]:
        """Yields the records that matter here, in order; counts those that cannot be read."""
        damaged = 0
        for head, payload in _split(read_file(path, hint=_HINT)):
            fields = _json(head)
            if not isinstance(fields, dict):
                damaged += 1
                continue
            if isinstance(fields.get("rank"), int):
                self.rank = fields["rank"]
            kind, about = _kind(fields)
            if kind not in _WANTED:
                continue
            checksum = fields.get("has_payload")
            if isinstance(checksum, str) and hashlib.md5(payload.encode("utf-8"), usedforsecurity=False).hexdigest() != checksum:
                self.note(f"the {kind} of [{compile_id(fields)}] is not as it was written: it is left out")
                continue
            if kind == "compilation_metrics" and isinstance(about, dict) and isinstance(about.get("pytorch_version"), str):
                self.versions.add(about["pytorch_version"])
            yield TraceRecord(kind, about, compile_id(fields), payload)
        if damaged:
            self.note(f"{plural(damaged, 'record')} cannot be read and {'is' if damaged == 1 else 'are'} left out")

    # Programs

    def programs(self, records: Iterable[TraceRecord], compiles: Mapping[str, Compile]) -> list[Program]:
        parts: list[dict[str, str]] = []
        directions: dict[str, list[str]] = {}
        started: dict[str, dict[str, str]] = {}
        for kind, _, id, payload in records:
            if kind in ("aot_inference_graph", "aot_forward_graph", "aot_backward_graph"):
                directions.setdefault(id, []).append(kind.split("_")[1])
            if not kind.startswith("inductor_"):
                continue
            current = started.get(id)
            if current is None or kind in current or kind == "inductor_post_grad_graph":
                announced = directions.get(id)  # forward and backward graphs, in this order
                current = started[id] = {"id": id, "direction": announced.pop(0) if announced else ""}
                parts.append(current)
            current[kind] = payload
        found = (self.program(part, compiles.get(part["id"])) for part in parts)
        return [program for program in found if program is not None]

    def program(self, part: Mapping[str, str], compile: Compile | None) -> Program | None:
        """Returns one program; None, with a note, if its graph cannot be read."""
        rank = f"rank {self.rank} " if self.rank is not None else ""
        title = f"{rank}[{part['id']}] {part['direction']}".strip()
        read = self.read(part.get("inductor_post_grad_graph", ""), f"graph of {title}", partial(read_fx_text, name="compiled"))
        code = self.read(part.get("inductor_output_code", ""), f"output code of {title}", read_output_code) or OutputCode({}, ())
        if read is None:
            return None
        kernels, said = kernels_of(read, code, self.mapping(part.get("inductor_provenance_tracking_node_mappings", ""), title))
        notes = [f"{each} has no meaning in irscope" for each in read.unknown] + said
        facts: dict[str, Any] = {"compiler": compiler, "name": title, "silence": "did not say in its log why not", "memory": code.memory}
        if compile is not None:
            again = "; ".join(compile.recompiled_because)
            facts |= {"guards": compile.guards, "recompiled_because": again, "seconds": compile.seconds}
        return likely(read.graph, kernels, notes=notes, **facts)

    def read(self, text: str, what: str, reader: Callable[[str], T]) -> T | None:
        """Returns what a payload says; None, with a note, if it is not there or cannot be read."""
        if not text:
            self.note(f"the {what} is not in the log")
            return None
        try:
            return reader(text)
        except IrscopeError as error:
            self.note(f"the {what} cannot be read: {error.what}")
            return None

    def mapping(self, text: str, title: str) -> dict[str, tuple[str, ...]]:
        """Returns the nodes of each kernel, `name:handle`, as the provenance mapping says."""
        said = _json(text) if text.strip() else {}
        found = said.get("cppCodeToPost", {}) if isinstance(said, dict) else None
        if not isinstance(found, dict):
            self.note(f"the provenance mapping of {title} cannot be read")
            return {}
        return {name: tuple(node for node in nodes if isinstance(node, str)) for name, nodes in found.items() if isinstance(nodes, list)}


def _split(stream: BytesIO) -> Iterator[tuple[str, str]]:
    """Yields the JSON and the payload of each record, of which there may be millions: one is held at a time."""
    head, lines, read = "", list[str](), 0
    is_windows = stream.getvalue().partition(b"\n")[0].endswith(b"\r")  # it went through a tool that writes those
    ends = b"\r\n" if is_windows else b"\n"
    with progress(len(stream.getbuffer()) >> 20, "reading the log") as step:
        for raw in stream:
            line = raw.removesuffix(ends).decode("utf-8", "replace")
            if line.startswith("\t"):
                lines.append(line[1:])
            elif found := _HEAD.match(line):
                if head:
                    yield head, "\n".join(lines)
                head, lines = found["json"], []
            while read < stream.tell() >> 20:
                read += 1
                step()
    if head:
        yield head, "\n".join(lines)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _kind(fields: Mapping[str, Any]) -> tuple[str, Any]:
    kind = next((key for key in fields if key not in _COMMON), "")
    about = fields.get(kind)
    if kind in ("artifact", "graph_dump") and isinstance(about, dict) and isinstance(about.get("name"), str):
        return about["name"], about
    return kind, about
