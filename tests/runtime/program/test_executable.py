"""Whole programs: equal to torch on random programs; shared kernels, and what is said of them before and after the first run."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.runtime.program import groups as kernel_calls
from irscope.runtime.program.executable import compile_graph
from tests.programs import ir
from tests.runtime.program.small_program import CHAIN, arrays, chain


def test_a_program_that_is_compiled_again_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is for the types of a group: other arguments, or other bits, have others."""
    planned: list[bool] = []
    spec_of_group = kernel_calls.spec_of_group

    def counted(*given: Any, exact: bool) -> Any:
        planned.append(exact)
        return spec_of_group(*given, exact=exact)

    monkeypatch.setattr(kernel_calls, "spec_of_group", counted)
    x, y = arrays((8, 16), (8, 16))
    fusion = irs.fuse(irs.load(chain, x, y))
    for shared in (True, False, True):
        np.testing.assert_allclose(compile_graph(fusion, share_kernels=shared)(x, y), chain(x, y), rtol=1e-6)
    assert planned == [False]
    compile_graph(fusion.graph, exact="torch")
    assert planned == [False, True]
    irs.compile(irs.fuse(irs.load(chain, x[:4], y[:4])))
    assert len(planned) == 3


def test_unknown_types_are_compiled_when_they_come():
    run = compile_graph(irs.fuse(irs.parse(CHAIN)))
    assert run.kernels == ()
    for shape in ((4, 5), (2, 3), (7,)):
        x, y = arrays(shape, shape)
        np.testing.assert_allclose(run(x, y), chain(x, y), rtol=1e-6)
    assert len(run.kernels) == 1, "these shapes are one kernel"


def test_equal_symbols_want_equal_extents():
    text = CHAIN.replace("%x : Tensor, %y : Tensor", "%x : Float(n, 3), %y : Float(n, 3)")
    run = compile_graph(irs.fuse(irs.parse(text)))
    for rows in (2, 5):
        x, y = arrays((rows, 3), (rows, 3))
        np.testing.assert_allclose(run(x, y), chain(x, y), rtol=1e-6)
    with pytest.raises(ArgumentError, match="%y"):
        run(*arrays((2, 3), (1, 3)))


# -- kernels ----------------------------------------------------------------------------------------------------------

TWICE = ir("x y w | a = relu x; b = tanh a; p = matmul b w; c = relu p; d = tanh c | d")


def test_equal_groups_share_a_kernel():
    x, y, w = arrays((4, 4), (4, 4), (4, 4))
    fusion = irs.fuse(irs.load(TWICE, x, y, w))
    shared, apart = compile_graph(fusion), compile_graph(fusion, share_kernels=False)
    assert (len(fusion.groups), len(shared.kernels), len(apart.kernels)) == (2, 1, 2)
    assert shared.kernels[0].groups == list(fusion.groups)
    np.testing.assert_array_equal(shared(x, y, w), apart(x, y, w))
    assert shared.launches(x, y, w) == 3


def test_without_kernels_the_groups_run_node_by_node():
    x, y, w = arrays((4, 4), (4, 4), (4, 4))
    fusion = irs.fuse(irs.load(TWICE, x, y, w))
    plain = compile_graph(fusion, use_kernels=False)
    np.testing.assert_allclose(plain(x, y, w), compile_graph(fusion)(x, y, w), rtol=1e-6)
    assert plain.kernels == ()
    assert plain.launches(x, y, w) == 5


def test_a_group_that_no_kernel_can_run_falls_back_with_a_remark():
    x, y = (array.astype(np.complex64) for array in arrays((3,), (3,)))
    text = CHAIN.replace("relu", "neg")
    run = compile_graph(irs.fuse(irs.parse(text)))
    np.testing.assert_allclose(run(x, y), np.tanh(-x * y), rtol=1e-5)
    (remark,) = run.remarks
    assert "one by one" in remark.because
    assert run.kernels == ()
    with pytest.raises(UnknownName, match="one by one"):
        run.source()


# -- random programs --------------------------------------------------------------------------------------------------


def test_why_there_is_no_kernel_to_look_at_yet() -> None:
    graph = irs.parse(CHAIN)  # of any shape
    with pytest.raises(UnknownName, match="no kernel 0") as early:
        irs.compile(irs.fuse(graph)).source()
    assert "when the program first runs" in str(early.value)
    with pytest.raises(UnknownName) as unfused:
        irs.compile(graph).source()
    assert "irs.fuse(graph)" in str(unfused.value)
    with pytest.raises(UnknownName, match="interprets op by op"):
        irs.compile(irs.fuse(graph), device="reference").source()
    run = irs.compile(irs.fuse(graph))
    run(np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32))
    assert run.source().lines_of(0)


def test_kernels_are_a_tuple_that_says_how_many_there_are() -> None:
    run = irs.compile(irs.fuse(irs.load(chain, *arrays((2, 3), (2, 3)))))
    (kernel,) = run.kernels
    assert run.kernels == (kernel,)
    assert run.kernels[-1] is kernel
    assert run.kernels[:1] == (kernel,)
    assert repr(run.kernels) == f"0: {kernel!r}"
    for index in (1, -2, "0"):
        with pytest.raises(IndexError, match=f"no kernel {index!r}") as error:
            run.kernels[index]
        assert "there is 1" in str(error.value)
    empty = irs.compile(irs.fuse(irs.load(chain, *arrays((0, 3), (0, 3)))))
    with pytest.raises(UnknownName, match="no elements"):
        empty.kernels[0]
    assert repr(empty.kernels).startswith("no kernels: ")


def test_kernels_for_rows_are_there_before_a_traced_program_runs_and_others_follow() -> None:
    def program(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = np.tanh(x) * y
        return np.exp(z.T @ z) - 1, z.sum(axis=0)

    graph = irs.trace(program, (6, 4), (6, 4))
    run = irs.compile(irs.fuse(graph))
    early = run.kernels
    assert early
    assert run.source(0).lines_of(0)
    x, y = np.random.default_rng(0).normal(size=(2, 6, 4)).astype(np.float32)
    for arguments in ((x, y), (np.asfortranarray(x), y), (x[:, ::-1].copy()[:, ::-1], y), (x, y)):
        for found, wanted in zip(run(*arguments), program(*arguments), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        if arguments[0] is x:
            before = run.kernels
            assert before[: len(early)] == early
    assert len(run.kernels) > len(early), "columns have a kernel of their own"


def test_a_traced_program_runs_on_the_kernels_that_were_made_for_rows() -> None:
    graph = irs.trace(lambda x: (np.tanh(x) * 2, (x + 1).sum(axis=1)), (3, 4))
    run = irs.compile(irs.fuse(graph))
    early = run.kernels
    run(np.ones((3, 4), np.float32))
    assert run.kernels == early
    assert len(irs.compile(graph).kernels) == 0


def test_a_model_and_its_arguments_are_loaded_and_fused(torch: Any) -> None:
    model, x = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU()).eval(), torch.rand(5, 8)
    run = irs.compile(model, x)
    assert len(run.kernels) == 1
    assert torch.allclose(run(x), model(x), atol=1e-6)
    assert [row.label for row in irs.compare(model, x, repeats=1).rows] == ["op by op", "fused", "fused + dedup", "eager"]
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert irs.compile(graph, x).graph.value("y").type.shape == (5, 8)
    with pytest.raises(irs.IrscopeError, match="repeats measure nothing"):
        irs.compare(graph, x, repeats="3")
