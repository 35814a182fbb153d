"""Settings of the C library's allocator that keep freed memory while competitors are measured.

glibc returns a freed block of more than 32 MiB to the system, and the next one costs a page fault every 4 KiB: more than a
fused kernel takes to fill it. A competitor with more temporaries would then lose more, for a reason outside of it. While
memory is kept, each competitor reuses what the previous one has freed.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["with_kept_memory"]

T = TypeVar("T")

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_LARGEST_THRESHOLD: Final = 32 << 20
"""The limit of glibc's own adjustment of its thresholds, which stops for good when one of them is set."""
_DEFAULTS: Final = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: _LARGEST_THRESHOLD, _TRIM_THRESHOLD: 2 * _LARGEST_THRESHOLD}
"""The values set afterwards, in this order."""


def with_kept_memory(work: Callable[[bool], T]) -> T:
    """Returns the result of a call during which freed memory is kept; its argument says whether that works here (Linux with
    glibc). Afterwards the memory returns to the system and allocation is as before, whatever interrupts the call.

    >>> with_kept_memory(lambda is_kept: is_kept in (True, False))
    True
    """
    libc = _glibc()
    if libc is None:
        return work(False)
    back = map(libc.mallopt, *zip(*_DEFAULTS.items(), strict=True))
    try:
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        return work(True)
    finally:
        deque(back, 0)  # one call into C, which nothing interrupts
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
