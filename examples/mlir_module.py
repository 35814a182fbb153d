"""An MLIR file of several functions: what the calls mean for memory, and the program without them.

Needs `pip install 'irscope[jax]'` or `'irscope[mlir]'`, either of which brings MLIR's Python bindings.
Run: python examples/mlir_module.py
"""

import numpy as np

import irscope as irs
from irscope.ir.module import inlined

TEXT = """
module @model {
  func.func private @scale(%x: tensor<4xf32>, %by: tensor<f32>) -> tensor<4xf32> {
    %0 = stablehlo.broadcast_in_dim %by, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func public @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
      cond {
        %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %b = func.call @scale(%a, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
      }
    return %r#1 : tensor<4xf32>
  }
}
"""


def main() -> None:
    module = irs.load(TEXT)
    print(module, "\n")
    caller = module.graphs["main"]
    scaled = next(node for node in caller.nodes() if node.op == "func::call").output
    verdict = irs.AliasDb(caller, callees=module).may_alias(caller.inputs[0], scaled)
    print("may the call's result share memory with %x?", bool(verdict), "-", verdict.because)
    graph = inlined(module)
    assert {"prim::Loop", "aten::mul"} <= {node.op for node in graph.nodes()}
    x = np.array([8, -4, 2, 1], np.float32)
    assert irs.compile(graph)(x, np.array(3, np.int32)).tolist() == (x / 8).tolist()


if __name__ == "__main__":
    main()
