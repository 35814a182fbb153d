"""Calls: a program that calls others is answered as the one in which their bodies stand in place of the calls.

Never "no" where the program without calls says "may"; "may" a little more often, where one element stands for what a
walk of each body would distinguish. Each callee is walked once. One "may" of the program without calls counts for nothing:
that of a memory which the value, by its type, cannot be. What was cast out of an `Any` shares the element of all that the `Any`
may be: a tensor seems to be a list then, and to hold something. A call need not repeat that, nor does unseen code.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pytest

import irscope as irs
from irscope._base.results import Verdict
from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.alias.points_to.elements import Structure, Structures
from irscope.analysis.alias.points_to.walk import Walk
from irscope.analysis.dependence import dependences_by
from irscope.errors import ArgumentError
from irscope.ir.core import Graph, Module
from irscope.ir.invariants import verify
from irscope.ir.text.parser import parse
from tests.analysis.alias.points_to.outlining import call_itself, call_twice, nodes_of, outline
from tests.analysis.ties import successors
from tests.programs import ir
from tests.random_programs.graphs import random_program
from tests.random_programs.odd_graphs import odd_program
from tests.work import calls_made

COUNTS = Counter[tuple[bool, bool]]


def locations(db: AliasDb, value: irs.Value, structures: Structures, inside: bool = False) -> set[int]:
    """The locations that a value, or with `inside` also all that it holds, may be by its type."""
    sealed, found = db.sealed, set[int]()
    todo = [(sealed.element_of.get(value), structures.of(value.type))]
    for here, structure in todo:  # grows
        if here is None or structure is None:
            continue
        found.update(place for place in db.reach.leaves(sealed.class_of[here]) if can_be(db, structure, place))
        if not inside:
            continue
        todo.extend(zip(sealed.fields.get(here, ()), structure.fields, strict=False))
        if structure.kind in ("mixed", "object"):  # a bag, which is its own cell: all contents at any depth
            found.update(db.reach.leaves(sealed.class_of[sealed.cells[here]]))
        elif structure.content is not None:
            todo.append((sealed.cells[here], structure.content))
    return found


def can_be(db: AliasDb, structure: Structure, place: int) -> bool:
    """Whether a location has the parts of a structure: a tensor has none. A tuple that was in a container is its fields there."""
    if structure.kind in ("mixed", "object"):
        return True
    holders, tuples = kinds_of(db)
    if structure.kind == "tuple" and place not in tuples:
        return any(can_be(db, field, place) for field in structure.fields if field is not None)
    return (place in holders) == (structure.content is not None) and (place in tuples) == (structure.kind == "tuple")


@lru_cache(maxsize=2)
def kinds_of(db: AliasDb) -> tuple[set[int], set[int]]:
    """The places that hold something, and those that are tuples."""
    holders, tuples = ({db.sealed.class_of[element] for element in of} for of in (db.sealed.cells, db.sealed.fields))
    return holders, tuples


def compare(inlined: AliasDb, called: AliasDb) -> COUNTS:
    """The answers of both about the values that both have; counts them by (inlined, called)."""
    known = set(inlined.graph.values())
    common = [v for v in called.graph.values() if v in known and called.is_memory(v)]
    found: COUNTS = Counter()
    structures = Structures()

    def share(a: irs.Value, b: irs.Value, inside: bool) -> bool:
        kinds = {structure.kind for value in (a, b) if (structure := structures.of(value.type)) is not None} - {"mixed", "object"}
        if not inside and len(kinds) > 1:  # a tuple and its field
            return False
        places = (locations(inlined, value, structures, inside) for value in (a, b))
        return a is b or not set.isdisjoint(*places)

    def count(before: Verdict, after: Verdict, by_type: Callable[[], bool]) -> None:
        found[bool(before) and (bool(after) or by_type()), bool(after)] += 1

    for index, a in enumerate(common):
        written = partial(any, (inlined.sealed.is_written[place] for place in locations(inlined, a, structures)))
        count(inlined.has_writers(a), called.has_writers(a), written)
        for b in common[index:]:
            count(inlined.may_alias(a, b), called.may_alias(a, b), partial(share, a, b, inside=False))
            count(inlined.may_contain_alias(a, b), called.may_contain_alias(a, b), partial(share, a, b, inside=True))
    assert found[True, False] == 0, f"{called.graph}\n\nsays no where this says may:\n\n{inlined.graph}"
    return found


def usual(seed: int, size: int) -> Graph:
    return parse(random_program(seed, size=size).text)


def odd(seed: int, size: int) -> Graph:
    return parse(odd_program(seed, size))


def check_pieces(seed: int, size: int, program: Callable[[int, int], Graph] = usual) -> COUNTS:
    """A random program with a piece of it in a callee, a piece of that in another, and so on."""
    rng = random.Random(seed)
    graph = program(seed, size)
    inlined, found = AliasDb(graph), Counter[tuple[bool, bool]]()
    first = outline(graph, rng)
    if first is None:
        return found
    verify(first.graph)
    called = AliasDb(first.graph, callees=first.callees)
    found += compare(inlined, called)
    check_order(inlined, called, first.call, first.piece)
    second = outline(first.graph, rng, first.callees)
    if second is not None:
        found += compare(inlined, AliasDb(second.graph, callees=second.callees))
    (name,) = first.callees
    deeper = outline(first.callees[name], rng)
    if deeper is not None:
        callees = {**first.callees, **deeper.callees, name: deeper.graph}
        found += compare(inlined, AliasDb(first.graph, callees=Module(callees)))
    return found


def check_order(inlined: AliasDb, called: AliasDb, call: irs.Node, piece: tuple[irs.Node, ...]) -> None:
    """What must stay behind something in the callee stays behind the call; who writes in it makes the call a writer."""
    block, original = called.graph.block_of[call], inlined.graph.block_of[piece[0]]
    works = {node for node in piece if node.op != "prim::Constant"}  # known numbers are copied, and tie nothing
    behind = bound_to(inlined, original, works) & set(block.nodes)
    before = {node for node in set(original.nodes) & set(block.nodes) if bound_to(inlined, original, {node}) & works}
    numbers = {node for node in block.nodes if node.op == "prim::Constant"}
    assert behind <= bound_to(called, block, {call})
    assert all(call in bound_to(called, block, {node}) for node in before - numbers)
    inside = set(nodes_of(piece))
    for value in called.graph.values():
        if value in inlined.graph.block_of and inside & set(inlined.writers(value)):
            assert call in called.writers(value)


def bound_to(db: AliasDb, block: irs.Block, nodes: set[irs.Node]) -> set[irs.Node]:
    """The nodes of a block that must stay behind one of some nodes."""
    after = successors(dependences_by(db, block))
    found, todo = set(nodes), list(nodes)
    while todo:
        fresh = [later for later in after[todo.pop()] if later not in found]
        found.update(fresh)
        todo.extend(fresh)
    return found - nodes


def check_rounds(seed: int, size: int, program_of: Callable[[int, int], Graph] = usual) -> COUNTS:
    """A random program called twice, called by itself, and called by itself through another."""
    rng = random.Random(seed)
    program = program_of(seed, size)
    calling, plain, callees = call_twice(program, rng)
    found = compare(AliasDb(plain), AliasDb(calling, callees=callees))
    calling, plain, callees = call_itself(program, rng, depth=3)
    verify(callees["circle"])
    compare(AliasDb(plain), AliasDb(calling, callees=callees))
    split = outline(callees["circle"], rng)
    if split is not None:
        callees = {**callees, **split.callees, "circle": split.graph}
        compare(AliasDb(plain), AliasDb(calling, callees=callees))
    return found


def test_calls_are_answered_as_without_them() -> None:
    found: COUNTS = Counter()
    for seed in range(60):
        found += check_pieces(seed, size=4 + seed % 20)
    assert found[True, True] > 5000 and found[False, False] > 20_000
    assert found[False, True] <= found[False, False] // 200


def test_rounds_of_calls_are_answered_as_without_them() -> None:
    found: COUNTS = Counter()
    for seed in range(40):
        found += check_rounds(seed, size=4 + seed % 12)
    assert found[True, True] > 1000 and found[False, True] <= found[False, False] // 100


def test_calls_of_odd_programs_are_answered_as_without_them() -> None:
    for seed in range(25):
        check_pieces(seed, 4 + seed % 12, odd)
        check_rounds(seed, 4 + seed % 8, odd)


def test_what_was_cast_out_of_anything_is_of_its_type() -> None:
    for seed in (3079, 3347):  # a tensor goes round a circle of calls; there was a list in the same `Any[]`
        check_rounds(seed, 4 + seed % 12, odd)
    check_pieces(3613, 4 + 3613 % 25, odd)  # a tuple comes from unseen code: from a callee that a callee returned


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 9000, 500))
def test_calls_are_answered_as_without_them_in_many_programs(first: int) -> None:
    for seed in range(first, first + 500):
        program = odd if seed % 2 else usual
        check_pieces(seed, 4 + seed % 25, program)
        check_rounds(seed, 4 + seed % 12, program)


# What a callee may do, by hand


def called(callee: str, body: str, inputs: str = "%x : Tensor, %y : Tensor", **more: str) -> AliasDb:
    """The db of a program that calls `helper`, as `call(...)` in the body's lines."""
    lines = [line.replace("call(", "prim::CallFunction(%helper, ") for line in body.strip().splitlines()]
    text = "\n  ".join([f"graph({inputs}):", '%helper : Function = prim::Constant[name="helper"]()', *lines, "return ()"])
    return AliasDb(parse(text), callees={name: parse(text) for name, text in {"helper": callee, **more}.items()})


TWO = """
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
"""


def test_a_constant_tensor_is_the_same_in_each_call() -> None:
    callee = "graph(%p : Tensor):\n  %q : Tensor = prim::Constant[value=<Tensor>]()\n  return (%q)"
    db = called(callee, "%c : Tensor = call(%x)\n%d : Tensor = call(%y)")
    assert db.may_alias("c", "d") and not db.may_alias("c", "x")


@pytest.mark.parametrize("result", ["Tensor", "Any", "Tensor[]", "__torch__.C", "(Tensor, Tensor)"])
def test_what_is_stored_in_an_object_that_a_callee_gave_to_unseen_code_may_come_back_from_there(result: str) -> None:
    text = ir(
        f't | o:__torch__.C = CreateObject; func::call[callee="@give"] o; f = relu t; SetAttr[name="x"] o f; r:{result} = unknown::take | '
        "f r"
    )
    inside = "unknown::keep(%o)"
    plain, calling = AliasDb(parse(text.replace('func::call[callee="@give"](%o)', inside))), parse(text)
    db = AliasDb(calling, callees={"give": parse(f"graph(%o : __torch__.C):\n   = {inside}\n  return ()")})
    for each in (plain, db):
        assert each.may_alias("f", "r") and each.may_contain_alias("f", "r")


def test_a_list_of_anything_may_be_taken_apart_at_any_depth() -> None:
    callee = ir(
        "p:Any | l:Tensor[][] = prim::unchecked_cast p; zero = 0; m:Tensor[] = __getitem__ l zero; t = __getitem__ m zero; w = relu_ t | t"
    )
    db = called(
        callee, f"{TWO}%l : Tensor[] = prim::ListConstruct(%a)\n%ll : Tensor[][] = prim::ListConstruct(%l)\n%t : Tensor = call(%ll)"
    )
    assert db.may_alias("t", "a") and db.has_writers("a") and not db.has_writers("b")


def test_effects_of_the_callee_are_the_calls() -> None:
    quiet = "graph(%p : Tensor):\n  %q : Tensor = aten::neg(%p)\n  return (%q)"
    loud = quiet.replace("  return", "  prim::Print(%p)\n  return")
    for callee, may_move in ((quiet, True), (loud, False)):
        db = called(callee, "%c : Tensor = call(%x)\n%d : Tensor = call(%y)")
        assert bool(db.can_move_after("c", "d")) is may_move
        assert (db.accesses("c").side_effect is None) is may_move
    rolls = quiet.replace("aten::neg(%p)", "aten::rand_like(%p, %k, %k, %k, %k, %k)").replace(
        "  %q", "  %k : NoneType = prim::Constant()\n  %q"
    )
    db = called(rolls, "%c : Tensor = call(%x)\n%d : Tensor = call(%y)")
    assert "random" in db.can_move_after("c", "d").because


def test_a_method_goes_by_its_class() -> None:
    method = ir('self:__torch__.Net p | w = GetAttr[name="weight"] self | w')
    text = ir(
        'net:__torch__.Net x | a = CallMethod[name="forward"] net x; b = CallMethod[name="forward"] net x; SetAttr[name="weight"] net x | a'
    )
    db = AliasDb(parse(text), callees={"__torch__.Net.forward": parse(method)})
    assert db.may_alias("a", "b") and not db.has_writers("x") and not db.has_writers("a")
    assert db.can_move_after("a", "b")
    assert not db.can_move_after("b", "prim::SetAttr#0")


def test_scripts_of_torch_are_answered_as_inlined(torch: Any) -> None:
    unit = torch.jit.CompilationUnit("""
def swap(x: Tensor, y: Tensor):
    return y, x.t()
def f(x: Tensor, y: Tensor):
    a, b = swap(x + 1, y + 1)
    c, d = swap(a, b)
    return c.relu_(), d, a, b
""")
    graph, inlined = parse(str(unit.f.graph)), parse(str(unit.f.inlined_graph))
    db, other = AliasDb(graph, callees={"swap": parse(str(unit.swap.graph))}), AliasDb(inlined)
    first, second = [node.outputs for node in graph.nodes() if node.op == "prim::TupleUnpack"]
    pairs = [node.inputs for node in inlined.nodes() if node.op == "prim::TupleConstruct"][:2]
    names = dict(zip((*first, *second), (v for pair in pairs for v in pair), strict=False)) if pairs else {}
    assert not db.may_alias(*first) and not db.may_alias(*second)
    assert db.may_alias(second[0], first[1]) and db.has_writers(first[1]) and not db.has_writers(first[0])
    for a, x in names.items():
        for b, y in names.items():
            assert bool(db.may_alias(a, b)) >= bool(other.may_alias(x, y))


# Cost


def calls_in_a_row(depth: int) -> tuple[Graph, dict[str, Graph]]:
    """Each program calls the next one twice, so that walking them for each call would take 2^depth."""
    text = """graph(%p : Tensor):
  %next : Function = prim::Constant[name="f{}"]()
  %a : Tensor[] = prim::CallFunction(%next, %p)
  %b : Tensor[] = prim::CallFunction(%next, %p)
  %c : Tensor[] = aten::add(%a, %b)
  return (%c)"""
    last = "graph(%p : Tensor):\n  %q : Tensor = aten::neg(%p)\n  %l : Tensor[] = prim::ListConstruct(%q, %p)\n  return (%l)"
    graphs = {f"f{i}": parse(text.format(i + 1)) for i in range(depth)}
    return graphs["f0"], {**graphs, f"f{depth}": parse(last)}


def test_each_callee_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[Graph] = []
    visit = Walk.visit
    monkeypatch.setattr(Walk, "visit", lambda self, graph: visited.append(graph) or visit(self, graph))
    graph, callees = calls_in_a_row(40)
    db = AliasDb(graph, callees=callees)
    assert len(visited) == len(callees)
    assert db.may_contain_alias("c", "p") and not db.may_contain_alias("next", "p")


def test_deep_calls_are_linear() -> None:
    def work(depth: int) -> int:
        graph, callees = calls_in_a_row(depth)
        return calls_made(lambda: AliasDb(graph, callees=callees))

    assert work(400) <= 2.3 * work(200)


# Mistakes


def test_a_call_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"2 operands to 'helper'.*takes 1"):
        called("graph(%p : Tensor):\n  return (%p)", "%c : Tensor = call(%x, %y)")
    with pytest.raises(ArgumentError, match="graphs by their names"):
        AliasDb(parse("graph():\n  return ()"), callees="helper")  # type: ignore[arg-type]


def test_an_unknown_callee_is_unseen_code() -> None:
    db = called(
        "graph(%p : Tensor):\n  return (%p)", '%f : Function = prim::Constant[name="other"]()\n%c : Tensor = prim::CallFunction(%f, %x)'
    )
    assert db.has_writers("x") and db.may_alias("c", "x")


# Tasks on one side of a call, who ends them on the other

TASK = """prim::fork(%a)
    block0(%p : Tensor):
      %w : Tensor = aten::relu_(%p)
      %q : Tensor = aten::neg(%w)
      -> (%q)"""
CALLEES = {
    "start": parse(f"graph(%a : Tensor):\n  %f : Future(Tensor) = {TASK}\n  return (%f)"),
    "ready": parse("graph(%a : Tensor):\n  %f : Future(Tensor) = foreign::ready()\n  return (%f)"),
    "finish": parse("graph(%f : Future(Tensor)):\n  %r : Tensor = foreign::finish(%f)\n  return (%r)"),
    "wait": parse("graph(%f : Future(Tensor)):\n  %r : Tensor = aten::wait(%f)\n  return (%r)"),
}
CALL_START, CALL_READY = "prim::CallFunction(%start, %a)", "prim::CallFunction(%ready, %a)"
CALL_FINISH, CALL_WAIT = "prim::CallFunction(%finish, %f)", "prim::CallFunction(%wait, %f)"


def may_read_before(start: str, finish: str) -> Verdict:
    """Whether %y, which reads what was passed to the start of a task, may stand before what may end it."""
    names = [f'%{name} : Function = prim::Constant[name="{name}"]()' for name in CALLEES]
    started, finished = f"%f : Future(Tensor) = {start}", f"%r : Tensor = {finish}"
    read = ["%c : Tensor = aten::neg(%x)", "%y : Tensor = aten::neg(%a)"]
    lines = ["graph(%x : Tensor):", *names, "%a : Tensor = aten::neg(%x)", started, finished, *read, "return (%y)"]
    db = AliasDb(parse("\n  ".join(lines)), callees=CALLEES)
    return db.can_move_before("y", db.graph.producer[db.graph.value("r")])


@pytest.mark.parametrize("start", [TASK, CALL_START], ids=["starts", "callee-starts"])
@pytest.mark.parametrize("finish", ["foreign::finish(%f)", CALL_FINISH, CALL_WAIT], ids=["ends", "callee-ends", "waits"])
def test_unseen_code_that_is_given_a_future_may_end_its_task(start: str, finish: str) -> None:
    moved = may_read_before(start, finish)
    assert not moved and "waits for a task that may have written anything" in moved.because


@pytest.mark.parametrize("finish", ["foreign::finish(%f)", CALL_FINISH])
def test_where_no_task_is_started_unseen_code_ends_none(finish: str) -> None:
    assert may_read_before(CALL_READY, finish)
