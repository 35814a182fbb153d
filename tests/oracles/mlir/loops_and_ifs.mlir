func.func @f(%n: index, %x: tensor<2xf32>) -> tensor<2xf32> {
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
