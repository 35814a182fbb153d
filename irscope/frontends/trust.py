"""Files that may hold code: such a file is refused unless the caller trusts it."""

from __future__ import annotations

from pathlib import Path

from irscope.errors import LoadError

__all__ = ["not_trusted"]


def not_trusted(path: Path, why: str) -> LoadError:
    """Returns the error for a file that would run code of its author when it is loaded.

    >>> print(not_trusted(Path("m.pt2"), "its example inputs are a pickle"))
    'm.pt2' can run code when it is loaded, and is not trusted: its example inputs are a pickle   [code-is-trusted]
      hint: if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md
    """
    return LoadError(
        f"{str(path)!r} can run code when it is loaded, and is not trusted: {why}", rule="code-is-trusted",
        hint="if you trust who made it: irs.load(path, trust=True), or --trust on the command line; see SECURITY.md",
    )  # fmt: skip
