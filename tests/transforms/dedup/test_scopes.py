"""Modules of a model as pieces, and what repeats inside of a region."""

import torch
from torch import nn

import irscope as irs
from tests.programs import parsed


class Layer(nn.Module):
    """Heads written one by one, and a branch that only some layers have."""

    def __init__(self, width: int, heads: int, scale: float, gate: bool) -> None:
        super().__init__()
        self.queries = nn.ModuleList(nn.Linear(width, width // heads) for _ in range(heads))
        self.scale, self.gate = scale, gate
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [torch.softmax(torch.tanh(query(x)) * self.scale, -1) for query in self.queries]
        y = torch.relu(self.out(torch.cat(heads, -1))) + x
        return torch.sigmoid(y) * y if self.gate else y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(8, 4, 0.5 + i, i == 3) for i in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def graph() -> irs.Graph:
    return irs.load(Net().eval(), torch.rand(3, 8))


def test_layers_of_one_build_are_one_class_with_their_scale_as_a_hole() -> None:
    d = irs.dedup(graph(), unit="scopes", relation="constants")
    (layers,) = [cls for cls in d.classes if len(cls) == 3]
    assert [str(name).rpartition(".")[2] for name in layers.members] == ["0", "1", "2"]
    assert d.class_of(str(layers.members[0])[:-1] + "3") is not layers  # it has a gate
    holes = d.holes(layers)
    assert {tuple(row[2:5]) for row in holes[holes["varies"] != "equal everywhere"].itertuples(index=False)} == {(0.5, 1.5, 2.5)}
    told = irs.dedup(d.source, unit="scopes").why_not(*layers.members[:2])
    assert told.witness[0] == "constants" and "0.5 against 1.5" in told.because


def test_heads_are_found_inside_a_layer() -> None:
    d = irs.dedup(graph(), unit="regions", relation="constants")
    inner = d.inside(0)
    assert max(map(len, inner.classes)) == 4
    assert {node.op for node in inner.piece(inner.classes[0].members[0]).nodes} >= {"aten::tanh", "aten::softmax"}


def test_a_graph_without_scopes_has_no_such_pieces() -> None:
    g = irs.parse("graph(%x : Float(4)):\n  %y : Float(4) = aten::relu(%x)\n  return (%y)")
    d = irs.dedup(g, unit="scopes")
    assert len(d) == 0 and d.note == "no two nodes of the graph belong to one module of the model"


def test_places_that_wait_for_each_other_are_not_outlined() -> None:
    """Each module's second half reads the other's first: neither can be one step, though both are the same."""
    g = parsed("x y | a = tanh x @ net.0; b = tanh y @ net.1; c = mul a b @ net.0; d = mul b a @ net.1 | c d", "Float(4)")
    d = irs.dedup(g, unit="scopes", relation="arguments")
    assert [len(cls) for cls in d.classes] == [2, 1]
    made = d.apply()
    assert isinstance(made, irs.Module) and list(made.graphs) == [g.name]


def test_the_note_counts_modules_of_the_model() -> None:
    text = "graph(%x : Float(4)):\n{}  return (%y)"
    line = "  %y : Float(4) = aten::tanh(%x), scope: net\n"
    two = "  %p : Float(4) = aten::tanh(%x), scope: net\n  %y : Float(4) = aten::relu(%p), scope: net\n"
    notes = [irs.dedup(irs.parse(text.format(lines)), unit="scopes").note for lines in (line, two)]
    assert notes[0] == "no two nodes of the graph belong to one module of the model"
    assert notes[1].startswith("the one module of the model is a piece")
