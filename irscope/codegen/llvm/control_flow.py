"""Loops and branches in the text of a kernel.

A value that changes in a loop or a branch is named twice: as the body sees it, and as what the body hands on. Nothing
goes through memory; what does not fit the registers is the compiler's to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from irscope.codegen.simd import FunctionBuilder

__all__ = ["Branch", "FlowText", "Loop"]

Carry = Sequence[tuple[str, str]]
"""The type and the first value of what goes into a loop or a branch and comes out of it."""


@dataclass(slots=True)
class Loop:
    """A loop while its body is written."""

    index: str
    carried: list[str]
    """The values that go from step to step, as the body sees them; behind the loop, their last ones."""
    following: list[str] = field(default_factory=list)
    """What the body hands on to the next step."""


@dataclass(slots=True)
class Branch:
    """Code that may be skipped, while it is written."""

    following: list[str] = field(default_factory=list)
    """What it makes of the values that it was given."""
    joined: list[str] = field(default_factory=list)
    """Behind it, these values, whether it ran or not."""


class FlowText:
    """A function whose text is written from top to bottom."""

    def __init__(self) -> None:
        self.body = FunctionBuilder()

    @contextmanager
    def loop(self, stop: str, *, start: str = "0", step: int = 1, carry: Carry = ()) -> Iterator[Loop]:
        """Count from `start` to below `stop`."""
        body = self.body
        head, inside, latch, done = (body.name(word) for word in ("head", "inside", "latch", "done"))
        index, following = f"%{body.name('i')}", f"%{body.name('next')}"
        before = body.block
        body.add(f"br label %{head}")
        body.label(head)
        body.add(f"{index} = phi i64 [{start}, %{before}], [{following}, %{latch}]")
        carried = [f"%{body.name('carried')}" for _ in carry]
        handed = [f"%{body.name('handed')}" for _ in carry]
        for name, after, (kind, first) in zip(carried, handed, carry, strict=True):
            body.add(f"{name} = phi {kind} [{first}, %{before}], [{after}, %{latch}]")
        more = body.value(f"icmp slt i64 {index}, {stop}")
        body.add(f"br i1 {more}, label %{inside}, label %{done}")
        body.label(inside)
        made = Loop(index, carried)
        yield made
        body.add(f"br label %{latch}")
        body.label(latch)
        body.add(f"{following} = add i64 {index}, {step}")
        for after, (kind, _), value in zip(handed, carry, made.following, strict=True):
            body.add(f"{after} = select i1 true, {kind} {value}, {kind} {value}")
        body.add(f"br label %{head}")
        body.label(done)

    @contextmanager
    def only_if(self, condition: str, carry: Carry = ()) -> Iterator[Branch]:
        """Code that runs only if a condition holds."""
        body = self.body
        inside, done = body.name("then"), body.name("joined")
        before = body.block
        body.add(f"br i1 {condition}, label %{inside}, label %{done}")
        body.label(inside)
        made = Branch()
        yield made
        leaving = body.block
        body.add(f"br label %{done}")
        body.label(done)
        for (kind, first), value in zip(carry, made.following, strict=True):
            made.joined.append(body.value(f"phi {kind} [{first}, %{before}], [{value}, %{leaving}]"))

    def least(self, a: str, b: str) -> str:
        """The smaller of two numbers."""
        return self.body.value(f"select i1 {self.body.value(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")
