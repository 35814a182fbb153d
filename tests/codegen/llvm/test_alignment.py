"""No text claims an alignment that it does not have: LLVM believes the claim, and the processor traps.

The alignment of each address is derived from the text's own instructions, and compared with what its loads and stores state.
"""

import re
from collections.abc import Iterator
from functools import cache
from math import gcd
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel import KernelSpec
from irscope.codegen.llvm import Target, emit_llvm
from irscope.errors import CodegenError
from tests.codegen.kernels import call, plan_of, planned
from tests.codegen.llvm.test_reductions import TARGETS as WIDTHS
from tests.codegen.numerics.test_random import Draw as RandomKernel
from tests.codegen.numerics.test_random import Nodes
from tests.codegen.numerics.test_random import ReductionDraw as RandomReduction
from tests.codegen.suite_kernels import NAMES, suite_spec

TARGETS = {**WIDTHS, "NEON": Target(native_half=True)}
DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.mark.parametrize("target", TARGETS)
def test_no_text_claims_an_alignment_that_it_does_not_have(target: str) -> None:
    texts = [emit_llvm(spec, TARGETS[target]).text for spec in kernels()]
    wrong = [(found, text) for text in texts if (found := false_claims(text))]
    assert not wrong, f"{len(wrong)} of {len(texts)} kernels, the first: {wrong[0][0][:3]}\n{wrong[0][1]}"


@cache
def kernels() -> frozenset[KernelSpec]:
    return frozenset(_kernels())


def _kernels() -> Iterator[KernelSpec]:
    """Pointwise kernels, and reductions of rows and of columns, of every element type."""
    yield from map(suite_spec, NAMES)
    for seed in range(60):
        draw = RandomKernel(seed, smooth=bool(seed % 2))
        yield from plan_of(draw.exprs, draw.operands, draw.dtypes, draw.shape).specs
    for seed in range(80):
        reduction = RandomReduction(seed)
        yield from specs(lambda b, *x, draw=reduction: draw.write(Nodes(draw, b), list(x)), reduction.inputs)  # type: ignore[misc]
    for shape in ((9, 5), (9, 70), (70, 9), (9, 500)):
        for axis in (0, 1):
            for dtype in DTYPES:
                for ops in (("amax", "sum"), ("argmax",), ("any",), ("amin", "all")):
                    yield from specs(
                        lambda b, x, ops=ops, axis=axis: [gathered(b, op, x, axis) for op in ops],  # type: ignore[misc]
                        [np.zeros(shape, dtype)],
                    )


def gathered(b: Any, op: str, x: Any, axis: int) -> Any:
    if op in ("argmax", "any", "all"):
        return call(b, op, x, axis, False)
    return call(b, op, x, [axis], False, None) if op == "sum" else call(b, op, x, [axis], False)


def specs(body: Any, arrays: list[Any]) -> tuple[KernelSpec, ...]:
    try:
        return planned(body, *arrays).specs
    except CodegenError:
        return ()


@pytest.mark.parametrize("target", TARGETS)
def test_a_claim_that_is_too_large_is_found(target: str) -> None:
    (spec,) = specs(lambda b, x: [gathered(b, op, x, 0) for op in ("amax", "sum")], [np.zeros((9, 70), np.int8)])
    text, width = emit_llvm(spec, TARGETS[target]).text, TARGETS[target].vector_bytes
    assert not false_claims(text)
    claims = re.findall(r"(?:store|load) <\d+ x i8>.* %v\d+, align (\d+)", text)
    assert any(int(claim) < width for claim in claims), "vectors of bytes fill no register"
    assert false_claims(re.sub(r"(<\d+ x i8>.*, align )\d+", rf"\g<1>{width}", text))


_SIZES = {"ptr": 8, "i64": 8, "double": 8, "i32": 4, "float": 4, "i16": 2, "half": 2, "i8": 1, "i1": 1}
_TYPE = r"(<\d+ x \w+>|\w+)"
_ACCESS = re.compile(rf"(?:= load {_TYPE}|store {_TYPE} .+), ptr (%[\w.]+)(?:, align (\d+))?")
_MASKED = re.compile(r"@llvm\.masked\.\w+\.v(\d+)(\w+)\.p0\(.*?ptr (%[\w.]+), i32 (\d+)")
_OPERANDS = re.compile(r"\[([^,\]]+), ")


def size(kind: str) -> int:
    """The bytes from one element of an array of this type to the next."""
    if kind.startswith("<"):
        lanes, item = kind[1:-1].split(" x ")
        bits = int(lanes) * (1 if item == "i1" else 8 * _SIZES[item])
        return 1 << max((bits + 7) // 8 - 1, 0).bit_length()
    return _SIZES[kind]


def false_claims(text: str) -> list[str]:
    """The loads and stores whose stated alignment does not follow from the text: from where an array on the stack starts, and
    from what an offset is a multiple of. Pointers that the caller passes are aligned to their elements."""
    lines = [line.strip() for line in text.splitlines()]
    multiples = _multiples(lines)
    tested = {
        pointer: int(mask) + 1 for pointer, mask in re.findall(r"= ptrtoint ptr (%[\w.]+) to i64\n\s*%\w+ = and i64 %\w+, (\d+)", text)
    }
    wrong = []
    for line in lines:
        if found := _ACCESS.search(line):
            kind, pointer, claim = found[1] or found[2], found[3], int(found[4] or size(found[1] or found[2]))
        elif (found := _MASKED.search(line)) and "declare" not in line:
            kind, pointer, claim = {"f32": "float", "f64": "double"}.get(found[2], found[2]), found[3], int(found[4])
        else:
            continue
        element = size(kind[1:-1].split(" x ")[1] if kind.startswith("<") else kind)
        known = multiples.get(pointer, 0)
        known = element if known == _PASSED else known
        if "!nontemporal" in line:
            known = tested.get(pointer, known)
        if known % claim:
            wrong.append(f"{known} bytes: {line}")
    return wrong


_PASSED = 1 << 40
"""Of a pointer that was passed: as aligned as the elements that it points to."""


def _multiples(lines: list[str]) -> dict[str, int]:
    """What each number is a multiple of (0: of everything, as 0 is), and what each pointer is aligned to: the greatest
    fixed point, reached from above."""
    made = [match.groups() for line in lines if (match := re.match(r"(%[\w.]+) = (.*)", line))]
    known: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for name, text in made:
            found = _multiple(text, known)
            if known.get(name, 0) != found:
                known[name], changed = found, True
    return known


def _multiple(text: str, known: dict[str, int]) -> int:
    def of(operand: str) -> int:
        operand = operand.strip()
        return known.get(operand, 0) if operand.startswith("%") else int(operand)

    if match := re.match(r"alloca .*, align (\d+)", text):
        return int(match[1])
    if text.startswith("load ptr"):
        return _PASSED
    if match := re.match(rf"getelementptr {_TYPE}, ptr (%[\w.]+), i64 (\S+)", text):
        if match[2] in ("%data", "%dims"):
            return 8
        base, offset = known.get(match[2], 0), of(match[3]) * size(match[1])
        return _PASSED if base == _PASSED else gcd(base, offset)
    if match := re.match(r"(add|sub) i64 (\S+), (\S+)", text):
        return gcd(of(match[2]), of(match[3]))
    if match := re.match(r"and i64 \S+, -(\d+)$", text):
        return int(match[1]) & -int(match[1])
    if match := re.match(r"mul i64 (\S+), (\S+)", text):
        return of(match[1]) * of(match[2])
    if match := re.match(r"select i1 \S+, (?:i64|ptr) (\S+), (?:i64|ptr) (\S+)", text):
        return gcd(of(match[1]), of(match[2]))
    if text.startswith(("phi i64", "phi ptr")):
        return gcd(*(of(operand) for operand in _OPERANDS.findall(text)))
    return 1
