"builtin.module"() ({
  "util.global"() <{initial_value = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "", cpu_features = "", data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128", iree.encoding.resolver = #iree_cpu.cpu_encoding_resolver<>, max_stack_allocation_size = 32768 : i64, native_vector_size = 16 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device, sym_name = "__device_0", sym_visibility = "private", type = !hal.device}> : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_0_vecmat_8x8_f32, sym_name = "main_dispatch_0_vecmat_8x8_f32"}> ({
    ^bb0(%arg52: index):
      %82:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"(%arg52) : (index) -> (index, index, index)
      "flow.return"(%82#0, %82#1, %82#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>, index, !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<8x8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> (), sym_name = "main_dispatch_0_vecmat_8x8_f32"}> ({
      ^bb0(%arg39: !iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>, %arg40: index, %arg41: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %arg42: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8x8xf32>>, %arg43: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>):
        %69 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %70 = "iree_tensor_ext.dispatch.workload.ordinal"(%arg40) <{ordinal = 0 : index}> : (index) -> index
        %71 = "iree_tensor_ext.dispatch.tensor.load"(%arg41) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>) -> tensor<8xf32>
        %72 = "iree_tensor_ext.dispatch.tensor.load"(%arg42) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 8>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8x8xf32>>) -> tensor<8x8xf32>
        %73 = "tensor.empty"() : () -> tensor<8xf32>
        %74 = "iree_tensor_ext.dispatch.tensor.load"(%arg39, %70) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 0>, static_sizes = array<i64: 1, 8>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>, index) -> tensor<8xf32>
        %75 = "linalg.fill"(%69, %73) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg50: f32, %arg51: f32):
          "linalg.yield"(%arg50) : (f32) -> ()
        }) : (f32, tensor<8xf32>) -> tensor<8xf32>
        %76 = "linalg.vecmat"(%71, %72, %75) <{operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%arg47: f32, %arg48: f32, %arg49: f32):
          %80 = "arith.mulf"(%arg47, %arg48) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %81 = "arith.addf"(%arg49, %80) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "linalg.yield"(%81) : (f32) -> ()
        }) {linalg.memoized_indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>]} : (tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
        %77 = "linalg.generic"(%76, %74, %73) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%arg44: f32, %arg45: f32, %arg46: f32):
          %78 = "arith.addf"(%arg44, %arg45) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %79 = "math.tanh"(%78) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32
          "linalg.yield"(%79) : (f32) -> ()
        }) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%77, %arg43) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (tensor<8xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_1", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_1_reduction_8_f32, sym_name = "main_dispatch_1_reduction_8_f32"}> ({
      %68:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%68#0, %68#1, %68#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>) -> (), sym_name = "main_dispatch_1_reduction_8_f32"}> ({
      ^bb0(%arg33: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %arg34: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>):
        %62 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %63 = "iree_tensor_ext.dispatch.tensor.load"(%arg33) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>) -> tensor<8xf32>
        %64 = "tensor.empty"() : () -> tensor<f32>
        %65 = "linalg.fill"(%62, %64) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg37: f32, %arg38: f32):
          "linalg.yield"(%arg37) : (f32) -> ()
        }) : (f32, tensor<f32>) -> tensor<f32>
        %66 = "linalg.generic"(%63, %65) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg35: f32, %arg36: f32):
          %67 = "arith.addf"(%arg36, %arg35) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "linalg.yield"(%67) : (f32) -> ()
        }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        "iree_tensor_ext.dispatch.tensor.store"(%66, %arg34) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<f32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_2", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_2_reduction_8_f32, sym_name = "main_dispatch_2_reduction_8_f32"}> ({
      %61:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%61#0, %61#1, %61#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>) -> (), sym_name = "main_dispatch_2_reduction_8_f32"}> ({
      ^bb0(%arg27: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %arg28: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>):
        %54 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %55 = "iree_tensor_ext.dispatch.tensor.load"(%arg27) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>) -> tensor<8xf32>
        %56 = "tensor.empty"() : () -> tensor<f32>
        %57 = "linalg.fill"(%54, %56) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg31: f32, %arg32: f32):
          "linalg.yield"(%arg31) : (f32) -> ()
        }) : (f32, tensor<f32>) -> tensor<f32>
        %58 = "linalg.generic"(%55, %57) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg29: f32, %arg30: f32):
          %59 = "arith.mulf"(%arg29, %arg29) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %60 = "arith.addf"(%arg30, %59) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "linalg.yield"(%60) : (f32) -> ()
        }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        "iree_tensor_ext.dispatch.tensor.store"(%58, %arg28) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<f32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<f32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_3", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_3_elementwise, sym_name = "main_dispatch_3_elementwise"}> ({
      %53 = "arith.constant"() <{value = 1 : index}> : () -> index
      "flow.return"(%53, %53, %53) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<f32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>) -> (), sym_name = "main_dispatch_3_elementwise"}> ({
      ^bb0(%arg23: !iree_tensor_ext.dispatch.tensor<readonly:tensor<f32>>, %arg24: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>):
        %48 = "arith.constant"() <{value = 1.000000e+02 : f32}> : () -> f32
        %49 = "iree_tensor_ext.dispatch.tensor.load"(%arg23) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<f32>>) -> tensor<f32>
        %50 = "tensor.empty"() : () -> tensor<i1>
        %51 = "linalg.generic"(%49, %50) <{indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = [], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg25: f32, %arg26: i1):
          %52 = "arith.cmpf"(%arg25, %48) <{fastmath = #arith.fastmath<none>, predicate = 4 : i64}> : (f32, f32) -> i1
          "linalg.yield"(%52) : (i1) -> ()
        }) : (tensor<f32>, tensor<i1>) -> tensor<i1>
        "iree_tensor_ext.dispatch.tensor.store"(%51, %arg24) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i1>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_4", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_4_elementwise_8_f32, sym_name = "main_dispatch_4_elementwise_8_f32"}> ({
      %47:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%47#0, %47#1, %47#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> (), sym_name = "main_dispatch_4_elementwise_8_f32"}> ({
      ^bb0(%arg19: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %arg20: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>):
        %43 = "iree_tensor_ext.dispatch.tensor.load"(%arg19) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>) -> tensor<8xf32>
        %44 = "tensor.empty"() : () -> tensor<8xf32>
        %45 = "linalg.generic"(%43, %44) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg21: f32, %arg22: f32):
          %46 = "arith.addf"(%arg21, %arg21) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "linalg.yield"(%46) : (f32) -> ()
        }) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%45, %arg20) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (tensor<8xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_5", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_5_reduction_8_f32, sym_name = "main_dispatch_5_reduction_8_f32"}> ({
      %42:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%42#0, %42#1, %42#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>) -> (), sym_name = "main_dispatch_5_reduction_8_f32"}> ({
      ^bb0(%arg11: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %arg12: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>):
        %31 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %32 = "arith.constant"() <{value = 1.000000e+02 : f32}> : () -> f32
        %33 = "iree_tensor_ext.dispatch.tensor.load"(%arg11) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 8>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>) -> tensor<8xf32>
        %34 = "tensor.empty"() : () -> tensor<i1>
        %35 = "tensor.empty"() : () -> tensor<f32>
        %36 = "linalg.fill"(%31, %35) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg17: f32, %arg18: f32):
          "linalg.yield"(%arg17) : (f32) -> ()
        }) : (f32, tensor<f32>) -> tensor<f32>
        %37 = "linalg.generic"(%33, %36) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg15: f32, %arg16: f32):
          %40 = "arith.mulf"(%arg15, %arg15) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %41 = "arith.addf"(%arg16, %40) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "linalg.yield"(%41) : (f32) -> ()
        }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        %38 = "linalg.generic"(%37, %34) <{indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = [], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg13: f32, %arg14: i1):
          %39 = "arith.cmpf"(%arg13, %32) <{fastmath = #arith.fastmath<none>, predicate = 4 : i64}> : (f32, f32) -> i1
          "linalg.yield"(%39) : (i1) -> ()
        }) : (tensor<f32>, tensor<i1>) -> tensor<i1>
        "iree_tensor_ext.dispatch.tensor.store"(%38, %arg12) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i1>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i1>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_6", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_6_transpose_5x8_f32, sym_name = "main_dispatch_6_transpose_5x8_f32"}> ({
      %30:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%30#0, %30#1, %30#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x5xf32>>) -> (), sym_name = "main_dispatch_6_transpose_5x8_f32"}> ({
      ^bb0(%arg7: !iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>, %arg8: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x5xf32>>):
        %27 = "iree_tensor_ext.dispatch.tensor.load"(%arg7) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 5, 8>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<5x8xf32>>) -> tensor<5x8xf32>
        %28 = "tensor.empty"() : () -> tensor<8x5xf32>
        %29 = "linalg.generic"(%27, %28) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg9: f32, %arg10: f32):
          "linalg.yield"(%arg9) : (f32) -> ()
        }) : (tensor<5x8xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%29, %arg8) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 8, 5>, static_strides = array<i64: 1, 1>}> : (tensor<8x5xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8x5xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "util.func"() <{function_type = (!hal.buffer_view, !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view), sym_name = "main"}> ({
  ^bb0(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view):
    %0 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %1 = "arith.constant"() <{value = 5 : i32}> : () -> i32
    %2 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %3 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<8xf32>}> : () -> tensor<8xf32>
    %4 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<5xf32>}> : () -> tensor<5xf32>
    %5 = "arith.constant"() <{value = 4 : index}> : () -> index
    %6 = "hal.tensor.import"(%arg0) <{name = "input0", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<5x8xf32>}> : (!hal.buffer_view) -> tensor<5x8xf32>
    %7 = "hal.tensor.import"(%arg1) <{name = "input1", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<8x8xf32>}> : (!hal.buffer_view) -> tensor<8x8xf32>
    %8:2 = "scf.for"(%2, %1, %0, %3, %4) ({
    ^bb0(%arg4: i32, %arg5: tensor<8xf32>, %arg6: tensor<5xf32>):
      %21 = "arith.index_castui"(%arg4) : (i32) -> index
      %22 = "arith.minui"(%21, %5) : (index, index) -> index
      %23 = "flow.dispatch"(%22, %6, %22, %arg5, %7) <{entry_points = [@main_dispatch_0::@main_dispatch_0_vecmat_8x8_f32], operandSegmentSizes = array<i32: 1, 4, 0, 0>, tied_operands = [-1 : index]}> : (index, tensor<5x8xf32>, index, tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
      %24 = "flow.dispatch"(%23) <{entry_points = [@main_dispatch_1::@main_dispatch_1_reduction_8_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8xf32>) -> tensor<f32>
      %25 = "flow.tensor.reshape"(%24) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<f32>) -> tensor<1xf32>
      %26 = "flow.tensor.update"(%arg6, %22, %25) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>}> : (tensor<5xf32>, index, tensor<1xf32>) -> tensor<5xf32>
      "scf.yield"(%23, %26) : (tensor<8xf32>, tensor<5xf32>) -> ()
    }) : (i32, i32, i32, tensor<8xf32>, tensor<5xf32>) -> (tensor<8xf32>, tensor<5xf32>)
    %9 = "flow.dispatch"(%8#0) <{entry_points = [@main_dispatch_2::@main_dispatch_2_reduction_8_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8xf32>) -> tensor<f32>
    %10 = "flow.dispatch"(%9) <{entry_points = [@main_dispatch_3::@main_dispatch_3_elementwise], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<f32>) -> tensor<i1>
    %11 = "flow.tensor.load"(%10) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<i1>) -> i1
    %12 = "scf.if"(%11) ({
      %17 = "scf.while"(%8#0) ({
      ^bb0(%arg3: tensor<8xf32>):
        %18 = "flow.dispatch"(%arg3) <{entry_points = [@main_dispatch_4::@main_dispatch_4_elementwise_8_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8xf32>) -> tensor<8xf32>
        %19 = "flow.dispatch"(%18) <{entry_points = [@main_dispatch_5::@main_dispatch_5_reduction_8_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<8xf32>) -> tensor<i1>
        %20 = "flow.tensor.load"(%19) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<i1>) -> i1
        "scf.condition"(%20, %18) : (i1, tensor<8xf32>) -> ()
      }, {
      ^bb0(%arg2: tensor<8xf32>):
        "scf.yield"(%arg2) : (tensor<8xf32>) -> ()
      }) : (tensor<8xf32>) -> tensor<8xf32>
      "scf.yield"(%17) : (tensor<8xf32>) -> ()
    }, {
      "scf.yield"(%8#0) : (tensor<8xf32>) -> ()
    }) : (i1) -> tensor<8xf32>
    %13 = "flow.dispatch"(%6) <{entry_points = [@main_dispatch_6::@main_dispatch_6_transpose_5x8_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<5x8xf32>) -> tensor<8x5xf32>
    %14 = "hal.tensor.export"(%8#1) <{name = "output0", source_encoding = tensor<5xf32>}> : (tensor<5xf32>) -> !hal.buffer_view
    %15 = "hal.tensor.export"(%12) <{name = "output1", source_encoding = tensor<8xf32>}> : (tensor<8xf32>) -> !hal.buffer_view
    %16 = "hal.tensor.export"(%13) <{name = "output2", source_encoding = tensor<8x5xf32>}> : (tensor<8x5xf32>) -> !hal.buffer_view
    "util.return"(%14, %15, %16) : (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view) -> ()
  }) {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<5x8xf32>, %input1: tensor<8x8xf32>) -> (%output0: tensor<5xf32>, %output1: tensor<8xf32>, %output2: tensor<8x5xf32>)"}} : () -> ()
}) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()