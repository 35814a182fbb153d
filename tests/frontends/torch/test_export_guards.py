"""What `torch.export` bakes in and cannot say: other arguments are refused, and eager's answer never changes silently."""

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.errors import RunError  # noqa: E402
from irscope.frontends import load  # noqa: E402


def test_another_storage_offset_is_refused_if_the_program_uses_as_strided():
    def corner(x, y):
        part = x.t()[1:]
        return part.as_strided((2, 2), (1, 4), part.storage_offset()) + y.as_strided((2, 2), (1, 2))

    long, y = torch.arange(40.0), torch.ones(5)[1:].view(2, 2)
    run = irs.compile(load(corner, long[3:19].view(4, 4), y))
    assert torch.equal(run(long[3:19].view(4, 4), y), corner(long[3:19].view(4, 4), y))
    assert torch.equal(run(long[3:19].view(4, 4), torch.ones(2, 2)), corner(long[3:19].view(4, 4), torch.ones(2, 2)))
    with pytest.raises(RunError, match="exported for x from element 3 of its storage on, export it again"):
        run(long[5:21].view(4, 4), y)


def test_as_strided_of_an_intermediate_result_needs_no_guard():
    graph = load(lambda x: torch.as_strided(x + 1, (2,), (1,), 3), torch.zeros(9)[2:6])
    assert not any(node.op == "aten::storage_offset" for node in graph.nodes())


def test_a_tensor_that_is_reshaped_in_place_must_be_no_other_argument():
    run = irs.compile(load(rows_of, torch.ones(3, 5), torch.ones(3, 5)))
    assert torch.equal(run(torch.ones(3, 5), torch.ones(3, 5)), torch.full((3, 5), 3.0))
    one = torch.ones(3, 5)
    with pytest.raises(RunError, match="two tensors x and y, and changes the shape of the first: they must not be the same object"):
        run(one, one)


def test_aliases_of_a_tensor_reshaped_in_place_have_no_known_shape():
    scripted = torch.jit.script(rows_of)
    run = irs.compile(load(scripted, torch.ones(3, 5), torch.ones(3, 5)))
    one = torch.ones(3, 5)
    for _ in range(3):
        assert torch.equal(run(torch.ones(3, 5), torch.ones(3, 5)), torch.full((3, 5), 3.0))
        assert torch.equal(run(one, one), torch.full(one.shape, float(one.shape[0])))


def rows_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.transpose_(0, 1)
    return torch.relu(y) * y.size(0)
