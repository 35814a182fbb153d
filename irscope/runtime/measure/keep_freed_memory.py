"""The C library's allocator, told to keep freed memory while competitors are measured.

glibc gives a freed block of more than 32 MiB back to the system, and the next one costs a page fault every 4 KiB: more
than a fused kernel takes to fill it. Whoever allocates more temporaries then loses more, for a reason that is not its own.
While memory is kept, each competitor finds what the one before it has freed.
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
"""Where glibc's own adjustment of its thresholds ends, which is switched off for good when one of them is set."""
_DEFAULTS: Final = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: _LARGEST_THRESHOLD, _TRIM_THRESHOLD: 2 * _LARGEST_THRESHOLD}
"""What is set afterwards, in this order."""


def with_kept_memory(work: Callable[[bool], T]) -> T:
    """What a call gives while freed memory is kept; it is told whether that is possible here (Linux with glibc). Afterwards
    the memory goes back to the system, and is handed out as before, whatever interrupts the call.

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
        deque(back, 0)  # all in one call of C's, which nothing interrupts
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
