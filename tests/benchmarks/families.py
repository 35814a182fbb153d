"""Large programs of one shape each, as torch IR text: what the benchmarks of passes over graphs have in common.

A family takes a number of nodes, and some the type of their tensors; it gives the lines of a program over `%x` and `%y`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Lines = Iterator[str]


def rounds(head: str, text: str, *, nodes: int = 1, carries: str = "v", constants: str = "") -> Callable[[int], Lines]:
    """A family of the same lines again and again, of so many nodes: in them `{i}` is the number of the round, and `{last}` the
    value that the round before called by `carries` and its number."""

    def lines(count: int) -> Lines:
        yield f"graph({head}):\n{constants}"
        last = "x"
        for i in range(count // nodes):
            yield text.format(i=i, last=last)
            last = f"{carries}{i}"
        yield f"  return (%{last})"

    return lines


def _head(tensor: str) -> str:
    return f"graph(%x : {tensor}, %y : {tensor}):"


def chain(count: int, tensor: str = "Tensor") -> Lines:
    """Each op reads the one before it."""
    return cut(count, tensor, "mul")


def cut(count: int, tensor: str, by: str, *, every: int = 10) -> Lines:
    """A chain, of which one in so many ops is another one."""
    yield _head(tensor)
    for i in range(count):
        yield f"  %v{i} : {tensor} = aten::{'mul' if i % every else by}(%{f'v{i - 1}' if i else 'x'}, %y)"
    yield f"  return (%v{count - 1})"


def twice(count: int, tensor: str = "Tensor") -> Lines:
    """Each value is used by the two ops behind it."""
    yield _head(tensor)
    for i in range(count):
        a, b = (f"v{i - 1}" if i else "x"), (f"v{i - 2}" if i > 1 else "y")
        yield f"  %v{i} : {tensor} = aten::mul(%{a}, %{b})"
    yield f"  return (%v{count - 1})"


def independent(count: int, tensor: str = "Tensor") -> Lines:
    """No op reads another."""
    yield _head(tensor)
    for i in range(count):
        yield f"  %v{i} : {tensor} = aten::mul(%x, %y)"
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"


def live(count: int, tensor: str = "Tensor") -> Lines:
    """A chain all of whose values are returned."""
    yield from list(chain(count, tensor))[:-1]
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"
