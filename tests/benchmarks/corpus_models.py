"""A corpus of up to 200 models for `irs.corpus.survey`: transformers configs, torch.nn, NumPy, JAX, ONNX's own models, MLIR text.

    python tests/benchmarks/corpus_models.py OUT [--models 200] [--processes 1,2] [--seconds 300]

Surveys the corpus once for each number of processes, into a folder of its own each, and prints for each: models and nodes, clock and
processor time, the largest memory of a model, and groups, classes and kernels. With 1 and 2 processes the ratio of the clocks is what
a second process gains. `--parts` surveys an eighth, a quarter and a half first, which shows how the time grows with the nodes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs

__all__ = ["corpus"]

_ENCODERS: Final = {
    "Bert": {"type_vocab_size": 2},
    "Roberta": {},
    "Electra": {"embedding_size": 32},
    "Camembert": {},
    "XLMRoberta": {},
    "Data2VecText": {},
    "DistilBert": {"dim": None, "n_layers": None, "n_heads": 4, "hidden_dim": 96},
    "Albert": {"embedding_size": 32},
}
"""Language models of the transformers package, with what their configs have beyond a width and a depth."""


def language_model(kind: str, hidden: int, layers: int) -> Any:
    """A tiny one, with random weights, and tokens."""
    import torch
    import transformers

    more = {
        name: {"dim": hidden, "n_layers": layers}.get(name, value) if value is None else value
        for name, value in _ENCODERS[kind].items()
    }
    given = {} if kind == "DistilBert" else {
        "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 2 * hidden,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=100, max_position_embeddings=64, attn_implementation="eager", **given, **more
    )
    torch.manual_seed(0)
    return _first(getattr(transformers, f"{kind}Model")(config).eval()), torch.randint(2, 100, (1, 16))


def vision_model(kind: str, hidden: int, layers: int) -> Any:
    """A tiny one for pictures."""
    import torch
    import transformers

    torch.manual_seed(0)
    if kind == "ResNet":
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, hidden], depths=[layers, layers], layer_type="basic")
        return _first(transformers.ResNetModel(config).eval()), torch.rand(1, 3, 32, 32)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=2 * hidden, image_size=32, patch_size=8,
        attn_implementation="eager",
    )  # fmt: skip
    return _first(getattr(transformers, f"{kind}Model")(config).eval()), torch.rand(1, 3, 32, 32)


def _first(model: Any) -> Any:
    from torch import nn

    class First(nn.Module):  # type: ignore[misc]
        """Only the first result, without caches."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Any) -> Any:
            return self.inner(x, return_dict=False)[0]

    return First()


def perceptron(activation: str, norm: str, width: int, layers: int) -> Any:
    """Linear layers with a norm and an activation each."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    norms = {"none": nn.Identity, "layer": lambda: nn.LayerNorm(width), "rms": lambda: nn.RMSNorm(width)}
    blocks = [(nn.Linear(width, width), norms[norm](), getattr(nn, activation)()) for _ in range(layers)]
    return nn.Sequential(*(layer for block in blocks for layer in block)).eval(), torch.randn(4, width)


def convolutions(activation: str, width: int, layers: int) -> Any:
    """Convolutions with batch norms."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    inputs = [3, *[width] * (layers - 1)]
    blocks = [(nn.Conv2d(size, width, 3, padding=1), nn.BatchNorm2d(width), getattr(nn, activation)()) for size in inputs]
    return nn.Sequential(*(layer for block in blocks for layer in block)).eval(), torch.rand(1, 3, 16, 16)


def encoder_layer(activation: str, width: int, norm_first: bool) -> Any:
    """torch's own encoder layer."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, activation=activation, norm_first=norm_first, batch_first=True)
    return layer.train(False).requires_grad_(True), torch.randn(2, 8, width, requires_grad=True)


def array_function(name: str, rows: int, columns: int) -> Any:
    """A NumPy function, traced."""
    import numpy as np

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def normalise(x: Any) -> Any:
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    return {"softmax": softmax, "normalise": normalise, "gelu": gelu}[name], np.zeros((rows, columns), np.float32)


def jax_function(name: str, rows: int, columns: int) -> Any:
    """The same in JAX."""
    import jax
    import jax.numpy as jnp

    functions = {"softmax": jax.nn.softmax, "gelu": jax.nn.gelu, "normalise": jax.nn.standardize}
    return functions[name], jnp.zeros((rows, columns), jnp.float32)


def mlir_text(op: str, size: int) -> str:
    """A StableHLO module as a file would hold it."""
    t = f"tensor<{size}xf32>"
    return (
        f"module {{\n  func.func @main(%x: {t}) -> {t} {{\n    %0 = stablehlo.{op} %x : {t}\n"
        f"    %1 = stablehlo.multiply %0, %x : {t}\n    return %1 : {t}\n  }}\n}}\n"
    )


def onnx_models() -> Iterator[Path]:
    """The models that the onnx package tests itself with."""
    try:
        import onnx
    except ImportError:
        return
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    yield from sorted(path for kind in ("simple", "light") for path in (folder / kind).rglob("*.onnx"))


def _made() -> Iterator[Callable[[], Any]]:
    for kind, hidden, layers in product(_ENCODERS, (32, 64), (2, 4)):
        yield partial(language_model, kind, hidden, layers)
    for kind, hidden, layers in product(("ViT", "DeiT", "ResNet"), (16, 32), (2, 3)):
        yield partial(vision_model, kind, hidden, layers)
    for activation, norm, width, layers in product(("ReLU", "GELU", "SiLU", "Tanh"), ("none", "layer", "rms"), (16, 32), (3, 6)):
        yield partial(perceptron, activation, norm, width, layers)
    for activation, width, layers in product(("ReLU", "SiLU", "Hardswish"), (8, 16), (2, 5)):
        yield partial(convolutions, activation, width, layers)
    for activation, width, norm_first in product(("relu", "gelu"), (16, 32, 64), (False, True)):
        yield partial(encoder_layer, activation, width, norm_first)
    for make in (array_function, jax_function):
        for name, rows, columns in product(("softmax", "normalise", "gelu"), (4, 16), (64, 128, 1000)):
            yield partial(make, name, rows, columns)
    for op, size in product(("tanh", "exponential", "logistic", "cosine", "sine", "abs", "negate", "sqrt"), (16, 64)):
        yield partial(mlir_text, op, size)


def corpus(most: int = 200) -> list[Any]:
    """The sources, mixed, so that a part of them is like the whole."""
    made: list[Any] = [*_made(), *onnx_models()]
    mixed = sorted(range(len(made)), key=lambda place: (place * 0.6180339887) % 1.0)
    return [made[place] for place in mixed[:most]]


def surveyed(models: list[Any], out: Path, processes: int, seconds: int) -> tuple[Any, float, float]:
    """The survey, its clock and its processor time."""
    before, start = os.times(), time.perf_counter()
    found = irs.corpus.survey(models, out=out, processes=processes, seconds=seconds)
    after = os.times()
    spent = sum(after[:4]) - sum(before[:4])
    return found, time.perf_counter() - start, spent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--models", type=int, default=200)
    options.add_argument("--processes", default="1,2")
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--parts", action="store_true")
    chosen = options.parse_args()
    models = corpus(chosen.models)
    shares = (8, 4, 2, 1) if chosen.parts else (1,)
    print("| processes | models | left out | nodes | clock s | model s | µs a node | largest MB | groups | classes | kernels |")
    print("|---" * 11 + "|")
    for processes in map(int, chosen.processes.split(",")):
        for share in shares:
            folder = chosen.out / f"{processes}-{share}"
            s, clock, _ = surveyed(models[: len(models) // share], folder, processes, chosen.seconds)
            nodes, spent = s.models["nodes"].sum(), s.models["seconds"].sum()
            cells = [
                processes, len(s.models), len(s.failures), nodes, f"{clock:.0f}", f"{spent:.0f}", f"{1e6 * spent / nodes:.0f}",
                f"{s.models['peak_bytes'].max() / 1e6:.0f}", len(s.groups), len(s.classes), len(s.kernels),
            ]  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
