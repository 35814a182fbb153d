"""Nested arguments are found by their keys, whatever the order in which a dictionary holds them: torch, JAX, NumPy."""

from collections import namedtuple

import numpy as np
import pytest
import torch

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.reference import run_reference

Pair = namedtuple("Pair", "left right")


def _weighted(p, x):
    return x @ p["w"] - p["b"]["v"] * 2


def _swapped(p):
    """The same dictionary, its keys in the opposite order at each level."""
    return {key: _swapped(p[key]) if isinstance(p[key], dict) else p[key] for key in reversed(p)}


def _loaded(way, p, x):
    if way == "torch":
        return irs.load(_weighted, p, x)
    if way == "exported":
        module = type("M", (torch.nn.Module,), {"forward": lambda self, p, x: _weighted(p, x)})()
        return irs.load(torch.export.export(module, (p, x)))
    if way == "backward":
        return irs.load(lambda p, x: _weighted(p, x).sum(), p, x, backward=True)
    if way == "lowered":
        return irs.load(pytest.importorskip("jax").jit(_weighted, keep_unused=True).lower(p, x))
    return irs.load(_weighted, p, x)


@pytest.mark.parametrize("way", ["torch", "exported", "backward", "jax", "lowered", "numpy"])
def test_the_order_of_keys_means_nothing(way):
    draw = np.random.default_rng(0).standard_normal
    made = [draw((3, 3)).astype(np.float32) for _ in range(3)]
    jax = pytest.importorskip("jax").numpy.asarray
    array = {"jax": jax, "lowered": jax, "numpy": np.asarray}.get(way, torch.tensor)
    w, v, x = map(array, made)
    if way == "backward":
        x.requires_grad_()
    p = {"w": w, "b": {"v": v, "unused": x}}
    expected = _weighted({"w": made[0], "b": {"v": made[1]}}, made[2])
    expected = expected.sum() if way == "backward" else expected
    program = irs.compile(_loaded(way, p, x))
    for given in ((p, x), (_swapped(p), x), (p, x), (_swapped(p), x)):
        for _ in range(3):  # the short ways in are found after some calls
            result = program(*given)
            result = result[0] if isinstance(result, tuple) else result
            result = result.detach() if hasattr(result, "detach") else result
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-5)


def test_other_keys_are_refused():
    x = torch.ones(3, 3)
    program = irs.compile(_weighted, {"w": x, "b": {"v": x}}, x)
    with pytest.raises(ArgumentError, match="nested differently") as error:
        program({"w": x, "b": {"u": x}}, x)
    assert "argument 0['b']['v'] is missing; argument 0['b']['u'] is new" in str(error.value)


def test_named_tuples_and_none():
    def f(pair, mask):
        return pair.left - pair.right

    x, y = torch.rand(4), torch.rand(4)
    program = irs.compile(f, Pair(x, y), None)
    assert torch.equal(program(Pair(left=x, right=y), None), x - y)
    assert str(irs.trace(f, Pair("float32[4]", "float32[4]"), (2,)).inputs[0].type) == "Float(4)"


def test_a_dictionary_for_a_program_without_keys_is_refused():
    g = irs.parse("graph(%a : Float(2), %b : Float(2)):\n  %c : Float(2) = aten::mul(%a, %b)\n  return (%c)")
    with pytest.raises(ArgumentError, match="does not know the keys"):
        irs.compile(g)({"a": torch.ones(2), "b": torch.ones(2)})


def test_many_inputs_are_reported_by_the_first_ones():
    names = [f"%x{index} : Float(2)" for index in range(40)]
    g = irs.parse(f"graph({', '.join(names)}):\n  return (%x0)")
    for call in (lambda: irs.compile(g)(torch.ones(2)), lambda: run_reference(g, np.ones(2, np.float32))):
        with pytest.raises(ArgumentError, match="takes 40 arguments and got 1") as error:
            call()
        assert "%x11 : Float(2), and 28 more" in str(error.value)


def test_a_report_is_named_by_output():
    g = irs.parse("graph(%x : Float(2)):\n  return (%x)")
    with pytest.raises(ArgumentError, match="is not an example argument") as error:
        irs.write_report(g, "page.html")
    assert "output='page.html'" in str(error.value)
