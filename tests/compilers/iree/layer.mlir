func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>) -> (tensor<10x20xf32>, tensor<8xf32>, tensor<8x16xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x16xf32>
  %3 = stablehlo.tanh %2 : tensor<8x16xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.reshape %3 : (tensor<8x16xf32>) -> tensor<128xf32>
  %6 = stablehlo.slice %5 [0:64] : (tensor<128xf32>) -> tensor<64xf32>
  %7 = stablehlo.concatenate %6, %6, dim = 0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %8 = stablehlo.reshape %7 : (tensor<128xf32>) -> tensor<8x16xf32>
  %9 = stablehlo.pad %3, %z, low = [1, 2], high = [1, 2], interior = [0, 0] : (tensor<8x16xf32>, tensor<f32>) -> tensor<10x20xf32>
  return %9, %4, %8 : tensor<10x20xf32>, tensor<8xf32>, tensor<8x16xf32>
}
