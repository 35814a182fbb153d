module @m attributes {my.version = 3 : i64, my.list = [1.5, true, "x"]} {
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
