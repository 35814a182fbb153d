"""Programs of every shape, from the model to the compiled run: each must do what torch's eager mode does.

Each case is a function of tensors, captured by scripting and by export (where the other cannot, the case says so), run
fused with kernels, and compared with the function itself: results, their types and structure, and what it writes into
its arguments. Element types and layouts of single ops are left to `test_sweeps`, and mixtures of them to `test_whole_programs`.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple

import pytest

import irscope as irs

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

from tests.oracles.judge import Call, fresh, seen  # noqa: E402

Tensor = torch.Tensor


both_ways = pytest.mark.parametrize("how", ["script", "export"])


def rand(*shape: int, dtype: Any = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 7)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def agree(ours: Callable[..., Any], eager: Callable[..., Any], *args: Any, calls: int = 1) -> None:
    """A call does what torch does: the parts of results and arguments, however they are nested."""
    leaves, tree = torch.utils._pytree.tree_flatten(args)

    def of_leaves(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*torch.utils._pytree.tree_unflatten(list(given), tree))

    call = Call(of_leaves(eager), leaves)
    for _ in range(calls):
        assert call.complaint(seen(of_leaves(ours), fresh(leaves))) == ""


def compiled(function: Any, how: str, *args: Any) -> Any:
    return irs.compile(irs.fuse(irs.load(torch.jit.script(function) if how == "script" else function, *args)))


def check(function: Callable[..., Any], args: tuple[Any, ...], how: str) -> None:
    """Our run of the captured function does what the function does; the second run goes by what the first has remembered. A script is
    loaded without examples, too, and gives results of the same kinds. NumPy's reference does the same."""
    for given in (args, ()) if how == "script" else (args,):
        graph = irs.load(torch.jit.script(function) if how == "script" else function, *copy.deepcopy(given))
        assert irs.same_structure(graph, irs.parse(str(graph)), elements=False)
        run = irs.compile(irs.fuse(graph))
        agree(run, function, *args, calls=2)
        agree(irs.compile(graph, device="reference"), function, *args)
        expected = function(*copy.deepcopy(args))
        assert how != "script" or isinstance(expected, tuple) or type(run(*copy.deepcopy(args))) is type(expected)


# -- layouts and sizes -------------------------------------------------------------------------------------------------


def pointwise(x: Tensor) -> Tensor:
    return torch.tanh(x * 2 + 1) * torch.sigmoid(x) - x


LAYOUTS = {
    "contiguous": rand(3, 4), "transposed": rand(3, 4).t(), "every second": rand(3, 8)[:, ::2], "offset": rand(5, 4)[2:],
    "expanded": rand(1, 4).expand(3, 4), "channels_last": rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "sliced channels_last": rand(2, 6, 4, 5).to(memory_format=torch.channels_last)[:, 1:4], "0-dim": rand(1)[0], "empty": rand(0),
    "empty in the middle": rand(2, 0, 3), "one element": rand(1, 1, 1), "flat": rand(1001),
    "six dimensions": rand(2, 1, 3, 1, 2, 2).permute(5, 4, 3, 2, 1, 0), "needs gradients": rand(3, 4).requires_grad_(),
    "not finite": torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0]),
}  # fmt: skip


@both_ways
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, how: str) -> None:
    x = LAYOUTS[layout]
    run = compiled(pointwise, how, x)
    agree(run, pointwise, x)
    assert run(x).requires_grad == x.requires_grad, "as torch's own"


# -- writes, and names for one memory ---------------------------------------------------------------------------------


def writes_input(x: Tensor) -> Tensor:
    x.mul_(2).add_(1)
    return torch.tanh(x)


def returns_input(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x, x * 1


def returns_view(x: Tensor) -> Tensor:
    y = x[0]
    x.relu_()
    return y


def writes_view(x: Tensor) -> Tensor:
    a = torch.sigmoid(x)
    row = x[1]
    row.add_(a[0]).mul_(2)
    x[:, 0] = 3.0
    return a + x


def reads_before_and_after(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    before = torch.exp(x) + 1
    y.add_(1)
    after = torch.exp(x) + 1
    return before, after


def overlapping(x: Tensor) -> Tensor:
    x[:, 1:].copy_(torch.relu(x[:, :-1] * 2))
    return x + 1


def out_of_views(x: Tensor) -> Tensor:
    parts = x.chunk(2, dim=1)
    parts[0].sub_(parts[1])
    return x.sum(0)


@both_ways
def test_one_tensor_for_two_inputs(how: str) -> None:
    run, x = compiled(reads_before_and_after, how, rand(3, 4), rand(3, 4)), rand(3, 4)
    agree(run, reads_before_and_after, x, x)


def test_overlapping_arguments() -> None:
    x = rand(4, 4)
    agree(compiled(reads_before_and_after, "script"), reads_before_and_after, x[:3], x[1:])


def test_results_share_memory_with_arguments_as_in_torch() -> None:
    x = rand(3, 4)
    assert compiled(returns_input, "script", x)(x)[0] is x
    assert compiled(returns_view, "script", x)(x).data_ptr() == x.data_ptr()


# -- structure of arguments and results -------------------------------------------------------------------------------


def gives_dict(x: Tensor) -> Dict[str, Tensor]:
    return {"a": x + 1, "b": torch.relu(x)}


def gives_nested(x: Tensor) -> Tuple[Tensor, List[Tensor], Tuple[Tensor, int]]:
    return x + 1, [x * 2, torch.tanh(x)], (x.sum(), 3)


def gives_list(x: Tensor) -> List[Tensor]:
    return [x + 1, x - 1]


def gives_number(x: Tensor) -> int:
    return x.size(0) + 1


def gives_none(x: Tensor) -> None:
    x.add_(1)


def gives_constants(x: Tensor) -> Tuple[int, float, bool, str]:
    return 1, 2.5, True, "text"


def gives_float(x: Tensor) -> float:
    return x.sum().item() * 2.0


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def gives_named_tuple(x: Tensor) -> Pair:
    return Pair(x + 1, x * 2)


def gives_empty(x: Tensor) -> List[Tensor]:
    return torch.jit.annotate(List[Tensor], [])


def takes_list(xs: List[Tensor]) -> Tensor:
    return torch.relu(xs[0] * xs[1]) + xs[2]


def takes_dict(d: Dict[str, Tensor]) -> Tensor:
    return torch.relu(d["b"] * d["a"]) + 1


def takes_tuple(p: Tuple[Tensor, Tuple[Tensor, int]]) -> Tensor:
    return torch.relu(p[0] * p[1][0]) + p[1][1]


def takes_optional(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    return torch.relu(x) if y is None else torch.relu(x) * y


def takes_numbers(x: Tensor, n: int, s: float, flag: bool) -> Tensor:
    return torch.tanh(x * s + n) if flag else x


def halves(s: float) -> Tuple[float, float]:
    return s, s // 2


def test_an_int_for_a_float_becomes_one() -> None:
    scripted = torch.jit.script(halves)
    for graph in (irs.load(scripted), irs.load(scripted, 3)):
        agree(irs.compile(irs.fuse(graph)), scripted, 3)


def test_a_default_argument_may_be_left_out() -> None:
    agree(compiled(takes_optional, "script", rand(3)), takes_optional, rand(3))


# -- control flow -----------------------------------------------------------------------------------------------------


def branches(x: Tensor, n: int) -> Tensor:
    if n > 2:
        y = torch.relu(x) * n
    else:
        y = torch.tanh(x) - n
        if n < 0:
            y.add_(10)
    return y + 1


def loops(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(n):
        y = torch.tanh(y * 2 + i)
        if i == 3:
            break
    return y


def while_on_tensor(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    while bool(y.abs().sum() < n):
        y = y * 2 + 1
    return y


def appends(x: Tensor, n: int) -> List[Tensor]:
    out: List[Tensor] = []
    for i in range(n):
        out.append(torch.relu(x + i))
    return out


def cases() -> Iterator[Any]:
    """The functions above with arguments, and the ways on which torch captures them."""
    x = rand(3, 4)
    writing = (writes_input, returns_input, returns_view, writes_view, overlapping, out_of_views)
    for function in (*writing, gives_dict, gives_nested, gives_list, gives_none):
        yield function, (x,), "script export"
    for function in (gives_number, gives_constants, gives_float, gives_named_tuple, gives_empty):
        yield function, (x,), "script"
    yield reads_before_and_after, (x, rand(3, 4)), "script export"
    yield takes_list, ([rand(3), rand(3), rand(3)],), "script export"
    yield takes_dict, ({"b": rand(3), "a": rand(3)},), "script export"
    yield takes_tuple, ((rand(3), (rand(3), 4)),), "script export"
    yield takes_optional, (rand(3), None), "script export"
    yield takes_optional, (rand(3), rand(3)), "script export"
    yield takes_numbers, (rand(3), 4, 0.5, True), "script export"
    for function, n in itertools.product((branches, loops, while_on_tensor, appends), (-1, 0, 1, 6)):
        yield function, (x, n), "script"


PROGRAMS = [(function, args, how) for function, args, ways in cases() for how in ways.split()]


@pytest.mark.parametrize(("function", "args", "how"), PROGRAMS, ids=[f"{function.__name__}-{how}" for function, _, how in PROGRAMS])
def test_a_program_does_what_torch_does(function: Callable[..., Any], args: tuple[Any, ...], how: str) -> None:
    check(function, args, how)


# -- modules ----------------------------------------------------------------------------------------------------------


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(torch.relu(self.norm(self.conv(x))))
        return y * torch.sigmoid(y)


@both_ways
def test_a_module_in_eval_mode(how: str) -> None:
    model, x = Normed().eval(), rand(2, 3, 6, 6)
    agree(compiled(model, how, x), model, x)


@both_ways
def test_a_module_in_training_mode_updates_its_statistics(how: str) -> None:
    model, x = Normed().train(), rand(2, 3, 6, 6)
    model.drop.p = 0.0
    eager = copy.deepcopy(model)
    run = compiled(model, how, x)
    with torch.no_grad():
        torch.testing.assert_close(run(x), eager(x))
    torch.testing.assert_close(model.norm.running_mean, eager.norm.running_mean)
    assert int(model.norm.num_batches_tracked) == 1


def test_dropout_in_training_mode_draws_as_torch_does() -> None:
    model, x = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.ReLU()).train(), rand(4, 5)
    agree(compiled(model, "script", x), model, x)


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(rand(4))
        self.same = self.weight
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return torch.relu(x * self.weight + self.same) * self.count


@both_ways
def test_shared_parameters_and_written_buffers(how: str) -> None:
    model, x = Scaled(), rand(3, 4)
    eager = copy.deepcopy(model)
    run = compiled(model, how, x)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), eager(x))
    assert float(model.count) == float(eager.count) == 3.0


def logarithm(x: Tensor, y: Tensor) -> Tensor:
    torch.log(x, out=y)
    return y + 1


def product(x: Tensor, y: Tensor) -> Tensor:
    torch.mm(x, x, out=y)
    return y + 1


def threes(x: Tensor, y: Tensor) -> Tensor:
    torch.full([2, 2], 3.0, out=y)
    return y + x


@pytest.mark.parametrize("function", [logarithm, product, threes])
def test_a_result_that_a_script_asks_to_be_written_elsewhere_is(function: Callable[..., Tensor]) -> None:
    graph = irs.load(torch.jit.script(function))
    assert irs.AliasDb(graph).has_writers(graph.inputs[1])
    agree(irs.compile(irs.fuse(graph)), function, rand(2, 2).abs() + 1, torch.zeros(2, 2))


# -- `torch.masked`, and extents that depend on elements, by export ----------------------------------------------------

_FIRST: Final[dict[str, tuple[Any, ...]]] = {"norm": (2.0,), "normalize": (2.0,)}
MASKED: Final = (
    "sum prod amax amin mean norm var std median logsumexp cumsum cumprod softmax log_softmax softmin normalize argmax argmin"
).split()
COUNTED: Final[dict[str, Callable[..., Any]]] = {
    "nonzero": lambda x: torch.nonzero(x > 0) + 1, "boolean index": lambda x: x[x > 0] * 2, "item": lambda x: x + x.sum().item(),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, (x.flatten() > 0).long() + 1, 0).relu(),
    "unique": lambda x: torch.unique(x.round()) + 1,
}  # fmt: skip


def check_exactly(function: Callable[..., Any], *arguments: Any) -> None:
    graph = irs.load(function, *copy.deepcopy(arguments))
    for program in (graph, irs.fuse(graph)):
        agree(irs.compile(program), function, *arguments)


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("mask", [(5, 10, 1), *(pytest.param(m, marks=pytest.mark.long) for m in ((10, 1), (1, 1, 5), ()))])
def test_a_mask_that_is_repeated_along_dimensions(name: str, mask: tuple[int, ...]) -> None:
    op = getattr(torch.masked, name)
    check_exactly(lambda x, m: op(x, *_FIRST.get(name, ()), dim=-1, mask=m), rand(5, 10, 5), rand(*mask) > -0.5)


def test_a_mask_of_a_sum_of_exponentials_is_repeated() -> None:
    def both(x: Any, y: Any, m: Any) -> Any:
        return torch.masked.logaddexp(x, y, input_mask=m, other_mask=~m)

    check_exactly(both, rand(5, 10, 5), rand(5, 10, 5) * 2, rand(5, 10, 1) > 0)


@pytest.mark.parametrize(("shape", "mask"), [((10,), (10,)), ((), (10,)), ((5,), (3, 5)), ((3, 1), (4,)), ((3, 5), (5,))])
def test_a_mask_may_select_more_elements_than_the_operand_has(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    check_exactly(lambda x, m: torch.masked_select(x, m) * 2, rand(*shape), rand(*mask) > -9)
    check_exactly(lambda x, m: torch.masked_select(x, m).relu() + 1, rand(*shape), rand(*mask) > 0)


def test_what_the_program_itself_asserts_of_an_extent_stays() -> None:
    def few(x: Any, m: Any) -> Any:
        found = torch.masked_select(x, m)
        torch._check(found.shape[0] <= 3)
        return found * 2

    x, m = rand(2, 5), torch.tensor([True, False, False, False, False])
    run = compiled(few, "export", x, m)
    torch.testing.assert_close(run(x, m), few(x, m))
    with pytest.raises(irs.errors.RunError, match="u0 <= 3"):
        run(x, ~m)


@pytest.mark.parametrize("name", COUNTED)
def test_extents_that_depend_on_elements(name: str) -> None:
    check_exactly(COUNTED[name], rand(6))
