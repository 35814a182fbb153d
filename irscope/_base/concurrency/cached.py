"""Properties that are computed once, without a lock.

Up to Python 3.11 those of `functools` hold a lock while they compute, one for all objects of a class: threads with different
objects wait for each other, and a process that was forked meanwhile waits for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """
        >>> class Line:
        ...     @cached_property
        ...     def points(self): return [1, 2]
        >>> line = Line()
        >>> line.points is line.points
        True
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, holder: Any, owner: type | None = None) -> Any:
            if holder is None:
                return self
            return vars(holder).setdefault(self.name, self.compute(holder))  # the same for all threads
