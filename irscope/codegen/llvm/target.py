"""Describes the processor to the emitter of LLVM text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a processor that the text depends on."""

    vector_bytes: int = 16
    """The width of its vector registers."""
    native_half: bool = False
    """Whether it converts float16 in hardware; otherwise the conversion is emitted as bit operations."""
    masks: bool = False
    """Whether loads and stores take a mask of lanes at no cost (AVX-512); a short row is then copied in one instruction."""
    registers: int = 2
    """How many vector registers hold the lanes of one value: more registers hide more latency, until they run out."""
