"""Sound MLIR of many kinds, to be damaged: control flow, symbols, unknown dialects, constants, and what JAX writes."""

from collections.abc import Iterator
from typing import Any, Final

LOOPS_AND_IFS: Final = """func.func @f(%n: index, %x: tensor<2xf32>) -> tensor<2xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c1 to %n step %c2 iter_args(%a = %x) -> tensor<2xf32> {
    %k = arith.index_cast %i : index to i32
    %three = arith.constant 3 : i32
    %is = arith.cmpi eq, %k, %three : i32
    %b = scf.if %is -> tensor<2xf32> {
      %s = arith.addf %a, %a : tensor<2xf32>
      scf.yield %s : tensor<2xf32>
    } else {
      %t = math.exp %a : tensor<2xf32>
      scf.yield %t : tensor<2xf32>
    }
    scf.yield %b : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""

HANDWRITTEN: Final = (
    """func.func @f(%n: i32, %x: tensor<2xf32>) -> tensor<2xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  cf.br ^head(%c0, %x : i32, tensor<2xf32>)
^head(%i: i32, %a: tensor<2xf32>):
  %go = arith.cmpi slt, %i, %n : i32
  cf.cond_br %go, ^body, ^done
^body:
  %is = arith.cmpi eq, %i, %c1 : i32
  cf.cond_br %is, ^one(%a : tensor<2xf32>), ^two
^one(%p: tensor<2xf32>):
  %s = arith.addf %p, %p : tensor<2xf32>
  cf.br ^meet(%s : tensor<2xf32>)
^two:
  %t = arith.mulf %a, %a : tensor<2xf32>
  cf.br ^meet(%t : tensor<2xf32>)
^meet(%m: tensor<2xf32>):
  %j = arith.addi %i, %c1 : i32
  cf.br ^head(%j, %m : i32, tensor<2xf32>)
^done:
  return %a : tensor<2xf32>
}
""",
    LOOPS_AND_IFS,
    """module @m attributes {my.version = 3 : i64, my.list = [1.5, true, "x"]} {
  memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 0xFF800000]>
  func.func private @helper(%a: tensor<2xf32> loc("a")) -> tensor<2xf32> {
    %0 = tensor.empty() : tensor<2xf32>
    %1 = "linalg.generic"(%a, %0) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%in: f32, %out: f32):
      %2 = arith.addf %in, %in : f32
      "linalg.yield"(%2) : (f32) -> ()
    }) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32> loc(#where)
  }
  module @inner {
    func.func @g(%a: tensor<?x3xi4>) -> tensor<?x3xi4> { return %a : tensor<?x3xi4> }
  }
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = func.call @helper(%a) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
#file = loc("model.py":7:3)
#where = loc("jit(f)/layer/tanh"(callsite(#file at "main.py":1:1)))
""",
    """func.func @f(%a: !my.handle<4>, %b: tensor<?x3xi4>) -> i32 {
  %0:2 = "my.op"(%a, %b) ({
  ^bb0(%x: f32):
    "my.use"(%x) : (f32) -> ()
    "my.yield"(%x) : (f32) -> ()
  }) {word = "plain", map = affine_map<(d0) -> (d0)>, n = 3 : i32, list = [1.5, true], flag, v = dense<2> : tensor<9x9xi64>,
      scale = 0xFFF0000000000000 : f64} : (!my.handle<4>, tensor<?x3xi4>) -> (i32, memref<2xf32>)
  %1 = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  %2 = stablehlo.constant dense<[(1.0, -0.0), (0x7F800000, 2.0)]> : tensor<2xcomplex<f32>>
  %3 = stablehlo.constant dense<"0x000080FF0100C07F"> : tensor<2xf32>
  return %0#0 : i32
}
{-# dialect_resources: {builtin: {weights: "0x0400000000000080000080FF"}} #-}
""",
    """func.func @f(%a: tensor<?x4xf32>, %b: tensor<4x5xf32>) -> tensor<?x5xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x5xf32>) -> tensor<?x5xf32>
  %1 = "stablehlo.tanh"(%0) : (tensor<?x5xf32>) -> tensor<?x5xf32>
  %2 = stablehlo.get_dimension_size %1, dim = 0 : (tensor<?x5xf32>) -> tensor<i32>
  %3 = stablehlo.custom_call @mine(%1, %2) {backend_config = "x"} : (tensor<?x5xf32>, tensor<i32>) -> tensor<?x5xf32>
  return %3 : tensor<?x5xf32>
}
""",
)


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
