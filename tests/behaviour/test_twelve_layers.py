"""Twelve layers written out by hand that differ in a number, a width or a rate: one kernel, with the holes named."""

from itertools import pairwise
from typing import Any

import pytest

import irscope as irs

torch = pytest.importorskip("torch")
LAYERS = 12


class Stack(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Matmul and a tail of pointwise ops, again and again."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        widths = [64 + 8 * i if what == "widths" else 64 for i in range(LAYERS + 1)]
        pairs = pairwise(widths)
        self.weights = torch.nn.ParameterList([torch.randn(a, b) / a**0.5 for a, b in pairs])

    def forward(self, x: Any) -> Any:
        for layer, weight in enumerate(self.weights):
            scale = 0.1 * (layer + 1) if self.what == "constants" else 0.5
            x = torch.tanh(x @ weight) * scale + 1.0
            if self.what == "rates":
                keep = 1.0 - 0.05 * (layer + 1)
                mask = torch.arange(x.numel()).reshape(x.shape) % 20 < 20 * keep
                x = torch.where(mask, x / keep, torch.zeros(()))
        return x


def compiled(what: str) -> tuple[Any, Any, Any, Any]:
    model = Stack(what)
    x = torch.randn(32, 64)
    return model, x, irs.fuse(irs.load(model, x)), model(x).detach()


@pytest.mark.parametrize(("what", "step"), [("constants", "constants"), ("widths", "extents")])
def test_twelve_layers_are_one_kernel(what: str, step: Any) -> None:
    _, x, fusion, expected = compiled(what)
    d = irs.dedup(fusion, relation=step)
    largest = d.classes[0]
    assert len(largest) == LAYERS
    varying = [row for row in d.class_holes(largest).rows if row.parameter is not None]
    if what == "constants":
        assert [(row.place, row.dependence) for row in varying] == [("'other' of aten::mul", "parameter 0")]
        assert len(irs.compile(fusion).kernels) == LAYERS
    else:
        assert {row.kind for row in varying} == {"extent"} and {row.parameter for row in varying} == {0}
    made = irs.compile(d.apply())
    assert len(made.kernels) == 1 and len(made.kernels[0].groups) == LAYERS
    torch.testing.assert_close(made(x).detach(), expected)


def test_dropout_rates_are_holes_of_one_kernel() -> None:
    _, x, fusion, expected = compiled("rates")
    d = irs.dedup(fusion, relation="constants")
    before, after = irs.compile(fusion), irs.compile(d.apply())
    assert len(after.kernels) == 1 and len(before.kernels) == LAYERS
    holes = d.class_holes(d.classes[0])
    assert any(row.place == "'other' of aten::div" and row.parameter is not None for row in holes.rows)
    torch.testing.assert_close(after(x).detach(), expected)


@pytest.mark.parametrize("training", [False, True])
def test_layers_with_dropouts_of_twelve_rates_are_one_kernel(training: bool) -> None:
    """Torch's own: evaluated they are folded, and with them their rates; in training torch draws, between equal kernels."""

    class Dropouts(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(torch.randn(64, 64) / 8 for _ in range(LAYERS))
            self.dropouts = torch.nn.ModuleList(torch.nn.Dropout(0.05 * (layer + 1)) for layer in range(LAYERS))

        def forward(self, x: Any) -> Any:
            for weight, dropout in zip(self.weights, self.dropouts, strict=True):
                x = dropout(torch.tanh(x @ weight) * 0.5 + 1.0)
            return x.sum()

    model, x = Dropouts().train(training), torch.randn(32, 64)
    d = irs.dedup(irs.fuse(irs.load(model, x)), relation="constants")
    assert len(d.classes[0]) >= LAYERS - 1  # the last may have the sum with it
    holes = [(row.place, row.dependence) for row in d.class_holes(0).rows if row.parameter is not None]
    assert holes == []
    made = irs.compile(d.apply())
    assert max(len(kernel.groups) for kernel in made.kernels) >= LAYERS - 1
    torch.manual_seed(3)
    found = made(x)
    torch.manual_seed(3)
    torch.testing.assert_close(found, model(x))


def test_the_recommendation_is_one_body() -> None:
    _, x, fusion, expected = compiled("constants")
    made = irs.compile(fusion)
    d = irs.dedup(fusion)
    found = d.recommend(executable=made)
    assert [(len(choice.members), choice.step) for choice in found.choices] == [(LAYERS, "constants")]
    table = found.table()
    assert table["parameters"].tolist() == [1] and table["compile s saved"].iloc[0] > 0
    assert "constant folding" in table["gives up"].iloc[0]
    assert len(irs.compile(d.apply(found)).kernels) == 1 and d.recommend(budget=0.0).choices == ()
    torch.testing.assert_close(irs.compile(d.apply(found))(x).detach(), expected)


def test_the_ladder_says_what_compiling_took() -> None:
    _, _, fusion, _ = compiled("constants")
    made = irs.compile(fusion)
    d = irs.dedup(fusion)
    ladder = d.ladder(made)
    took = [kernel.compile_seconds for kernel in made.kernels]
    assert set(ladder["time is"]) == {"measured"}
    assert set(d.ladder()["time is"]) == {"estimated"}
    assert ladder.loc["alpha", "compile s saved"] == 0
    assert 0 < ladder.loc["constants", "compile s saved"] <= sum(took)
    assert ladder.loc["constants", "ops saved"] == 3 * (LAYERS - 1)


def test_comparing_has_a_row_for_each_step() -> None:
    _, x, fusion, _ = compiled("constants")
    table = irs.compare(fusion, x, steps=True, repeats=1).table()
    kernels = [table.loc[f"dedup by {relation}", "kernels"] for relation in irs.dedup(fusion).ladder().index]
    assert kernels == sorted(kernels, reverse=True)
    assert table.loc["dedup by order", "kernels"] == LAYERS and table.loc["dedup by constants", "kernels"] == 1
    assert table.loc["dedup by constants", "relative error"] < 1e-5
    with pytest.raises(irs.errors.ArgumentError, match="there is no step"):
        irs.compare(fusion, x, steps="beta")


def test_what_is_not_an_operand_of_a_kernel_keeps_groups_apart() -> None:
    """The epsilon of a layer norm is read by its kernel, that of a group norm is part of it: no group is left without one."""

    class Norms(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            epsilons = [10.0 ** -(3 + i) for i in range(3)]
            norms = [torch.nn.LayerNorm(64, eps=eps) for eps in epsilons]
            norms += [torch.nn.BatchNorm1d(64, eps=eps) for eps in epsilons]
            norms += [torch.nn.GroupNorm(4, 64, eps=eps) for eps in epsilons]
            self.norms = torch.nn.ModuleList(norms)

        def forward(self, x: Any) -> Any:
            for norm in self.norms:
                x = torch.tanh(norm(x)) @ torch.ones(64, 64)
            return torch.nn.functional.softplus(x, 2.0, 20.0)

    model, x = Norms().eval(), torch.randn(8, 64)
    fusion = irs.fuse(irs.load(model, x))
    d = irs.dedup(fusion, relation="constants")
    before, after = irs.compile(fusion), irs.compile(d.apply())
    assert {remark.rule for remark in after.remarks} <= {"layer"}
    assert len(after.kernels) < len(before.kernels)
    torch.testing.assert_close(after(x).detach(), model(x).detach())
