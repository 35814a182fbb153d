"""Interrupts at chosen moments: Ctrl-C after the n-th call or return that Python makes, as a signal would arrive there.

Python runs signal handlers between two of its own instructions, and only at some of them. A profile function written in
Python would raise at others too. So this one is machine code: it counts down, and at zero it notes an interrupt, which
Python delivers when it would have delivered Ctrl-C.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from typing import Any

from irscope.runtime.cpu.compiler import loaded, object_file, this_host

__all__ = ["Interrupter"]

_TEXT = """
declare i32 @PyErr_SetInterruptEx(i32)
@left = global i64 0
define ptr @place() {
  ret ptr @left
}
define void @note(ptr %frame, ptr %event, ptr %argument) {
  %now = load i64, ptr @left
  %next = sub i64 %now, 1
  store i64 %next, ptr @left
  %over = icmp eq i64 %next, 0
  br i1 %over, label %interrupt, label %done
interrupt:
  %told = call i32 @PyErr_SetInterruptEx(i32 2)
  br label %done
done:
  ret void
}
"""


class Interrupter:
    """Runs work with an interrupt at one of its moments, which are counted from 1; on the main thread.

    >>> interrupter = Interrupter()
    >>> interrupter.run(lambda: [len(str(n)) for n in range(3)], 4)
    True
    """

    def __init__(self) -> None:
        import llvmlite.binding as binding

        host = this_host()
        interrupt = ctypes.cast(ctypes.pythonapi.PyErr_SetInterruptEx, ctypes.c_void_p).value
        binding.add_symbol("PyErr_SetInterruptEx", interrupt)
        found = loaded(object_file(_TEXT, host), "note", host)
        assert found is not None
        address, self._owner = found
        place = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._owner.engine.get_function_address("place"))()
        self._left = ctypes.c_int64.from_address(place)
        self._note: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object, ctypes.py_object)(address)

    def moments(self, work: Callable[[], object]) -> int:
        """How many moments the work has when nothing interrupts it."""
        self._left.value = 0
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
        return -self._left.value

    def run(self, work: Callable[[], object], moment: int) -> bool:
        """Run work with an interrupt at a moment; whether anybody heard of it."""
        self._left.value = moment
        before = signal.getsignal(signal.SIGINT)
        if before is signal.SIG_IGN:  # as in a shell's background jobs
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            try:
                sys.setprofile(self._note)
                work()
            finally:
                sys.setprofile(None)
            len("")  # one that was noted at the very end arrives here
        except KeyboardInterrupt:
            return True
        finally:
            signal.signal(signal.SIGINT, before)
        return False
