"""Object files made by several threads at once are the same as one thread's; one that calls an undefined function is refused."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from irscope.errors import CodegenError
from irscope.runtime.cpu import compiler as llvm_emit
from irscope.runtime.cpu.compiler import loaded, object_file, this_host

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


CALLS = """define float @f(float %x) {
  %y = frem float %x, 3.0
  %z = call float @nobody_has_this(float %y)
  ret float %z
}
declare float @nobody_has_this(float)
"""


def test_an_undefined_function_is_an_error_and_no_jump_to_address_0() -> None:
    host = this_host()
    code = object_file(CALLS, host)
    with pytest.raises(CodegenError, match="calls nobody_has_this, which neither the C library"):
        loaded(code, "f", host)
    code = object_file(CALLS.replace("nobody_has_this", "sqrtf"), host)
    assert loaded(code, "f", host) is not None


@pytest.mark.parametrize("triple", [
    "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx", "x86_64-apple-macosx",
])  # fmt: skip
def test_every_called_function_is_known_before_the_code_runs(triple: str) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(CALLS)
    module.triple = triple
    machine = binding.Target.from_triple(triple).create_target_machine(opt=3, codemodel="jitdefault", jit=True)
    assert set(llvm_emit.undefined_symbols(binding, machine.emit_object(module))) == {"fmodf", "nobody_has_this"}
