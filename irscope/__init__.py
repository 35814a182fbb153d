"""irscope: see what may share memory, what fuses, what repeats and what it costs in an ML compiler's IR, and why.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> bool(irs.AliasDb(g).may_alias("x", "y"))
    False

Everything here is imported on first use; `import irscope` loads nothing heavy.
"""

import sys
from importlib import import_module
from typing import Any

import lazy_loader

from irscope._base.results import Drawn

__version__ = "0.1.0"
_named, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _named(name)
    except AttributeError:
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, 1) if name[:1] != "_" else []
        raise AttributeError(f"irscope has no {name!r}{f'; did you mean irs.{near[0]}?' if near else ''}") from None


def load_ipython_extension(shell: Any) -> None:
    """Add the magics `%%ir` and `%irscope`; `%load_ext irscope` calls this."""
    import_module("irscope.magics").load(shell)


def _show_richly() -> None:
    """In a notebook, let graphs and results draw themselves; elsewhere this loads nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        import_module("irscope.display.ipython").register(shell)
        import_module("irscope.magics").show_histories(shell)
        import_module("irscope.display.ipython").register_completion(shell)


def _figures() -> Any:
    """Return the module that draws programs and results, which do not depend on it."""
    return import_module("irscope.display.figures")


Drawn.drawing = _figures
_show_richly()
