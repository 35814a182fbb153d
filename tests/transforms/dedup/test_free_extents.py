"""Functions of other sizes become one: sizes that ops are given are parameters, types leave them open, and the program is the same
to the bit; where a type decides what an op computes, it stays apart and the op is named."""

import random
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir import Symbol
from irscope.ir.module import inlined, verify_module
from irscope.ir.text import parse_module, print_module
from irscope.runtime.reference import run_reference
from tests.programs import ir
from tests.transforms.dedup.test_rewrite import Program

LISTS = {"constant": "s = [{n}, 2]", "packed": "n = {n}; two = 2; s:int[] = ListConstruct n two"}


def viewing(n: int, k: float, sizes: str) -> str:
    lists = LISTS[sizes].format(n=n)
    return ir(f"x:Float(2, {n}) w:Float({n}, 3) | k = {k}; {lists}; a:Float(2, {n}) = mul x k; b:Float({n}, 2) = view a s; "
              f"c:Float(3, {n}) = t w; d:Float(3, 2) = mm c b | d")  # fmt: skip


MAIN = ir(
    'x:Float(2, 4) w:Float(4, 3) y:Float(2, 6) v:Float(6, 3) | p = func::call[callee="@f"] x w; q = func::call[callee="@g"] y v | p q',
    "Float(3, 2)",
)


def module(functions: dict[str, str], main: str, visibility: str = "private") -> irs.Module:
    symbols = (Symbol("main", "func::func"), *(Symbol(name, "func::func", visibility) for name in functions))
    graphs = {"main": irs.parse(main), **{name: irs.parse(text) for name, text in functions.items()}}
    return irs.Module(graphs, symbols=symbols)


def run(made: irs.Module, arguments: list[Any], name: str = "main") -> list[bytes]:
    with np.errstate(all="ignore"):
        return [np.asarray(each).tobytes() for each in run_reference(inlined(made, name), *arguments)]


def arguments_of(graph: irs.Graph, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs]  # type: ignore[attr-defined]  # tensors


@pytest.mark.parametrize("sizes", LISTS)
@pytest.mark.parametrize("visibility", ["private", "public"])
def test_one_function_serves_all_sizes(sizes: str, visibility: str) -> None:
    made = module({"f": viewing(4, 0.5, sizes), "g": viewing(6, 0.25, sizes)}, MAIN, visibility)
    arguments = arguments_of(made.graphs["main"], 0)
    done = irs.dedup(made, relation="extents").applied()
    after = done.program
    assert isinstance(after, irs.Module)
    verify_module(after)
    assert print_module(parse_module(print_module(after))) == print_module(after)
    assert run(after, arguments) == run(made, arguments)
    (leader,) = [graph for name, graph in after.graphs.items() if name.startswith("class_")]
    assert [str(value.type) for value in leader.inputs] == ["Float(2, *)", "Float(*, 3)", "int", "float"]
    assert done.remarks == ("passed @f: it serves 2 pieces, with 2 parameters in place of a number, and leaves sizes open",)
    if visibility == "public":  # who calls from outside finds what was there, with the types that it had
        for name in ("f", "g"):
            assert [value.type for value in after.graphs[name].inputs] == [value.type for value in made.graphs[name].inputs]
            own = arguments_of(made.graphs[name], 1)
            assert run(after, own, name) == run(made, own, name)


def check_random(seed: int) -> int:
    """Functions of several programs and sizes; gives how many of them others serve afterwards."""
    rng = random.Random(seed)
    programs = [Program(rng) for _ in range(2)]
    sizes = {f"f{i}": rng.choice((1, 2, 5, 7)) for i in range(4)}
    functions = {name: rng.choice(programs).text(size=size) for name, size in sizes.items()}
    params = ", ".join(f"%{name}{axis} : Float({size})" for name, size in sizes.items() for axis in "xyz")
    calls = "".join(
        f'  %r{name} : Float({size}) = func::call[callee="@{name}"](%{name}x, %{name}y, %{name}z)\n' for name, size in sizes.items()
    )
    main = f"graph({params}):\n{calls}  return ({', '.join(f'%r{name}' for name in sizes)})"
    made = module(functions, main)
    arguments = arguments_of(made.graphs["main"], seed)
    expected, left = run(made, arguments), len(made.graphs)
    for step in ("extents", "free"):
        after = irs.dedup(made, relation=step).apply()
        assert isinstance(after, irs.Module)
        verify_module(after)
        assert run(after, arguments) == expected
        left = len(after.graphs)
    return len(made.graphs) - left


@pytest.mark.parametrize(("seeds", "served"), [(range(10), 10), pytest.param(range(10, 500), 300, marks=pytest.mark.long)], ids=str)
def test_random_functions_of_several_sizes(seeds: range, served: int) -> None:
    assert sum(map(check_random, seeds)) > served


def test_compiled_it_runs_for_every_size() -> None:
    pytest.importorskip("llvmlite")
    made = module({"f": viewing(4, 0.5, "constant"), "g": viewing(6, 0.25, "constant")}, MAIN)
    arguments = arguments_of(made.graphs["main"], 2)
    after = irs.dedup(made, relation="free").apply()
    assert isinstance(after, irs.Module)
    for got, want in zip(irs.compile(irs.fuse(inlined(after)))(*arguments), run_reference(inlined(made), *arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_an_op_whose_type_decides_keeps_functions_apart() -> None:
    def empty(n: int) -> str:
        return ir("x | e = tensor::empty; y = arith::addf x e | y", f"Float({n})")

    main = ir('x y:Float(6) | p = func::call[callee="@f"] x; q:Float(6) = func::call[callee="@g"] y | p q', "Float(4)")
    done = irs.dedup(module({"f": empty(4), "g": empty(6)}, main), relation="extents").applied()
    assert any("sizes differ at tensor::empty, whose types may decide" in remark for remark in done.remarks)
    assert isinstance(done.program, irs.Module) and {"f", "g"} <= set(done.program.graphs)


def test_an_unused_node_keeps_functions_apart() -> None:
    """It would be run with the leader's own sizes."""
    dead = "  %t : int[] = prim::Constant[value=[{n}, 2]]()\n  %u : Float({n}, 2) = aten::view(%x, %t)\n"
    functions = {name: viewing(n, 0.5, "packed").replace("  %k :", dead.format(n=n) + "  %k :") for name, n in (("f", 4), ("g", 6))}
    done = irs.dedup(module(functions, MAIN), relation="extents").applied()
    assert any("aten::view is unused" in remark for remark in done.remarks)
    assert isinstance(done.program, irs.Module) and {"f", "g"} <= set(done.program.graphs)
