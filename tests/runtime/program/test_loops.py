"""Loops in machine code: their numbers are those of the turns from Python bit by bit, and those of JAX, torch and NumPy nearly; they end
where a flag ends them, write rows in place and never into a caller's memory, and hear an interrupt."""

import math
import random
import signal
import threading
import time
from unittest.mock import patch

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.profile import measuring
from irscope.runtime.program.loops import LoopCall
from tests.programs import ir

torch = pytest.importorskip("torch")


def both(graph, *given, native=True):
    """Returns the results of the program, after the same from Python turn by turn had the same bits; `native` says whether machine
    code must run a loop, or must not, or either (None)."""
    with patch.object(LoopCall, "look_up", lambda self, *operands: self.declined):
        wanted = irs.compile(graph)(*given)
    run, calls = irs.compile(graph), []
    whole = LoopCall.look_up

    def counted(self, *operands):
        made = whole(self, *operands)
        calls.append(made[0])
        return made

    with patch.object(LoopCall, "look_up", counted):
        found = run(*given)
    assert native is None or any(calls) == native, [remark.because for remark in run.remarks]
    again = run(*given)  # by the function that was generated for such operands
    pairs = zip(*((each if isinstance(each, tuple) else (each,)) for each in (wanted, found, again)), strict=True)
    for results in pairs:
        assert len({(each.dtype, each.shape, each.tobytes()) for each in map(np.asarray, results)}) == 1
    return found


def fused(text):
    return irs.fuse(irs.parse(text))


NEWTON = ir(
    "x n:int | t = True; one = 1; half = 0.5; y = Loop n t x {i:int a | q = div x a; s = add a q one; b = mul s half | t b} | y",
    "Float(5, strides=[1])",
)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("turns", [5, 6, 7, 1000])
def test_newtons_method(make, turns):
    x = np.linspace(1, 9, 5, dtype=np.float32)
    found = both(fused(NEWTON), make(x.copy()), turns)
    wanted = x
    for _ in range(turns):
        wanted = (wanted + x / wanted) * np.float32(0.5)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_a_body_of_one_op_and_an_op_that_no_group_takes(make):
    """Each is a kernel of its own, in few turns as in many, although its last bits may not be the library's."""
    text = (
        NEWTON[: NEWTON.index("      %q")]
        + """      %b : Float(5, strides=[1]) = aten::cos(%a)
      -> (%t, %b)
  %m : int = prim::Constant[value=9]()
  %rows : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %u : Float(5, strides=[1]), %v : Float(strides=[]) = prim::Loop(%m, %t, %x, %half)
    block0(%j : int, %c : Float(5, strides=[1]), %d : Float(strides=[])):
      %e : Float(5, strides=[1]) = aten::sin(%c)
      %f : Float(strides=[]) = aten::sum(%c, %rows, %no, %none)
      -> (%t, %e, %f)
  return (%y, %u, %v)"""
    )
    text = text.replace("%half : float = prim::Constant[value=0.5]()", "").replace("%x, %half)", "%x, %z)").replace(
        "%n : int)", "%n : int, %z : Float(strides=[]))")  # fmt: skip
    x, z = np.linspace(0.1, 0.9, 5, dtype=np.float32), np.zeros((), np.float32)
    y, u, v = both(fused(text), make(x), 50, make(z))
    wanted, before = x.astype(np.float64), x.astype(np.float64)
    for _ in range(50):
        wanted = np.cos(wanted)
    for _ in range(8):
        before = np.sin(before)
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_allclose([*u, v], [*np.sin(before), before.sum()], rtol=1e-5)


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 4])
def test_few_turns_are_left_to_python(turns):
    x = np.linspace(1, 9, 5, dtype=np.float32)
    both(fused(NEWTON), x, turns, native=False)


def test_a_transposed_start_is_copied_once():
    text = NEWTON.replace("Float(5, strides=[1])", "Float(3, 4)")
    x = torch.rand(4, 3) + 1
    found = both(fused(text), x.t(), 9)
    wanted = x.t()
    for _ in range(9):
        wanted = (wanted + x.t() / wanted) * 0.5
    torch.testing.assert_close(found, wanted)


ROWS = """graph(%xs : Float({n}, 4, strides=[4, 1]), %out : Float({n}, 4, strides=[4, 1]), %h : Float(4, strides=[1])):
  %t : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value={n}]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %last : Float(4, strides=[1]), %all : Float({n}, 4, strides=[4, 1]) = prim::Loop(%n, %t, %h, %out)
    block0(%i : int, %a : Float(4, strides=[1]), %o : Float({n}, 4, strides=[4, 1])):
      %row : Float(4, strides=[1]) = aten::select(%xs, %zero, %i)
      %s : Float(4, strides=[1]) = aten::add(%row, %a, %one)
      %b : Float(4, strides=[1]) = aten::tanh(%s)
      %p : Float({n}, 4, strides=[4, 1]) = aten::select_scatter(%o, %b, %zero, %i)
      {more}
      -> (%t, %b, {returned})
  return (%last, %all)"""


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_rows_are_read_and_written(make):
    rng = np.random.default_rng(0)
    xs, out, h = (rng.normal(size=size).astype(np.float32) for size in ((20, 4), (20, 4), (4,)))
    given = out.copy()
    fusion = fused(ROWS.format(n=20, more="", returned="%p"))
    last, rows = both(fusion, make(xs), make(given), make(h))
    assert irs.compile(fusion).peak_bytes(make(xs), make(given), make(h)) == irs.memory_plan(fusion).lower_bound
    assert given.tobytes() == out.tobytes()  # the caller's
    wanted = []
    for x in xs:
        h = np.tanh(x + h)
        wanted.append(h)
    np.testing.assert_allclose(np.asarray(rows), np.stack(wanted), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(last), h, rtol=1e-5, atol=1e-6)


READS_THE_OLD = """%r : Float(4, strides=[1]) = aten::select({read}, %zero, %i)
      %u : Float(4, strides=[1]) = aten::neg(%r)
      %v : Float(4, strides=[1]) = aten::exp(%u)
      %r2 : Float(20, 4, strides=[4, 1]) = aten::select_scatter({written}, %v, %zero, %zero)"""


def inputs_of_rows():
    rng = np.random.default_rng(0)
    return [rng.normal(size=size).astype(np.float32) for size in ((20, 4), (20, 4), (4,))]


@pytest.mark.parametrize(("read", "written"), [("%p", "%o"), ("%o", "%p")])
def test_what_a_row_was_before_it_was_written_is_read_afterwards(read, written):
    run = fused(ROWS.format(n=20, more=READS_THE_OLD.format(read=read, written=written), returned="%r2"))
    wanted = by_torch(ROWS.format(n=20, more=READS_THE_OLD.format(read=read, written=written), returned="%r2"), inputs_of_rows())
    for make in (np.asarray, torch.from_numpy):
        for ours, theirs in zip(both(run, *map(make, inputs_of_rows()), native=False), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)


def test_two_rows_of_a_turn_are_written_in_place():
    more = "%q : Float(20, 4, strides=[4, 1]) = aten::select_scatter(%p, %s, %zero, %zero)"
    both(fused(ROWS.format(n=20, more=more, returned="%q")), *inputs_of_rows())


def by_torch(text, given):
    """Returns the results of torch's own interpreter; the text returns two tensors."""
    together = text.replace("  return (", "  %both : (Tensor, Tensor) = prim::TupleConstruct(") + "\n  return (%both)"
    return torch._C._create_function_from_graph("f", torch._C.parse_ir(together))(*map(torch.from_numpy, given))


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_python_writes_rows_in_place_too(make):
    more = """%u : Float(4, strides=[1]) = aten::cumsum(%s, %zero, %nothing)
      %q : Float(20, 4, strides=[4, 1]) = aten::select_scatter(%p, %u, %zero, %zero)"""
    text = ROWS.format(n=20, more=more, returned="%q").replace("  %zero :", "  %nothing : NoneType = prim::Constant()\n  %zero :", 1)
    given, wanted = inputs_of_rows(), by_torch(text, inputs_of_rows())
    run = irs.compile(fused(text))
    for ours, theirs in zip(run(*map(make, given)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)
    assert all(np.array_equal(array, before) for array, before in zip(given, inputs_of_rows(), strict=True))
    plan = irs.memory_plan(fused(text))
    assert run.peak_bytes(*map(make, given)) <= plan.lower_bound <= plan.peak < 2 * given[1].nbytes  # one copy of the table, and rows


def test_a_cut_that_leaves_its_tensor_raises_where_python_raises():
    text = ROWS.format(n=20, more="", returned="%p").replace("value=20", "value=30")
    given = [np.zeros(size, np.float32) for size in ((20, 4), (20, 4), (4,))]
    with pytest.raises(irs.errors.RunError, match="aten::select"):
        irs.compile(fused(text))(*map(torch.from_numpy, given))


FLAG = """graph(%x : Float(6, strides=[1]), %eps : Float()):
  %t : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value={bound}]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %half : float = prim::Constant[value=0.5]()
  %y : Float(6, strides=[1]), %k : int = prim::Loop(%n, %t, %x, %zero)
    block0(%i : int, %a : Float(6, strides=[1]), %c : int):
      %q : Float(6, strides=[1]) = aten::div(%x, %a)
      %s : Float(6, strides=[1]) = aten::add(%a, %q, %one)
      %b : Float(6, strides=[1]) = aten::mul(%s, %half)
      %d : Float(6, strides=[1]) = aten::sub(%b, %a, %one)
      %e : Float(6, strides=[1]) = aten::abs(%d)
      %f : Bool(6, strides=[1]) = aten::gt(%e, %eps)
      %g : Bool() = aten::any(%f, %zero, %no)
      %go : bool = aten::Bool(%g)
      %c2 : int = aten::add(%c, %one)
      -> (%go, %b, %c2)
  return (%y, %k)"""


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("bound", [6, 11, 9223372036854775807])
def test_a_flag_ends_the_loop(make, bound):
    x = np.geomspace(1e-6, 1e6, 6, dtype=np.float32)
    found, count = both(fused(FLAG.format(bound=bound)), make(x.copy()), make(np.full((), 1e-3, np.float32)))
    wanted, turns = x, 0
    while turns < bound:
        before, wanted, turns = wanted, (wanted + x / wanted) * np.float32(0.5), turns + 1
        if not (np.abs(wanted - before) > np.float32(1e-3)).any():
            break
    assert count == turns
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


LOOPS_IN_LOOPS = ir(
    "x n:int m:int k:int | t = True; one = 1; half = 0.5; y = Loop n t x {i:int a | b = Loop m t a {j:int c | d = Loop k t c {l:int e | "
    "q = div x e; s = add e q one; f = mul s half | t f} | t d} | t b} | y",
    "Float(5, strides=[1])",
)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("turns", [(10**10,), (10**8, 4, 6), (10, 10**10, 1), (10, 1, 10**10), (10, 10**5, 10**5)])
def test_an_interrupt_ends_a_long_loop(turns):
    run = irs.compile(fused(NEWTON if len(turns) == 1 else LOOPS_IN_LOOPS))
    x = np.ones(5, np.float32)
    assert run(x, *([100] * len(turns))).shape == (5,)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    start = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(x, *turns)
    assert time.process_time() - start < 20  # all turns take more
    timer.join()


def test_an_inner_loop_of_many_turns_is_one_of_its_own_from_python():
    x, run = np.geomspace(1e-3, 1e3, 5, dtype=np.float32), irs.compile(fused(LOOPS_IN_LOOPS))
    for turns in ((8, 3, 60_000), (8, 60_000, 3), (3000, 9, 9)):  # the last one returns to Python between turns
        np.testing.assert_allclose(run(x, *turns), np.sqrt(x), rtol=1e-6)
        told = [remark.because for remark in run.remarks if remark.rule == "native-loop"]
        assert ("inner loop" in told[0]) == (turns[0] == 8) and all(each.startswith("machine code") for each in told[1:])


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_runs_share_nothing(make):
    """Each run has its own results, also one of another thread, and one that a signal's handler begins inside of another."""
    text = ROWS.format(n=20, more="", returned="%p").replace(", %out : Float(20, 4, strides=[4, 1])", "").replace(
        "  %last", "  %size : int[] = prim::Constant[value=[20, 4]]()\n  %type : int = prim::Constant[value=6]()\n"
        "  %none : NoneType = prim::Constant()\n"
        "  %out : Float(20, 4, strides=[4, 1]) = aten::zeros(%size, %type, %none, %none, %none)\n  %last", 1
    )  # fmt: skip
    run, newton, held, inside = irs.compile(fused(text)), irs.compile(fused(NEWTON)), [], []
    pairs = [(xs + number, h) for number in range(40) for xs, _, h in [inputs_of_rows()]]

    def work(part):
        held.extend([(pair, run(*map(make, pair))) for pair in part])

    def begin(number, frame):
        inside.append(newton(make(np.full(5, 4, np.float32)), 100))

    threads = [threading.Thread(target=work, args=(pairs[start::4],)) for start in range(4)]
    before = signal.signal(signal.SIGALRM, begin)
    try:
        for thread in threads:
            thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        outer = newton(make(np.full(5, 9, np.float32)), 3_000_000)
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        for thread in threads:
            thread.join()
    assert len(held) == 40 and inside
    np.testing.assert_allclose(outer, np.full(5, 3), rtol=1e-6)
    np.testing.assert_allclose(inside, np.full((len(inside), 5), 2), rtol=1e-6)
    for (xs, h), (last, rows) in held:
        for x, row in zip(xs, np.asarray(rows), strict=True):
            h = np.tanh(x + h)
            np.testing.assert_allclose(row, h, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last, h, rtol=1e-5, atol=1e-6)


def test_a_remark_says_what_keeps_a_loop_in_python():
    run = irs.compile(fused(NEWTON.replace("aten::div(%x, %a)", "aten::cumsum(%a, %z, %nothing)").replace(
        "%half :", "%z : int = prim::Constant[value=0]()\n  %nothing : NoneType = prim::Constant()\n  %half :"
    )))  # fmt: skip
    (because,) = [remark.because for remark in run.remarks if remark.rule == "native-loop"]
    assert because == "Python runs it turn by turn: aten::cumsum of its body has no kernel"
    turned = ir(
        "x | t = True; n = 9; one = 1; axes:int[] = [0]; y = Loop n t x {i:int a | "
        "b = add a a one; c = flip b axes; d = tanh c; e = neg d | t e} | y",
        "Float(5)",
    )
    (because,) = [remark.because for remark in irs.compile(fused(turned)).remarks if remark.rule == "native-loop"]
    assert because == "Python runs it turn by turn: aten::flip of its body has no kernel"  # the sum is in no kernel because of it
    large = irs.compile(fused(NEWTON.replace("Float(5", "Float(500000")))
    assert [remark.kind for remark in large.remarks if remark.rule == "native-loop"] == ["passed"]
    large(np.ones(500000, np.float32), 7)
    (because,) = [remark.because for remark in large.remarks if remark.rule == "native-loop"]
    assert because.endswith(("beside which the time of Python does not matter", "several threads run one"))


def test_a_profile_counts_the_loop_for_its_group(monkeypatch):
    monkeypatch.setattr(measuring, "_SHORT_NS", math.inf)  # both ways are measured, however busy the machine is
    x = np.ones(5, np.float32)
    profile = irs.profile(fused(NEWTON), x, 1000, seconds=0.3)
    table = profile.table(way="fused")
    (row,) = [row for _, row in table.iterrows() if "FusionGroup" in row["op"]]
    assert row["calls"] == 1000 and row["ms"] > 0
    assert profile.way("fused").timeline()


def gru(xs, h, wi, wh, b):
    for t in range(xs.size(0)):
        i, g = (torch.mm(xs[t], wi) + b).chunk(3, 1), (torch.mm(h, wh) + b).chunk(3, 1)
        r, z = torch.sigmoid(i[0] + g[0]), torch.sigmoid(i[1] + g[1])
        h = (1 - z) * torch.tanh(i[2] + r * g[2]) + z * h
    return h


@pytest.mark.parametrize("as_array", [False, True])
def test_a_scripted_gru_cuts_its_gates_from_one_product(as_array):
    shapes = ((50, 4, 8), (4, 16), (8, 48), (16, 48), (48,))
    given = [torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32) * 0.3) for shape in shapes]
    fusion = irs.fuse(irs.load(torch.jit.script(gru), *given))
    found = both(fusion, *[tensor.numpy() for tensor in given] if as_array else given)
    torch.testing.assert_close(torch.as_tensor(found), gru(*given), rtol=2e-5, atol=2e-5)


def test_a_list_from_outside_may_be_another_at_each_run():
    text = ir(
        "x a:int b:int | t = True; n = 9; one = 1; sizes:int[] = ListConstruct a b; y = Loop n t x {i:int c | v:Tensor = view c sizes; "
        "w:Tensor = neg v; e:Tensor = tanh w; r = flatten e | t r} | y",
        "Float(6, strides=[1])",
    )
    run, x = irs.compile(fused(text.replace("aten::flatten(%e)", "aten::flatten(%e, %zero, %one)").replace(
        "  %sizes", "  %zero : int = prim::Constant[value=0]()\n  %sizes"
    ))), torch.linspace(-1, 1, 6)  # fmt: skip
    for sizes in ((2, 3), (3, 2), (6, 1)):
        wanted = x
        for _ in range(9):
            wanted = torch.tanh(-wanted)
        torch.testing.assert_close(run(x, *sizes), wanted)


jax_programs = {
    "carries two": lambda jax, x: jax.lax.fori_loop(0, 50, lambda i, c: (c[1], c[0] * 0.5 + c[1] * 0.3), (x, x + 1)),
    "reads its number": lambda jax, x: jax.lax.fori_loop(2, 40, lambda i, y: y + jax.numpy.sin(x * i), x),
    "scans": lambda jax, x: jax.lax.scan(lambda h, row: ((g := jax.numpy.tanh(h * 0.5 + row)), g * 2), x[0], x),
    "scans backwards": lambda jax, x: jax.lax.scan(lambda h, row: ((g := jax.numpy.tanh(h * 0.5 + row)), g * 2), x[0], x, reverse=True),
    "joins rows": lambda jax, x: jax.lax.fori_loop(0, 30, lambda i, y: jax.numpy.concatenate([y[1:], y[:1] * 0.5]), x),
    "joins columns": lambda jax, x: jax.lax.fori_loop(0, 30, lambda i, y: jax.numpy.concatenate([y[:, 1:], y[:, :1] + 1], 1), x),
    "updates a slice": lambda jax, x: jax.lax.fori_loop(0, 30, lambda i, y: y.at[1:-1].set((y[2:] + y[:-2]) * 0.5), x),
    "writes the middle": lambda jax, x: jax.lax.fori_loop(0, 30, lambda i, y: y.at[1:-1, 1:-1].set((y[2:, 1:-1] + y[:-2, 1:-1]) * 0.5), x),
    "branches by data": lambda jax, x: jax.lax.fori_loop(
        0, 30, lambda i, y: jax.lax.cond(x[i % 12, 0] > 0, lambda v: v * 0.5, lambda v: jax.numpy.sin(v) + 1, y), x
    ),
    "branches by turns": lambda jax, x: jax.lax.fori_loop(
        0, 30, lambda i, y: jax.lax.switch(i % 3, [lambda v: v * 0.5, lambda v: -v, jax.numpy.cos], y), x
    ),
    "loops in loops": lambda jax, x: jax.lax.fori_loop(
        0, 12, lambda i, y: jax.lax.fori_loop(0, i, lambda j, z: z.at[j].add(z[i] * 0.1), y) * 0.9, x
    ),
    "ends inside by a flag": lambda jax, x: jax.lax.fori_loop(
        0, 12, lambda i, y: jax.lax.while_loop(lambda z: z[0, 0] < 3, lambda z: z + 0.25, y) - 1, x
    ),
    "reads and writes by index": lambda jax, x: jax.lax.scan(
        lambda y, at: (jax.lax.dynamic_update_slice(y, y[at][None] * 0.5, (11 - at, 0)), at), x, jax.numpy.argmax(x, 1)
    ),
    "fills a ring": lambda jax, x: jax.lax.fori_loop(0, 40, lambda i, y: y.at[i % 4].set(jax.numpy.tanh(y[(i + 2) % 4] + x[i % 2])), x),
    "sums rows in place": lambda jax, x: jax.lax.fori_loop(1, 12, lambda i, y: y.at[i].set(y[i - 1] * 0.5 + y[i] * 2), x),
}


@pytest.mark.parametrize("name", jax_programs)
def test_loops_of_jax(name):
    jax = pytest.importorskip("jax")

    def program(x):
        return jax_programs[name](jax, x)

    x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    found = both(irs.fuse(irs.load(program, jax.numpy.asarray(x))), x)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(program)(x)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)


TAKES = ir(
    "xs at:Long(1) h:Float(4, strides=[1]) m:int | t = True; n = 9; zero = 0; one = 1; wide:int[] = [4]; y:Float(4, strides=[1]) = "
    "Loop n t h {i:int a:Float(4, strides=[1]) | g:Float(4, strides=[1]) = Loop m t a {j:int b:Float(4, strides=[1]) | "
    "e:Float(4, strides=[1]) = select xs zero j; f:Float(4, strides=[1]) = add b e one | t f}; "
    "c:Float(1, 4) = index_select xs zero at; d:Float(4, strides=[1]) = reshape c wide; s:Float(4, strides=[1]) = add g d one; "
    "u:Float(4, strides=[1]) = tanh s | t u} | y",
    "Float(6, 4, strides=[4, 1])",
)


@pytest.mark.parametrize(("at", "rows"), [(0, 0), (5, 6), (6, 2), (-1, 2), (5, 7), (2**40, 3)])
def test_an_index_outside_and_an_inner_loop_of_too_many_turns_raise_as_in_python(at, rows):
    xs, h = torch.linspace(-1, 1, 24).reshape(6, 4), torch.linspace(0, 1, 4)
    run = irs.compile(fused(TAKES))
    wanted, before = h, h.clone()
    if 0 <= at < 6 and rows < 7:
        for _ in range(9):
            wanted = torch.tanh(wanted + xs[:rows].sum(0) + xs[at])
        torch.testing.assert_close(both(fused(TAKES), xs, torch.tensor([at]), h, rows), wanted)
    else:
        for _ in range(2):
            with pytest.raises(irs.errors.RunError, match=r"aten::(index_)?select"):
                run(xs, torch.tensor([at]), h, rows)
    assert torch.equal(h, before)


def test_an_inner_loop_of_very_many_calls_is_left_to_python():
    """Calls and turns are counted in one word, which 2^50 turns of 2^13 calls would not fit."""
    joined = ir(
        "x n:int | t = True; zero = 0; one = 1; two = 2; y = Loop n t x {i:int a | b = Loop n t a {j:int c | l:Tensor[] = "
        f"ListConstruct {'c ' * 16}; p:Float(32) = cat l zero; e = slice p zero zero two one; f = tanh e; g = neg f | t g}} | t b}} | y",
        "Float(2, strides=[1])",
    )
    both(fused(joined), np.ones(2, np.float32), 9)
    with patch("irscope.runtime.program.loops.calls._MOST_CALLS", 12):
        run = irs.compile(fused(joined))
        run(np.ones(2, np.float32), 9)
    assert any("calls of kernels" in remark.because for remark in run.remarks)


def random_loop(seed):
    """A loop over two to four carried tensors, one of them a table whose rows it reads and writes; in it branches, other loops, numbers
    that repeat, and rows by index. What it asks is of inputs alone: a rounding decides nothing."""
    rng = random.Random(seed)
    turns, width = rng.choice([3, 8, 9, 23, 300]), rng.choice([1, 3, 8, 17])
    row, table = f"Float({width}, strides=[1])", f"Float({turns}, {width}, strides=[{width}, 1])"
    carried = [f"c{place}" for place in range(rng.randint(1, 3))]
    lines, names, rows, tables, pad = [], [], [*carried, "k"], ["o"], "      "

    def add(op, kind, *operands):
        names.append(f"v{len(names)}")
        lines.append(f"{pad}%{names[-1]} : {kind} = {op}({', '.join(f'%{operand}' for operand in operands)})")
        return names[-1]

    def flag():
        element = add("aten::select", "Float()", add("aten::select", row, "x", "zero", place()), "zero", "zero")
        return add("aten::Bool", "bool", add("aten::gt", "Bool()", element, "zero"))

    def place():
        divided = add(rng.choice(["aten::remainder", "aten::floordiv"]), "int", "i", "three")
        return rng.choice(["i", "zero", add("aten::sub", "int", "last", "i"), divided])

    def index():
        best = add("aten::argmax", "Long()", add("aten::select", row, "x", "zero", place()), "zero", "no")
        return add("aten::reshape", "Long(1)", add("aten::clamp", "Long()", best, "zero", "last"), "ones")

    def block(params, *values, state=""):
        nonlocal pad
        pad += "    "
        lines.append(f"{pad[2:]}block0({params}):")
        made = add(f"aten::{rng.choice(['tanh', 'cos', 'neg'])}", row, rng.choice(values))
        made = rng.choice([made, add("aten::tanh", row, add("aten::mul", row, made, rng.choice(values)))])
        if state and rng.random() < 0.3:
            made = add("aten::cos", row, add("aten::add", row, made, add("prim::NumToTensor", "Long()", f"j{state}"), "one"))
        goes = f"%{'t' if rng.random() < 0.7 else flag()}, " if state else ""
        lines.append(f"{pad}-> ({goes}%{rng.choice([made, made, values[0]])})")
        pad = pad[4:]

    def joined(op, condition):
        names.append(f"v{len(names)}")
        lines.append(f"{pad}%{names[-1]} : {row} = {op}({condition})")
        return names[-1]

    for _ in range(rng.randint(3, 12)):
        kind = rng.choice(["one", "two", "two", "read", "write", "number", "join", "branch", "inner", "take", "put"])
        if kind == "branch":
            tests = add("aten::eq", "bool", add("aten::remainder", "int", "i", "three"), "one") if rng.random() < 0.5 else flag()
            made = joined("prim::If", f"%{tests}")
            for _ in range(2):
                block("", *rng.choices(rows, k=2))
            rows.append(made)
        elif kind == "inner":
            turns_of, start, inside = rng.choice(["i", "three", "zero", "last"]), rng.choice(rows), rng.choice(rows)
            go = rng.choice(["t", flag()])
            made = joined("prim::Loop", f"%{turns_of}, %{go}, %{start}")
            names.append(f"v{len(names)}")
            block(f"%j{names[-1]} : int, %{names[-1]} : {row}", names[-1], inside, state=names[-1])
            rows.append(made)
        elif kind == "take":
            whole = rng.choice([*tables, "x"])
            rows.append(add("aten::reshape", row, add("aten::index_select", f"Float(1, {width})", whole, "zero", index()), "wide"))
        elif kind == "put":
            source = add("aten::unsqueeze", f"Float(1, {width})", rng.choice(rows), "zero")
            tables.append(add("aten::index_copy", table, tables[-1], "zero", index(), source))
        elif kind == "one":
            rows.append(add(f"aten::{rng.choice(['tanh', 'neg', 'sigmoid', 'cos'])}", row, rng.choice(rows)))
        elif kind == "two":
            op, others = rng.choice([("add", ["one"]), ("sub", ["one"]), ("mul", []), ("maximum", [])])
            rows.append(add("aten::tanh", row, add(f"aten::{op}", row, rng.choice(rows), rng.choice(rows), *others)))
        elif kind == "number":
            rows.append(add("aten::cos", row, add("aten::add", row, rng.choice(rows), add("prim::NumToTensor", "Long()", "i"), "one")))
        elif kind == "join":
            parts = add("prim::ListConstruct", "Tensor[]", *rng.choices([*rows, add("aten::tanh", row, rng.choice(rows))], k=2))
            if rng.random() < 0.5:
                both = add("aten::cat", f"Float({2 * width}, strides=[1])", parts, "zero")
                rows.append(add("aten::slice", row, both, "zero", "one", "more", "one"))
            else:
                both = add("aten::stack", f"Float(2, {width}, strides=[{width}, 1])", parts, "zero")
                rows.append(add("aten::select", row, both, "zero", rng.choice(["zero", "one"])))
        else:
            if kind == "read":
                rows.append(add("aten::select", row, rng.choice([*tables, "x"]), "zero", place()))
            else:
                tables.append(add("aten::select_scatter", table, rng.choice([tables[-1], tables[0]]), rng.choice(rows), "zero", place()))
    returned = [rng.choice([*rows[-4:], *rows]) for _ in carried]
    carries = [*carried, "o"]
    kinds = [*[row] * len(carried), table]
    outputs = ", ".join(f"%y{place} : {kind}" for place, kind in enumerate(kinds))
    params = ", ".join(f"%{name} : {kind}" for name, kind in zip(carries, kinds, strict=True))
    text = f"""graph(%x : {table}, %k : {row}, {", ".join(f"%s{place} : {kind}" for place, kind in enumerate(kinds))}):
  %t : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value={turns}]()
  %last : int = prim::Constant[value={turns - 1}]()
  %more : int = prim::Constant[value={width + 1}]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %three : int = prim::Constant[value=3]()
  %no : bool = prim::Constant[value=0]()
  %ones : int[] = prim::Constant[value=[1]]()
  %wide : int[] = prim::Constant[value=[{width}]]()
  {outputs} = prim::Loop(%n, %t, {", ".join(f"%s{place}" for place in range(len(kinds)))})
    block0(%i : int, {params}):
{chr(10).join(lines)}
      -> (%t, {", ".join(f"%{value}" for value in returned)}, %{tables[-1]})
  return ({", ".join(f"%y{place}" for place in range(len(kinds)))})"""
    numbers = np.random.default_rng(seed)
    sizes = [(turns, width), (width,), *[(width,)] * len(carried), (turns, width)]
    return text, [numbers.normal(size=size).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("part", range(4))
def test_random_loops_run_as_in_torch(part):
    ran = 0
    for seed in range(part * 15, part * 15 + 15):
        text, given = random_loop(seed)
        wanted = by_torch(text, given)
        run = fused(text)
        for make in (np.copy, lambda array: torch.from_numpy(array.copy())):
            arguments = [make(array) for array in given]
            found = both(run, *arguments, native=None)
            for ours, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-4)
            assert all(np.array_equal(np.asarray(argument), array) for argument, array in zip(arguments, given, strict=True))
        native = irs.compile(run)
        ran += any(remark.rule == "native-loop" and remark.kind == "passed" for remark in native.remarks)
    assert ran > 4


def test_an_expanded_constant_that_a_caller_gets_is_a_view_of_this_run() -> None:
    run = irs.compile(
        irs.parse("""graph(%x : Float(3, strides=[1]), %n : int):
  %c : Float(1, strides=[1]) = prim::Constant[value={2}]()
  %s : int[] = prim::Constant[value=[4, 3]]()
  %no : bool = prim::Constant[value=0]()
  %e : Float(4, 3) = aten::expand(%c, %s, %no)
  %f : Float(4, 3) = aten::expand(%c, %s, %no)
  %same : Float(4, 3) = aten::to(%f, %e, %no, %no)
  %y : Float(3) = aten::neg(%x)
  %go : bool = prim::Constant[value=1]()
  %g : Float(4, 3) = aten::expand(%c, %s, %no)
  %l : Float(4, 3), %m : Float(4, 3) = prim::Loop(%n, %go, %g, %g)
    block0(%i : int, %a : Float(4, 3), %b : Float(4, 3)):
      %z : Float(4, 3) = aten::expand(%c, %s, %no)
      -> (%go, %b, %z)
  return (%e, %same, %y, %l, %m)""")
    )
    for turns in (0, 1, 2, 9):
        *results, _, first, last = run(torch.ones(3), turns)
        for result in {id(each): each for each in (*results, first, last)}.values():
            result.unsqueeze_(0)
        assert [tuple(result.shape) for result in run(torch.ones(3), turns)] == [(4, 3), (4, 3), (3,), (4, 3), (4, 3)]


def test_a_view_that_counts_from_the_start_of_the_storage_is_made_in_each_turn() -> None:
    run = irs.compile(
        fused(
            ir(
                "x y | n = 9; t = True; zero = 0; one = 1; sizes = [3]; strides = [1]; sum = Loop n t y {i:int a | v = as_strided x sizes "
                "strides zero; b = add a v one | t b} | sum",
                "Float(3, strides=[1])",
            )
        )
    )
    whole = torch.arange(9.0)
    for start in (0, 3, 6):
        torch.testing.assert_close(run(whole[start : start + 3], torch.zeros(3)), whole[:3] * 9)
