"builtin.module"() ({
  "util.global"() <{initial_value = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "", cpu_features = "", data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128", iree.encoding.resolver = #iree_cpu.cpu_encoding_resolver<>, max_stack_allocation_size = 32768 : i64, native_vector_size = 16 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device, sym_name = "__device_0", sym_visibility = "private", type = !hal.device}> : () -> () loc("layer.mlir":0:0)
  "flow.executable"() <{sym_name = "main_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_0_matmul_8x16x16_f32, sym_name = "main_dispatch_0_matmul_8x16x16_f32"}> ({
      %40:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index) loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
      "flow.return"(%40#0, %40#1, %40#2) : (index, index, index) -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<16x16xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x16xf32>>) -> (), sym_name = "main_dispatch_0_matmul_8x16x16_f32"}> ({
      ^bb0(%arg11: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>> loc("layer.mlir":1:1), %arg12: !iree_tensor_ext.dispatch.tensor<readonly:tensor<16x16xf32>> loc("layer.mlir":1:1), %arg13: !iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>> loc("layer.mlir":1:1), %arg14: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x16xf32>> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))):
        %28 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32 loc(unknown)
        %29 = "iree_tensor_ext.dispatch.tensor.load"(%arg11) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 16>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>) -> tensor<8x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %30 = "iree_tensor_ext.dispatch.tensor.load"(%arg12) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 16, 16>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<16x16xf32>>) -> tensor<16x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %31 = "iree_tensor_ext.dispatch.tensor.load"(%arg13) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 16>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>) -> tensor<16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %32 = "tensor.empty"() : () -> tensor<8x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %33 = "linalg.fill"(%28, %32) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg21: f32 loc(callsite(unknown at "layer.mlir":1:1)), %arg22: f32 loc(callsite(unknown at "layer.mlir":1:1))):
          "linalg.yield"(%arg21) : (f32) -> () loc(callsite(unknown at "layer.mlir":1:1))
        }) : (f32, tensor<8x16xf32>) -> tensor<8x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %34 = "linalg.matmul"(%29, %30, %33) <{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%arg18: f32 loc(callsite(unknown at "layer.mlir":1:1)), %arg19: f32 loc(callsite(unknown at "layer.mlir":1:1)), %arg20: f32 loc(callsite(unknown at "layer.mlir":1:1))):
          %38 = "arith.mulf"(%arg18, %arg19) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32 loc(callsite(unknown at "layer.mlir":1:1))
          %39 = "arith.addf"(%arg20, %38) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32 loc(callsite(unknown at "layer.mlir":1:1))
          "linalg.yield"(%39) : (f32) -> () loc(callsite(unknown at "layer.mlir":1:1))
        }) : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        %35 = "linalg.generic"(%34, %31, %32) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%arg15: f32 loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1)), %arg16: f32 loc("layer.mlir":1:1), %arg17: f32 loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))):
          %36 = "arith.addf"(%arg15, %arg16) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32 loc(callsite("layer.mlir":4:8 at "layer.mlir":1:1))
          %37 = "math.tanh"(%36) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32 loc(callsite("layer.mlir":5:8 at "layer.mlir":1:1))
          "linalg.yield"(%37) : (f32) -> () loc(callsite("layer.mlir":5:8 at "layer.mlir":1:1))
        }) : (tensor<8x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc(callsite("layer.mlir":5:8 at "layer.mlir":1:1))
        "iree_tensor_ext.dispatch.tensor.store"(%35, %arg14) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 16>, static_strides = array<i64: 1, 1>}> : (tensor<8x16xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x16xf32>>) -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
        "func.return"() : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
      }) : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
    "flow.executable_end"() : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
  }) : () -> () loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
  "flow.executable"() <{sym_name = "main_dispatch_1", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_1_reduction_8x16_f32, sym_name = "main_dispatch_1_reduction_8x16_f32"}> ({
      %27:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index) loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
      "flow.return"(%27#0, %27#1, %27#2) : (index, index, index) -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> (), sym_name = "main_dispatch_1_reduction_8x16_f32"}> ({
      ^bb0(%arg5: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1)), %arg6: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))):
        %21 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32 loc(unknown)
        %22 = "iree_tensor_ext.dispatch.tensor.load"(%arg5) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 16>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>) -> tensor<8x16xf32> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        %23 = "tensor.empty"() : () -> tensor<8xf32> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        %24 = "linalg.fill"(%21, %23) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg9: f32 loc(callsite(unknown at "layer.mlir":1:1)), %arg10: f32 loc(callsite(unknown at "layer.mlir":1:1))):
          "linalg.yield"(%arg9) : (f32) -> () loc(callsite(unknown at "layer.mlir":1:1))
        }) : (f32, tensor<8xf32>) -> tensor<8xf32> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        %25 = "linalg.generic"(%22, %24) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg7: f32 loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1)), %arg8: f32 loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))):
          %26 = "arith.addf"(%arg8, %arg7) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32 loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
          "linalg.yield"(%26) : (f32) -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        }) : (tensor<8x16xf32>, tensor<8xf32>) -> tensor<8xf32> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        "iree_tensor_ext.dispatch.tensor.store"(%25, %arg6) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (tensor<8xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
        "func.return"() : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
      }) : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
    "flow.executable_end"() : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
  }) : () -> () loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
  "flow.executable"() <{sym_name = "main_dispatch_2", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_2_slow_memcpy, sym_name = "main_dispatch_2_slow_memcpy"}> ({
      %20:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index) loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
      "flow.return"(%20#0, %20#1, %20#2) : (index, index, index) -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<10x20xf32>>) -> (), sym_name = "main_dispatch_2_slow_memcpy"}> ({
      ^bb0(%arg3: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1)), %arg4: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<10x20xf32>> loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))):
        %19 = "iree_tensor_ext.dispatch.tensor.load"(%arg3) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 16>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x16xf32>>) -> tensor<8x16xf32> loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
        "iree_tensor_ext.dispatch.tensor.store"(%19, %arg4) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 1, 2>, static_sizes = array<i64: 8, 16>, static_strides = array<i64: 1, 1>}> : (tensor<8x16xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<10x20xf32>>) -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
        "func.return"() : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
      }) : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    }) : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    "flow.executable_end"() : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
  }) : () -> () loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
  "util.func"() <{function_type = (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view), sym_name = "main"}> ({
  ^bb0(%arg0: !hal.buffer_view loc("layer.mlir":1:1), %arg1: !hal.buffer_view loc("layer.mlir":1:1), %arg2: !hal.buffer_view loc("layer.mlir":1:1)):
    %0 = "arith.constant"() <{value = 64 : index}> : () -> index loc(unknown)
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index loc(unknown)
    %2 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32 loc(unknown)
    %3 = "hal.tensor.import"(%arg0) <{name = "input0", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<8x16xf32>}> : (!hal.buffer_view) -> tensor<8x16xf32> loc("layer.mlir":1:1)
    %4 = "hal.tensor.import"(%arg1) <{name = "input1", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<16x16xf32>}> : (!hal.buffer_view) -> tensor<16x16xf32> loc("layer.mlir":1:1)
    %5 = "hal.tensor.import"(%arg2) <{name = "input2", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<16xf32>}> : (!hal.buffer_view) -> tensor<16xf32> loc("layer.mlir":1:1)
    %6 = "flow.dispatch"(%3, %4, %5) <{entry_points = [@main_dispatch_0::@main_dispatch_0_matmul_8x16x16_f32], operandSegmentSizes = array<i32: 0, 3, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<8x16xf32> loc(callsite("layer.mlir":2:8 at "layer.mlir":1:1))
    %7 = "flow.dispatch"(%6) <{entry_points = [@main_dispatch_1::@main_dispatch_1_reduction_8x16_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8x16xf32>) -> tensor<8xf32> loc(callsite("layer.mlir":7:24 at "layer.mlir":1:1))
    %8 = "flow.tensor.reshape"(%6) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<8x16xf32>) -> tensor<128xf32> loc(callsite("layer.mlir":8:8 at "layer.mlir":1:1))
    %9 = "flow.tensor.slice"(%8, %1, %0) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>}> : (tensor<128xf32>, index, index) -> tensor<64xf32> loc(callsite("layer.mlir":9:8 at "layer.mlir":1:1))
    %10 = "flow.tensor.empty"() : () -> tensor<128xf32> loc(callsite("layer.mlir":10:8 at "layer.mlir":1:1))
    %11 = "flow.tensor.update"(%10, %1, %9) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>}> : (tensor<128xf32>, index, tensor<64xf32>) -> tensor<128xf32> loc(callsite("layer.mlir":10:8 at "layer.mlir":1:1))
    %12 = "flow.tensor.update"(%11, %0, %9) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>}> : (tensor<128xf32>, index, tensor<64xf32>) -> tensor<128xf32> loc(callsite("layer.mlir":10:8 at "layer.mlir":1:1))
    %13 = "flow.tensor.reshape"(%12) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<128xf32>) -> tensor<8x16xf32> loc(callsite("layer.mlir":11:8 at "layer.mlir":1:1))
    %14 = "flow.tensor.splat"(%2) : (f32) -> tensor<10x20xf32> loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    %15 = "flow.dispatch"(%6, %14) <{entry_points = [@main_dispatch_2::@main_dispatch_2_slow_memcpy], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [1 : index]}> : (tensor<8x16xf32>, tensor<10x20xf32>) -> tensor<10x20xf32> loc(callsite("layer.mlir":12:8 at "layer.mlir":1:1))
    %16 = "hal.tensor.export"(%15) <{name = "output0", source_encoding = tensor<10x20xf32>}> : (tensor<10x20xf32>) -> !hal.buffer_view loc("layer.mlir":1:1)
    %17 = "hal.tensor.export"(%7) <{name = "output1", source_encoding = tensor<8xf32>}> : (tensor<8xf32>) -> !hal.buffer_view loc("layer.mlir":1:1)
    %18 = "hal.tensor.export"(%13) <{name = "output2", source_encoding = tensor<8x16xf32>}> : (tensor<8x16xf32>) -> !hal.buffer_view loc("layer.mlir":1:1)
    "util.return"(%16, %17, %18) : (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view) -> () loc("layer.mlir":1:1)
  }) {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<8x16xf32>, %input1: tensor<16x16xf32>, %input2: tensor<16xf32>) -> (%output0: tensor<10x20xf32>, %output1: tensor<8xf32>, %output2: tensor<8x16xf32>)"}} : () -> () loc("layer.mlir":1:1)
}) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> () loc("layer.mlir":0:0)