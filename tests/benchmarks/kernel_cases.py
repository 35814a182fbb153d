"""The kernels of the suite, each as a program and as the equivalent functions of other libraries.

k1 is an LSTM's gates, k2 a bias and an erf-GELU, k3 twelve mixed ops; softmax, layernorm and rmsnorm work on rows of 1024;
the sums reduce rows, columns, and everything. All are in float32 unless the suite says otherwise.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

COLUMNS: Final = 1024


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    """The program."""
    vectors: int
    """The number of operands of full size; those after them are rows of `COLUMNS`, or a bias along the columns."""
    torch: Callable[[Any], Callable[..., Any]]
    """Takes the module torch and returns a function of the operands."""
    jax: Callable[[Any, Any], Callable[..., Any]]
    """Takes jax and jax.numpy and returns a function of the operands."""
    rows: int = 0
    """The number of operands that are one row."""
    is_matrix: bool = False
    numexpr: str = ""
    """The expression over `x0`, `x1`, …; empty if numexpr lacks one of its functions."""
    cupy: Callable[[Any], Callable[..., Any]] | None = None
    """Takes cupy and returns a function for `cupy.fuse`, or to run op by op."""
    memory_bound: bool = True
    """Whether large sizes are expected to run at memory speed."""

    @property
    def group_text(self) -> str:
        """The program as one fusion group: fusion itself does not group a single op."""
        head, *body, last = self.text.strip().splitlines()
        operands = re.findall(r"%\w+(?= : Tensor)", head)
        kind = "reduction" if self.is_reduction else "pointwise"
        inside = "\n".join(re.sub(r"%(?=\w)", "%in_", line) for line in body)
        inputs = ", ".join(f"%in_{name[1:]} : Tensor" for name in operands)
        result = re.sub(r"%(?=\w)", "%in_", last.strip().removeprefix("return "))
        return (
            f'{head}\n  %out : Tensor = prim::FusionGroup[kind="{kind}"]({", ".join(operands)})\n'
            f"    block0({inputs}):\n{inside}\n      -> {result}\n  return (%out)\n"
        )

    @property
    def is_reduction(self) -> bool:
        """Whether an element of the result depends on other places in the operands than its own."""
        return self.is_matrix and self.memory_bound

    def shapes(self, size: int) -> list[tuple[int, ...]]:
        """Returns the shapes of the operands, for about `size` elements."""
        full: tuple[int, ...] = (max(1, round(size / COLUMNS)), COLUMNS) if self.is_matrix else (size,)
        return [full] * self.vectors + [(COLUMNS,)] * self.rows


def _program(operands: Sequence[str], *lines: str) -> str:
    head = ", ".join(f"%{name} : Tensor" for name in operands)
    constants = {
        "%one": "int = prim::Constant[value=1]()", "%zero": "int = prim::Constant[value=0]()",
        "%last": "int = prim::Constant[value=-1]()", "%none": "NoneType = prim::Constant()",
        "%true": "bool = prim::Constant[value=1]()", "%eps": "float = prim::Constant[value=1e-05]()",
        "%width": f"int = prim::Constant[value={COLUMNS}]()",
    }  # fmt: skip
    used = [f"{name} : {text}" for name, text in constants.items() if any(name in line for line in lines)]
    return "\n".join([f"graph({head}):", *(f"  {line}" for line in (*used, *lines)), "  return (%r)", ""])


def _k3(where: Any, exp: Any, sqrt: Any, maximum: Any, minimum: Any) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        t = maximum(exp(x * -0.5) * y + 1.5, 0.0)
        t = minimum(maximum(where(t > x, t, y), -2.0), 2.0)
        return sqrt(t * t + 1.0) - x

    return run


def _torch_k3(torch: Any) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        t = torch.relu(torch.exp(x * -0.5) * y + 1.5)
        t = torch.where(t > x, t, y).clamp(-2.0, 2.0)
        return torch.sqrt(t * t + 1.0) - x

    return run


def _jax_layernorm(jax: Any, jnp: Any) -> Callable[..., Any]:
    def run(x: Any, w: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + b

    return run


def _jax_rmsnorm(jax: Any, jnp: Any) -> Callable[..., Any]:
    return lambda x, w: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def _cupy_k1(cupy: Any) -> Callable[..., Any]:
    def k1(a: Any, b: Any, c: Any, d: Any) -> Any:  # CuPy names its kernel after the function: a lambda has no C name
        return cupy.tanh(d) / (1 + cupy.exp(-(a * b + c)))

    return k1


def _cupy_softmax(cupy: Any) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        powers = cupy.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return run


def _sum(name: str, axes: str, axis: int | None) -> Case:
    dims = {"last": "%last", "first": "%zero"}.get(axes)
    lines = (
        (f"%d : int[] = prim::ListConstruct({dims})", "%f : bool = prim::Constant[value=0]()", "%r : Tensor = aten::sum(%x, %d, %f, %none)")
        if dims else ("%r : Tensor = aten::sum(%x, %none)",)
    )  # fmt: skip
    return Case(
        name, _program(["x"], *lines), 1, is_matrix=True,
        torch=lambda torch: (lambda x: x.sum()) if axis is None else (lambda x: x.sum(axis)),
        jax=lambda jax, jnp: lambda x: x.sum(axis),
        numexpr="sum(x0)" if axis is None else f"sum(x0, axis={axis % 2})",
        cupy=lambda cupy: lambda x: x.sum(axis),
    )  # fmt: skip


CASES: Final = (
    Case(
        "k1",
        _program(
            ["a", "b", "c", "d"],
            "%m : Tensor = aten::mul(%a, %b)", "%s : Tensor = aten::add(%m, %c, %one)",
            "%g : Tensor = aten::sigmoid(%s)", "%t : Tensor = aten::tanh(%d)", "%r : Tensor = aten::mul(%g, %t)",
        ),
        4,
        torch=lambda torch: lambda a, b, c, d: torch.sigmoid(a * b + c) * torch.tanh(d),
        jax=lambda jax, jnp: lambda a, b, c, d: jax.nn.sigmoid(a * b + c) * jnp.tanh(d),
        numexpr="tanh(x3) / (exp(-(x0 * x1 + x2)) + 1)",
        cupy=_cupy_k1,
    ),
    Case(
        "k2",
        _program(
            ["x", "w"],
            "%how : str = prim::Constant[value=\"none\"]()", "%s : Tensor = aten::add(%x, %w, %one)",
            "%r : Tensor = aten::gelu(%s, %how)",
        ),
        1, rows=1, is_matrix=True,
        torch=lambda torch: lambda x, w: torch.nn.functional.gelu(x + w),
        jax=lambda jax, jnp: lambda x, w: jax.nn.gelu(x + w, approximate=False),
        memory_bound=False,
    ),
    Case(
        "k3",
        _program(
            ["x", "y"],
            "%half : float = prim::Constant[value=-0.5]()", "%more : float = prim::Constant[value=1.5]()",
            "%low : float = prim::Constant[value=-2.]()", "%high : float = prim::Constant[value=2.]()",
            "%unit : float = prim::Constant[value=1.]()",
            "%a : Tensor = aten::mul(%x, %half)", "%b : Tensor = aten::exp(%a)", "%c : Tensor = aten::mul(%b, %y)",
            "%d : Tensor = aten::add(%c, %more, %one)", "%e : Tensor = aten::relu(%d)",
            "%f : Tensor = aten::gt(%e, %x)", "%g : Tensor = aten::where(%f, %e, %y)",
            "%h : Tensor = aten::clamp(%g, %low, %high)", "%i : Tensor = aten::mul(%h, %h)",
            "%j : Tensor = aten::add(%i, %unit, %one)", "%k : Tensor = aten::sqrt(%j)",
            "%r : Tensor = aten::sub(%k, %x, %one)",
        ),
        2,
        torch=_torch_k3,
        jax=lambda jax, jnp: _k3(jnp.where, jnp.exp, jnp.sqrt, jnp.maximum, jnp.minimum),
        cupy=lambda cupy: _k3(cupy.where, cupy.exp, cupy.sqrt, cupy.maximum, cupy.minimum),
    ),
    Case(
        "softmax", _program(["x"], "%r : Tensor = aten::softmax(%x, %last, %none)"), 1, is_matrix=True,
        torch=lambda torch: lambda x: torch.softmax(x, -1), jax=lambda jax, jnp: lambda x: jax.nn.softmax(x, -1),
        cupy=_cupy_softmax,
    ),
    Case(
        "layernorm",
        _program(
            ["x", "w", "b"], "%n : int[] = prim::ListConstruct(%width)",
            "%r : Tensor = aten::layer_norm(%x, %n, %w, %b, %eps, %true)",
        ),
        1, rows=2, is_matrix=True,
        torch=lambda torch: lambda x, w, b: torch.nn.functional.layer_norm(x, (COLUMNS,), w, b, 1e-5),
        jax=_jax_layernorm,
    ),
    Case(
        "rmsnorm",
        _program(
            ["x", "w"],
            "%q : Tensor = aten::mul(%x, %x)", "%d : int[] = prim::ListConstruct(%last)",
            "%m : Tensor = aten::mean(%q, %d, %true, %none)", "%e : Tensor = aten::add(%m, %eps, %one)",
            "%i : Tensor = aten::rsqrt(%e)", "%n : Tensor = aten::mul(%x, %i)", "%r : Tensor = aten::mul(%n, %w)",
        ),
        1, rows=1, is_matrix=True,
        torch=lambda torch: lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w,
        jax=_jax_rmsnorm,
    ),
    _sum("sum rows", "last", -1),
    _sum("sum columns", "first", 0),
    _sum("sum all", "all", None),
)  # fmt: skip


def chosen(names: Sequence[str]) -> list[Case]:
    return [case for case in CASES if not names or case.name in names]
