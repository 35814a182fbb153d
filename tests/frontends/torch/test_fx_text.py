"""FX graphs as text: torch prints a graph, it is read without torch's help, and its results are those of torch."""

from collections.abc import Callable

import numpy as np
import pytest

import irscope as irs
from irscope.errors import LoadError
from irscope.frontends.torch.fx_text import annotated_type, read_fx_text

torch = pytest.importorskip("torch")
F = torch.nn.functional


def _joins(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x.split([3, 5], dim=1)
    return torch.cat([a, b.flip(1)], 1), torch.stack([a.sum(1), b.sum(1)]), b.chunk(2, 1)[1]


def _types(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x.half().float(), x.to(torch.int64) // 2, (x > 0) & (x < 1), torch.full_like(x, float("inf")), torch.arange(8) + x)


def _several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, places = x.max(1)
    top, where = x.topk(3)
    return values, places, top * 2, where, torch.var_mean(x, 1)[1]


def _indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = torch.tensor([2, 0])
    return (x[:, i], torch.ops.aten.index_put(x, [None, i], torch.zeros(2)), x.gather(1, torch.zeros(4, 2, dtype=torch.int64)))


def _networks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    image = x.reshape(1, 1, 4, 8)
    pooled = F.max_pool2d(F.conv2d(image, torch.ones(2, 1, 3, 3), padding=1), 2)
    return (pooled, F.layer_norm(x, (8,)), F.softmax(F.gelu(x) @ x.T, -1), F.pad(x, (1, 0)), x.as_strided((2, 2), (8, 1), 1))


def _writes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:3].mul_(2)
    y.add_(1)
    return y


FUNCTIONS = [_joins, _types, _several, _indices, _networks, _writes]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("decomposed", [False, True])
def test_a_printed_graph_has_the_results_of_torch(function: Callable[[torch.Tensor], object], decomposed: bool) -> None:
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.manual_seed(0)
    x = torch.randn(4, 8)
    table = core_aten_decompositions() if decomposed else None
    module = make_fx(torch.func.functionalize(function), decomposition_table=table, tracing_mode="fake")(x)
    text = module.print_readable(print_output=False, include_stride=True, include_device=True)
    read = read_fx_text(text, "g")
    irs.verify(read.graph)
    constants = [getattr(module, name.removeprefix("self.")) for name in read.unknown if name.startswith("self.")]
    assert all(name.startswith("self.") for name in read.unknown)
    found = irs.compile(read.graph, device="reference")(x.numpy(), *(each.numpy() for each in constants))
    want = function(x)
    pairs = zip(found if isinstance(found, tuple) else (found,), want if isinstance(want, tuple) else (want,), strict=True)
    for mine, its in pairs:
        np.testing.assert_allclose(np.asarray(mine), its.numpy(), rtol=1e-5, atol=1e-5)


def test_each_node_has_its_types_line_and_name() -> None:
    read = read_fx_text(
        'class <lambda>(torch.nn.Module):\n    def forward(self, arg0_1: "Sym(s0)", arg1_1: "f16[s0, 3][3, 1]cuda:1"):\n'
        "         # No stacktrace found for following nodes\n"
        '        add: "Sym(s0 + 1)" = arg0_1 + 1\n'
        "         # File: a b/m.py:12 in f.g, code: return x in y\n"
        "        max_1 = torch.ops.aten.max.dim(arg1_1, 1)\n"
        '        getitem: "f16[s0][1]cuda:1" = max_1[0];  max_1 = None\n'
        '        conv: "f32[s0, 3][3, 1]cuda:1" = torch.ops.prims.convert_element_type.default(arg1_1, torch.float32);  arg1_1 = None\n'
        "        return (getitem, conv, add)",
        "g",
    )
    text = str(read.graph)
    assert "%arg1_1 : Half(s0, 3, strides=[3, 1], device=cuda:1)" in text
    assert "= aten::add(%arg0_1" in text and "aten::to(%arg1_1" in text and not read.unknown
    (maximum,) = read.nodes["max_1"]
    assert str(maximum.location) == "a b/m.py:12:0" and read.nodes["getitem"] == () and read.nodes["add"][0].location is None
    assert str(maximum.outputs[0].type) == "Half(s0, strides=[1], device=cuda:1)"


def test_a_number_minus_a_tensor_is_what_it_says() -> None:
    line = "class G(torch.nn.Module):\n    def forward(self, x: 'f32[2][1]cpu'):\n        a: 'f32[2][1]cpu' = {}\n        return (a,)"
    for call, wanted in (("(2, x)", [1.0, 0.5]), ("(2, x, alpha = 3)", [-1.0, -2.5]), ("(x, 2)", [-1.0, -0.5])):
        read = read_fx_text(line.format(f"torch.ops.aten.sub.Tensor{call}"), "g")
        np.testing.assert_allclose(irs.compile(read.graph)(np.array([1.0, 1.5], np.float32)), wanted)


def test_what_has_no_meaning_is_kept_as_it_is() -> None:
    read = read_fx_text(
        'class G(torch.nn.Module):\n    def forward(self, x: "f32[4][1]cpu"):\n        w: "f32[4][1]cpu" = self._tensor_constant0\n'
        "        a = torch.ops.my_lib.split_it.default(x, [w, 2], key='v')\n"
        '        b: "f32[2][1]cpu" = a[1]\n        c = torch.sym_sum((b, x))\n        return (b, c)',
        "g",
    )
    assert read.unknown == ("self._tensor_constant0", "torch.ops.my_lib.split_it.default", "torch.sym_sum")
    assert [node.op for node in read.graph.nodes() if node.op != "prim::Constant"] == ["my_lib::split_it", "python::torch.sym_sum"]
    assert len(read.graph.free_inputs) == 2
    irs.verify(read.graph)


@pytest.mark.parametrize(("text", "what"), [
    ("", "no class with a function forward"),
    ("class G:\n    def forward(self, x):\n        y = x.a.b(", "no Python"),
    ("class G:\n    def forward(self, x):\n        y = x", "ends before it returns"),
    ("class G:\n    def forward(self, x):\n        x.y = 1\n        return x", "line 3"),
    ("class G:\n    def forward(self, x):\n        y = torch.ops.aten.relu.default(lambda: 1)\n        return y", "line 3"),
    ("class G:\n    def forward(self, x):\n        y = torch.ops.aten.relu.default(x, x)\n        return y", "does not take these"),
    (
        "class G:\n    def forward(self, x):\n        y = torch.ops.aten.to.dtype(x, torch.nothing)\n        return y",
        "not a constant of torch's",
    ),
])  # fmt: skip
def test_what_fx_does_not_print_is_refused(text: str, what: str) -> None:
    with pytest.raises(LoadError, match=what):
        read_fx_text(text, "g")


def test_annotations_of_other_kinds_are_any_tensor() -> None:
    assert [str(annotated_type(text)) for text in ("f32", "f32[", "q8[3]", "Sym(Eq(s0, 3))", "Sym(s0 < 4)", "Subclass(bf16[2][1]cpu)")] == [
        "Tensor", "Tensor", "Tensor", "int", "bool", "BFloat16(2, strides=[1], device=cpu)",
    ]  # fmt: skip
