func.func @f(%n: i32, %x: tensor<2xf32>) -> tensor<2xf32> {
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
