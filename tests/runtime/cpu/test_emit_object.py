"""Object files made by several threads at once are the same as one thread's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from irscope.runtime.cpu import emit_object as llvm_emit
from irscope.runtime.cpu.compiler import object_file, this_host

binding = pytest.importorskip("llvmlite.binding")

TEXT = """define i64 @f{number}(i64 %x) {{
  %y = mul i64 %x, {number}
  ret i64 %y
}}
"""


def test_threads_make_what_one_makes() -> None:
    host = this_host()
    texts = [TEXT.format(number=number) for number in range(40)]
    alone = [object_file(text, host) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: object_file(text, host), texts * 3)) == alone * 3
    assert len(set(alone)) == len(texts)


def test_without_the_short_way_llvmlites_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    host, text = this_host(), TEXT.format(number=7)
    assert llvm_emit._unlocked_emit() is not None, "this llvmlite shows what it takes"
    wanted = object_file(text, host)
    monkeypatch.setattr(llvm_emit, "_unlocked_emit", lambda: None)
    assert object_file(text, host) == wanted
