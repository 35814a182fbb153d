"""References of tensors without dimensions and without elements, and of negative margins: the answers of torch."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402


def rising(*shape: int) -> Any:
    return torch.arange(1.0, 1.0 + int(torch.Size(shape).numel())).reshape(shape)


def picks(*positions: int) -> Any:
    return torch.tensor(positions, dtype=torch.long)


ONE: Final = torch.tensor(2.0)
AT: Final = torch.tensor(0)
EMPTY: Final = torch.empty(2, 0, dtype=torch.long)

INDEXED: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "gather, an empty index of another rank": (lambda x, i: x.gather(0, i), (rising(5), EMPTY)),
    "gather, an empty row from a matrix": (lambda x, i: x.gather(0, i), (rising(5, 3), picks())),
    "gather, one position from a row": (lambda x, i: x.gather(0, i), (rising(3), torch.tensor(1))),
    "gather, from a number": (lambda x, i: x.gather(0, i), (ONE, picks(0))),
    "scatter, an empty index": (lambda x, i: x.scatter(0, i, 9.0), (rising(3), EMPTY)),
    "scatter, one position": (lambda x, i, s: x.scatter(0, i, s), (rising(3), AT, ONE)),
    "scatter_add, one position": (lambda x, i, s: x.scatter_add(0, i, s), (rising(3), AT, ONE)),
    "index_add, numbers": (lambda x, i, s: x.index_add(0, i, s, alpha=3), (ONE, AT, torch.tensor(5.0))),
    "index_add, one row": (lambda x, i, s: x.index_add(0, i, s), (rising(3, 4), AT, rising(1, 4))),
    "index_add, repeated": (lambda x, i, s: x.index_add(1, i, s), (rising(3, 4), picks(1, 1), rising(3, 2))),
    "index_copy, numbers": (lambda x, i, s: x.index_copy(0, i, s), (ONE, AT, torch.tensor(5.0))),
    "index_copy, one row": (lambda x, i, s: x.index_copy(0, i, s), (rising(3, 4), AT, rising(1, 4))),
    "index_copy, turned": (lambda x, i, s: x.t().index_copy(0, i, s), (rising(3, 4), picks(2), rising(1, 3))),
    "index_fill, a number": (lambda x, i: x.index_fill(0, i, 7.0), (ONE, AT)),
    "index_fill, turned": (lambda x, i: x.t().index_fill(-1, i, 7.0), (rising(3, 4), picks(2, 0))),
    "index_fill, with a tensor": (lambda x, i, v: x.index_fill(0, i, v), (rising(3, 4), picks(), ONE)),
    "unfold, a number": (lambda x: x.unfold(0, 1, 1), (ONE,)),
    "unfold, no elements of a number": (lambda x: x.unfold(0, 0, 1), (ONE,)),
}


def check(function: Callable[..., Any], *arguments: Any) -> None:
    """The reference and the compiled program give what torch gives: values (NaN too), element types, shapes, strides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: degrees of freedom
        want = function(*arguments)
        graph = irs.load(function, *arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*degrees of freedom.*")
        for program, device in ((graph, "reference"), (graph, "cpu"), (irs.fuse(graph), "cpu")):
            found = irs.compile(program, device=device)(*arguments)
            for one, other in zip(_each(found), _each(want), strict=True):
                torch.testing.assert_close(one, other, equal_nan=True)
                assert device == "reference" or one.stride() == other.stride()


def _each(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", INDEXED)
def test_a_number_is_a_row_of_one_to_what_indexes(name: str) -> None:
    check(INDEXED[name][0], *INDEXED[name][1])


def test_an_index_with_elements_needs_the_rank() -> None:
    with pytest.raises(irs.errors.IrscopeError, match="needs an index of the tensor's rank"):
        irs.load(ir("x i | d = 0; no = False; y = gather x d i no | y"),
                 rising(5), torch.zeros(2, 1, dtype=torch.long))  # fmt: skip


@pytest.mark.parametrize("op", ["std", "var", "std_mean", "var_mean"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 3)])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float32])
def test_spreads_of_complex_and_of_no_elements(op: str, shape: tuple[int, ...], dtype: Any) -> None:
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    check(lambda x: getattr(torch, op)(x + x), x)
    check(lambda x: getattr(torch, op)(x, dim=0, correction=0), x)


def test_a_norm_is_real_in_whatever_type_it_is_read() -> None:
    x = torch.randn(2, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    check(lambda x: torch.linalg.vector_norm(x, 2.0, [1], True, dtype=torch.complex64), x)
    check(lambda x: torch.linalg.vector_norm(x, dtype=torch.complex128), x)
    check(lambda x: torch.masked.normalize(x, 2.0, 1), x)


@pytest.mark.parametrize("shape", [(0, 4, 5), (0, 4), (3, 4, 5), (0, 4, 5, 5)])
def test_normalisations_of_an_empty_batch(shape: tuple[int, ...]) -> None:
    x, mean, variance = rising(*shape), rising(4), rising(4)
    check(lambda x: torch.nn.functional.group_norm(x, 2), x)
    check(lambda x, m, v: torch.nn.functional.batch_norm(x, m, v), x, mean, variance)
    if 0 not in shape:
        check(lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), x)


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular", "constant"])
@pytest.mark.parametrize("margins", [(-1, 2), (2, -1), (-1, -1), (-3, 5), (5, -3), (2, -2)])
def test_negative_margins(mode: str, margins: tuple[int, int]) -> None:
    def pad(x: Any) -> Any:
        return torch.nn.functional.pad(x, margins, mode=mode)

    x = rising(2, 3, 3)
    if mode == "circular" and margins == (2, -2):
        pytest.skip("torch copies from memory that it has not written yet")
    try:
        pad(x)
    except RuntimeError:
        return  # more than torch takes
    check(pad, x)
