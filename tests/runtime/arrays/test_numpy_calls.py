"""What NumPy's references decide once: operands of every kind get what the reference gives, and errors stay."""

import numpy as np
import pytest

from irscope.ops.registry import lookup
from irscope.runtime.arrays.numpy_calls import by_position, decided
from irscope.runtime.program.executable import compile_graph
from tests.programs import parsed


class Counted:
    """A call of an op, and how often its reference answered."""

    def __init__(self, name, *names, **rest):
        op = lookup(name)
        self.count = 0
        self.reference = by_position(op.reference, names, rest, makes_array=True)
        self.call = decided(op, names, rest, self.counting)

    def counting(self, *given):
        self.count += 1
        return self.reference(*given)

    def check(self, *given):
        """The result is the reference's; returns whether the reference was asked for it."""
        before = self.count
        found = self.call(*given)
        wanted = self.reference(*given)
        assert (found.dtype, found.shape, found.strides) == (wanted.dtype, wanted.shape, wanted.strides)
        assert found.tobytes() == wanted.tobytes()
        return self.count > before


def test_operands_of_a_kind_are_looked_at_once():
    add = Counted("aten::add", "self", "other", "alpha")
    x, row, whole, zero_dim = np.ones((2, 3), np.float32), np.ones(3), np.arange(3), np.array(2.5)
    for other in (x, row, whole, zero_dim, 2, 0.1, True):
        assert add.check(x, other, 1) and not add.check(x + 1, other, 1)
    assert not add.check(x, row, 1), "earlier ones are kept"
    assert add.check(whole, 0.5, 1)
    assert add.check(whole, row, 2), "there are enough of them: the reference answers"
    assert add.check(whole, row, 2)


def test_numbers_may_differ_from_call_to_call():
    mul = Counted("aten::mul", "self", "other")
    x = np.ones(3, np.float32)
    mul.check(x, 0.5)
    for number in (0.1, -0.0, 0.0, float("nan"), float("inf"), 1e300):
        with np.errstate(over="ignore"):
            assert not mul.check(x, number)
    assert mul.check(x, 2) and mul.check(x, True), "these are other types"


def test_halves_and_arrays_of_subclasses_are_left_to_the_reference():
    add = Counted("aten::add", "self", "other", alpha=1)
    for x in (np.ones(3, np.float16), np.ones(3, np.float32).view(np.recarray)):
        assert all(add.check(x, x) for _ in range(3))


def test_a_write_is_into_the_operand():
    add = Counted("aten::add_", "self", "other", alpha=1)
    x = np.zeros(3, np.float32)
    for turn in range(1, 4):
        assert add.call(x, np.ones(3)) is x
        assert x.tolist() == [turn] * 3
    assert add.count == 1


@pytest.mark.parametrize(("name", "arguments"), [
    ("reshape", {"shape": [3, -1]}), ("permute", {"dims": [1, 0]}), ("unsqueeze", {"dim": 1}), ("select", {"dim": 1, "index": -1}),
    ("slice", {"dim": 1, "start": 1, "end": None, "step": 2}), ("expand", {"size": [2, 2, 3]}), ("diagonal", {}),
    ("narrow", {"dim": 1, "start": 1, "length": 2}), ("flatten", {}), ("contiguous", {}),
])  # fmt: skip
def test_views_are_views_of_the_same_memory(name, arguments):
    call = Counted(f"aten::{name}", "self", *arguments)
    for make in (lambda: np.arange(6.0).reshape(2, 3), lambda: np.arange(12.0).reshape(2, 6)[:, ::2], lambda: np.arange(6).reshape(3, 2).T):
        for turn in range(3):
            x = make()
            asked = call.check(x, *arguments.values())
            found, wanted = call.call(x, *arguments.values()), call.reference(x, *arguments.values())
            assert np.may_share_memory(found, x) == np.may_share_memory(wanted, x)
            if np.may_share_memory(found, x):
                assert found.__array_interface__["data"] == wanted.__array_interface__["data"]
            assert turn == 0 or not asked or not x.flags.c_contiguous


def test_errors_are_the_references():
    reshape, add = Counted("aten::reshape", "self", "shape"), Counted("aten::add", "self", "other", "alpha")
    x = np.ones((2, 3), np.float32)
    for call, good, bad in ((reshape, [x, [6]], [x, [4]]), (add, [x, x, 1], [x, np.ones(4, np.float32), 1])):
        errors = []
        call.check(*good)
        for run in (call.reference, call.call, call.call):
            with pytest.raises(Exception, match=r"4") as caught:
                run(*bad)
            errors.append((caught.type, str(caught.value)))
        assert len(set(errors)) == 1


def test_a_program_that_grows_its_arrays(monkeypatch):
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)
    g = parsed("x y | one = 1; minus = [-1]; z = add x y one; w = reshape z minus | w")
    x = compile_graph(g, use_kernels=False)
    for size in range(1, 30):
        for kind in (np.float32, np.int64):
            found = x(np.full((size, 2), 3, kind), np.ones((size, 1), kind))
            assert found.dtype == kind and found.tolist() == [4] * (2 * size)
