"""`pytest -p tests.guard_pages`: NumPy's arrays end where a page begins that is protected.

NumPy lets its memory be allocated by others (NEP 49). Each array's bytes end at most 15 bytes before such a page, and those
bytes hold a mark that is looked at when the array is freed. A read or write past them ends the process with a signal.
"""

import ctypes
import os
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath

PAGE = os.sysconf("SC_PAGE_SIZE")
MARK = 0xA5
_SET_HANDLER = 304
"""The place of `PyDataMem_SetHandler` in NumPy's table of functions for C."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

_maps: dict[int, tuple[int, int, int]] = {}
"""Begin and length of the map, and bytes asked for, by address."""
_counts = {"arrays": 0, "marks": 0}


def _allocate(size: int) -> int:
    room = -(-max(size, 1) // PAGE) * PAGE
    begin = _libc.mmap(None, room + PAGE, 3, 0x22, -1, 0)
    if begin in (None, ctypes.c_void_p(-1).value):
        return 0
    _libc.mprotect(begin + room, PAGE, 0)
    address = (begin + room - size) // 16 * 16
    ctypes.memset(address + size, MARK, begin + room - address - size)
    _maps[address] = begin, room + PAGE, size
    _counts["arrays"] += 1
    return address


def _release(address: int | None) -> None:
    found = _maps.pop(address or 0, None)
    if found is not None:
        begin, length, size = found
        assert address is not None
        slack = ctypes.string_at(address + size, begin + length - PAGE - address - size)
        _counts["marks"] += slack != bytes([MARK]) * len(slack)
        _libc.munmap(begin, length)


class _Allocator(ctypes.Structure):
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("calloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)),
        ("realloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    ]


class _Handler(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


def _reallocate(_: Any, address: int | None, size: int) -> int:
    fresh = _allocate(size)
    if address in _maps and fresh:
        ctypes.memmove(fresh, address, min(size, _maps[address][2]))
        _release(address)
    return fresh


_types = dict(_Allocator._fields_)
_handler = _Handler(
    b"guarded", 1,
    _Allocator(
        None, _types["malloc"](lambda _, size: _allocate(size)),
        _types["calloc"](lambda _, count, size: _allocate(count * size)), _types["realloc"](_reallocate),
        _types["free"](lambda _, address, size: _release(address)),
    ),
)  # fmt: skip


def _install() -> None:
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(capsule(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    set_handler(make(ctypes.addressof(_handler), b"mem_handler", None))


def pytest_configure(config: Any) -> None:
    _install()
    array = np.arange(5, dtype=np.float64)
    assert array.ctypes.data in _maps, "NumPy's memory is not guarded"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"guarded: {_counts['arrays']} arrays, {_counts['marks']} written behind their end")


def pytest_unconfigure(config: Any) -> None:
    """End at once: arrays that live longer than Python's functions would be freed by functions that are gone."""
    import sys

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(getattr(config, "guarded_status", 1))


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    session.config.guarded_status = int(exitstatus) or int(_counts["marks"] > 0)
