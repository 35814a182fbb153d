"""Repeated regions: found without scopes, proved, convex; and the outlined program means the same."""

import random
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import irscope as irs
from irscope.ir import Block, Graph, Module, Node, Value, constant_value
from irscope.ir.invariants import verify
from irscope.ir.module import inlined, verify_module
from irscope.transforms.dedup.rewrite import Repeat, find_regions, outline_nested
from irscope.transforms.dedup.rewrite.parameters import common_type
from tests.programs import parsed
from tests.random_programs.graphs import Program, random_program
from tests.transforms.same_meaning import observed

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))


def without_scopes(graph: Graph) -> Graph:
    """The same graph, with nothing that says where a node came from."""

    def bare(block: Block) -> Block:
        nodes = [
            replace(node, scope="", location=None, blocks=tuple(map(bare, node.blocks))) for node in block.nodes
        ]  # fmt: skip
        return replace(block, nodes=tuple(nodes))

    return replace(graph, body=bare(graph.body))


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same pure straight-line program, its nodes listed in another order."""
    rng = random.Random(seed)
    waiting = list(graph.body.nodes)
    known = set(graph.inputs)
    order: list[Node] = []
    while waiting:
        ready = [place for place, node in enumerate(waiting[:40]) if known.issuperset(node.inputs)]
        node = waiting.pop(rng.choice(ready))
        known.update(node.outputs)
        order.append(node)
    return replace(graph, body=replace(graph.body, nodes=tuple(order)))


def outputs(place: tuple[Node, ...]) -> set[Value]:
    return {value for node in place for value in node.outputs}


def ops(repeat: Repeat, place: int = 0) -> list[str]:
    return [node.op.partition("::")[2] for node in repeat.places[place]]


def assert_sound(graph: Graph, repeats: tuple[Repeat, ...]) -> None:
    """Places are disjoint, and of the same ops and edges by brute force."""
    seen: set[Node] = set()
    for repeat in repeats:
        edges = set()
        for place in repeat.places:
            assert seen.isdisjoint(place)
            seen.update(place)
            made = {value: (c, k) for c, node in enumerate(place) for k, value in enumerate(node.outputs)}
            edges.add(tuple((node.op, tuple(made.get(value, "outside") for value in node.inputs)) for node in place))
        assert len(edges) == 1


def chain(count: int, body: str, *, tail: str = "", inputs: str = "%x : Float(4), %y : Float(4)") -> Graph:
    """`body` again and again: `{a}` is the value before, `{i}` the number of the place."""
    lines = [f"graph({inputs}):"]
    before = "x"
    for i in range(count):
        lines += ["  " + line.strip().format(a=before, i=i) for line in body.strip().splitlines()]
        before = f"r{i}"
    return irs.parse("\n".join([*lines, *tail.splitlines(), f"  return (%{before})"]))


LAYER = """
%p{i} : Float(4) = aten::mul(%{a}, %y)
%q{i} : Float(4) = aten::tanh(%p{i})
%r{i} : Float(4) = aten::relu(%q{i})
"""


def test_places_of_a_chain_are_found_and_named() -> None:
    [repeat] = find_regions(chain(7, LAYER))
    assert (repeat.size, len(repeat)) == (3, 7) and repeat.labels[3] == "place 3" and len(repeat.inputs) == 2
    assert repeat.outputs == ((2, 0),)


def test_constants_and_extents_are_holes_and_constants_that_are_equal_everywhere_are_not() -> None:
    body = """
    %c{i} : float = prim::Constant[value={i}.5]()
    %k{i} : int = prim::Constant[value=0]()
    %p{i} : Float({i}2) = aten::index_select(%{a}, %k{i}, %y)
    %q{i} : Float({i}2) = aten::mul(%p{i}, %c{i})
    %r{i} : Float({i}2) = aten::tanh(%q{i})
    """
    graph = chain(9, body, inputs="%x : Float(4), %y : Long(*)")
    [repeat] = find_regions(graph)
    assert len(repeat) == 9
    constants = {node.output for node in graph.nodes() if node.op == "prim::Constant"}
    [differing] = [values for values in repeat.inputs if constants.issuperset(values)]
    assert [constant_value(graph.producer[value]) for value in differing[:2]] == [0.5, 1.5]
    assert str(common_type([nodes[2].outputs[0].type for nodes in repeat.places])) == "Float(*)"


def test_a_region_ends_before_a_different_op() -> None:
    text = str(chain(6, LAYER)).replace("%q3 : Float(4) = aten::tanh", "%q3 : Float(4) = aten::exp")
    found = find_regions(irs.parse(text))
    assert_sound(irs.parse(text), found)
    odd = [node for repeat in found for place in repeat.places for node in place if node.op == "aten::exp"]
    assert not odd


def test_operands_from_outside_may_be_exchanged_but_inner_edges_may_not() -> None:
    text = str(chain(6, LAYER)).replace("aten::mul", "aten::sub").replace("aten::sub(%r2, %y)", "aten::sub(%y, %r2)")
    graph = irs.parse(text)
    [repeat] = find_regions(graph)
    assert len(repeat) == 6
    x, y = np.float32([0.5, -2.0, 3.0, 1.5]), np.float32([1.0, 0.25, -1.0, 2.0])
    assert same_numbers(graph, outlined(graph, [repeat]), x, y)

    inside = "%r{i} : Float(4) = aten::sub(%q{i}, %p{i})"
    text = str(chain(6, LAYER.replace("%r{i} : Float(4) = aten::relu(%q{i})", inside)))
    for repeat in find_regions(irs.parse(text.replace("aten::sub(%q2, %p2)", "aten::sub(%p2, %q2)"))):
        sides = {tuple(value in made for value in node.inputs) for place in repeat.places for made in [outputs(place)]
                 for node in place if node.op == "aten::sub"}  # fmt: skip
        assert len(sides) <= 1


def test_ifs_with_equal_bodies_belong_to_regions_and_keep_their_values_from_outside() -> None:
    body = "p{i} = mul {a} y; r{i} = If c {{| t{i} = tanh p{i} | t{i}}} {{| u{i} = add p{i} y | u{i}}}"
    graph = parsed(f"x y c:bool | {'; '.join(body.format(a=f'r{i - 1}' if i else 'x', i=i) for i in range(4))} | r3")
    [repeat] = find_regions(graph, min_nodes=2)
    assert (repeat.size, len(repeat)) == (2, 4)
    module = outlined(graph, [repeat])
    verify_module(module)
    verify(inlined(module, graph.name))
    assert len(module.graphs["region0"].inputs) == 3


def test_a_value_read_by_all_places_is_one_parameter() -> None:
    [repeat] = find_regions(chain(5, LAYER + "%z{i} : Float(4) = aten::exp(%y)\n"), min_nodes=3)
    shared = [values for values in repeat.inputs if len(set(values)) == 1]
    assert len(shared) == 1


def test_nothing_repeats_in_a_program_of_different_ops() -> None:
    text = "graph(%x : Tensor):\n" + "".join(f"  %v{i} : Tensor = aten::op{i}(%{f'v{i - 1}' if i else 'x'})\n" for i in range(30))
    assert find_regions(irs.parse(text + "  return (%v29)")) == ()


def test_thousands_of_layers_need_no_recursion() -> None:
    [repeat] = find_regions(chain(3000, LAYER))
    assert len(repeat) == 3000


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_outlined_random_programs_mean_the_same(seed: int) -> None:
    program = random_program(seed, size=45)
    graph = irs.parse(program.text)
    check_outlined(graph, program, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_function_inlined_several_times_is_found_again(seed: int, times: int) -> None:
    program = random_program(seed, size=12)
    callee = irs.parse(program.text)
    found = check_outlined(written_out(callee, times), program, 2)
    if sum(node.op != "prim::Constant" for node in callee.body.nodes) > 6:
        assert found


def written_out(callee: Graph, times: int) -> Graph:
    """The function called several times on the same arguments, which it may write; all results are returned."""
    call = ", ".join(f"%{callee.names[value]}" for value in callee.inputs)
    header = str(callee).partition("):\n")[0]
    lines, results = [header + "):"], []
    for i in range(times):
        names = [f"out{i}_{k}" for k in range(len(callee.outputs))]
        results += [f"%{name}" for name in names]
        typed = ", ".join(f"%{name} : {value.type}" for name, value in zip(names, callee.outputs, strict=True))
        lines.append(f'  {typed} = func::call[callee="@f"]({call})')
    text = "\n".join([*lines, f"  return ({', '.join(results)})"])
    return without_scopes(inlined(Module({"f": callee, "main": irs.parse(text)}), "main"))


def check_outlined(graph: Graph, program: Program, least: int) -> tuple[Repeat, ...]:
    found = find_regions(graph, min_nodes=least)
    assert_sound(graph, found)
    module, _ = outline_nested(graph, found, partial(find_regions, min_nodes=least))
    verify_module(module)
    after = inlined(module, graph.name)
    verify(after)
    assert observed(graph, program.fresh()) == observed(after, program.fresh())
    return found


def test_the_steps_of_an_lstm_are_found_without_scopes_and_in_any_order(torch: Any) -> None:
    from lstm import lstm

    graph = without_scopes(irs.load(lstm(inputs=8, hidden=16), torch.randn(12, 2, 8)))
    for program in (graph, shuffled(graph, 1)):
        repeat = find_regions(program)[0]
        assert len(repeat) == 12
        assert sorted(ops(repeat)) == sorted("linear linear add chunk ListUnpack sigmoid mul sigmoid tanh mul add sigmoid tanh mul".split())


def outlined(graph: Graph, repeats: Iterable[Repeat]) -> Module:
    """These regions alone, and none inside them."""
    return outline_nested(graph, list(repeats), lambda inner: ())[0]


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def same_numbers(graph: Graph, module: Module, *arguments: Any) -> bool:
    import torch

    results = [irs.compile(g, device="reference")(*arguments) for g in (graph, inlined(module, graph.name))]
    return all(torch.equal(a, b) for a, b in zip(*(map(torch.as_tensor, flat(r)) for r in results), strict=True))


@pytest.mark.long
def test_the_twelve_layers_of_bert_are_found_without_scopes() -> None:
    from bert import bert, tokens

    arguments = tokens(2, 16) % 100
    loaded = irs.load(bert(layers=12, hidden=64), arguments)
    graph = without_scopes(loaded)
    repeat = find_regions(graph)[0]
    assert len(repeat) == 12
    scope = {node.output: node.scope for node in loaded.nodes() if len(node.outputs) == 1}
    for number, place in enumerate(repeat.places):
        assert all(f".layer.{number}." in scope[node.output] + "." for node in place)
    d = irs.dedup(graph, unit="regions")
    assert len(d.classes[0]) == 12
    assert same_numbers(graph, outlined(graph, find_regions(graph)), arguments)
    assert len(find_regions(shuffled(graph, 3))[0]) == 12


def heads_in_layers() -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")

    class Head(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2), -1) @ x

    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.heads, self.norm, self.scale = torch.nn.ModuleList(Head() for _ in range(4)), torch.nn.LayerNorm(8), scale

        def forward(self, x: Any) -> Any:
            return self.norm(x + sum(torch.tanh(head(x)) * self.scale for head in self.heads))

    return torch.nn.Sequential(*(Layer(0.5 + (k > 3)) for k in range(6))).eval(), torch.rand(2, 5, 8)


@pytest.mark.parametrize("unit", ["regions", "scopes"])
def test_what_repeats_within_a_region_is_outlined_as_well(unit: Any) -> None:
    model, x = heads_in_layers()
    graph = irs.load(model, x)
    found = irs.dedup(graph, unit=unit, relation="constants")
    done = found.applied()
    assert [re.sub(r"\d+ nodes", "n nodes", remark) for remark in done.remarks] == [
        f"passed @region0: 6 places of n nodes in @{graph.name} call it", "passed @region1: 4 places of n nodes in @region0 call it",
    ]  # fmt: skip
    assert isinstance(done.program, irs.Module)
    for each in (*done.program.graphs.values(), inlined(done.program)):
        verify(each)
    np.testing.assert_allclose(irs.compile(done.program)(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("unit", ["regions", "scopes"])
def test_a_finer_step_outlines_only_what_is_the_same_by_it(unit: Any) -> None:
    model, x = heads_in_layers()
    found = irs.dedup(irs.load(model, x), unit=unit)
    layers = [len(cls) for cls in found if len(cls) in (2, 4)]
    assert 2 in layers and 4 in layers
    remarks = found.applied("alpha").remarks
    assert [remark.partition(": ")[2][:8] for remark in remarks[:2]] == ["4 places", "2 places"]
    chosen = found.applied(found.recommend())
    assert isinstance(chosen.program, irs.Module) and len(chosen.program.graphs) > 1


def test_places_that_read_and_write_in_another_order_are_another_region(torch: Any) -> None:
    """The edges are the same; torch says what the order is worth."""
    orders = [True, True, False, False, True, False]
    lines = [f"graph({', '.join(f'%x{i} : Float(4)' for i in range(6))}):", "  %o : int = prim::Constant[value=1]()"]
    for i, reads_first in enumerate(orders):
        both = [f"%t{i} : Float(4) = aten::tanh(%x{i})", f"%w{i} : Float(4) = aten::add_(%x{i}, %o, %o)"]
        rest = [f"%m{i} : Float(4) = aten::mul(%t{i}, %w{i})", f"%r{i} : Float(4) = aten::sub(%m{i}, %a{i}, %o)"]
        lines += [f"  {line}" for line in (f"%a{i} : Float(4) = aten::exp(%x{i})", *both[:: 1 if reads_first else -1], *rest)]
    g = irs.parse("\n".join([*lines, f"  return ({', '.join(f'%r{i}' for i in range(6))})"]))
    shared = irs.dedup(g, unit="regions").apply("alpha")
    assert str(shared).count('callee="@region0"') == 3
    xs = torch.rand(6, 4)
    made = irs.compile(shared)(*xs.clone())
    for x, reads_first, result in zip(xs, orders, made, strict=True):
        assert torch.allclose(result, (x if reads_first else x + 1).tanh() * (x + 1) - x.exp())


# --- Modules of a model as pieces, and what repeats inside of a region.


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
