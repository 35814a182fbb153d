"""Programs of every shape, from the model to the compiled run: each must do what torch's eager mode does.

Each case is a function of tensors, captured by scripting and by export (where the other cannot, the case says so), run
fused with kernels, and compared with the function itself: results, their types and structure, and what it writes into
its arguments.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest

import irscope as irs

torch = pytest.importorskip("torch")
Tensor = torch.Tensor

pytestmark = pytest.mark.torch


HALVES = {torch.float16: 2e-2, torch.bfloat16: 2e-1}
"""What halves differ by: eager rounds to them after each op, a kernel of ours once at the end."""


def rand(*shape: int, dtype: Any = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 7)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(-9 if dtype != torch.uint8 else 0, 9, shape, generator=generator).to(dtype)


def leaves(value: Any) -> list[Any]:
    """All parts of a nested result, in order; the shape of the nesting is compared apart."""
    return list(torch.utils._pytree.tree_leaves(value))


def assert_equal(ours: Any, eager: Any, rough: float = 1e-4) -> None:
    a, b = leaves(ours), leaves(eager)
    assert len(a) == len(b), (ours, eager)
    for x, y in zip(a, b, strict=True):
        if isinstance(y, Tensor):
            assert isinstance(x, Tensor), (x, y)
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            torch.testing.assert_close(x.detach(), y.detach(), rtol=rough, atol=rough / 2, equal_nan=True)
        else:
            assert type(x) is type(y), (x, y)
            assert x == y or (isinstance(y, float) and (math.isclose(x, y) or (math.isnan(x) and math.isnan(y))))


def check(function: Callable[..., Any], args: tuple[Any, ...], how: str) -> Any:
    """Our run of the captured function equals the function, in results and in what it writes into its arguments."""
    source = torch.jit.script(function) if how == "script" else function
    graph = irs.load(source, *copy.deepcopy(args))
    assert irs.same_structure(graph, irs.parse(str(graph)), elements=False)
    executable = irs.compile(irs.fuse(graph))
    expected = None
    rough = max(HALVES.get(leaf.dtype, 1e-4) if isinstance(leaf, Tensor) else 0.0 for leaf in leaves(args))
    for _ in range(2):  # the second run goes by what the first has remembered
        theirs, mine = copy.deepcopy(args), copy.deepcopy(args)
        with torch.no_grad():
            expected = function(*theirs)
        result = executable(*mine)
        assert_equal(result, expected, rough)
        assert_equal(mine, theirs, rough)
    return result


# -- layouts, element types and sizes ---------------------------------------------------------------------------------


def pointwise(x: Tensor) -> Tensor:
    return torch.tanh(x * 2 + 1) * torch.sigmoid(x) - x


def arithmetic(x: Tensor) -> Tensor:
    return (x + x * 3 - 1) * x


LAYOUTS = {
    "contiguous": rand(3, 4),
    "transposed": rand(3, 4).t(),
    "every second": rand(3, 8)[:, ::2],
    "offset": rand(5, 4)[2:],
    "expanded": rand(1, 4).expand(3, 4),
    "channels_last": rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "sliced channels_last": rand(2, 6, 4, 5).to(memory_format=torch.channels_last)[:, 1:4],
    "0-dim": rand(1)[0],
    "empty": rand(0),
    "empty in the middle": rand(2, 0, 3),
    "one element": rand(1, 1, 1),
    "flat": rand(1001),
    "six dimensions": rand(2, 1, 3, 1, 2, 2).permute(5, 4, 3, 2, 1, 0),
    "not finite": torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0]),
    "needs gradients": rand(3, 4).requires_grad_(),
}


@pytest.mark.parametrize("how", ["script", "export"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, how: str) -> None:
    x = LAYOUTS[layout]
    graph = irs.load(torch.jit.script(pointwise) if how == "script" else pointwise, x)
    result = irs.compile(irs.fuse(graph))(x)
    with torch.no_grad():
        expected = pointwise(x)
    assert_equal(result, expected)
    assert result.stride() == expected.stride()
    assert result.requires_grad == x.requires_grad, "as torch's own"


DTYPES = "float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8".split()


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype: str) -> None:
    check(arithmetic, (rand(3, 5, dtype=getattr(torch, dtype)),), "script")


def test_bool_arithmetic() -> None:
    def logic(a: Tensor, b: Tensor) -> Tensor:
        return (a & b) | (~a ^ b)

    check(logic, (rand(3, 5, dtype=torch.bool), rand(5, dtype=torch.bool)), "export")


@pytest.mark.parametrize("second", ["float32", "float64", "float16", "int64", "bool", "complex64"])
@pytest.mark.parametrize("first", ["float32", "int32", "uint8", "bfloat16"])
def test_mixed_types(first: str, second: str) -> None:
    def mix(a: Tensor, b: Tensor) -> Tensor:
        return a * b + a * 2.5

    check(mix, (rand(3, 4, dtype=getattr(torch, first)), rand(4, dtype=getattr(torch, second))), "export")


def test_a_0_dim_tensor_does_not_promote() -> None:
    def scale(x: Tensor, s: Tensor) -> Tensor:
        return torch.relu(x * s + s)

    check(scale, (rand(3, 4), torch.tensor(2.0, dtype=torch.float64)), "export")
    check(scale, (rand(3, 4, dtype=torch.int32), torch.tensor(3)), "export")


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


MUTATING = [writes_input, returns_input, returns_view, writes_view, reads_before_and_after, overlapping, out_of_views]


@pytest.mark.parametrize("how", ["script", "export"])
@pytest.mark.parametrize("function", MUTATING, ids=lambda f: f.__name__)
def test_writes(function: Callable[..., Any], how: str) -> None:
    args = (rand(3, 4), rand(3, 4)) if function is reads_before_and_after else (rand(3, 4),)
    check(function, args, how)


@pytest.mark.parametrize("how", ["script", "export"])
def test_one_tensor_for_two_inputs(how: str) -> None:
    shared = rand(3, 4)
    source: Any = torch.jit.script(reads_before_and_after) if how == "script" else reads_before_and_after
    run = irs.compile(irs.fuse(irs.load(source, rand(3, 4), rand(3, 4))))
    mine, theirs = shared.clone(), shared.clone()
    assert_equal(run(mine, mine), reads_before_and_after(theirs, theirs))
    assert_equal(mine, theirs)


def test_overlapping_arguments() -> None:
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(reads_before_and_after))))
    mine, theirs = rand(4, 4), rand(4, 4)
    assert_equal(run(mine[:3], mine[1:]), reads_before_and_after(theirs[:3], theirs[1:]))
    assert_equal(mine, theirs)


def test_results_share_memory_with_arguments_as_in_torch() -> None:
    x = rand(3, 4)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(returns_input), x)))
    assert run(x)[0] is x
    view = irs.compile(irs.fuse(irs.load(torch.jit.script(returns_view), x)))(x)
    assert view.data_ptr() == x.data_ptr()


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


STRUCTURES = [
    gives_dict, gives_nested, gives_list, gives_number, gives_none, gives_constants, gives_float, gives_named_tuple,
    gives_empty,
]  # fmt: skip


@pytest.mark.parametrize("function", STRUCTURES, ids=lambda f: f.__name__)
def test_results_of_scripted_functions_keep_their_structure(function: Callable[..., Any]) -> None:
    x = rand(3, 4)
    result = irs.compile(irs.fuse(irs.load(torch.jit.script(function), x)))(x.clone())
    expected = function(x.clone())
    assert_equal(result, expected)
    if not isinstance(expected, tuple):
        assert type(result) is type(expected)
    assert_equal(irs.compile(irs.load(torch.jit.script(function)), device="reference")(x.clone()), expected)


@pytest.mark.parametrize("function", [gives_dict, gives_nested, gives_list, gives_none], ids=lambda f: f.__name__)
def test_results_of_exported_functions_are_the_leaves(function: Callable[..., Any]) -> None:
    x = rand(3, 4)
    result = irs.compile(irs.fuse(irs.load(function, x)))(x.clone())
    assert_equal(result, function(x.clone()))


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


NESTED = {
    "list": (takes_list, ([rand(3), rand(3), rand(3)],)),
    "dict": (takes_dict, ({"b": rand(3), "a": rand(3)},)),
    "tuple": (takes_tuple, ((rand(3), (rand(3), 4)),)),
    "None": (takes_optional, (rand(3), None)),
    "not None": (takes_optional, (rand(3), rand(3))),
    "numbers": (takes_numbers, (rand(3), 4, 0.5, True)),
}


@pytest.mark.parametrize("how", ["script", "export"])
@pytest.mark.parametrize("case", NESTED)
def test_nested_arguments(case: str, how: str) -> None:
    function, args = NESTED[case]
    check(function, args, how)


def halves(s: float) -> Tuple[float, float]:
    return s, s // 2


def test_an_int_for_a_float_becomes_one() -> None:
    scripted = torch.jit.script(halves)
    for graph in (irs.load(scripted), irs.load(scripted, 3)):
        assert_equal(irs.compile(irs.fuse(graph))(3), scripted(3))


def test_a_default_argument_may_be_left_out() -> None:
    x = rand(3)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(takes_optional), x)))
    assert_equal(run(x), takes_optional(x))


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


@pytest.mark.parametrize("n", [-1, 0, 1, 6])
@pytest.mark.parametrize("function", [branches, loops, while_on_tensor, appends], ids=lambda f: f.__name__)
def test_control_flow(function: Callable[..., Any], n: int) -> None:
    x = rand(3, 4)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(function))))
    assert_equal(run(x.clone(), n), function(x.clone(), n))
    check(function, (x, n), "script")


def test_deep_nesting() -> None:
    depth = 60
    text = ["graph(%x : Tensor, %c : bool):", "  %y0 : Tensor = aten::relu(%x)"]
    for level in range(depth):
        pad = "  " * (2 * level + 1)
        text += [f"{pad}%y{level + 1} : Tensor = prim::If(%c)", f"{pad}  block0():"]
    text.append(f"{'  ' * (2 * depth + 1)}%z : Tensor = aten::tanh(%y0)")
    inner = "z"
    for level in reversed(range(depth)):
        pad = "  " * (2 * level + 2)
        text += [f"{pad}  -> (%{inner})", f"{pad}block1():", f"{pad}  -> (%x)"]
        inner = f"y{level + 1}"
    text.append("  return (%y1)")
    graph = irs.load("\n".join(text))
    x = rand(4)
    run = irs.compile(irs.fuse(graph))
    assert_equal(run(x, True), torch.tanh(torch.relu(x)))
    assert_equal(run(x, False), x)


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


@pytest.mark.parametrize("how", ["script", "export"])
def test_a_module_in_eval_mode(how: str) -> None:
    model, x = Normed().eval(), rand(2, 3, 6, 6)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(model) if how == "script" else model, x)))
    with torch.no_grad():
        assert_equal(run(x), model(x))


@pytest.mark.parametrize("how", ["script", "export"])
def test_a_module_in_training_mode_updates_its_statistics(how: str) -> None:
    model, x = Normed().train(), rand(2, 3, 6, 6)
    model.drop.p = 0.0
    twin = copy.deepcopy(model)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(model) if how == "script" else model, x)))
    with torch.no_grad():
        assert_equal(run(x), twin(x))
    assert_equal(model.norm.running_mean, twin.norm.running_mean)
    assert int(model.norm.num_batches_tracked) == 1


def test_dropout_in_training_mode_draws_as_torch_does() -> None:
    model, x = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.ReLU()).train(), rand(4, 5)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(model), x)))
    torch.manual_seed(3)
    ours = run(x)
    torch.manual_seed(3)
    assert_equal(ours, model(x))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(rand(4))
        self.same = self.weight
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return torch.relu(x * self.weight + self.same) * self.count


@pytest.mark.parametrize("how", ["script", "export"])
def test_shared_parameters_and_written_buffers(how: str) -> None:
    model, x = Scaled(), rand(3, 4)
    twin = copy.deepcopy(model)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(model) if how == "script" else model, x)))
    with torch.no_grad():
        for _ in range(3):
            assert_equal(run(x), twin(x))
    assert float(model.count) == float(twin.count) == 3.0


def logarithm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.log(x, out=y)
    return y + 1


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.mm(x, x, out=y)
    return y + 1


def threes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.full([2, 2], 3.0, out=y)
    return y + x


@pytest.mark.parametrize("function", [logarithm, product, threes])
def test_a_result_that_a_script_asks_to_be_written_elsewhere_is(function: Callable[..., torch.Tensor]) -> None:
    graph = irs.load(torch.jit.script(function))
    x, y, ours = torch.rand(2, 2) + 1, torch.zeros(2, 2), torch.zeros(2, 2)
    assert irs.AliasDb(graph).has_writers(graph.inputs[1])
    assert torch.equal(irs.compile(irs.fuse(graph))(x, ours), function(x, y))
    assert torch.equal(ours, y)
