"""Kernels as built-in functions of Python.

Through ctypes a call with a packed block of arguments costs a quarter of a microsecond, as much as a small kernel. Here
a call enters a short stub of machine code with the signature of CPython's built-in functions, which unpacks the
arguments, lays them out as the kernel expects, and jumps. Each kernel, with the extents and strides of one launch,
becomes a built-in function that shares this stub; its `self`, a block of bytes, identifies the kernel.

That block has 8-byte words: the kernel, the address of extents and strides, the number of arguments, whether other
Python threads may run meanwhile; then for each argument the address that it would have if its tensor had no memory, and a
byte: 1 for a float, 2 for an address, 0 for other whole numbers. A float is passed to the kernel as a float64, all else as
an int64.

A tensor without memory is one whose storage was freed, or that a torch transform holds only symbolically: its address is
zero, plus the offset of the launch. A kernel would crash the process by reading there, so a call with it raises ValueError.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from irscope.runtime.device import NO_MEMORY

__all__ = ["ENTRY", "SYMBOL", "Jump", "entry", "python_symbols"]

Jump = Callable[..., None]
"""Runs a kernel on its arguments, each an address or a number. Raises TypeError or OverflowError for others, ValueError
for the address of a tensor without memory."""

SYMBOL: Final = "irscope_entry"

_FASTCALL: Final = 0x0080
"""The flag of a built-in function whose arguments are passed as an array."""

_API: Final = (
    "PyBytes_AsString", "PyErr_BadArgument", "PyErr_Occurred", "PyErr_SetString", "PyEval_RestoreThread",
    "PyEval_SaveThread", "PyFloat_AsDouble", "PyLong_AsLongLong", "Py_IncRef",
)  # fmt: skip

ENTRY: Final = f"""declare ptr @PyBytes_AsString(ptr)
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@_PyExc_ValueError = external global i8
@irscope_no_memory = private constant [{len(NO_MEMORY) + 1} x i8] c"{NO_MEMORY}\\00"

define ptr @irscope_entry(ptr %self, ptr %args, i64 %count) {{
entry:
  %block = call ptr @PyBytes_AsString(ptr %self)
  %kernel = load ptr, ptr %block, align 1
  %dims.at = getelementptr i64, ptr %block, i64 1
  %dims = load ptr, ptr %dims.at, align 1
  %words.at = getelementptr i64, ptr %block, i64 2
  %words = load i64, ptr %words.at, align 1
  %lets.at = getelementptr i64, ptr %block, i64 3
  %lets = load i64, ptr %lets.at, align 1
  %nulls = getelementptr i64, ptr %block, i64 4
  %kinds = getelementptr i64, ptr %nulls, i64 %words
  %fits = icmp eq i64 %count, %words
  br i1 %fits, label %start, label %wrong
start:
  %data = alloca i64, i64 %words, align 16
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %next, %kept ]
  %more = icmp slt i64 %i, %words
  br i1 %more, label %body, label %ready
body:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %slot = getelementptr i64, ptr %data, i64 %i
  %kind.at = getelementptr i8, ptr %kinds, i64 %i
  %kind = load i8, ptr %kind.at
  %is.float = icmp eq i8 %kind, 1
  br i1 %is.float, label %float, label %whole
float:
  %number = call double @PyFloat_AsDouble(ptr %arg)
  store double %number, ptr %slot
  %odd.number = fcmp oeq double %number, -1.0
  br i1 %odd.number, label %doubt, label %kept
whole:
  %word = call i64 @PyLong_AsLongLong(ptr %arg)
  store i64 %word, ptr %slot
  %odd.word = icmp eq i64 %word, -1
  br i1 %odd.word, label %doubt, label %told.word
told.word:
  %null.at = getelementptr i64, ptr %nulls, i64 %i
  %null = load i64, ptr %null.at, align 1
  %is.null = icmp eq i64 %word, %null
  %is.address = icmp eq i8 %kind, 2
  %is.nowhere = and i1 %is.null, %is.address
  br i1 %is.nowhere, label %nowhere, label %kept
doubt:
  %error = call ptr @PyErr_Occurred()
  %is.error = icmp ne ptr %error, null
  br i1 %is.error, label %failed, label %kept
kept:
  %next = add i64 %i, 1
  br label %head
ready:
  %lets.others = icmp ne i64 %lets, 0
  br i1 %lets.others, label %apart, label %holding
apart:
  %state = call ptr @PyEval_SaveThread()
  call void %kernel(ptr %data, ptr %dims)
  call void @PyEval_RestoreThread(ptr %state)
  br label %done
holding:
  call void %kernel(ptr %data, ptr %dims)
  br label %done
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
wrong:
  %told = call i32 @PyErr_BadArgument()
  br label %failed
nowhere:
  call void @PyErr_SetString(ptr @_PyExc_ValueError, ptr @irscope_no_memory)
  br label %failed
failed:
  ret ptr null
}}
"""
"""The stub that all kernels share, as LLVM text; -1 is the number that may signal an error."""


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


def python_symbols() -> dict[str, int]:
    """Returns the addresses of the Python functions that the stub calls; empty where Python is not 64-bit CPython.

    >>> sorted(python_symbols())[:2] in ([], ["PyBytes_AsString", "PyErr_BadArgument"])
    True
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return {}
    found = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _API}
    return {**found, "_Py_NoneStruct": id(None), "_PyExc_ValueError": id(ValueError)}


def entry(address: int, owner: Any) -> Callable[..., Jump]:
    """Returns a factory of functions, `make(kernel, dims, floats, nulls, lets, *kept)`.

    It takes a kernel's address, the address of its extents and strides, which arguments are floats, each argument's address
    for a tensor without memory (None if it is not a tensor's), and whether other Python threads may run. `address` is the
    compiled stub, which lives as long as `owner`. A function keeps the stub and everything in `kept` alive.
    """
    method, new = _method(address), _new_function()

    def make(
        kernel: int, dims: int, floats: Sequence[bool], nulls: Sequence[int | None], lets: bool, *kept: Any
    ) -> Jump:
        words = (kernel, dims, len(floats), lets, *(null or 0 for null in nulls))
        kinds = (int(is_float) or 2 * (null is not None) for is_float, null in zip(floats, nulls, strict=True))
        block = struct.pack(f"{len(words)}q", *words) + bytes(kinds)
        module = _Module(__name__)
        module.kept = (owner, *kept)
        made: Jump = new(ctypes.byref(method), block, module)
        return made

    return make


class _Module(str):
    """A function's `__module__`, which keeps objects alive; tools that inspect functions (Dynamo) expect a name there."""

    kept: tuple[Any, ...] = ()


@cache
def _method(address: int) -> _Method:
    """Returns the method definition of a function, never freed: Python reads it last when it frees a function."""
    return _Method(b"kernel", address, _FASTCALL, None)


@cache
def _new_function() -> Callable[..., Any]:
    """Returns `PyCFunction_NewEx`, which takes a method, its `self`, and the object that replaces its module."""
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    return kind(("PyCFunction_NewEx", ctypes.pythonapi))
