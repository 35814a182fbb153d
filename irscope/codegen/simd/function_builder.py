"""Builds the text of a function in LLVM IR, from top to bottom: instructions, loops and branches.

A value that changes in a loop or a branch has two names: the one that the body reads, and the one that the body passes on.
Nothing goes through memory; spilling is left to the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from irscope.codegen.kernel import NO_NODE, Lines

__all__ = ["Branch", "Carry", "FunctionBuilder", "Loop"]

Carry = Sequence[tuple[str, str]]
"""The type and the initial value of each value that a loop or a branch carries."""


@dataclass(slots=True)
class Loop:
    """A loop while its body is being emitted."""

    index: str
    carried: list[str]
    """The loop-carried values, as the body reads them; after the loop, their final values."""
    following: list[str] = field(default_factory=list)
    """The values that the body passes to the next step."""


@dataclass(slots=True)
class Branch:
    """A conditional block of code while it is being emitted."""

    following: list[str] = field(default_factory=list)
    """The carried values at its end."""
    joined: list[str] = field(default_factory=list)
    """The carried values after it, whether it ran or not."""


class FunctionBuilder:
    """A builder of one function: its lines, names for results, the open basic block, and needed declarations."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.declarations: set[str] = set()
        self.node = NO_NODE
        """The node that added lines compute."""
        self.block = "entry"
        """The label of the open basic block."""
        self._count = 0

    def name(self, hint: str = "v") -> str:
        """Return a fresh name."""
        self._count += 1
        return f"{hint}{self._count}"

    def add(self, text: str) -> None:
        """Append an instruction that has no result."""
        self.lines.add(f"  {text}", node=self.node)

    def value(self, text: str) -> str:
        """Append an instruction and return the name of its result."""
        result = f"%{self.name()}"
        self.lines.add(f"  {result} = {text}", node=self.node)
        return result

    def label(self, label: str) -> None:
        """Open a basic block; the one before must have ended with a branch."""
        self.lines.add(f"{label}:")
        self.block = label

    @contextmanager
    def written_for(self, node: int) -> Iterator[None]:
        """Attribute the lines added inside to a node."""
        self.node = node
        yield
        self.node = NO_NODE

    # -- loops and branches --------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, stop: str, *, start: str = "0", step: int = 1, carry: Carry = ()) -> Iterator[Loop]:
        """Emit a loop that counts from `start` to below `stop`."""
        head, inside, latch, done = (self.name(word) for word in ("head", "inside", "latch", "done"))
        index, following = f"%{self.name('i')}", f"%{self.name('next')}"
        before = self.block
        self.add(f"br label %{head}")
        self.label(head)
        self.add(f"{index} = phi i64 [{start}, %{before}], [{following}, %{latch}]")
        carried = [f"%{self.name('carried')}" for _ in carry]
        handed = [f"%{self.name('handed')}" for _ in carry]
        for name, after, (kind, first) in zip(carried, handed, carry, strict=True):
            self.add(f"{name} = phi {kind} [{first}, %{before}], [{after}, %{latch}]")
        more = self.value(f"icmp slt i64 {index}, {stop}")
        self.add(f"br i1 {more}, label %{inside}, label %{done}")
        self.label(inside)
        made = Loop(index, carried)
        yield made
        self.add(f"br label %{latch}")
        self.label(latch)
        self.add(f"{following} = add i64 {index}, {step}")
        for after, (kind, _), value in zip(handed, carry, made.following, strict=True):
            self.add(f"{after} = select i1 true, {kind} {value}, {kind} {value}")
        self.add(f"br label %{head}")
        self.label(done)

    @contextmanager
    def only_if(self, condition: str, carry: Carry = ()) -> Iterator[Branch]:
        """Emit code that runs only if a condition holds."""
        inside, done = self.name("then"), self.name("joined")
        before = self.block
        self.add(f"br i1 {condition}, label %{inside}, label %{done}")
        self.label(inside)
        made = Branch()
        yield made
        leaving = self.block
        self.add(f"br label %{done}")
        self.label(done)
        for (kind, first), value in zip(carry, made.following, strict=True):
            made.joined.append(self.value(f"phi {kind} [{first}, %{before}], [{value}, %{leaving}]"))

    def least(self, a: str, b: str) -> str:
        """Emit the smaller of two numbers."""
        return self.value(f"select i1 {self.value(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")
