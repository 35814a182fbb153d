func.func @f(%a: !my.handle<4>, %b: tensor<?x3xi4>) -> i32 {
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
