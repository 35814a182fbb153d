"""Loops that users of JAX, TorchScript and ONNX write, in microseconds a turn, beside `jax.jit`, TorchScript and onnxruntime.

    python tests/benchmarks/bench_loops.py [--rounds 60] [--rows stencil viterbi ...]

One thread, the best of rounds in which all take turns. The numbers are compared with the peer's first.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope._base.nested import leaves
from irscope.runtime.timer import measure
from tests.benchmarks.harness import command, head, row

Made = tuple[Callable[[], object], Callable[[], object], str]
"""The peer's call and ours, and why Python runs a loop of it, if it does."""


def array(*shape: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * 0.5).astype(np.float32)


def ours(graph: Any, given: Any, wanted: Any) -> tuple[Callable[[], object], str]:
    run = irs.compile(irs.fuse(graph))
    for _ in range(2):  # by the function that looks operands up, and by the one it generates
        found = run(*given)
        for one, other in zip(leaves(found), leaves(wanted), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)
    whys = [remark.because for remark in run.remarks if remark.rule == "native-loop" and remark.kind == "missed"]
    return lambda: run(*given), "; ".join(whys)


def by_jax(program: Any, *given: Any) -> Made:
    import jax

    arrays, jitted = [jax.numpy.asarray(each) for each in given], jax.jit(program)
    run, why = ours(irs.load(program, *arrays), given, jax.tree.leaves(jitted(*arrays)))
    return lambda: jax.block_until_ready(jitted(*arrays)), run, why


def by_torch(program: Any, *given: Any) -> Made:
    import torch

    tensors = [torch.from_numpy(each) for each in given]
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        scripted = torch.jit.script(program) if isinstance(program, torch.nn.Module) else program
        graph = irs.load(scripted, *tensors)
    with torch.no_grad():
        wanted = scripted(*tensors)
        run, why = ours(graph, tensors, wanted)
    return lambda: scripted(*tensors), run, why


def by_onnx(text: str, *given: Any) -> Made:
    import onnx
    import onnx.parser
    import onnxruntime

    model = onnx.parser.parse_model(text)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fed = dict(zip([each.name for each in session.get_inputs()], given, strict=True))
    run, why = ours(irs.load(model, *given), given, session.run(None, fed))
    return lambda: session.run(None, fed), run, why


# -- JAX ---------------------------------------------------------------------------------------------------------------


def jax_rows() -> dict[str, tuple[int, Callable[[], Made]]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def stencil(x: Any) -> Any:
        near = lambda y: (y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2]) * 0.25  # noqa: E731
        return lax.fori_loop(0, 50, lambda i, y: y.at[1:-1, 1:-1].set(near(y)), x)

    def branches(x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, y: lax.cond(y.sum() > 3, lambda v: v * 0.5, lambda v: jnp.sin(v) + 1, y), x)

    def turns_about(x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, y: lax.cond(i % 2 == 0, lambda v: v * 0.5, lambda v: v + 1, y), x)

    def switch(x: Any) -> Any:
        ways = [lambda v: v * 0.5, lambda v: v + 1, jnp.sin]
        return lax.fori_loop(0, 50, lambda i, y: lax.switch(i % 3, ways, y), x)

    def table(t: Any, x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, y: y * 0.5 + t[i % 8], x)

    def nested(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, y: lax.fori_loop(0, 10, lambda j, z: z * 0.5 + j, y) + i, x)

    def triangle(x: Any) -> Any:
        return lax.fori_loop(0, 14, lambda i, y: lax.fori_loop(0, i, lambda j, z: z.at[j].add(z[i] * 0.1), y), x)

    def power(a: Any, v: Any) -> Any:
        def step(i: Any, v: Any) -> Any:
            w = a @ v
            return w / jnp.linalg.norm(w)

        return lax.fori_loop(0, 50, step, v)

    def runge_kutta(x: Any) -> Any:
        slope = lambda y: jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])  # noqa: E731

        def step(y: Any, _: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + 0.05 * k1)
            k3 = slope(y + 0.05 * k2)
            k4 = slope(y + 0.1 * k3)
            y = y + (k1 + 2 * k2 + 2 * k3 + k4) * (0.1 / 6)
            return y, y

        return lax.scan(step, x, None, length=50)

    def viterbi(scores: Any, moves: Any) -> Any:
        def step(best: Any, score: Any) -> Any:
            ways = best[:, None] + moves
            return ways.max(0) + score, ways.argmax(0)

        last, back = lax.scan(step, scores[0], scores[1:])
        return last, back

    def backtrack(back: Any, start: Any) -> Any:
        return lax.scan(lambda at, row: (row[at], at), start, back, reverse=True)

    def bisection(low: Any, high: Any) -> Any:
        def step(i: Any, ends: Any) -> Any:
            low, high = ends
            mid = (low + high) * 0.5
            is_low = mid**3 - mid - 2 < 0
            return jnp.where(is_low, mid, low), jnp.where(is_low, high, mid)

        return lax.fori_loop(0, 50, step, (low, high))

    def gru(xs: Any, h: Any, w: Any, u: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            a, b = x @ w, h @ u
            r, z = jax.nn.sigmoid(a[:16] + b[:16]), jax.nn.sigmoid(a[16:32] + b[16:32])
            h = (1 - z) * jnp.tanh(a[32:] + r * b[32:]) + z * h
            return h, h

        return lax.scan(cell, h, xs)

    def tolerance(a: Any, b: Any) -> Any:
        def step(state: Any) -> Any:
            x, _, k = state
            new = (b - a @ x + jnp.diag(a) * x) / jnp.diag(a)
            return new, jnp.abs(new - x).max(), k + 1

        return lax.while_loop(lambda state: (state[1] > 1e-6) & (state[2] < 50), step, (jnp.zeros_like(b), jnp.float32(1), 0))

    def cache(cache: Any, x: Any) -> Any:
        def step(i: Any, both: Any) -> Any:
            cache, x = both
            cache = lax.dynamic_update_slice(cache, x[None], (i, 0))
            return cache, jnp.tanh(x + cache.mean(0))

        return lax.fori_loop(0, 50, step, (cache, x))

    def ring(cache: Any, x: Any) -> Any:
        def step(i: Any, both: Any) -> Any:
            cache, x = both
            cache = lax.dynamic_update_slice(cache, x[None], (i % 8, 0))
            return cache, jnp.tanh(x + cache.mean(0))

        return lax.fori_loop(0, 50, step, (cache, x))

    def statistics(xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            n, mean, m2 = state
            n = n + 1
            d = x - mean
            mean = mean + d / n
            return (n, mean, m2 + d * (x - mean)), None

        return lax.scan(step, (0.0, jnp.zeros(4), jnp.zeros(4)), xs)[0]

    def products(xs: Any) -> Any:
        return lax.scan(lambda p, x: (p * x, p * x), jnp.ones(4), xs)[1]

    def greedy(x: Any, words: Any, w: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            token = jnp.argmax(h @ w)
            return jnp.tanh(h * 0.5 + words[token]), token

        return lax.scan(step, x, None, length=50)

    def early(x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, y: lax.fori_loop(0, 4, lambda j, z: jnp.where(z > 1, z * 0.5, z + 0.3), y) * 0.9, x)

    def newton_inside(x: Any) -> Any:
        def root(x: Any) -> Any:
            def step(s: Any) -> Any:
                y = (s[0] + x / s[0]) * 0.5
                return y, jnp.abs(y - s[0]).max()

            return lax.while_loop(lambda s: s[1] > 1e-3, step, (x, jnp.float32(1)))[0]

        return lax.fori_loop(0, 10, lambda i, y: root(y + 1.0), x)

    x = array(8)
    a = array(16, 16) + 8 * np.eye(16, dtype=np.float32)
    steps = np.asarray(np.random.default_rng(0).integers(0, 8, (50, 8)), np.int32)
    return {
        "stencil": (50, lambda: by_jax(stencil, array(8, 8))),
        "cond of data": (50, lambda: by_jax(branches, x)),
        "cond of i": (50, lambda: by_jax(turns_about, x)),
        "switch": (50, lambda: by_jax(switch, x)),
        "table at i % 8": (50, lambda: by_jax(table, array(8, 4), array(4))),
        "nested": (100, lambda: by_jax(nested, x)),
        "triangle": (91, lambda: by_jax(triangle, array(14))),
        "power iteration": (50, lambda: by_jax(power, a, array(16))),
        "Runge-Kutta": (50, lambda: by_jax(runge_kutta, np.asarray([2.0, 0.0], np.float32))),
        "Viterbi": (49, lambda: by_jax(viterbi, array(50, 8), array(8, 8))),
        "backtracking": (50, lambda: by_jax(backtrack, steps, np.asarray(3, np.int32))),
        "bisection": (50, lambda: by_jax(bisection, np.ones(4, np.float32), np.full(4, 2, np.float32))),
        "GRU cell by scan": (50, lambda: by_jax(gru, array(50, 8), array(16), array(8, 48), array(16, 48))),
        "Jacobi, tolerance": (15, lambda: by_jax(tolerance, a, array(16))),
        "cache": (50, lambda: by_jax(cache, array(50, 8), x)),
        "ring buffer": (50, lambda: by_jax(ring, array(8, 8), x)),
        "running statistics": (50, lambda: by_jax(statistics, array(50, 4))),
        "cumulative product": (50, lambda: by_jax(products, array(50, 4))),
        "greedy decoding": (50, lambda: by_jax(greedy, x, array(8, 8), array(8, 8, seed=1))),
        "nested, where": (200, lambda: by_jax(early, x)),
        "while inside for": (40, lambda: by_jax(newton_inside, np.abs(x) + 1)),
    }


# -- TorchScript -------------------------------------------------------------------------------------------------------


SCRIPTS: Final = """
def euler(x):
    for i in range(50):
        x = x + 0.01 * (1 - x) * x
    return x

def collatz(x, table):
    for i in range(50):
        x = x * 0.5 + table[i % 8]
    return x

def even(x):
    for i in range(50):
        if i % 2 == 0:
            x = x * 0.5
        else:
            x = torch.sin(x) + 1
    return x

def clipped(x):
    for i in range(50):
        x = x * 1.3
        if bool(x.sum() > 3):
            x = x / x.sum()
    return x

def until(a, x):
    for i in range(100):
        y = torch.cos(x)
        if bool((y - x).abs().max() < 1e-4):
            break
        x = y
    return x

def best(scores, moves):
    back: List[Tensor] = []
    now = scores[0]
    for t in range(1, 50):
        value, where = (now.unsqueeze(1) + moves).max(0)
        now = value + scores[t]
        back.append(where)
    return now, torch.stack(back)

def gated(xs, h, w, u):
    out: List[Tensor] = []
    for t in range(50):
        a, b = (xs[t] @ w).chunk(3, 1), (h @ u).chunk(3, 1)
        r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
        h = (1 - z) * torch.tanh(a[2] + r * b[2]) + z * h
        out.append(h)
    return torch.stack(out)

def pairs(x):
    y = torch.zeros_like(x)
    for i in range(10):
        for j in range(10):
            y = y * 0.9 + x * float(j)
    return y
"""


def torch_rows() -> dict[str, tuple[int, Callable[[], Made]]]:
    import torch

    scripts: Any = torch.jit.CompilationUnit(SCRIPTS)
    gates = array(50, 1, 8), array(1, 16), array(8, 48), array(16, 48)
    return {
        "script: Euler": (50, lambda: by_torch(scripts.euler, array(8))),
        "script: table at i % 8": (50, lambda: by_torch(scripts.collatz, array(4), array(8, 4))),
        "script: if of i": (50, lambda: by_torch(scripts.even, array(8))),
        "script: if of data": (50, lambda: by_torch(scripts.clipped, np.abs(array(8)))),
        "script: break": (25, lambda: by_torch(scripts.until, array(8), array(8))),
        "script: Viterbi": (49, lambda: by_torch(scripts.best, array(50, 8), array(8, 8))),
        "script: GRU cell": (50, lambda: by_torch(scripts.gated, *gates)),
        "script: nested": (100, lambda: by_torch(scripts.pairs, array(8))),
        "script: nn.GRU": (50, lambda: by_torch(torch.nn.Sequential(torch.nn.GRU(16, 16)).eval(), array(50, 1, 16))),
        "script: nn.LSTM": (50, lambda: by_torch(torch.nn.Sequential(torch.nn.LSTM(16, 16)).eval(), array(50, 1, 16))),
    }


ONNX_SCAN: Final = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] s, float[50, 4] xs) => (float[4] last, float[50, 4] all) {
  last, all = Scan <num_scan_inputs = 1, body = step (float[4] a, float[4] x) => (float[4] b, float[4] c) {
    half = Constant <value = float {0.5}> ()
    m = Mul (a, half)
    b = Add (m, x)
    c = Tanh (b)
  }> (s, xs)
}"""
ONNX_LOOP: Final = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] s, int64 n, bool go) => (float[4] last) {
  last = Loop <body = step (int64 i, bool c, float[4] a) => (bool d, float[4] b) {
    k = Cast <to = 1> (i)
    m = Sin (a)
    b = Add (m, k)
    d = Identity (c)
  }> (n, go, s)
}"""
ONNX_FLAG: Final = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] s, int64 n, bool go) => (float[4] last) {
  last = Loop <body = step (int64 i, bool c, float[4] a) => (bool d, float[4] b) {
    half = Constant <value = float {0.97}> ()
    least = Constant <value = float {0.01}> ()
    b = Mul (a, half)
    size = ReduceMax <keepdims = 0> (b)
    d = Greater (size, least)
  }> (n, go, s)
}"""


def onnx_rows() -> dict[str, tuple[int, Callable[[], Made]]]:
    turns, go = np.asarray(50, np.int64), np.asarray(True)
    return {
        "ONNX Scan": (50, lambda: by_onnx(ONNX_SCAN, array(4), array(50, 4))),
        "ONNX Loop": (50, lambda: by_onnx(ONNX_LOOP, array(4), turns, go)),
        "ONNX Loop, flag": (50, lambda: by_onnx(ONNX_FLAG, np.ones(4, np.float32), turns, go)),
    }


def main() -> None:
    import torch

    parser = command(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rows", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    head("loop", "turns", "theirs, µs a turn", "ours", "ours / theirs", "why Python runs a loop")
    for name, (turns, make) in {**jax_rows(), **torch_rows(), **onnx_rows()}.items():
        if options.rows and name not in options.rows:
            continue
        theirs, run, why = make()
        with torch.no_grad():
            taken = measure({"theirs": theirs, "ours": run}, turns=options.rounds)
        first, second = (each.best / 1e3 / turns for each in taken.values())
        row(name, turns, first, second, second / first, why)


if __name__ == "__main__":
    main()
