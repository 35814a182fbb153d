"""The peak float32 arithmetic of one thread of this processor: multiply-adds that wait for nothing.

It runs a loop over a dozen independent vectors in registers, each multiplied and added to in every iteration: enough of
them that the arithmetic units never idle. No memory is read. A processor without fused multiply-add does both separately.
"""

from __future__ import annotations

import ctypes
import platform
import time
from typing import Final

from irscope.runtime.cpu import Host, loaded, object_file, with_llvm

__all__ = ["arithmetic_peak"]

_VECTORS: Final = 12
_TURNS: Final = 20_000
_ROUNDS: Final = 9


def arithmetic_peak(host: Host) -> float:
    """Returns float32 additions and multiplications per second in the fastest round: other programs only slow rounds down."""
    lanes = host.target.vector_bytes // 4
    fused = "+fma" in host.features.split(",") or platform.machine() in ("aarch64", "arm64")
    code = with_llvm(lambda: loaded(object_file(_text(lanes, fused=fused), host), "irscope_peak", host))
    assert code is not None, "an object file that LLVM has just made must load"
    address, _owner = code
    call = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    call(_TURNS)
    best = min(_seconds(call) for _ in range(_ROUNDS))
    return 2.0 * _VECTORS * lanes * _TURNS / best


def _seconds(call: ctypes._FuncPointer) -> float:
    start = time.perf_counter()
    call(_TURNS)
    return max(time.perf_counter() - start, 1e-9)


def _text(lanes: int, *, fused: bool) -> str:
    """Returns the loop's LLVM text. Its vectors end in the returned value, so that LLVM removes none of them."""
    kind, splat = f"<{lanes} x float>", f"<{', '.join(['float 0.5'] * lanes)}>"
    phis, steps, ends = [], [], []
    for place in range(_VECTORS):
        start = f"<{', '.join([f'float {place + 1}.0'] * lanes)}>"
        phis.append(f"  %v{place} = phi {kind} [ {start}, %entry ], [ %n{place}, %turn ]")
        if fused:
            steps.append(
                f"  %n{place} = call {kind} @llvm.fma.v{lanes}f32({kind} %v{place}, {kind} {splat}, {kind} {splat})"
            )
        else:
            steps += [f"  %m{place} = fmul {kind} %v{place}, {splat}", f"  %n{place} = fadd {kind} %m{place}, {splat}"]
        before = f"%s{place - 1}" if place else "zeroinitializer"
        ends.append(f"  %s{place} = fadd {kind} {before}, %n{place}")
    return "\n".join([
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        "define float @irscope_peak(i64 %turns) {", "entry:", "  br label %turn", "turn:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %turn ]", *phis, *steps,
        "  %next = add i64 %i, 1", "  %on = icmp slt i64 %next, %turns", "  br i1 %on, label %turn, label %end", "end:",
        *ends, f"  %found = extractelement {kind} %s{_VECTORS - 1}, i32 0", "  ret float %found", "}",
    ])  # fmt: skip
