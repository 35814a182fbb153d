"""torch.export import: arguments, types, paths, mutation, branches, and the errors of what cannot be captured."""

import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, CaptureError
from irscope.frontends import load
from irscope.ir import Graph, Node, constant_of
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text import parse

torch = pytest.importorskip("torch")

from irscope.errors import RunError  # noqa: E402

nn = torch.nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.GELU())
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        low, high = torch.split(self.body(x), [1, 3], 1)
        return low + high, torch.max(x, 1)


def only(graph: Graph, op: str) -> Node:
    (node,) = (node for node in graph.nodes() if node.op == op)
    return node


def test_a_module_is_exported_when_it_is_loaded():
    net = Net()
    graph = load(net, torch.rand(2, 3))
    verify(graph)
    assert graph.name == "Net"
    names = {value.name: held for value, held in graph.bound.items()}
    assert sorted(names) == ["body.0.bias", "body.0.weight", "seen"]
    assert names["body.0.weight"] is net.body[0].weight
    assert [value.name for value in graph.free_inputs] == ["x"]
    assert str(graph.value("x").type) == "Float(2, 3, strides=[3, 1], device=cpu)"
    assert same_structure(parse(str(graph)), graph)


def test_scopes_locations_lists_writes_and_several_results() -> None:
    graph = load(Net(), torch.rand(2, 3))
    assert only(graph, "aten::linear").scope == "body.0" and only(graph, "aten::gelu").scope == "body.1"
    _, first = inspect.getsourcelines(Net.forward)
    location = only(graph, "aten::max").location
    assert location is not None
    assert (Path(location.file).name, location.line) == ("test_export.py", first + 3)
    assert only(graph, "aten::linear").location.line == first + 2, "the user's line, not torch's"
    assert only(graph, "aten::add_").inputs[0].name == "seen"
    split, unpack = only(graph, "aten::split_with_sizes"), only(graph, "prim::ListUnpack")
    assert constant_of(graph, split.inputs[1]) == (1, 3)
    assert [str(value.type.shape) for value in unpack.outputs] == ["(2, 1)", "(2, 3)"]
    biggest = only(graph, "aten::max")
    assert [value.type.dtype for value in biggest.outputs] == ["float32", "int64"]
    assert set(biggest.outputs) <= set(graph.outputs)


def test_every_argument_of_the_schema_is_there():
    """Element types are TorchScript's numbers."""
    graph = load(lambda x: torch.sum(torch.nn.functional.gelu(x + 1, approximate="tanh"), dtype=torch.float64), torch.rand(2))
    add, gelu, total = (only(graph, f"aten::{name}") for name in ("add", "gelu", "sum"))
    assert [constant_of(graph, value) for value in (*add.inputs[1:], gelu.inputs[1], total.inputs[1])] == [1, 1, "tanh", 7]


def test_sums_of_extents_are_additions():
    class Summed(torch.nn.Module):
        def forward(self, x):
            return x.new_zeros(torch.sym_sum([x.shape[0], x.shape[1], 3])) + x.sum()

    extents = {k: torch.export.Dim(name, min=2) for k, name in enumerate("ab")}
    graph = irs.load(torch.export.export(Summed(), (torch.rand(4, 5),), dynamic_shapes=(extents,)))
    x = torch.rand(3, 7)
    torch.testing.assert_close(irs.compile(graph)(x), Summed()(x))


@pytest.mark.parametrize("number", [1, 2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_a_number_before_a_tensor_is_subtracted_from_and_divided(number: float, dtype: Any):
    class Numbers(torch.nn.Module):
        def forward(self, x):
            ops, x = torch.ops.aten, x + 1
            divided = [ops.div.Tensor_mode(7 * number, x, rounding_mode=mode) for mode in ("floor", "trunc")]
            return ops.sub.Tensor(number, x), ops.sub.Tensor(number, x, alpha=2), *divided, ops.div.Tensor(number, x)

    x = torch.arange(1, 13).reshape(3, 4).to(dtype)
    run = irs.compile(irs.fuse(irs.load(torch.export.export(Numbers(), (x,)))))
    torch.testing.assert_close(run(x), Numbers()(x))


def test_dynamic_shapes_are_symbols():
    program = torch.export.export(Net(), (torch.rand(4, 3),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, strict=False)
    graph = load(program)
    symbol = graph.value("x").type.shape[0]
    assert isinstance(symbol, str)
    assert only(graph, "aten::gelu").output.type.shape == (symbol, 4)
    assert same_structure(parse(str(graph)), graph)


class Mixed(nn.Module):
    def __init__(self, writes: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.writes = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)), writes

    def forward(self, x):
        h = self.a(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.b(h)
            if self.writes:
                h.add_(1)
            h = h @ h.mT
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                h = self.a(h.float()[:, :2].repeat(1, 4)) @ x.mT
        return h.float() + 1


@pytest.mark.parametrize("how", ["model", "model, with autocast around", "program"])
def test_autocast_becomes_the_casts_that_it_stands_for(how: str):
    model, x, around = Mixed(), torch.randn(4, 8), how.endswith("around")
    source = (torch.export.export(model, (x,), strict=False),) if how == "program" else (model, x)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
        graph, wanted = load(*source), model(x)
    assert torch.equal(irs.compile(graph, exact="torch")(x), wanted)
    linears = [node for node in graph.nodes() if node.op == "aten::linear"]
    assert [node.output.type.dtype for node in linears] == ["bfloat16" if around else "float32", "bfloat16", "float32"]
    assert [node.scope for node in linears] == ["a", "b.0", "a"]
    _, first = inspect.getsourcelines(Mixed.forward)
    assert how == "program" or [node.location.line - first for node in linears] == [1, 3, 8]


def test_autocast_in_a_file_is_decomposed_if_the_file_is_trusted(tmp_path: Path):
    def cast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    class Cast(nn.Module):
        def forward(self, x):
            return cast(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Cast(), (torch.rand(3, 3),), strict=False), str(tmp_path / "cast.pt2"))
        with pytest.raises(CaptureError, match="it runs under autocast") as caught:
            load(tmp_path / "cast.pt2")
        assert "trust=True decomposes it" in caught.value.hint
        graph = load(tmp_path / "cast.pt2", trust=True)
    assert only(graph, "aten::matmul").output.type.dtype == "bfloat16"


def test_in_place_ops_under_autocast_raise_a_warning():
    with pytest.warns(UserWarning, match="Mixed runs under autocast: its casts are ops of the program, and its in-place ops"):
        graph = load(Mixed(writes=True), torch.randn(4, 8))
    assert not any(node.op == "aten::add_" for node in graph.nodes())


def test_a_saved_program_is_the_same(tmp_path: Path):
    program = torch.export.export(nn.Sequential(nn.Linear(3, 4), nn.GELU()), (torch.rand(2, 3),), strict=False)
    for name in ("net.pt2", "net.pt"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, str(tmp_path / name))
            graph = load(tmp_path / name)
        assert same_structure(graph, load(program))


@pytest.mark.parametrize(("source", "args", "error", "hint"), [
    (Net(), (), "needs example arguments", "irs.load(model, x)"), (Net, (1,), "Net is the class of a model", "irs.load(Net(), x)"),
    (Net(), (1, 1), "2 example arguments", "pass x"), (Net(), (1, 1, 1), "3 example arguments", "pass x"),
    ("program", (1, 1), "2 example arguments", "pass x: Float(2, 3"),
])  # fmt: skip
def test_wrong_arguments_say_which_are_expected(source: Any, args: tuple[int, ...], error: str, hint: str):
    program = torch.export.export(Net(), (torch.rand(2, 3),), strict=False) if source == "program" else source
    with pytest.raises(ArgumentError, match=error) as caught:
        load(program, *(torch.rand(2, 3) for _ in args))
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(("function", "names"), [
    (lambda x, weight: x * weight, ["x", "weight"]),
    (lambda x, weight, /, *, scale=2.0: x * weight * scale, ["x", "weight"]),
    (lambda *rows: rows[0] + rows[1], ["rows_0", "rows_1"]),
    (torch.add, ["args_0", "args_1"]),
])  # fmt: skip
def test_inputs_of_a_function_have_its_parameters_names(function: Callable[..., Any], names: list[str]):
    graph = load(function, torch.ones(2), torch.ones(2))
    assert [graph.names[value] for value in graph.free_inputs] == names


def _branching(x):
    return x + 1 if x.sum() > 0 else x - 1


def _halved(x):
    while float(x.max()) > 1.0:
        x = x / 2
    return x


class _Scaled(nn.Module):
    def forward(self, x):
        return x / int(x.sum() + 10)


@pytest.mark.parametrize("model", [_branching, _halved, _Scaled()])
def test_data_dependent_control_flow_is_scripted_with_a_warning(model: Callable[..., Any]):
    with pytest.warns(UserWarning, match=r"test_export\.py:\d+.*torch\.jit\.script did, with all branches") as told:
        graph = load(model, torch.rand(3))
    assert told.pop(UserWarning).filename == __file__
    program = irs.compile(irs.fuse(graph))
    for x in (torch.rand(3), -torch.rand(3), 9 * torch.rand(3)):
        assert torch.equal(program(x), model(x))


def test_a_number_that_the_script_would_take_for_a_tensor_is_refused():
    def shifted(x, by):
        return x + by if x.sum() > 0 else x

    with pytest.raises(CaptureError) as caught:
        load(shifted, torch.rand(3), 2)
    assert "by is not annotated" in caught.value.hint


@pytest.mark.parametrize("count", [abs, round, lambda n: n << 2, lambda n: n >> 1], ids=["abs", "round", "<<", ">>"])
def test_numbers_read_from_tensors_are_computed_with(count: Callable[[float], float]):
    def scaled(x):
        return x * count(x.sum().item())

    def scaled_ints(x):
        return x * count(x.sum().long().item())

    x = torch.tensor([-1.25, 0.5, -1.75])
    program = scaled if count in (abs, round) else scaled_ints
    result = irs.compile(load(program, x))
    for each in (x, torch.tensor([2.5, 0.0, 1.0]), torch.tensor([1.5, 0.0, 1.0])):
        assert torch.equal(result(each), program(each))


def test_a_failed_capture_says_why(capfd: pytest.CaptureFixture[str]):
    def choose(x):
        return {True: x + 1, False: lambda: x}[bool(x.sum() > 0)]

    with pytest.raises(CaptureError) as caught:
        load(choose, torch.rand(3))
    assert "torch.cond" in caught.value.hint and 0 < len(caught.value.where.splitlines()) <= 8
    assert "test_export.py" in caught.value.where and "bool(x.sum() > 0)" in caught.value.where
    assert capfd.readouterr() == ("", "")


def test_an_error_raised_by_the_model_is_shown(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(CaptureError) as caught:
        load(nn.Linear(3, 4), torch.rand(2, 5))
    assert capfd.readouterr() == ("", ""), "torch's own log stays quiet"
    assert "[2, 5] X [3, 4]" in caught.value.where


# -- examples that are one tensor -------------------------------------------------------------------------------------


def first_and_second(x, y):
    return torch.tanh(x) * y


class Owner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("b", torch.rand(4))

    def forward(self, x, y):
        return torch.tanh(x) * self.b + self.inner.bias * y["of"][0] - y["of"][1]


def shared(a: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[..., tuple[Any, ...]]]]:
    """By name: what is loaded, with which examples, and arguments of the same nesting from two tensors."""
    model, weight = Owner(), nn.Parameter(torch.rand(4))
    inside = (lambda v: first_and_second(v[0], v[1]["of"]), ([a, {"of": a}],), lambda x, y: ([x, {"of": y}],))
    rows = a.repeat(2)
    return {
        "twice": (first_and_second, (a, a), lambda x, y: (x, y)),
        "inside": inside,
        "a parameter of nobody": (first_and_second, (weight, weight), lambda x, y: (x, y)),
        "that wants a gradient": (first_and_second, ((v := a * weight), v), lambda x, y: (x, y)),
        "views": (first_and_second, (rows[:4], rows[2:6]), lambda x, y: (x, y)),
        "buffer": (model, (model.b, {"of": (a, a)}), lambda x, y: (x, {"of": (y, x)})),
        "parameter": (model, (a, {"of": (model.inner.bias, a)}), lambda x, y: (x, {"of": (y, x)})),
        "all of them": (model, (model.b, {"of": (model.b, model.b)}), lambda x, y: (x, {"of": (y, x)})),
    }


@pytest.mark.parametrize("name", shared(torch.rand(4)))
def test_examples_that_are_one_tensor_are_several_inputs(name: str):
    a, b = torch.rand(4), torch.rand(4)
    source, examples, nested = shared(torch.rand(4))[name]
    run = irs.compile(irs.fuse(irs.load(source, *examples)))
    with torch.no_grad():
        for x, y in ((a, b), (b, a), (a, a), (a, a.view(4))):
            torch.testing.assert_close(run(*nested(x, y)), source(*nested(x, y)))


def test_one_tensor_twice_may_be_written():
    def writes(x, y):
        x.add_(1)
        return x * y

    a = torch.rand(4)
    kept = a.clone()
    run = irs.compile(irs.fuse(irs.load(writes, a, a)))
    assert torch.equal(a, kept), "capturing writes nothing"
    for make in (lambda v: (v, v), lambda v: (v, v.clone()), lambda v: (v, v.view(4))):
        torch.testing.assert_close(run(*make(a.clone())), writes(*make(a.clone())))


def _rows(x: Any) -> Any:
    return torch.relu(x) + 1.0


class _Helped(nn.Module):
    def forward(self, x: Any) -> Any:
        return _rows(x).tanh()


@pytest.mark.parametrize("program", [_rows, _Helped()], ids=["function", "helper of a model"])
def test_a_node_has_the_innermost_line_of_user_code(program: Any) -> None:
    relu = load(program, torch.ones(3)).node("aten::relu")
    first = _rows.__code__.co_firstlineno
    assert relu.location is not None and (relu.location.file, relu.location.line) == (__file__, first + 1)


def test_a_function_of_torch_has_no_user_line() -> None:
    assert load(torch.relu, torch.ones(3)).node("aten::relu").location is None


def test_an_optional_argument_of_a_scripted_model_needs_an_annotation() -> None:
    """Torch's interpreter takes a default of None without a type for a tensor; the refusal says what to write, and that is taken."""

    class Untold(torch.nn.Module):
        def forward(self, x: Any, mask=None) -> Any:  # type: ignore[no-untyped-def]
            return x * 2 if x.sum() > 0 else x

    class Told(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            if mask is not None:
                x = x.masked_fill(mask, 0.0)
            if x.sum() > 0:
                x = x * 2
            return x

    x = torch.ones(3)
    with pytest.raises(CaptureError, match=r"mask=None is read as a tensor; write mask: torch.Tensor \| None = None"):
        irs.load(Untold(), x)
    with pytest.warns(UserWarning, match=r"torch\.jit\.script did, with all branches"):
        graph = irs.load(Told(), x)
    assert irs.compile(irs.fuse(graph))(x).tolist() == [2.0] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use stays there")
@pytest.mark.parametrize("backward", [False, True])
def test_a_deleted_working_directory_is_not_blamed_on_the_model(backward: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    model, x = nn.Linear(3, 2), torch.rand(4, 3)
    try:
        irs.load(model, x, backward=backward)
    except CaptureError as error:
        assert "os.chdir" in error.hint
    monkeypatch.chdir(tmp_path)
    assert irs.load(model, x, backward=backward).outputs, "the hint works"


# --- What `torch.export` bakes in and cannot say: other arguments are refused, and eager's answer never changes silently.


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


class Attention(nn.Module):
    """Its mask is learned: while gradients are recorded, torch takes another kernel, whose result has other strides."""

    def __init__(self):
        super().__init__()
        self.bias, self.projection = nn.Parameter(torch.randn(1, 4, 5, 5)), nn.Linear(16, 16)

    def forward(self, x, mask):
        q = self.projection(x).view(2, 5, 4, 4).transpose(1, 2)
        found = nn.functional.scaled_dot_product_attention(q, q, q, self.bias + mask)
        return found, found.transpose(1, 2).contiguous()


class AttentionInABranch(Attention):
    def forward(self, x, mask):
        def attend(q, mask):
            return (nn.functional.scaled_dot_product_attention(q, q, q, mask).transpose(1, 2).contiguous(),)

        def leave(q, mask):
            return ((q.transpose(1, 2) + 1).contiguous(),)

        q = self.projection(x).view(2, 5, 4, 4).transpose(1, 2)
        return torch.cond(x.sum() > 0, attend, leave, (q, self.bias + mask))[0].contiguous()


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_of_attention_in_a_branch_too():
    graph = irs.load(torch.export.export(AttentionInABranch().eval(), (torch.ones(2, 5, 16), torch.randn(2, 4, 5, 5))))
    attention, contiguous = (graph.value(name) for name in ("scaled_dot_product_attention", "contiguous"))
    assert irs.AliasDb(graph).may_alias(attention, contiguous), "eager returns the operand, where no gradients are recorded"
    assert graph.outputs[0].type.strides is None and graph.value("linear").type.strides


@pytest.mark.parametrize("form", ["model", "exported program", "file"])
def test_behind_attention_with_a_learned_mask_strides_are_those_of_a_run(form: str, tmp_path: Path):
    model, args = Attention().eval(), (torch.randn(2, 5, 16), torch.randn(2, 4, 5, 5))
    source = model if form == "model" else torch.export.export(model, args)
    if form == "file":
        torch.export.save(source, tmp_path / "model.pt2")
        source = tmp_path / "model.pt2"
    graph = irs.load(source, *(args if form == "model" else ()))
    with torch.no_grad():
        want = model(*args)
    found = irs.compile(irs.fuse(graph))(*args)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()
    assert want[0].untyped_storage()._cdata == want[1].untyped_storage()._cdata, "eager returns the operand"
    assert irs.AliasDb(graph).may_alias(*graph.outputs)
