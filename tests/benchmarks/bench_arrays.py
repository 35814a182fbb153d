"""Programs of arrays beside what their users have: NumPy functions, loops of JAX and torch, and models in ONNX beside onnxruntime.

    python tests/benchmarks/bench_arrays.py [--rounds 30] [--rows numpy loop resnet ...]

One thread. Medians of rounds in which all take turns (with `--best` the quickest, which a busy machine disturbs least), in
microseconds, and the ratio of ours on arrays to the peer's time. A model runs as it is fused, and as `irs.compile`
makes it: batch norms folded, convolutions channels last and oneDNN's.
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.runtime.timer import measure
from tests.benchmarks import models
from tests.benchmarks.harness import command, head, row

Work = Callable[[], object]


def numpy_function() -> list[Work]:
    """Thirteen ops on small arrays: NumPy itself, op by op, fused."""

    def block(x: Any, w: Any) -> Any:
        h = np.tanh(x @ w)
        mean = h.mean(axis=-1, keepdims=True)
        spread = ((h - mean) ** 2).mean(axis=-1, keepdims=True)
        y = (h - mean) / np.sqrt(spread + 1e-5)
        return np.concatenate([y, x], axis=1).sum(axis=0)

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 16)).astype(np.float32), rng.normal(size=(16, 16)).astype(np.float32)
    graph = irs.trace(block, x, w)
    apart, fused = irs.compile(graph), irs.compile(irs.fuse(graph))
    return [lambda: block(x, w), lambda: apart(x, w), lambda: fused(x, w)]


def jax_loop() -> list[Work]:
    """A hundred steps of Newton's method on 16 numbers: `jax.jit`, op by op, fused."""
    import jax

    def roots(x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda i, y: 0.5 * (y + x / y), x)

    x = jax.numpy.linspace(1, 2, 16)
    jitted, graph, given = jax.jit(roots), irs.load(roots, x), np.asarray(x)
    apart, fused = irs.compile(graph), irs.compile(irs.fuse(graph))
    return [lambda: jitted(x).block_until_ready(), lambda: apart(given), lambda: fused(given)]


def jax_cell() -> list[Work]:
    """Fifty steps of an RNN cell of 16 numbers, `lax.scan`: `jax.jit`, op by op, fused."""
    import jax

    def rnn(xs: Any, h: Any, w: Any, u: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jax.numpy.tanh(h @ w + x @ u)
            return h, h

        return jax.lax.scan(cell, h, xs)

    rng = np.random.default_rng(0)
    given = [rng.normal(size=size).astype(np.float32) * 0.2 for size in ((50, 8), (16,), (16, 16), (8, 16))]
    arrays = [jax.numpy.asarray(array) for array in given]
    jitted, graph = jax.jit(rnn), irs.load(rnn, *arrays)
    apart, fused = irs.compile(graph), irs.compile(irs.fuse(graph))
    return [lambda: jax.block_until_ready(jitted(*arrays)), lambda: apart(*given), lambda: fused(*given)]


def jax_igamma() -> list[Work]:
    """The incomplete gamma function of 16 numbers, which JAX computes by loops that end by a flag: `jax.jit`, op by op, fused."""
    import jax

    a, x = jax.numpy.linspace(1, 3, 16), jax.numpy.linspace(0.5, 4, 16)
    jitted, graph, given = jax.jit(jax.lax.igamma), irs.load(jax.lax.igamma, a, x), (np.asarray(a), np.asarray(x))
    apart, fused = irs.compile(graph), irs.compile(irs.fuse(graph))
    np.testing.assert_allclose(np.asarray(fused(*given)), np.asarray(jitted(a, x)), rtol=1e-5)
    return [lambda: jitted(a, x).block_until_ready(), lambda: apart(*given), lambda: fused(*given)]


def torch_layer(kind: str, hidden: int, steps: int) -> list[Work]:
    """A recurrent layer of torch: torch's call, and ours on arrays and on tensors."""
    import torch

    with warnings.catch_warnings(action="ignore"):  # torch.export, of the module's weights
        model, x = getattr(torch.nn, kind)(hidden, hidden).eval(), torch.randn(steps, 1, hidden)
        run = irs.compile(irs.fuse(irs.load(model, x)))
    torch.testing.assert_close(run(x)[0], model(x)[0], rtol=1e-4, atol=1e-5)
    return [lambda: model(x), lambda: run(x.numpy()), lambda: run(x)]


def onnx_layer() -> list[Work]:
    """Thirty steps of a GRU of 24 numbers, from ONNX."""
    import torch

    return onnx_model(lambda: (torch.nn.GRU(16, 24, batch_first=True), (torch.randn(1, 30, 16),)))


def onnx_model(make: Callable[[], Any]) -> list[Work]:
    """A model that torch exports (with onnxscript): onnxruntime, ours as it is fused, on arrays and on tensors, and both as compiled."""
    import onnxruntime
    import torch

    model, args = models.seeded(make)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(model.eval(), args, str(path), dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        arrays = [tensor.numpy() for tensor in tensors]
        graph = irs.load(path, *arrays)
    run, frozen = irs.compile(irs.fuse(graph), freeze=False), irs.compile(irs.fuse(graph))
    fed = dict(zip([given.name for given in session.get_inputs()], arrays, strict=True))
    theirs = session.run(None, fed)
    for ours in (run(*arrays), frozen(*arrays)):
        for a, b in zip(theirs, ours if isinstance(ours, tuple) else [ours], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)
    return [lambda: session.run(None, fed), *(partial(each, *given) for each in (run, frozen) for given in (arrays, tensors))]


ROWS: Final[dict[str, tuple[str, Callable[[], list[Work]]]]] = {
    "numpy": ("NumPy", numpy_function),
    "loop": ("jax.jit", jax_loop),
    "cell": ("jax.jit", jax_cell),
    "igamma": ("jax.jit", jax_igamma),
    "gru": ("torch", lambda: torch_layer("GRU", 32, 50)),
    "rnn": ("torch", lambda: torch_layer("RNN", 32, 50)),
    "lstm": ("torch", lambda: torch_layer("LSTM", 32, 50)),
    "onnx-gru": ("onnxruntime", onnx_layer),
    "resnet": ("onnxruntime", lambda: onnx_model(models.resnet)),
    "unet": ("onnxruntime", lambda: onnx_model(models.unet)),
    "vit": ("onnxruntime", lambda: onnx_model(models.vit)),
    "mobilenet": ("onnxruntime", lambda: onnx_model(models.mobilenet)),
    "convnext": ("onnxruntime", lambda: onnx_model(models.convnext)),
    "gpt2": ("onnxruntime", lambda: onnx_model(models.gpt2)),
    "whisper": ("onnxruntime", lambda: onnx_model(models.whisper)),
}


def main() -> None:
    import torch

    parser = command(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    columns = "program", "beside", "theirs µs", "ours", "ours: fused, or on tensors", "compiled", "on tensors"
    head(*columns, "ours / theirs", "compiled / theirs")
    for name in options.rows:
        peer, made = ROWS[name]
        with torch.no_grad():
            taken = measure({str(place): work for place, work in enumerate(made())}, turns=options.rounds)
        theirs, ours, other, *frozen = ((found.best if options.best else found.median) / 1e3 for found in taken.values())
        ratio = (ours if frozen else min(ours, other)) / theirs
        row(name, peer, theirs, ours, other, *(frozen or [None, None]), ratio, frozen[0] / theirs if frozen else None)


if __name__ == "__main__":
    main()
