"""Sound MLIR of many kinds, to be damaged: control flow, symbols, unknown dialects, constants, and what JAX writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HANDWRITTEN: Final = tuple(
    (Path(__file__).with_name("mlir") / f"{name}.mlir").read_text(encoding="utf-8")
    for name in ("branches", "loops_and_ifs", "modules", "unknown_dialect", "stablehlo")
)
LOOPS_AND_IFS: Final = HANDWRITTEN[1]


def of_jax() -> Iterator[str]:
    """The StableHLO of functions of JAX's, with its locations."""
    import jax
    import jax.numpy as jnp

    x = jnp.zeros((3, 4), jnp.float32)
    kernel, image = jnp.zeros((2, 1, 2, 2), jnp.float32), jnp.zeros((1, 1, 5, 5), jnp.float32)
    whole = jnp.zeros((3, 4), jnp.int32)

    def loop(x: Any, n: Any) -> Any:
        step = jax.lax.fori_loop(0, n, lambda i, c: jax.lax.cond(i > 2, jnp.sin, jnp.cos, c), x)
        return jax.lax.scan(lambda c, row: (c + row, c * 2), step[0], step)

    functions: list[tuple[Any, tuple[Any, ...]]] = [
        (loop, (x, 3)),
        (lambda x, k: jax.nn.softmax(jnp.sort(x, axis=1)) @ k, (x, x.T)),
        (lambda x, i: x.at[i, 1].add(2.0)[i, ::2].cumsum(1), (x, jnp.zeros((2,), jnp.int32))),
        (lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME").max((2, 3)), (image, kernel)),
        (lambda x: (x.astype(jnp.uint8) >> 1, x % 3 == 0, jnp.pad(x, 1), jax.lax.clamp(1, x, 2)), (whole,)),
    ]
    for function, args in functions:
        yield jax.jit(function).lower(*args).as_text(debug_info=True)
