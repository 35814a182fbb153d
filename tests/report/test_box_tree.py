"""Boxes for what a reader wants to see: no level is large, modules stay whole, layers fold by proof, edges reach what they should."""

import random

import pytest

import irscope as irs
from irscope.ir import Node
from irscope.report.box_tree import MOST_SIDE_BY_SIDE, BoxTree, Levels, node_lines
from irscope.report.layout import lay_out
from irscope.report.pages.exploration import Exploration
from irscope.report.panes.program_view import graph_view, opened_at_first, text_view
from tests.programs import ir, parsed


def test_boxes_are_what_a_reader_wants_to_see(exploration: Exploration) -> None:
    """None for constants, number work and lists, nor for a module with one thing in it; edges go through a list with one reader."""
    graph, view = exploration.graph, graph_view(exploration.graph, exploration.class_of)
    seen = {0}
    for box in view["boxes"]:
        assert box["parent"] in seen and box["id"] not in seen
        seen.add(box["id"])
    assert not {"Constant", "ListConstruct"} & {box["label"] for box in view["boxes"]}
    assert [box["label"] for box in view["boxes"] if box["writes"]] == ["relu_"]
    groups = [box for box in view["boxes"] if box["kind"] == "group"]
    assert [box["label"] for box in groups] == ["sigmoid · mul", "tanh · mul"]
    assert all(box["equivalence_class"] >= 0 for box in groups)
    modules = {box["label"]: box["size"] for box in view["boxes"] if box["kind"] == "module"}
    assert "net.gate" not in modules and modules["net.head"] == 3
    assert all({edge["source"], edge["target"]} <= seen for edge in view["edges"])
    made_by = {edge["source"] for edge in view["edges"] if edge["target"] == graph.node("cat").id and edge["value"]}
    assert made_by == {graph.producer[graph.value("b")].id, graph.node("c").id}


RECURRENT = ir(
    "x h | a1 = matmul x x @ net.of_input; b1 = matmul h h @ net.of_state; c1 = relu b1 @ net.of_state; h1 = matmul a1 c1 @ net; "
    "a2 = matmul x x @ net.of_input; b2 = matmul h1 h1 @ net.of_state; c2 = relu b2 @ net.of_state; h2 = matmul a2 c2 @ net | h2"
)


def test_a_module_called_again_on_its_own_result_gets_a_box_for_each_call() -> None:
    view = graph_view(irs.parse(RECURRENT))
    parts = [box for box in view["boxes"] if box["kind"] == "module"]
    assert [box["label"] for box in parts] == ["net", "net.of_input", "net.of_state", "net.of_state"]
    assert [box["size"] for box in parts] == [8, 2, 2, 2]


T = "Float(4, 4)"


def layers(count: int, *, odd: int = -1, constant: int = -1) -> str:
    """An embedding, layers of a norm and a product with a residual sum, a norm; `odd` has another op, `constant` another number."""
    lines = ["%k : int = prim::Constant[value=1]()", "%two : int = prim::Constant[value=2]()"]
    lines += [f"%h0 : {T} = aten::relu(%x), scope: net.embed", f"%e : {T} = aten::matmul(%h0, %w), scope: net.embed"]
    last = "e"
    for i in range(count):
        scope = f"net.layers.{i}"
        op = "aten::tanh" if i == odd else "aten::sigmoid"
        k = "two" if i == constant else "k"
        lines += [
            f"%a{i} : {T} = {op}(%{last}), scope: {scope}.norm",
            f"%b{i} : {T} = aten::matmul(%a{i}, %w), scope: {scope}.mm",
            f"%c{i} : {T} = aten::add(%b{i}, %{last}, %{k}), scope: {scope}",
        ]
        last = f"c{i}"
    lines += [f"%n : {T} = aten::exp(%{last}), scope: net.norm", f"%o : {T} = aten::matmul(%n, %w), scope: net.head"]
    return f"graph(%x : {T}, %w : {T}):\n" + "".join(f"  {line}\n" for line in lines) + "  return (%o)"


def told(tree: BoxTree, around: int = -1) -> list[str]:
    return [tree.box(box)["label"] for box in tree.children(around)]


@pytest.mark.parametrize("fused", [False, True])
def test_equal_layers_stand_once_with_their_number(fused: bool) -> None:
    graph = irs.parse(layers(24))
    tree = BoxTree(irs.fuse(graph).graph if fused else graph)
    boxes = [tree.box(k) for k in range(len(tree))]
    (repeat,) = [box for box in boxes if box["kind"] == "repeat"]
    assert (repeat["label"], repeat["copies"]) == ("net.layers.0–23", 24)
    # fused, the norm of each layer but the first is in a group with the add before it: what is drawn in the layers differs
    assert repeat["detail"].endswith("alike but for fusion" if fused else "alike")
    inside = told(tree, tree.number[repeat["id"]])
    assert len(inside) == 24
    net = next(box for box in boxes if box["label"] == "net")
    assert tree.number[net["id"]] in opened_at_first(tree)
    assert tree.number[repeat["id"]] not in opened_at_first(tree)


def test_what_is_between_repeated_layers_is_in_their_box_and_no_edge_leads_back_into_it() -> None:
    """As pools are between the stages of a U-Net; the skips out of them, and what follows the last, stay outside."""
    lines, last = list[str](), "x"
    for i in range(4):
        lines += [f"%a{i} : {T} = aten::relu(%{last}), scope: net.down.{i}", f"%b{i} : {T} = aten::matmul(%a{i}, %w), scope: net.down.{i}"]
        lines += [f"%p{i} : {T} = aten::tanh(%b{i}), scope: net", f"%s{i} : {T} = aten::exp(%b{i}), scope: net"]
        last = f"p{i}"
    text = f"graph(%x : {T}, %w : {T}):\n" + "".join(f"  {line}\n" for line in lines) + "  return (%p3, %s0, %s1, %s2, %s3)"
    tree = BoxTree(irs.parse(text))
    (repeat,) = [k for k in range(len(tree)) if tree.kinds[k] == "repeat"]
    assert told(tree, repeat) == ["net.down.0", "tanh", "net.down.1", "tanh", "net.down.2", "tanh", "net.down.3"]
    assert list(tree.members(repeat).values()) == [f"net.down.{i}" for i in range(4)] and tree.box(repeat)["copies"] == 4
    assert sorted(told(tree, int(tree.parent[repeat]))) == ["exp", "exp", "exp", "exp", "net.down.0–3", "tanh"]
    ends = {(edge["source"], edge["target"]) for edge in Levels(tree).edges_in(int(tree.parent[repeat]))}
    assert len(ends) == 5 and {source for source, _ in ends} == {tree.ids[repeat]}


def test_a_layer_with_another_op_is_not_folded_with_the_others() -> None:
    tree = BoxTree(irs.parse(layers(9, odd=4)))
    repeats = [tree.box(k) for k in range(len(tree)) if tree.kinds[k] == "repeat"]
    assert [(box["label"], box["copies"]) for box in repeats] == [("net.layers.0–3", 4), ("net.layers.5–8", 4)]


def test_a_constant_that_differs_is_shown() -> None:
    tree = BoxTree(irs.parse(layers(6, constant=2)))
    (repeat,) = [tree.box(k) for k in range(len(tree)) if tree.kinds[k] == "repeat"]
    assert repeat["copies"] == 6 and "alike but for 1 place" in repeat["detail"]


def test_a_group_over_two_modules_takes_neither_apart() -> None:
    graph = irs.fuse(irs.parse(layers(5))).graph
    groups = [node for node in graph.nodes() if node.blocks]
    spanning = [group for group in groups if len({inner.scope for inner in group.blocks[0].nodes if inner.scope}) > 1]
    assert spanning
    tree = BoxTree(graph)
    modules = [tree.box(k)["label"] for k in range(len(tree)) if tree.kinds[k] == "module"]
    assert len(modules) == len(set(modules))
    for group in spanning:
        around = int(tree.parent[tree.number[group.id]])
        assert tree.kinds[around] == "module"


@pytest.mark.parametrize("count", [100, 130, 3000, 20_000])
def test_no_level_is_large_however_flat_the_program(count: int) -> None:
    lines = "".join(f"  %v{i + 1} : {T} = aten::relu(%v{i})\n" for i in range(count))
    tree = BoxTree(irs.parse(f"graph(%v0 : {T}):\n{lines}  return (%v{count})"))
    levels = [-1, *(k for k in range(len(tree)) if tree.is_holder(k))]
    assert max(len(list(tree.children(level))) for level in levels) <= MOST_SIDE_BY_SIDE
    ops = [k for k in range(len(tree)) if tree.kinds[k] == "op"]
    assert len(ops) == count == tree.ops_in(-1 if len(levels) == 1 else 0) + sum(tree.ops_in(k) for k in tree.children(-1) if k)
    assert [tree.lines[tree.ids[k]] for k in ops] == list(range(1, count + 1))
    if count > 120:
        labels = told(tree)
        assert (labels[0], labels[-1]) == ("%v0", "result") and labels[1].startswith("lines 2–")


def test_ops_between_modules_stand_together_and_an_op_that_is_a_module_does_not() -> None:
    loose = "".join(f"  %m{i} : {T} = aten::tanh(%m{i - 1 if i else ''}), scope: net\n" for i in range(12)).replace("%m)", "%x)")
    text = layers(4).replace("  %h0", loose + "  %h0", 1).replace("scope: net.head", "scope: net.head.lin")
    tree = BoxTree(irs.parse(text))
    net = next(k for k in range(len(tree)) if tree.box(k)["label"] == "net")
    kinds = [(tree.kinds[k], tree.ops_in(k)) for k in tree.children(net)]
    assert kinds == [("stretch", 12), ("module", 2), ("repeat", 12), ("op", 1), ("op", 1)]


def test_what_a_block_hands_back_has_an_edge_to_the_node_that_holds_it() -> None:
    graph = parsed("x c:bool | row = relu x; y = If c {| | row} {| z = tanh x | z} | y", T)
    edges = {(edge["source"], edge["target"]) for edge in graph_view(graph)["edges"]}
    assert (graph.node("row").id, graph.node("y").id) in edges


def test_a_list_that_is_taken_apart_has_a_box() -> None:
    graph = parsed("a x | k = 0; l:Tensor[] = ListConstruct a x; b:Tensor = __getitem__ l k | b", T)
    view = graph_view(graph)
    assert [box["label"] for box in view["boxes"] if box["kind"] == "op"] == ["ListConstruct", "__getitem__"]
    assert {edge["source"] for edge in view["edges"] if edge["target"] == graph.node("b").id} == {graph.node("l").id}


def random_program(seed: int) -> irs.Graph:
    pick = random.Random(seed)
    values, lines = ["x", "w"], []
    for i in range(pick.randrange(5, 60)):
        scope = f", scope: m.{pick.randrange(3)}.{pick.choice('abc')}" if pick.random() < 0.8 else ""
        op = pick.choice(["relu", "tanh", "mm", "mul"])
        operands = f"%{pick.choice(values)}" + (f", %{pick.choice(values)}" if op in ("mm", "mul") else "")
        if pick.random() < 0.15:
            lines += [f"%v{i} : {T} = prim::If(%c)", "  block0():", f"    %u{i} : {T} = aten::{op}({operands})", f"    -> (%u{i})"]
            lines += ["  block1():", f"    -> (%{pick.choice(values)})"]
        else:
            lines.append(f"%v{i} : {T} = aten::{op}({operands}){scope}")
        values.append(f"v{i}")
    return irs.parse(f"graph(%x : {T}, %w : {T}, %c : bool):\n" + "".join(f"  {line}\n" for line in lines) + f"  return (%{values[-1]})")


@pytest.mark.parametrize("seed", range(25))
def test_lifted_edges_are_those_that_a_walk_up_the_tree_gives(seed: int) -> None:
    graph = random_program(seed)
    tree = BoxTree(irs.fuse(graph).graph if seed % 2 else graph)
    levels = Levels(tree)
    wanted = set()
    for source, target in zip(tree.sources.tolist(), tree.targets.tolist(), strict=True):
        above = [source]
        while above[-1] >= 0:
            above.append(int(tree.parent[above[-1]]))
        other = target
        while int(tree.parent[other]) not in above:
            other = int(tree.parent[other])
        inner = above[above.index(int(tree.parent[other])) - 1] if tree.parent[other] != source else -2
        if inner >= 0 and inner != other and other not in above:
            wanted.add((tree.ids[inner], tree.ids[other]))
    found = {(edge["source"], edge["target"]) for around in range(-1, len(tree)) for edge in levels.edges_in(around)}
    assert found == wanted


@pytest.mark.parametrize("seed", range(12))
def test_lines_are_counted_as_they_are_printed(seed: int) -> None:
    graph = irs.fuse(random_program(seed)).graph
    printed = {node: line for line, node in enumerate(text_view(graph)["nodes"]) if node}
    assert node_lines(graph) == printed
    tree = BoxTree(graph)
    for box, subject in enumerate(tree.subjects):
        if isinstance(subject, Node):
            assert tree.lines_of(box)[0] == printed[subject.id]  # type: ignore[index]


def joint(layers: int) -> str:
    """Forward of some layers, a mask that is kept, and backward in the scopes of the layers."""
    lines, last = list[str](), "x"
    for i in range(layers):
        lines += [f"%a{i} : {T} = aten::matmul(%{last}, %w)#{i}", f"%h{i} : {T} = aten::tanh(%a{i})#{i}"]
        last = f"h{i}"
    lines += [f"%kept : {T} = aten::sign(%{last})#", f"%y : {T} = aten::matmul(%{last}, %w)#"]
    lines += [f"%m : {T} = aten::mul(%grad_output, %kept)#", f"%turned : {T} = aten::t(%w)#", f"%n : {T} = aten::matmul(%m, %turned)#"]
    last = "n"
    for i in reversed(range(layers)):
        lines += [f"%b{i} : {T} = aten::mul(%{last}, %h{i})#{i}", f"%g{i} : {T} = aten::matmul(%b{i}, %w)#{i}"]
        last = f"g{i}"
    body = "".join(f"  {op}, scope: net{'.layers.' if layer else ''}{layer}\n" for op, _, layer in (line.partition("#") for line in lines))
    return f"graph(%x : {T}, %w : {T}, %grad_output : {T}):\n{body}  return (%y, %{last})"


@pytest.mark.parametrize("fused", [False, True])
def test_forward_and_backward_are_two_lanes_in_which_layers_fold(fused: bool) -> None:
    graph = irs.parse(joint(5))
    view = graph_view(irs.fuse(graph).graph if fused else graph)
    lanes = {box["label"]: box["id"] for box in view["boxes"] if box["kind"] == "lane"}
    assert [*lanes] == ["forward", "backward"] and not {*lanes.values()} & {*view["closed"]}
    folded = {(box.get("lane"), box.get("copies")) for box in view["boxes"] if box["kind"] == "repeat"}
    assert folded == {("forward", 4 if fused else 5), ("backward", 5)}, "half of the last layer is in a group with gradients"
    lane_of = {box["id"]: box.get("lane") for box in view["boxes"]}
    assert all(lane_of[box["id"]] for box in view["boxes"] if box["parent"])
    named = ["kept", "y", "m", "turned"][fused:]  # what keeps the mask is in that group
    assert [lane_of[graph.node(name).id] for name in named] == ["forward", "forward", "backward", "backward"][fused:]
    layout = lay_out(view)
    left, right = layout.rects[lanes["forward"]], layout.rects[lanes["backward"]]
    assert left.x + left.width <= right.x and left.y < right.y + right.height and right.y < left.y + left.height
    (across,) = [route.points for route in layout.routes if (route.source, route.target) == (lanes["forward"], lanes["backward"])]
    assert across is not None and across[0][1] == across[1][1]


def test_the_path_of_a_module_is_whole() -> None:
    deep = BoxTree(irs.parse(layers(4).replace("net.layers", "encoder.stages.1.downsampling_layer.blocks")))
    assert any("encoder.stages.1.downsampling_layer.blocks" in deep.box(k)["label"] for k in range(len(deep)))


def test_a_program_that_only_names_a_module_backward_has_no_lanes() -> None:
    text = layers(4).replace("net.layers", "net.backward")
    assert not [box for box in graph_view(irs.parse(text))["boxes"] if box["kind"] == "lane"]


NUMBERS = ir(
    "x | half:Float() = {0.5}; one:Float() = {1}; rows = 4; columns = 8; size:int[] = ListConstruct rows columns; "
    "halves = expand half size; ones = expand one size; also = expand one size; a = mul x halves; b = div ones a; c = matmul b also | c x",
    "Float(4, 8)",
)


def test_a_number_that_is_stretched_is_written_on_its_reader() -> None:
    """But what a product reads, or a write, keeps its box."""
    graph = irs.parse(NUMBERS)
    assert sorted(told(BoxTree(graph))) == sorted(["%x", "expand(1)", "mul(·, 0.5)", "div(1, ·)", "matmul", "result", "result"])
    fused = BoxTree(irs.fuse(graph).graph)
    assert any("mul(·, 0.5) · div(1, ·)" in fused.box(k)["label"] for k in range(len(fused)))
    longer = BoxTree(irs.fuse(irs.parse(NUMBERS.replace("0.5", "0.000123456789"))).graph)  # a title that would be cut has none
    assert any(longer.box(k)["label"].startswith("mul · div") for k in range(len(longer)))
    written = irs.parse(NUMBERS.replace("aten::div(%ones, %a)", "aten::mul_(%ones, %a)"))
    assert told(BoxTree(written)).count("expand(1)") == 2


def test_modules_open_as_far_as_they_lead_to_layers_and_a_closed_one_names_them() -> None:
    def module(name: str, k: int) -> str:
        ops = ("matmul", "mm") if k % 2 else ("mm", "matmul")
        return "".join(f"  %{name}{k}{op} : {T} = aten::{op}(%x, %w), scope: net.{name}.{k}\n" for op in ops)

    apart = "".join(module(name, k) for name in ("stem", "tail") for k in range(30))
    tree = BoxTree(irs.parse(layers(6).replace("  %h0", apart + "  %h0", 1)))
    assert len(tree) > 150 and {tree.box(box)["label"] for box in opened_at_first(tree)} == {"net"}
    assert next(tree.box(k)["detail"] for k in range(len(tree)) if tree.box(k)["label"] == "net").endswith("ops · layers.0–5 ×6")
