func.func @f(%a: tensor<?x4xf32>, %b: tensor<4x5xf32>) -> tensor<?x5xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x5xf32>) -> tensor<?x5xf32>
  %1 = "stablehlo.tanh"(%0) : (tensor<?x5xf32>) -> tensor<?x5xf32>
  %2 = stablehlo.get_dimension_size %1, dim = 0 : (tensor<?x5xf32>) -> tensor<i32>
  %3 = stablehlo.custom_call @mine(%1, %2) {backend_config = "x"} : (tensor<?x5xf32>, tensor<i32>) -> tensor<?x5xf32>
  return %3 : tensor<?x5xf32>
}
