"""TorchScript import, against torch's own text of the same graph and torch's own runs."""

import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.analysis.per_graph import shapes_of
from irscope.errors import LoadError, RunError
from irscope.frontends import load
from irscope.frontends.torch.script_importer import inline_function
from irscope.ir import Graph, TensorData, TensorType, constant_value
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text import parse

torch = pytest.importorskip("torch")
nn = torch.nn


def helper(x: torch.Tensor, k: int) -> torch.Tensor:
    if k > 2:
        return x * k
    return x.relu_()


def branches(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    y = helper(x, sizes[0])
    for i in range(len(sizes)):
        if i % 2 == 0:
            y = y + sizes[i]
        else:
            y.mul_(2.5)
    return helper(y, 3)


def containers(x: torch.Tensor, d: dict[str, torch.Tensor], name: str | None):
    parts: list[torch.Tensor] = []
    for i, part in enumerate(torch.split(x, 1)):
        if i > 0:
            parts.append(part)
    d["x"] = parts[0]
    print("hi", 2.5, 1j, torch.device("cpu"), [1, 2], (1, None), torch.float16)
    if name is not None:
        assert name in d, "missing"
    return torch.cat(parts), d, (1, "a")


def elifs(x: torch.Tensor, k: int) -> torch.Tensor:
    if k == 0:
        return x
    elif k == 1:
        return x + 1
    elif k == 2:
        return x - 1
    else:
        raise ValueError(f"no {k}")


@pytest.mark.parametrize("function", [helper, branches, containers, elifs])
def test_a_function_imports_as_its_text_parses(function):
    scripted = torch.jit.script(function)
    graph, theirs = load(scripted), parse(str(scripted.inlined_graph))
    verify(graph)
    assert same_structure(graph, theirs)
    assert [node.location for node in graph.nodes()] == [node.location for node in theirs.nodes()]


def test_an_optimised_graph_imports_its_groups():
    inside = "graph(%a : Tensor):\n  %b : Tensor = aten::relu(%a)\n  %c : Tensor = aten::tanh(%b)\n  return (%c)"
    outside = torch._C.parse_ir("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    node = next(outside.nodes())
    fused = outside.create("prim::FusionGroup", list(node.inputs()), 1).g_("Subgraph", torch._C.parse_ir(inside))
    fused.insertBefore(node)
    node.output().replaceAllUsesWith(fused.output())
    node.destroy()
    graph = inline_function(outside, "f")
    verify(graph)
    assert same_structure(graph, parse(str(outside)))
    (group,) = graph.body.nodes
    assert [node.op for node in group.blocks[0].nodes] == ["aten::relu", "aten::tanh"]


class Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.scale = 2

    def forward(self, x):
        return torch.relu(self.lin(x)) * self.scale


class Tree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = Leaf()
        self.rest = nn.ModuleList([Leaf(), nn.ReLU(), nn.Sequential(Leaf(), nn.ReLU())])

    def forward(self, x):
        x = self.left(x)
        for part in self.rest:
            x = part(x)
        return x


def scopes(graph: Graph, op: str) -> list[str]:
    return [node.scope for node in graph.nodes() if node.op == op]


def test_scopes_are_module_paths_through_lists():
    graph = load(torch.jit.script(Tree()))
    verify(graph)
    assert scopes(graph, "aten::linear") == ["left.lin", "rest.0.lin", "rest.2.0.lin"]
    assert scopes(graph, "aten::relu") == ["left", "rest.0", "rest.1", "rest.2.0", "rest.2.1"]
    assert scopes(graph, "aten::mul") == ["left", "rest.0", "rest.2.0"]


def test_a_trace_has_the_same_scopes():
    graph = load(torch.jit.trace(Tree(), torch.rand(2, 3)))
    assert scopes(graph, "aten::linear") == ["left.lin", "rest.0.lin", "rest.2.0.lin"]
    assert str(graph.outputs[0].type).startswith("Float(2, 3")
    _, first = inspect.getsourcelines(Leaf.forward)
    (line,) = {node.location.line for node in graph.nodes() if node.op == "aten::relu" and node.scope == "left"}
    assert line == first + 1


def test_locations_are_lines_of_this_file():
    _, first = inspect.getsourcelines(Leaf.forward)
    node = next(node for node in load(torch.jit.script(Tree())).nodes() if node.op == "aten::relu")
    place = node.location
    assert place is not None
    assert (Path(place.file).name, place.line, place.column) == ("test_torchscript.py", first + 1, 15)


def test_parameters_are_bound_inputs_named_by_path_and_only_calls_and_attributes_vanish() -> None:
    scripted = torch.jit.script(Tree())
    graph = load(scripted)
    assert [value.name for value in graph.free_inputs] == ["x.1"]
    names = {value.name: held for value, held in graph.bound.items()}
    assert sorted(names) == sorted(name for name, _ in scripted.named_parameters())
    for name, tensor in scripted.named_parameters():
        assert names[name] is tensor
    assert str(graph.value("left.lin.weight").type) == "Float(3, 3, strides=[3, 1], device=cpu)"
    assert not any(node.op == "prim::GetAttr" for node in graph.nodes())
    # the rest is what torch's inlined graph has: these methods have nothing to fold
    left_out = ("prim::Constant", "prim::GetAttr")
    theirs = Counter(node.op for node in parse(str(scripted.inlined_graph)).nodes() if node.op not in left_out)
    assert Counter(node.op for node in load(scripted).nodes() if node.op not in left_out) == theirs


class Shared(nn.Module):
    """A weight of two layers, and a layer of two names."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.c = self.a

    def forward(self, x):
        return self.c(self.b(self.a(x)))


@pytest.mark.parametrize("capture", [torch.jit.script, lambda model: torch.export.export(model, (torch.rand(2, 3),), strict=False)])
def test_tied_parameters_are_one_input_and_submodules_keep_their_paths(capture):
    graph = load(capture(Shared()))
    assert sorted(value.name for value in graph.bound) == ["a.bias", "a.weight", "b.bias"]
    first, second, third = (node for node in graph.nodes() if node.op == "aten::linear")
    assert first.inputs[1] is second.inputs[1] and first.inputs[1:] == third.inputs[1:]
    assert capture is not torch.jit.script or scopes(graph, "aten::linear") == ["a", "b", "c"]


class Counting(nn.Module):
    count: int

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.fixed = 7

    def forward(self, x):
        self.count = self.count + 1
        return x * self.count + self.fixed


def test_a_written_attribute_stays_an_attribute():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = Counting()
            self.same = self.a

        def forward(self, x):
            return self.a(x) + self.same.count

    graph = load(torch.jit.script(Two()))
    verify(graph)
    ops = Counter(node.op for node in graph.nodes())
    assert (ops["prim::GetAttr"], ops["prim::SetAttr"]) == (3, 1), "also the reading by the other path"
    assert sorted(value.name for value in graph.bound) == ["a", "same"]
    constants = [constant_value(node) for node in graph.nodes() if node.op == "prim::Constant"]
    assert 7 in constants


def test_a_list_that_is_appended_to_is_not_a_constant():
    class Lists(nn.Module):
        seen: list[int]
        names: list[str]

        def __init__(self):
            super().__init__()
            self.seen, self.names = [1], ["a", "b"]

        def forward(self, x):
            self.seen.append(x.size(0))
            return x * len(self.names)

    graph = load(torch.jit.script(Lists()))
    assert [value.name for value in graph.bound] == ["seen"]
    assert ("a", "b") in [constant_value(node) for node in graph.nodes() if node.op == "prim::Constant"]


def test_a_module_that_is_chosen_at_run_time_is_called_through_its_interface():
    @torch.jit.interface
    class Step(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pass

    class Chooses(nn.Module):
        step: Step

        def __init__(self):
            super().__init__()
            self.step = Leaf()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step.forward(x)

    graph = load(torch.jit.script(Chooses()))
    assert scopes(graph, "aten::linear") == ["step.lin"], "the object behind the interface is known"


def test_missing_parameters_are_none_and_frozen_ones_constants_in_the_tensors_own_memory() -> None:
    graph = load(torch.jit.script(nn.Linear(2, 2, bias=False)))
    linear = next(node for node in graph.nodes() if node.op == "aten::linear")
    assert constant_value(graph.producer[linear.inputs[2]]) is None
    graph = load(torch.jit.freeze(torch.jit.script(nn.Linear(2, 2).eval())))
    payloads = [constant_value(node) for node in graph.nodes() if node.op == "prim::Constant"]
    held = [payload for payload in payloads if isinstance(payload, TensorData)]
    assert sorted(payload.shape for payload in held) == [(2,), (2, 2)]
    assert held[0].original.data_ptr() == held[0].array.ctypes.data


def test_a_saved_file_is_the_same_program(tmp_path: Path):
    scripted = torch.jit.script(Tree())
    scripted.save(str(tmp_path / "tree.pt"))
    graph = load(tmp_path / "tree.pt")
    assert graph.name == "tree"
    assert same_structure(graph, load(scripted))
    assert [node.location for node in graph.nodes()] == [node.location for node in load(scripted).nodes()]


def test_left_out_defaults_are_bound():
    @torch.jit.script
    def scaled(x: torch.Tensor, k: int = 3):
        return x * k

    assert [value.name for value in load(scaled, torch.rand(2)).free_inputs] == ["x.1"]
    assert len(load(scaled).free_inputs) == 2


def test_a_module_without_forward_names_its_methods():
    class NoForward(nn.Module):
        @torch.jit.export
        def step(self, x: torch.Tensor):
            return x

    with pytest.raises(LoadError) as caught:
        load(torch.jit.script(NoForward()))
    assert "step" in caught.value.hint


def test_the_overload_that_takes_the_arguments_is_loaded():
    scripted = torch.jit.script(nn.LSTM(3, 2))
    by_default, by_argument = load(scripted), load(scripted, torch.rand(4, 1, 3))
    assert same_structure(by_default, by_argument)
    assert [value.name for value in by_argument.free_inputs] == ["input.1"]


@pytest.mark.parametrize("kind", ["function", "module"])
def test_calls_are_inlined_whatever_ran_before(kind: str):
    """What runs first under `optimized_execution(False)` is kept by torch with its calls in it."""

    class Normed(nn.Module):
        def forward(self, x: torch.Tensor):
            return nn.functional.instance_norm(x) + 1

    def normed(x: torch.Tensor):
        return nn.functional.instance_norm(x) + 1

    x, source = torch.rand(2, 4, 3), Normed() if kind == "module" else normed
    with torch.jit.optimized_execution(False):
        torch.jit.script(source)(x)
    assert not [node for node in load(torch.jit.script(source), x).nodes() if node.op == "prim::CallFunction"]


class Gated(torch.autograd.Function):
    """A function with gradients of its own, as models write them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.tanh(x) * x * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


class Writing(torch.autograd.Function):
    """One that writes: torch's trace has the write twice, in the function's subgraph and behind it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad


def test_a_traced_autograd_function_is_its_forward() -> None:
    x = torch.linspace(-2, 2, 5)
    graph = irs.load(torch.jit.trace(lambda x: Gated.apply(x * 2, 3.0) + 1, (x,)))
    assert [node.op for node in graph.nodes() if node.op != "prim::Constant"] == [
        "aten::mul", "aten::tanh", "aten::mul", "aten::mul", "aten::add",
    ]  # fmt: skip
    torch.testing.assert_close(irs.compile(irs.fuse(graph))(x), torch.tanh(x * 2) * x * 6 + 1)


def test_a_function_that_a_trace_records_twice_stays_a_call() -> None:
    graph = irs.load(torch.jit.trace(lambda x: Writing.apply(x * 2) + 1, (torch.ones(3),), check_trace=False))
    assert "prim::PythonOp" in {node.op for node in graph.nodes()}
    with pytest.raises(RunError, match="PythonOp"):
        irs.compile(graph)(torch.ones(3))


def _traced_numbers(x: Any) -> Any:
    y = torch.tanh(x * 0.5) * 2
    return torch.atan2(y.sum() * 0.25, torch.exp(y)) + 1


@pytest.mark.parametrize("shape", [(), (3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_numbers_of_a_traced_program_are_numbers_in_each_call(shape: tuple[int, ...], dtype: str) -> None:
    """The trace types Python's numbers as tensors of no dimensions: they are the weaker ones in a promotion."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(getattr(torch, dtype))
    function = (lambda x: torch.tanh(x * 0.5) * 2 - 1) if dtype == "complex64" else _traced_numbers
    graph = irs.load(torch.jit.trace(function, x))
    shapes = shapes_of(graph)
    executable = irs.compile(irs.fuse(graph))
    for _ in range(4):  # the third is written out
        torch.testing.assert_close(executable(x), function(x), rtol=2e-3, atol=2e-3)
    found = shapes.type(graph.outputs[0])
    assert isinstance(found, TensorType) and (found.dtype, found.shape) == (dtype, shape)


def test_a_folded_tensor_has_the_type_that_torch_gives_it() -> None:
    def program(x: Any) -> Any:
        return (x * 0.5).new_full((), 1.5 - 2j) * 2.0

    x = torch.tensor(1 + 2j)
    executable = irs.compile(irs.fuse(irs.load(torch.jit.trace(program, x))))
    torch.testing.assert_close(executable(x), program(x))


def test_a_tensor_as_default_needs_no_trust(tmp_path: Path):
    none, two = torch.zeros(0), torch.full((3,), 2.0)

    class Remembers(nn.Module):
        def forward(self, x: torch.Tensor, state: torch.Tensor = none, scale: torch.Tensor = two):
            if state.numel() == 0:
                state = x
            return x + state * scale

    path, x = tmp_path / "remembers.pt", torch.rand(2, 3)
    torch.jit.script(Remembers()).save(str(path))
    for args in ((x,), (x, x + 1), (x, x + 1, torch.rand(3))):
        assert torch.equal(irs.compile(load(path, *args))(*args), Remembers()(*args))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_unions_of_numbers_are_numbers(device: str):
    def compared(a: int | float, b: int | float):
        return torch.tensor([a < b, a <= b, a > b, a >= b, a == b, a != b])

    graph = load(torch.jit.script(compared))
    for a, b in ((1, 2.5), (2.5, 1), (1, 1.0), (3.0, 3)):
        assert torch.equal(torch.as_tensor(irs.compile(graph, device=device)(a, b)), compared(a, b)), (a, b)
    shapes = pytest.importorskip("torch.jit._shape_functions")
    for function, args in ((shapes.arange_end, (5,)), (shapes.arange_start, (2, 7.5)), (shapes.arange_start_step, (2, 9, 3))):
        given = (*args, None, None, None, None)
        assert irs.compile(load(torch.jit.script(function)), device=device)(*given) == function(*given)
    assert irs.compile(load(torch.jit.script(lengths)), device=device)(1, 4.5).tolist() == [1, 2, 3, 4]


def lengths(a: int | float, b: int | float):
    return torch.arange(a, b)


def test_a_trace_in_another_element_type_than_it_was_made_with() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(4, 4))

        def forward(self, x: Any) -> Any:
            return torch.relu(x) * self.weight + 2

    x = torch.rand(4, 4)
    traced = torch.jit.trace(Model(), x).double()
    run = irs.compile(irs.fuse(irs.load(traced, x.double())))
    assert torch.equal(run(x.double()), traced(x.double()))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_operands_of_type_any_keep_their_type(device: str):
    text = "graph(%a : Any, %b : Any):\n  %r : Any = aten::{}(%a, %b)\n  return (%r)"
    for op, python in (("lt", "__lt__"), ("ge", "__ge__"), ("eq", "__eq__"), ("add", "__add__"), ("mul", "__mul__")):
        run = irs.compile(parse(text.format(op)), device=device)
        for a, b in ((1, 2), (2.5, 2.5), (torch.ones(2), torch.zeros(2)), (torch.ones(2), 1)):
            assert torch.equal(torch.as_tensor(run(a, b)), torch.as_tensor(getattr(a, python)(b))), (op, a, b)
    with pytest.raises(RunError, match="aten::lt"):
        irs.compile(parse(text.format("lt")), device=device)({}, {})


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.a(x)


def test_a_script_that_makes_an_object_says_how_the_model_runs():
    model, x = Mixed(), torch.rand(2, 4)
    with pytest.raises(RunError, match="prim::CreateObject") as caught:
        irs.compile(load(torch.jit.script(model)))(x)
    assert "irs.load(model, x)" in caught.value.hint
    assert torch.equal(irs.compile(irs.load(model, x))(x), model(x)), "the hint works"
