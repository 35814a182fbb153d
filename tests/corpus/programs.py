"""Small programs for surveys: functions without arguments, as a user gives them."""

import os
import signal


def chain(*ops: str, size: int = 4, name: str = "x", scale: float = 0.5) -> str:
    """A text of pointwise ops in a row, and a product with a number."""
    lines, last = [], name
    for place, op in enumerate(ops):
        lines.append(f"  %{name}{place} : Float({size}) = aten::{op}(%{last})")
        last = f"{name}{place}"
    lines += [f"  %k : float = prim::Constant[value={scale!r}]()", f"  %end : Float({size}) = aten::mul(%{last}, %k)"]
    return "\n".join([f"graph(%{name} : Float({size})):", *lines, "  return (%end)"])


def repeated(op: str, count: int) -> str:
    return chain(*[op] * count)


def hangs() -> str:
    while True:
        pass


def hoards() -> str:
    return str(bytearray(1 << 40))


def is_killed() -> str:
    """As by a system that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def crashes() -> str:
    os.abort()


def leaves() -> str:
    os._exit(0)


def closes_everything() -> str:
    os.closerange(3, 200)
    return chain("relu")


def raises_half_a_letter() -> str:
    raise ValueError("half \ud800 of a pair")


def raises() -> str:
    raise RuntimeError("this model is not finished")
