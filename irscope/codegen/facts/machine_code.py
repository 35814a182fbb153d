"""Maps lines of machine code to the lines of the kernel's text that they came from.

Compilers carry the mapping along as debug information, which changes no instruction. LLVM's text gets a location on each
of its lines; NVRTC is asked for line information. Both then emit `.loc` before the instructions of another line, and
NVIDIA's disassembler reports it in comments. So each line of assembly, PTX and SASS is mapped to the node that it computes, as in
the kernel's own text.

The loops that run for every point are found there too: of the innermost loops, as LLVM's comments name them, those that
compute something, and of several versions of one (for long and short rows, with vectors and for the rest) the longest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import gcd
from typing import Final

from irscope.codegen.kernel import NO_LINE, NO_NODE, SourceText

_FIRST: Final = 100
"""The number of the first location; the kernel's own metadata has smaller ones."""
_UNIT: Final = """!llvm.dbg.cu = !{!90}
!llvm.module.flags = !{!93}
!90 = distinct !DICompileUnit(language: DW_LANG_C99, file: !91, emissionKind: LineTablesOnly)
!91 = !DIFile(filename: "kernel.ll", directory: "")
!92 = distinct !DISubprogram(name: "kernel", file: !91, line: 1, type: !94, unit: !90, spFlags: DISPFlagDefinition)
!93 = !{i32 2, !"Debug Info Version", i32 3}
!94 = !DISubroutineType(types: !95)
!95 = !{}"""
_LOCATION: Final = re.compile(r"\s*\.loc\s+\d+\s+(\d+)(?:.*inlined_at \d+ (\d+))?")
_SASS_LINE: Final = re.compile(r'\s*//## File "[^"]*", line (\d+)(.*)')
_SASS_CODE: Final = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*(?:/\*.*)?$")
_REMARK: Final = re.compile(r"\s*(?:#|//|;|@)\s+(?!%bb|.*Inner Loop Header)")
"""A line that is a comment, except one at the start of a block or of an innermost loop."""
_DIRECTIVE: Final = re.compile(r"\s*\.(?!L)[a-z]")
_LABEL: Final = re.compile(r"(\.?L?[\w.$]+):")
_JUMP: Final = re.compile(r"\s+(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:.*[,\s])?(\.?L\w+)")
_HEADER: Final = "Inner Loop Header"
_OPERATION: Final = re.compile(r"\s+%[\w.]+ = (?:(?:tail )?call .*?(@[\w.]+?)(?:\.v\d+f\d+)?\(|(\w+))")
_MOVES: Final = frozenset({
    "load", "shufflevector", "insertelement", "extractelement", "getelementptr", "phi", "ptrtoint", "add", "sub", "mul",
    "and", "icmp", "bitcast", "trunc", "zext", "sext",
})  # fmt: skip
"""What a loop of the text does beside computing: moving, and counting."""
_VECTOR: Final = re.compile(r"%([xyz])mm(\d+)|\b([vqdsh])(\d+)(?:\.\w+)?\b")
_GENERAL: Final = re.compile(
    r"%(r\d+|[re]?[abcd]x|[abcd][lh]|[re]?(?:si|di|bp|sp)|(?:si|di|bp|sp)l)[dwb]?\b|\b[wx](\d+)\b"
)
_BITS: Final = {"x": 128, "y": 256, "z": 512}


def with_locations(source: SourceText) -> str:
    """Return the LLVM text with a location on each instruction: its line, counted from 1."""
    lines, inside = [], False
    texts = source.text.splitlines()
    for number, line in enumerate(texts):
        if line.startswith("define"):
            inside = True
            line = re.sub(r"\{$", "!dbg !92 {", line)
        elif line.startswith("}"):
            inside = False
        elif inside and line.startswith("  "):
            line = f"{line}, !dbg !{_FIRST + number}"
        lines.append(line)
    places = (f"!{_FIRST + number} = !DILocation(line: {number + 1}, scope: !92)" for number in range(len(texts)))
    return "\n".join((*lines, _UNIT, *places)) + "\n"


def tie_assembly(text: str, source: SourceText) -> SourceText:
    """Return the instructions and labels of the assembly that LLVM's code generator emitted for `with_locations(source)`."""
    return _tie("assembly", source, _of_function(text, source.name))


def ptx_lines(text: str, source: SourceText) -> SourceText:
    """Return the PTX that NVRTC emitted for CUDA text with line information, with the line information removed."""
    wanted = (line for line in text.partition("\t.file\t")[0].splitlines())
    return _tie("ptx", source, _with_places(wanted))


def tie_sass(text: str, source: SourceText) -> SourceText:
    """Return the output of `nvdisasm -c -gi` for the same, one instruction per line."""
    found, current = [], NO_LINE
    for line in text.splitlines():
        if place := _SASS_LINE.match(line):
            around = re.findall(r"line (\d+)", place[2])
            current = int(around[-1] if around else place[1]) - 1
        elif code := _SASS_CODE.match(line):
            found.append((f"  /*{code[1]}*/  {code[2]}", current))
        elif _LABEL.match(line) and not line.startswith(".text."):
            found.append((line.rstrip(), NO_LINE))
            current = current if line.startswith(".L") else NO_LINE
    return _tie("sass", source, found)


def _of_function(text: str, name: str) -> Iterable[tuple[str, int]]:
    """Yield the lines of one function, without assembler directives and comments."""
    lines = iter(text.splitlines())
    symbols = (f"{name}:", f"_{name}:")
    inside = [next((line for line in lines if line.startswith(symbols)), "")]
    for line in lines:
        if re.match(r"\.?Lfunc_end|\s*\.section", line):
            break
        inside.append(line)
    for line, place in _with_places(inside):
        if not re.match(r"\.?L(?:tmp|func_begin)", line) and not _REMARK.match(line) and not _DIRECTIVE.match(line):
            yield line, place if line.startswith("\t") else NO_LINE


def _with_places(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Yield each line with the line, counted from 0, that the last `.loc` before it names."""
    current = NO_LINE
    for line in lines:
        place = _LOCATION.match(line)
        if place is None:
            yield line, current if line.strip() else NO_LINE
        else:
            current = int(place[2] or place[1]) - 1


def _tie(language: str, source: SourceText, lines: Iterable[tuple[str, int]]) -> SourceText:
    """Build a text from lines and their origins, with the node of each line."""
    made = list(lines)
    known = len(source.line_nodes)
    nodes = tuple(source.line_nodes[place] if 0 <= place < known else NO_NODE for _, place in made)
    return SourceText(
        "".join(f"{line}\n" for line, _ in made), language, nodes, source.name,
        tuple(place if 0 <= place < known else NO_LINE for _, place in made),
    )  # fmt: skip


# -- the loops over points of a processor's assembly ------------------------------------------------------------------


def hot_loops(source: SourceText, assembly: SourceText) -> list[list[int]]:
    """Return the instructions of the loops that run for every point, one for each pass, as lines of the assembly."""
    texts = source.text.splitlines()
    longest: dict[frozenset[tuple[int, str, int]], list[int]] = {}
    for loop in _innermost(assembly.text.splitlines()):
        does = _operations(texts, source, {assembly.origins[line] for line in loop})
        if does and len(loop) > len(longest.get(does, ())):
            longest[does] = loop
    return list(longest.values())


def _innermost(lines: Sequence[str]) -> list[list[int]]:
    """Return the instructions of each innermost loop: LLVM lays one out from a label to the last jump back to it."""
    labels: dict[str, int] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = number
        elif (jump := _JUMP.match(line)) and jump[1] in labels:
            ends[labels[jump[1]]] = number
    headers = [number for number, line in enumerate(lines) if _HEADER in line]
    return [
        [number for number in range(start, end + 1) if lines[number].startswith("\t")] for start, end in ends.items()
        if any(start <= header <= end for header in headers)
        and not any(start <= other and ends[other] <= end for other in ends if other != start)
    ]  # fmt: skip


def _operations(texts: Sequence[str], source: SourceText, lines: Iterable[int]) -> frozenset[tuple[int, str, int]]:
    """Return what lines of the text compute: node, operation and its count, divided by the common divisor of all counts,
    which makes a loop that takes several vectors at once equal to one that takes one."""
    counts: Counter[tuple[int, str]] = Counter()
    stores = 0
    for line in lines:
        found = _OPERATION.match(texts[line]) if line != NO_LINE else None
        stores |= line != NO_LINE and ("  store " in texts[line] or "@llvm.masked.store" in texts[line])
        if found and source.line_nodes[line] != NO_NODE and found[2] not in _MOVES:
            counts[source.line_nodes[line], found[1] or found[2]] += 1
    each = gcd(*counts.values())
    return frozenset((*((*what, count // each) for what, count in counts.items()), (0, "store", stores))) if counts else frozenset()


def register_names(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the vector registers and the general ones that instructions name, regardless of their width."""
    text = "\n".join(lines)
    vectors = {x86 or arm for _, x86, _, arm in _VECTOR.findall(text)}
    return vectors, {_family(x86) if x86 else arm for x86, arm in _GENERAL.findall(text)}


def vector_bits(lines: Iterable[str]) -> int:
    """Return the width of the widest vector register that instructions name; 0 for none."""
    return max((_BITS.get(kind, 128) for kind, *_ in _VECTOR.findall("\n".join(lines))), default=0)


def _family(name: str) -> str:
    """Return the register that a name belongs to, whatever its width: `rax`, `eax` and `al` are one register, `r8d` is `r8`."""
    if re.fullmatch(r"r\d+", name):
        return name[1:]
    bare = name.removeprefix("r").removeprefix("e") if len(name) == 3 else name
    return bare.rstrip("xlh") if bare[0] in "abcd" and len(bare) == 2 else bare.rstrip("l") if len(bare) > 2 else bare
