func.func @main(%x: tensor<5x8xf32>, %w: tensor<8x8xf32>) -> (tensor<5xf32>, tensor<8xf32>, tensor<8x5xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %sums = stablehlo.constant dense<0.0> : tensor<5xf32>
  %start = stablehlo.constant dense<0.0> : tensor<8xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %most = stablehlo.constant dense<1.0e2> : tensor<f32>
  %scan:3 = stablehlo.while(%i = %zero, %c = %start, %s = %sums) : tensor<i32>, tensor<8xf32>, tensor<5xf32>
    cond { %0 = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1> }
    do { %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 8] : (tensor<5x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %r = stablehlo.reshape %row : (tensor<1x8xf32>) -> tensor<8xf32>
      %p = stablehlo.dot_general %c, %w, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
      %a = stablehlo.add %p, %r : tensor<8xf32>
      %t = stablehlo.tanh %a : tensor<8xf32>
      %sum = stablehlo.reduce(%t init: %none) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %one_sum = stablehlo.reshape %sum : (tensor<f32>) -> tensor<1xf32>
      %next = stablehlo.dynamic_update_slice %s, %one_sum, %i : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t, %next : tensor<i32>, tensor<8xf32>, tensor<5xf32> }
  %grown = stablehlo.while(%g = %scan#1) : tensor<8xf32>
    cond { %q = stablehlo.multiply %g, %g : tensor<8xf32>
      %sum = stablehlo.reduce(%q init: %none) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %0 = stablehlo.compare LT, %sum, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1> }
    do { %d = stablehlo.add %g, %g : tensor<8xf32>
      stablehlo.return %d : tensor<8xf32> }
  %turned = stablehlo.transpose %x, dims = [1, 0] : (tensor<5x8xf32>) -> tensor<8x5xf32>
  return %scan#2, %grown, %turned : tensor<5xf32>, tensor<8xf32>, tensor<8x5xf32>
}
