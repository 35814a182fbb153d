"""Instructions and the functions generated from them: control flow, what dies when, layouts, and errors that name their node."""

import weakref
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import RunError
from irscope.ir.core import Node
from irscope.ir.text.parser import parse
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.program.bound_program import as_torch
from irscope.runtime.program.code import Code, flatten
from irscope.runtime.program.executable import Executable
from irscope.runtime.reference import run_reference
from tests.programs import ir
from tests.random_programs.graphs import random_program
from tests.work import blocks, long, some


class CountingLibrary(NumpyLibrary):
    """Counts at each op how many earlier results are still there."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: list[int] = []
        self.fail_at = 0
        self._results: list[weakref.ref[object]] = []

    def forget(self) -> None:
        self.alive.clear()
        self._results.clear()

    def function(self, node: Node) -> Any:
        inner = super().function(node)

        def counted(*operands: object) -> object:
            self.alive.append(sum(ref() is not None for ref in self._results))
            if len(self.alive) == self.fail_at:
                raise ValueError("made to fail")
            result = inner(*operands)
            if isinstance(result, np.ndarray):
                self._results.append(weakref.ref(result))
            return result

        return counted


def given_to(code: Code, *arguments: object) -> list[Any]:
    """The slots of a run, with its arguments in them."""
    slots = code.template.copy()
    for slot, argument in zip(code.inputs, arguments, strict=True):
        slots[slot] = argument
    return slots


def run(text: str, *args: object) -> list[object]:
    code = flatten(parse(text).body, NumpyLibrary())
    slots = given_to(code, *args)
    code.run(slots)
    return [slots[slot] for slot in code.outputs]


LOOP = ir("n go:bool | one = 1; ten = 10; a b = Loop n go one ten {i x y | z = add x i; on:bool = lt z ten | on y x} | a b", "int")


def by_hand(n: int, go: bool) -> list[int]:
    x, y, i = 1, 10, 0
    while go and i < n:
        go = x + i < 10
        x, y = y, x
        i += 1
    return [x, y]


def test_deep_nesting_needs_no_python_stack():
    depth = 3000
    lines = ["graph(%c : bool, %x0 : int):"]
    for level in range(depth):
        lines += [f"%y{level} : int = prim::If(%c)", "block0():"]
    lines += ["%x1 : int = aten::neg(%x0)", "-> (%x1)"]
    for level in range(depth - 1, -1, -1):
        lines += ["block1():", "-> (%x0)"]
        lines += [f"-> (%y{level})"] if level else []
    graph_text = "\n".join([*lines, "return (%y0)"])
    assert run(graph_text, True, 3) == [-3]


def test_values_die_after_their_last_reader():
    """The first array is gone when the third is made, though the program goes on."""
    library = CountingLibrary()
    text = "graph(%x : Tensor):\n" + "".join(f"  %y{i} : Tensor = aten::relu(%{'x' if i == 0 else f'y{i - 1}'})\n" for i in range(6))
    graph = parse(f"{text}  return (%y5)")
    code = flatten(graph.body, library)
    code.run(given_to(code, np.ones(3)))
    assert library.alive == [0, 1, 1, 1, 1, 1]


TWO = ir("x w | one = 1; a = mm x w; b = relu a; c = add b x one; d = mm c w; e = tanh d; f = mul e d | f c")


def compiled(text: str) -> Executable:
    return irs.compile(irs.fuse(irs.parse(text)))


def code_of(run: Executable) -> Code:
    (program,) = run._programs.values()
    return program.code


def square(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32)


def parts(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from parts(item)
    elif isinstance(value, dict):
        yield from parts(list(value.items()))
    else:
        yield np.asarray(value)


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(parts(found), parts(wanted), strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def converted(values: tuple[Any, ...], library: str) -> tuple[Any, ...]:
    if library == "numpy":
        return values
    pytest.importorskip("torch")
    return as_torch(values)  # type: ignore[no-any-return]


LIBRARIES = pytest.mark.parametrize("library", ["numpy", "torch"])


def check(seed: int, library: str) -> int:
    """Runs a program four times, the second time watched; returns the number of instructions that were watched."""
    program = random_program(seed, size=25)
    run = compiled(program.text)
    results, peaks = [], []
    for turn in range(4):
        given = converted(program.fresh(), library)
        found = run.run(given, footprints=peaks) if turn == 1 else run(*given)
        results.append((found, given))
    for later in results[1:]:
        same(later, results[0])
    return sum(len(peak.curve) for peak in peaks)


@LIBRARIES
@pytest.mark.parametrize("seeds", [*some(blocks(0, 3, 20), 1), *long(blocks(1000, 80, 60))], ids=str)
def test_random_programs_give_the_same_in_every_run(library: str, seeds: range) -> None:
    assert sum(check(seed, library) for seed in seeds) > 6 * len(seeds)


def modes(code: Code) -> Iterator[tuple[Code, Any, Any]]:
    """Yields the code with and without its options, and the callbacks of a run."""
    times: list[int] = []
    stamped = code.stamped((times.append, lambda: len(times)))
    yield code, None, None
    yield code, lambda node: None, lambda position: None
    yield stamped, None, None
    assert len(times) == 1 + sum(stop - start for start, stop in stamped.path), "one at the start, one after each instruction"


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_programs_give_what_the_reference_gives_in_every_mode(first: int) -> None:
    for seed in range(first, first + 40):
        program = random_program(seed, size=40)
        graph = parse(program.text)
        wanted = run_reference(graph, *program.fresh())
        for code, visit, after in modes(flatten(graph.body, NumpyLibrary())):
            slots = given_to(code, *program.fresh())
            code.run(slots, visit, after)
            for a, b in zip(parts([slots[slot] for slot in code.outputs]), parts(list(wanted)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
            ends = {*code.inputs, *code.outputs}
            alive = [slot for slot, value in enumerate(slots) if value is not None and code.template[slot] is None]
            assert ends.issuperset(alive), "everything else is dead in the end"


@pytest.mark.parametrize(("longest", "deepest"), [(2000, 15), (2000, 1), (25, 15), (60, 2)])
def test_loops_as_statements_let_go_and_fail_where_a_watched_run_does(longest: int, deepest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.program.code._LONGEST", longest)
    monkeypatch.setattr("irscope.runtime.program.code._DEEPEST", deepest)
    for seed in range(8):
        program = random_program(seed, size=40)
        library = CountingLibrary()
        code = flatten(parse(program.text).body, library)
        count = len(outcome(code, library, program.fresh()))
        for fail_at in (0, 1, count // 2, count):
            found = outcome(code, library, program.fresh(), fail_at)
            assert found == outcome(code, library, program.fresh(), fail_at, visit=lambda node: None)


def outcome(code: Code, library: CountingLibrary, given: tuple[Any, ...], fail_at: int = 0, visit: Any = None) -> list[object]:
    """Runs code whose op of a number fails; returns how many arrays there were at each op, and the error."""
    library.forget()
    library.fail_at = fail_at
    try:
        code.run(given_to(code, *given), visit)
    except RunError as error:
        return [*library.alive, str(error)]
    return [*library.alive]


@pytest.mark.parametrize(("longest", "functions"), [(2000, 1), (3, 4)])
def test_a_loop_that_fits_is_part_of_one_function(longest: int, functions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values change places at once."""
    monkeypatch.setattr("irscope.runtime.program.code._LONGEST", longest)
    code = flatten(parse(LOOP).body, NumpyLibrary())
    for n, go in product(range(6), (True, False)):
        slots = given_to(code, n, go)
        code.run(slots)
        assert [slots[slot] for slot in code.outputs] == by_hand(n, go)
    assert len(code._plain) == functions


EXPANDED = """graph(%x : Float(2), %n : int, %up : bool):
  %t : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %y : Float(2), %last : Float(2) = prim::Loop(%n, %t, %x, %x)
    block0(%i : int, %acc : Float(2), %before : Float(2)):
      %c : Float() = prim::Constant[value={0.5}]()
      %size : int[] = prim::Constant[value=[2]]()
      %no : bool = prim::Constant[value=0]()
      %half : Float(2) = aten::expand(%c, %size, %no)
      %r : Float(2) = prim::Loop(%i, %t, %acc)
        block0(%j : int, %in : Float(2)):
          %q : Float(2) = prim::If(%up)
            block0():
              %d : Float() = prim::Constant[value={2}]()
              %two : Float(2) = aten::expand(%d, %size, %no)
              %p : Float(2) = aten::mul(%in, %two)
              -> (%p)
            block1():
              %m : Float(2) = aten::sub(%in, %half, %one)
              -> (%m)
          -> (%t, %q)
      %s : Float(2) = aten::add(%r, %before, %one)
      -> (%t, %s, %half)
  return (%y, %last)
"""


def test_an_expanded_constant_is_made_once_for_all_runs() -> None:
    """Unless the program returns it."""
    text = EXPANDED.replace("return (%y, %last)", "return (%y)")
    graph = parse(text)
    for n in range(4):
        for up in (True, False):
            library = CountingLibrary()
            code = flatten(graph.body, library)
            x = np.ones(2, np.float32)
            same(run(text, x, n, up), list(run_reference(graph, x, n, up)))
            nodes: list[Node] = []
            slots = given_to(code, x, n, up)
            code.run(slots, nodes.append)
            assert "aten::expand" not in [node.op for node in nodes]
            kept = {*code.inputs, *code.outputs}
            assert kept.issuperset([slot for slot, value in enumerate(slots) if value is not None and code.template[slot] is None])


def test_an_expanded_constant_is_made_in_each_turn_where_the_program_may_change_it() -> None:
    text = EXPANDED.replace("      -> (%t, %s, %half)", "      %u : Float(2) = aten::relu_(%s)\n      -> (%t, %u, %half)")
    code = flatten(parse(text).body, NumpyLibrary())
    nodes: list[Node] = []
    code.run(given_to(code, np.ones(2, np.float32), 3, True), nodes.append)
    assert [node.op for node in nodes].count("aten::expand") == 3 + 3


@LIBRARIES
def test_a_group_runs_on_each_layout_in_turn(library: str) -> None:
    run, again = compiled(TWO), compiled(TWO)
    small, large = (converted((square(size), square(size, 1)), library) for size in (3, 5))
    turned = (large[0].T, large[1])
    for _ in range(3):
        for given in (small, small, large, turned, large):
            same(run(*given), again(*given))
            again = compiled(TWO)
    groups = [step.function for step in code_of(run).instructions if step.kind == "group"]
    assert groups
    assert all(len(group.known) >= 2 and group.call is not group.look_up for group in groups)


@LIBRARIES
def test_a_group_takes_a_number_of_another_type_than_the_text(library: str) -> None:
    text = TWO.replace("%w : Tensor)", "%w : Tensor, %s : Scalar)").replace("mul(%e, %d)", "mul(%e, %s)")
    run = compiled(text)
    x, w = square(3), square(3, 1)
    wanted = np.tanh((np.maximum(x @ w, 0) + x) @ w)
    x, w = converted((x, w), library)
    for number in (2, 2, 2, 2, 2.5, 2.5, True, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2):
        np.testing.assert_allclose(run(x, w, number)[0], wanted * number, rtol=1e-4, atol=1e-5)


def test_an_op_that_fails_in_the_text_names_its_node() -> None:
    text = TWO.replace("%w : Tensor)", "%w : Tensor, %k : int)").replace(
        "  return (%f, %c)",
        "  %zero : int = prim::Constant[value=0]()\n  %g : Tensor = aten::select(%f, %zero, %k) # model.py:7:3\n  return (%g, %c)",
    )
    run = compiled(text)
    for _ in range(3):
        run(square(3), square(3, 1), 2)
    for k, w, node, place in ((3, square(3), "%g", "model.py:7:3"), (0, square(4), "%a", "")):
        with pytest.raises(RunError) as caught:
            run(square(3), w, k)
        assert caught.value.where.startswith(node)
        assert place in caught.value.where
    same(run(square(3), square(3, 1), 1), compiled(text)(square(3), square(3, 1), 1))


def test_a_long_program_becomes_several_functions() -> None:
    text = "graph(%x0 : Tensor):\n" + "".join(f"  %x{i + 1} : Tensor = aten::neg(%x{i})\n" for i in range(4501))
    graph = parse(f"{text}  return (%x4501)")
    code = flatten(graph.body, NumpyLibrary())
    slots, times = given_to(code, np.ones(2)), list[int]()
    code = code.stamped((times.append, lambda: len(times)))
    code.run(slots)
    assert slots[code.outputs[0]].tolist() == [-1.0, -1.0]
    assert code.path == [(0, 2000), (2000, 4000), (4000, 4501)]
    assert times == list(range(4502)), "a stamp at the start, and one after each instruction"
