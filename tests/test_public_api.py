"""The root namespace is what it says, light to import, and every layer is where it belongs."""

import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import irscope
import irscope as irs


def test_every_public_name_is_there_and_documented() -> None:
    for name in irscope.__all__:
        assert getattr(irscope, name).__doc__, name


def test_dir_lists_the_public_names_for_tab_completion() -> None:
    assert set(irscope.__all__) <= set(dir(irscope))


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(irscope, "no_such_name")
    with pytest.raises(AttributeError, match=r"did you mean irs.explore"):
        _ = irs.exlpore  # type: ignore[attr-defined]


@pytest.mark.parametrize(("module", "heavy"), [
    ("irscope", "torch pandas llvmlite cupy jax onnx IPython matplotlib anywidget"),
    ("irscope.runtime.cpu", "numpy llvmlite torch irscope.ops.registry irscope.session"),
])  # fmt: skip
def test_an_import_waits_for_nothing_heavy(module: str, heavy: str) -> None:
    code = f"import sys, {module}; found = set({heavy!r}.split()) & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parsing_and_analysis_work_without_torch() -> None:
    code = """
import sys
sys.modules['torch'] = None
import irscope as irs
g = irs.parse('graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  %z : Tensor = aten::tanh(%y)\\n  return (%z)')
assert not irs.AliasDb(g).may_alias('y', 'z')
assert len(irs.fuse(g).groups) == 1
assert len(irs.dedup(irs.fuse(g)).classes) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_public_name_is_also_a_submodule() -> None:
    """Importing a submodule puts it into the package under its name, in place of whatever was there."""
    submodules = {module.name for module in pkgutil.iter_modules(irscope.__path__)}
    assert submodules & set(irscope.__all__) == {"corpus"}, "which is one"
    assert irs.corpus is sys.modules["irscope.corpus"]


def test_what_a_prompt_shows_of_each_object() -> None:
    x = np.zeros((2, 3), np.float32)
    g = irs.load("graph(%x : Tensor):\n  %a : Tensor = aten::relu(%x)\n  %b : Tensor = aten::tanh(%a)\n  return (%b)", x)
    f = irs.fuse(g)
    run = irs.compile(f)
    shown = {
        g: "<Graph 'graph': 2 nodes, 1 input, 1 output>",
        f: "<Fusion of 'graph': 2 nodes in 1 group>",
        f.history: "<History of 'graph': fold-constants, fuse-groups>",
        irs.dedup(f): "<Dedup by 'alpha': 1 piece, 1 class>",
        irs.AliasDb(g): "<AliasDb of 'graph': 1 element, 0 writes>",
        f.why_not("a", "b"): "<Verdict: fused: both are in the fusion group that makes %b>",
    }
    for thing, text in shown.items():
        assert repr(thing) == text
    assert repr(run).startswith("<Executable 'graph' on cpu: 1 group, 1 kernel")
    source = run.source()
    assert (repr(source), str(source)) == (f"<SourceText of {source.name}: {repr(source).split(': ')[1]}", source.text)
    assert [repr(device).partition(": ")[0] for device in irs.devices()] == ["<cpu", "<numpy", "<cuda"]
