"""The programs of `corpus_models.py`: functions that build a model with random weights, of a width and a depth that one names.

Language and vision models go through `torch.export`; what is unrolled (recurrent nets, inceptions) through `torch.jit.trace`. Functions of
arrays are the same for NumPy and JAX (`xp`), and JAX's as StableHLO text are MLIR. ONNX graphs are built with onnx's own helpers.
"""

from collections.abc import Callable
from typing import Any, Final

ENCODERS: Final = {
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
        name: {"dim": hidden, "n_layers": layers}.get(name, value) if value is None else value for name, value in ENCODERS[kind].items()
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
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=2 * hidden, image_size=32, patch_size=8,
        attn_implementation="eager",
    )  # fmt: skip
    return _first(getattr(transformers, f"{kind}Model")(config).eval()), torch.rand(1, 3, 32, 32)


def inception(branches: int, blocks: int, width: int) -> Any:
    """A wide stack: each block runs its branches side by side and joins them."""
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        """Convolutions of several sizes over the same picture."""

        def __init__(self) -> None:
            super().__init__()
            sizes = [1 + 2 * (place % 2) for place in range(branches)]
            self.branches = nn.ModuleList(nn.Conv2d(branches * width, width, size, padding=size // 2) for size in sizes)
            self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in sizes)

        def forward(self, x: Any) -> Any:
            pairs = zip(self.branches, self.norms, strict=True)
            return torch.cat([torch.relu(norm(branch(x))) for branch, norm in pairs], 1)

    torch.manual_seed(0)
    return _traced(nn.Sequential(*(Block() for _ in range(blocks))).eval(), torch.rand(1, branches * width, 8, 8))


def recurrent(kind: str, steps: int, width: int) -> Any:
    """A recurrent net, written out step by step."""
    import torch
    from torch import nn

    gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.of_input, self.of_state = nn.Linear(width, gates * width), nn.Linear(width, gates * width)

        def forward(self, x: Any) -> Any:
            h = c = torch.zeros(x.shape[1], width)
            for step in range(steps):
                a, b = self.of_input(x[step]), self.of_state(h)
                if kind == "rnn":
                    h = torch.tanh(a + b)
                elif kind == "gru":
                    (r, z, n), (u, v, m) = a.chunk(3, 1), b.chunk(3, 1)
                    keep = torch.sigmoid(z + v)
                    h = (1 - keep) * torch.tanh(n + torch.sigmoid(r + u) * m) + keep * h
                else:
                    i, f, g, o = (a + b).chunk(4, 1)
                    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                    h = torch.sigmoid(o) * torch.tanh(c)
            return h

    torch.manual_seed(0)
    return _traced(Net().eval(), torch.randn(steps, 2, width))


def _traced(model: Any, x: Any) -> Any:
    import torch

    with torch.no_grad():
        return torch.jit.trace(model, x, check_trace=False), x


def _first(model: Any) -> Any:
    from tests.benchmarks.models import FirstResult

    return FirstResult(model)


def perceptron(activation: str, norm: str, width: int, layers: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    norms = {"layer": lambda: nn.LayerNorm(width), "rms": lambda: nn.RMSNorm(width)}
    blocks = [(nn.Linear(width, width), norms[norm](), getattr(nn, activation)()) for _ in range(layers)]
    return nn.Sequential(*(layer for block in blocks for layer in block)).eval(), torch.randn(4, width)


def convolutions(activation: str, width: int, layers: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    inputs = [3, *[width] * (layers - 1)]
    blocks = [(nn.Conv2d(size, width, 3, padding=1), nn.BatchNorm2d(width), getattr(nn, activation)()) for size in inputs]
    return nn.Sequential(*(layer for block in blocks for layer in block)).eval(), torch.rand(1, 3, 16, 16)


def encoder_layer(activation: str, width: int, norm_first: bool) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, activation=activation, norm_first=norm_first, batch_first=True)
    return layer.train(False).requires_grad_(True), torch.randn(2, 8, width, requires_grad=True)


def runge_kutta(xp: Any, x: Any, step: float) -> Any:
    """A step of a damped pendulum, by the classical method of fourth order."""

    def slope(x: Any) -> Any:
        return -x * x * x + 0.3 * xp.sin(x)

    a = slope(x)
    b = slope(x + 0.5 * step * a)
    c = slope(x + 0.5 * step * b)
    return x + step / 6 * (a + 2 * b + 2 * c + slope(x + step * c))


def diffusion(xp: Any, x: Any, step: float) -> Any:
    inner = x[:, 1:-1] + step * (x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2])
    return xp.concatenate([x[:, :1], inner, x[:, -1:]], axis=1)


def newton(xp: Any, x: Any, step: float) -> Any:
    return x * (1.5 - step * x * x)


def attention(xp: Any, x: Any, step: float) -> Any:
    """Rows that attend to each other, normalised."""
    w = (x @ x.T) * step
    e = xp.exp(w - w.max(axis=-1, keepdims=True))
    y = x + (e / e.sum(axis=-1, keepdims=True)) @ x
    return (y - y.mean(axis=-1, keepdims=True)) / xp.sqrt(y.var(axis=-1, keepdims=True) + 1e-5)


def gelu_mix(xp: Any, x: Any, step: float) -> Any:
    y = x @ (step * x.T) @ x
    return 0.5 * y * (1.0 + xp.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


STEPS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "runge_kutta": (runge_kutta, 37), "diffusion": (diffusion, 10), "newton": (newton, 4), "attention": (attention, 17),
    "gelu_mix": (gelu_mix, 12),
}  # fmt: skip
"""What is done again and again, with about how many ops it is."""


def _repeated(xp: Any, kind: str, nodes: int, step: float) -> Callable[[Any], Any]:
    once, ops = STEPS[kind]

    def iterate(x: Any) -> Any:
        for _ in range(nodes // ops):
            x = once(xp, x, step)
        return x

    return iterate


def array_function(kind: str, nodes: int, rows: int, columns: int) -> Any:
    """A function of NumPy arrays, to be traced."""
    import numpy as np

    return _repeated(np, kind, nodes, 0.1 / rows), np.zeros((rows, columns), np.float32)


def jax_function(kind: str, nodes: int, rows: int, columns: int) -> Any:
    import jax.numpy as jnp

    return _repeated(jnp, kind, nodes, 0.1 / rows), jnp.zeros((rows, columns), jnp.float32)


def mlir_text(kind: str, nodes: int, rows: int, columns: int) -> str:
    """The StableHLO that JAX writes for it, as a file would hold it."""
    import jax

    function, x = jax_function(kind, nodes, rows, columns)
    return str(jax.jit(function).lower(x).as_text())


def onnx_graph(kind: str, nodes: int, width: int) -> Any:
    """A deep ONNX model: residual blocks with a norm, or a recurrent cell step by step."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    made: list[Any] = []
    weight = [numpy_helper.from_array(random.standard_normal((width, width)).astype(np.float32) / width, f"w{i}") for i in range(4)]
    weight += [numpy_helper.from_array(np.ones(width, np.float32), "one")]

    def op(name: str, *inputs: str, **attributes: Any) -> str:
        made.append(helper.make_node(name, inputs, [f"v{len(made)}"], **attributes))
        return f"v{len(made) - 1}"

    def residual(h: str, place: int) -> str:
        a = op("MatMul", op("LayerNormalization", h, "one", "one"), f"w{place % 4}")
        return op("Add", h, op("MatMul", op("Mul", a, op("Sigmoid", a)), f"w{(place + 1) % 4}"))

    def cell(h: str, place: int) -> str:
        a = op("Add", op("MatMul", "x", "w0"), op("MatMul", h, "w1"))
        keep = op("Sigmoid", op("MatMul", h, "w2"))
        return op("Add", op("Mul", keep, h), op("Mul", op("Sub", "one", keep), op("Tanh", a)))

    block, size = (residual, 6) if kind == "residual" else (cell, 9)
    h = "x"
    for place in range(nodes // size):
        h = block(h, place)
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, width))
    result = helper.make_tensor_value_info(h, TensorProto.FLOAT, (4, width))
    graph = helper.make_graph(made, kind, [shape], [result], weight)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
