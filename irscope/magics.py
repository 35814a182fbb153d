"""`%load_ext irscope`: IR text in a cell, and a look at a function.

%%ir g                 parse the cell as IR text, bind it to g and show it
%irscope f x y         explore f with example arguments x and y
"""

from __future__ import annotations

from typing import Any

from irscope.display.ipython import register
from irscope.errors import ArgumentError

__all__ = ["load"]


def load(shell: Any) -> None:
    """Register the magics and the rich display with an IPython shell."""
    register(shell)
    shell.register_magic_function(lambda line, cell: _ir(shell, line, cell), magic_kind="cell", magic_name="ir")
    shell.register_magic_function(lambda line: _explore(shell, line), magic_kind="line", magic_name="irscope")


def _ir(shell: Any, line: str, cell: str) -> Any:
    """Parse a cell of IR text; the word after `%%ir` is the variable that it is bound to."""
    from irscope.ir.text import parse

    name = line.strip()
    if name and not name.isidentifier():
        raise ArgumentError(f"{name!r} is not a variable name", hint="write %%ir g")
    graph = parse(cell, file="<cell>")
    if name:
        shell.user_ns[name] = graph
    return graph


def _explore(shell: Any, line: str) -> Any:
    """Explore the first expression with the others as example arguments."""
    from irscope.session import explore

    words = line.split()
    if not words:
        raise ArgumentError("%irscope needs the name of a function or model", hint="%irscope f x y")
    return explore(*(_evaluated(shell, word) for word in words))


def _evaluated(shell: Any, word: str) -> Any:
    try:
        return shell.ev(word)
    except Exception as error:
        what = f"{word!r} cannot be evaluated: {type(error).__name__}: {error}"
    raise ArgumentError(what, hint="%irscope takes words without spaces, such as names: %irscope f x y")
