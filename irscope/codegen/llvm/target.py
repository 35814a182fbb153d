"""What the LLVM text of a kernel should know of the processor."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A processor, as far as the text depends on it."""

    vector_bytes: int = 16
    """The width of its vector registers."""
    native_half: bool = False
    """Whether it converts float16 in hardware; otherwise the conversion is spelt out in bits."""
    masks: bool = False
    """Whether loads and stores take a mask of lanes at no cost (AVX-512); a short row is then copied at one stroke."""
    registers: int = 2
    """How many vector registers hold the lanes of one value: more hide more latency, until registers run out."""
