"""The peak of a run's memory against keeping every value and asking, at every node, which of them are still needed."""

import random
import weakref
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir.core import Graph
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.program.arena import blocks_of
from irscope.runtime.program.executable import compile_graph
from tests.programs import ir, parsed

UNARY = ("relu", "tanh", "neg", "t", "relu_", "numpy_T")


def random_text(seed: int, size: int) -> str:
    """A straight line of ops, views and in-place ops on square matrices of two sizes."""
    dice = random.Random(seed)
    names = ["%x", "%y"]
    lines = []
    for index in range(size):
        name = f"%v{index}"
        if dice.random() < 0.3:
            a, b = dice.choice(names), dice.choice(names)
            lines.append(f"  {name} : Tensor = aten::mul({a}, {b})")
        elif dice.random() < 0.1:
            lines.append(f"  %l{index} : Tensor[] = prim::ListConstruct({dice.choice(names)}, {dice.choice(names)})")
            lines.append(f"  {name} : Tensor = aten::cat(%l{index}, %zero)")
            lines.append(f"  {name}s : Tensor = aten::slice({name}, %zero, %zero, %four, %one)")
            name = f"{name}s"
        else:
            lines.append(f"  {name} : Tensor = aten::{dice.choice(UNARY)}({dice.choice(names)})")
        names.append(name)
    head = ["graph(%x : Tensor, %y : Tensor):"]
    head += [f"  %{word} : int = prim::Constant[value={value}]()" for word, value in (("zero", 0), ("one", 1), ("four", 4))]
    results = ", ".join(dice.sample(names[-4:], 2))
    return "\n".join([*head, *lines, f"  return ({results})"]) + "\n"


def by_brute_force(graph: Graph, args: list[Any]) -> int:
    """Keep everything; the peak over all nodes of the blocks behind values that are read at that node or later."""
    library, held = NumpyLibrary(), dict(zip(graph.inputs, args, strict=True))
    outside = {address for arg in args for address, _ in blocks_of(arg)}
    nodes = list(graph.body.nodes)
    for node in nodes:
        if node.op == "prim::Constant":
            held[node.output] = library.constant(node)
            continue
        result = library.function(node)(*[held[value] for value in node.inputs])
        held.update(zip(node.outputs, [result] if len(node.outputs) == 1 else result, strict=True))
    peak = 0
    for place, node in enumerate(nodes):
        made = [value for earlier in nodes[: place + 1] for value in earlier.outputs]
        needed = {value for later in nodes[place + 1 :] for value in later.inputs} | set(graph.body.returns)
        alive = [value for value in made if value in needed or value in node.inputs or value in node.outputs]
        blocks = {block for value in alive for block in blocks_of(held[value]) if block[0] not in outside}
        peak = max(peak, sum(size for _, size in blocks))
    return peak


@pytest.mark.parametrize("seed", range(60))
def test_the_peak_is_that_of_brute_force(seed: int) -> None:
    graph = irs.parse(random_text(seed, 4 + seed % 25))
    given = [np.full((4, 4), 0.5, np.float32), np.full((4, 4), 0.25, np.float32)]
    run = compile_graph(graph, use_kernels=False)
    peak = run.peak_bytes(*[array.copy() for array in given])
    assert peak == by_brute_force(graph, [array.copy() for array in given])


CHAIN = ir("x | a = relu x; b = tanh a; c = neg b; d = sigmoid c | d")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_chain_needs_two_and_its_kernel_one(library: str) -> None:
    x: Any = np.zeros((1000, 64), np.float32)
    if library == "torch":
        x = pytest.importorskip("torch").from_numpy(x)
    graph = irs.load(CHAIN, x)
    assert compile_graph(graph, use_kernels=False).peak_bytes(x) == 2 * 256_000
    fused = compile_graph(irs.fuse(graph)).peak_bytes(x)
    assert 256_000 <= fused < 256_000 * 9 / 8, "the block may be an eighth larger"


def test_a_loop_forgets_what_its_turns_made() -> None:
    text = ir("x n:int | go = True; y = Loop n go x {i:int z | w = relu z; u = neg w | go u} | y")
    run = compile_graph(irs.parse(text), use_kernels=False)
    x = np.zeros(1000, np.float32)
    assert run.peak_bytes(x, 1) == 8_000
    assert run.peak_bytes(x, 3) == run.peak_bytes(x, 50) == 8_000


def test_a_list_keeps_what_is_in_it() -> None:
    text = ir(
        "x n:int | go = True; l:Tensor[] = ListConstruct; Loop n go {i:int | w = relu x; same:Tensor[] = append l w | go}; one = 0; "
        "y = cat l one | y"
    )
    run = compile_graph(irs.parse(text), use_kernels=False)
    assert run.peak_bytes(np.zeros(1000, np.float32), 5) == 2 * 5 * 4_000


def test_an_operand_that_only_a_group_reads_lives_no_longer_where_its_ops_run_one_by_one(torch: Any) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        """Counts the tensors that are alive after each op: where torch must see its own ops, a group has no kernel."""

        def __init__(self) -> None:
            super().__init__()
            self.made: list[weakref.ref[Any]] = []
            self.alive: list[int] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.made += [weakref.ref(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            self.alive.append(sum(made() is not None for made in self.made))
            return result

    g = parsed("x | a = neg x; s i:Long(8) = sort a; b = exp s; c = tanh b; d = sin c | d", "Float(8)")
    run, x = irs.compile(irs.fuse(g)), torch.ones(8)
    for _ in range(2):  # the first call learns what the library's ops take
        with Watch() as watch:
            run(x)
    assert watch.alive[-3:] == [2, 2, 2]
