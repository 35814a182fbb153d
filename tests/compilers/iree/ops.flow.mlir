"builtin.module"() <{sym_name = "jit_ops"}> ({
  "util.global"() <{initial_value = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "", cpu_features = "", data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128", iree.encoding.resolver = #iree_cpu.cpu_encoding_resolver<>, max_stack_allocation_size = 32768 : i64, native_vector_size = 16 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device, sym_name = "__device_0", sym_visibility = "private", type = !hal.device}> : () -> ()
  "util.global"() <{sym_name = "__hoisted_tensor_4xi32", sym_visibility = "private", type = tensor<4xi32>}> {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()
  "flow.executable"() <{sym_name = "_initializer_0_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @_initializer_0_dispatch_0_elementwise_broadcast_4_i32, sym_name = "_initializer_0_dispatch_0_elementwise_broadcast_4_i32"}> ({
      %155:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%155#0, %155#1, %155#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>) -> (), sym_name = "_initializer_0_dispatch_0_elementwise_broadcast_4_i32"}> ({
      ^bb0(%arg67: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>):
        %151 = "tensor.empty"() : () -> tensor<4xi32>
        %152 = "linalg.generic"(%151) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg68: i32):
          %153 = "linalg.index"() <{dim = 0 : i64}> : () -> index
          %154 = "arith.index_cast"(%153) : (index) -> i32
          "linalg.yield"(%154) : (i32) -> ()
        }) : (tensor<4xi32>) -> tensor<4xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%152, %arg67) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "util.initializer"() <{function_type = () -> ()}> ({
    %150 = "flow.dispatch"() <{entry_points = [@_initializer_0_dispatch_0::@_initializer_0_dispatch_0_elementwise_broadcast_4_i32], operandSegmentSizes = array<i32: 0, 0, 0, 0>, tied_operands = [-1 : index]}> : () -> tensor<4xi32>
    "util.global.store"(%150) <{global = @__hoisted_tensor_4xi32}> : (tensor<4xi32>) -> ()
    "util.return"() : () -> ()
  }) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_0_reduction_6_f32xf32xi32, sym_name = "main_dispatch_0_reduction_6_f32xf32xi32"}> ({
      %149:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%149#0, %149#1, %149#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> (), sym_name = "main_dispatch_0_reduction_6_f32xf32xi32"}> ({
      ^bb0(%arg58: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg59: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>):
        %130 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %131 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %132 = "tensor.empty"() : () -> tensor<i32>
        %133 = "tensor.empty"() : () -> tensor<f32>
        %134 = "iree_tensor_ext.dispatch.tensor.load"(%arg58) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<6xf32>
        %135 = "linalg.fill"(%130, %133) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg65: f32, %arg66: f32):
          "linalg.yield"(%arg65) : (f32) -> ()
        }) : (f32, tensor<f32>) -> tensor<f32>
        %136 = "linalg.fill"(%131, %132) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg63: i32, %arg64: i32):
          "linalg.yield"(%arg63) : (i32) -> ()
        }) : (i32, tensor<i32>) -> tensor<i32>
        %137:2 = "linalg.generic"(%134, %135, %136) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 2>}> ({
        ^bb0(%arg60: f32, %arg61: f32, %arg62: i32):
          %138 = "linalg.index"() <{dim = 0 : i64}> : () -> index
          %139 = "arith.index_cast"(%138) : (index) -> i32
          %140 = "arith.cmpf"(%arg61, %arg60) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (f32, f32) -> i1
          %141 = "arith.cmpf"(%arg61, %arg61) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %142 = "arith.ori"(%140, %141) : (i1, i1) -> i1
          %143 = "arith.cmpf"(%arg61, %arg60) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %144 = "arith.cmpi"(%arg62, %139) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %145 = "arith.andi"(%143, %144) : (i1, i1) -> i1
          %146 = "arith.ori"(%142, %145) : (i1, i1) -> i1
          %147 = "arith.select"(%142, %arg61, %arg60) : (i1, f32, f32) -> f32
          %148 = "arith.select"(%146, %arg62, %139) : (i1, i32, i32) -> i32
          "linalg.yield"(%147, %148) : (f32, i32) -> ()
        }) : (tensor<6xf32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
        "iree_tensor_ext.dispatch.tensor.store"(%137#1, %arg59) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_1", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_1_elementwise, sym_name = "main_dispatch_1_elementwise"}> ({
      %129 = "arith.constant"() <{value = 1 : index}> : () -> index
      "flow.return"(%129, %129, %129) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> (), sym_name = "main_dispatch_1_elementwise"}> ({
      ^bb0(%arg54: !iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>, %arg55: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>):
        %121 = "arith.constant"() <{value = 4 : i32}> : () -> i32
        %122 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %123 = "iree_tensor_ext.dispatch.tensor.load"(%arg54) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>) -> tensor<i32>
        %124 = "tensor.empty"() : () -> tensor<i32>
        %125 = "linalg.generic"(%123, %124) <{indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = [], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg56: i32, %arg57: i32):
          %126 = "arith.addi"(%arg56, %121) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %127 = "arith.cmpi"(%arg56, %122) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %128 = "arith.select"(%127, %126, %arg56) : (i1, i32, i32) -> i32
          "linalg.yield"(%128) : (i32) -> ()
        }) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "iree_tensor_ext.dispatch.tensor.store"(%125, %arg55) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_2", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_2_slow_memcpy, sym_name = "main_dispatch_2_slow_memcpy"}> ({
    ^bb0(%arg53: index):
      %120:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"(%arg53) : (index) -> (index, index, index)
      "flow.return"(%120#0, %120#1, %120#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, index) -> (), sym_name = "main_dispatch_2_slow_memcpy"}> ({
      ^bb0(%arg50: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>, %arg51: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, %arg52: index):
        %118 = "iree_tensor_ext.dispatch.workload.ordinal"(%arg52) <{ordinal = 0 : index}> : (index) -> index
        %119 = "iree_tensor_ext.dispatch.tensor.load"(%arg50) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>) -> tensor<2xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%119, %arg51, %118) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 2>, static_sizes = array<i64: 2, 1>, static_strides = array<i64: 1, 1>}> : (tensor<2xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, index) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_3", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_3_sort_4xf32_dispatch_tensor_store, sym_name = "main_dispatch_3_sort_4xf32_dispatch_tensor_store"}> ({
      %117:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%117#0, %117#1, %117#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> (), sym_name = "main_dispatch_3_sort_4xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg44: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg45: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>):
        %89 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %90 = "arith.constant"() <{value = 0x7FC00000 : f32}> : () -> f32
        %91 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %92 = "arith.constant"() <{value = 2147483647 : i32}> : () -> i32
        %93 = "iree_tensor_ext.dispatch.tensor.load"(%arg45) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> tensor<4xi32>
        %94 = "iree_tensor_ext.dispatch.tensor.load"(%arg44) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 1>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4xf32>
        %95:2 = "iree_linalg_ext.sort"(%94, %93) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 2>}> ({
        ^bb0(%arg46: f32, %arg47: f32, %arg48: i32, %arg49: i32):
          %96 = "arith.cmpf"(%arg46, %89) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %97 = "arith.select"(%96, %89, %arg46) : (i1, f32, f32) -> f32
          %98 = "arith.cmpf"(%arg46, %arg46) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %99 = "arith.select"(%98, %90, %97) : (i1, f32, f32) -> f32
          %100 = "arith.cmpf"(%arg47, %89) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %101 = "arith.select"(%100, %89, %arg47) : (i1, f32, f32) -> f32
          %102 = "arith.cmpf"(%arg47, %arg47) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %103 = "arith.select"(%102, %90, %101) : (i1, f32, f32) -> f32
          %104 = "arith.cmpi"(%arg48, %arg49) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %105 = "arith.bitcast"(%99) : (f32) -> i32
          %106 = "arith.cmpi"(%105, %91) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %107 = "arith.subi"(%92, %105) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %108 = "arith.select"(%106, %107, %105) : (i1, i32, i32) -> i32
          %109 = "arith.bitcast"(%103) : (f32) -> i32
          %110 = "arith.cmpi"(%109, %91) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %111 = "arith.subi"(%92, %109) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %112 = "arith.select"(%110, %111, %109) : (i1, i32, i32) -> i32
          %113 = "arith.cmpi"(%108, %112) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %114 = "arith.cmpi"(%108, %112) <{predicate = 0 : i64}> : (i32, i32) -> i1
          %115 = "arith.andi"(%114, %104) : (i1, i1) -> i1
          %116 = "arith.ori"(%113, %115) : (i1, i1) -> i1
          "iree_linalg_ext.yield"(%116) : (i1) -> ()
        }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
        "iree_tensor_ext.dispatch.tensor.store"(%95#1, %arg45) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xi32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_4", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_4_elementwise_broadcast_18_f32, sym_name = "main_dispatch_4_elementwise_broadcast_18_f32"}> ({
      %88:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%88#0, %88#1, %88#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>) -> (), sym_name = "main_dispatch_4_elementwise_broadcast_18_f32"}> ({
      ^bb0(%arg40: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>, %arg41: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>):
        %85 = "iree_tensor_ext.dispatch.tensor.load"(%arg40) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 1>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>) -> tensor<f32>
        %86 = "tensor.empty"() : () -> tensor<18xf32>
        %87 = "linalg.generic"(%85, %86) <{indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg42: f32, %arg43: f32):
          "linalg.yield"(%arg42) : (f32) -> ()
        }) : (tensor<f32>, tensor<18xf32>) -> tensor<18xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%87, %arg41) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 18>, static_strides = array<i64: 1>}> : (tensor<18xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_5", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store"}> ({
      %84:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%84#0, %84#1, %84#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg36: !iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>, %arg37: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>):
        %79 = "arith.constant"() <{value = dense<[1, 3, 1]> : tensor<3xi32>}> : () -> tensor<3xi32>
        %80 = "iree_tensor_ext.dispatch.tensor.load"(%arg36) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 3, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>) -> tensor<3x6xf32>
        %81 = "iree_tensor_ext.dispatch.tensor.load"(%arg37) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %82 = "iree_linalg_ext.scatter"(%80, %79, %81) <{dimension_map = array<i64: 0>, unique_indices = false}> ({
        ^bb0(%arg38: f32, %arg39: f32):
          %83 = "arith.addf"(%arg39, %arg38) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%83) : (f32) -> ()
        }) : (tensor<3x6xf32>, tensor<3xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%82, %arg37) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_6", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_6_elementwise_6_f32xi32, sym_name = "main_dispatch_6_elementwise_6_f32xi32"}> ({
      %78:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%78#0, %78#1, %78#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>) -> (), sym_name = "main_dispatch_6_elementwise_6_f32xi32"}> ({
      ^bb0(%arg32: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg33: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>):
        %72 = "arith.constant"() <{value = 9.000000e+00 : f32}> : () -> f32
        %73 = "tensor.empty"() : () -> tensor<6xi32>
        %74 = "iree_tensor_ext.dispatch.tensor.load"(%arg32) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<6xf32>
        %75 = "linalg.generic"(%74, %73) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg34: f32, %arg35: i32):
          %76 = "arith.mulf"(%arg34, %72) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %77 = "arith.fptosi"(%76) : (f32) -> i32
          "linalg.yield"(%77) : (i32) -> ()
        }) : (tensor<6xf32>, tensor<6xi32>) -> tensor<6xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%75, %arg33) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_7", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_7_sort_6xi32_dispatch_tensor_store, sym_name = "main_dispatch_7_sort_6xi32_dispatch_tensor_store"}> ({
      %71:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%71#0, %71#1, %71#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> (), sym_name = "main_dispatch_7_sort_6xi32_dispatch_tensor_store"}> ({
      ^bb0(%arg29: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>):
        %68 = "iree_tensor_ext.dispatch.tensor.load"(%arg29) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> tensor<6xi32>
        %69 = "iree_linalg_ext.sort"(%68) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg30: i32, %arg31: i32):
          %70 = "arith.cmpi"(%arg30, %arg31) <{predicate = 6 : i64}> : (i32, i32) -> i1
          "iree_linalg_ext.yield"(%70) : (i1) -> ()
        }) : (tensor<6xi32>) -> tensor<6xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%69, %arg29) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xi32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_8", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_8_topk_4x6xf32, sym_name = "main_dispatch_8_topk_4x6xf32"}> ({
      %67:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%67#0, %67#1, %67#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>) -> (), sym_name = "main_dispatch_8_topk_4x6xf32"}> ({
      ^bb0(%arg20: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg21: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>, %arg22: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>):
        %58 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %59 = "arith.constant"() <{value = 2147483647 : i32}> : () -> i32
        %60 = "iree_tensor_ext.dispatch.tensor.load"(%arg20) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %61 = "tensor.empty"() : () -> tensor<4x2xi32>
        %62 = "tensor.empty"() : () -> tensor<4x2xf32>
        %63 = "linalg.fill"(%59, %61) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg27: i32, %arg28: i32):
          "linalg.yield"(%arg27) : (i32) -> ()
        }) : (i32, tensor<4x2xi32>) -> tensor<4x2xi32>
        %64 = "linalg.fill"(%58, %62) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg25: f32, %arg26: f32):
          "linalg.yield"(%arg25) : (f32) -> ()
        }) : (f32, tensor<4x2xf32>) -> tensor<4x2xf32>
        %65:2 = "iree_linalg_ext.topk"(%60, %64, %63) <{dimension = 1 : i64}> ({
        ^bb0(%arg23: f32, %arg24: f32):
          %66 = "arith.cmpf"(%arg23, %arg24) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (f32, f32) -> i1
          "iree_linalg_ext.yield"(%66) : (i1) -> ()
        }) : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
        "iree_tensor_ext.dispatch.tensor.store"(%65#0, %arg21) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 2>, static_strides = array<i64: 1, 1>}> : (tensor<4x2xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>) -> ()
        "iree_tensor_ext.dispatch.tensor.store"(%65#1, %arg22) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 2>, static_strides = array<i64: 1, 1>}> : (tensor<4x2xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_9", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_9_transpose_6_f32, sym_name = "main_dispatch_9_transpose_6_f32"}> ({
      %57:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%57#0, %57#1, %57#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> (), sym_name = "main_dispatch_9_transpose_6_f32"}> ({
      ^bb0(%arg18: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>):
        %54 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %55 = "tensor.empty"() : () -> tensor<6xf32>
        %56 = "linalg.generic"(%55) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg19: f32):
          "linalg.yield"(%54) : (f32) -> ()
        }) : (tensor<6xf32>) -> tensor<6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%56, %arg18) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_10", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_10_scan_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_10_scan_4x6xf32_dispatch_tensor_store"}> ({
      %53:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%53#0, %53#1, %53#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_10_scan_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg13: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg14: !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>, %arg15: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>):
        %48 = "iree_tensor_ext.dispatch.tensor.load"(%arg13) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %49 = "iree_tensor_ext.dispatch.tensor.load"(%arg14) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>) -> tensor<6xf32>
        %50 = "tensor.empty"() : () -> tensor<4x6xf32>
        %51:2 = "iree_linalg_ext.scan"(%48, %50, %49) <{dimension = 0 : i64, inclusive = true}> ({
        ^bb0(%arg16: f32, %arg17: f32):
          %52 = "arith.addf"(%arg16, %arg17) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%52) : (f32) -> ()
        }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%51#0, %arg15) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_11", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_11_transpose_4_f32, sym_name = "main_dispatch_11_transpose_4_f32"}> ({
      %47:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%47#0, %47#1, %47#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) -> (), sym_name = "main_dispatch_11_transpose_4_f32"}> ({
      ^bb0(%arg11: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>):
        %44 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %45 = "tensor.empty"() : () -> tensor<4xf32>
        %46 = "linalg.generic"(%45) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg12: f32):
          "linalg.yield"(%44) : (f32) -> ()
        }) : (tensor<4xf32>) -> tensor<4xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%46, %arg11) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_12", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_12_scan_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_12_scan_4x6xf32_dispatch_tensor_store"}> ({
      %43:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%43#0, %43#1, %43#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_12_scan_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg6: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg7: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, %arg8: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>):
        %38 = "iree_tensor_ext.dispatch.tensor.load"(%arg6) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %39 = "iree_tensor_ext.dispatch.tensor.load"(%arg7) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>) -> tensor<4xf32>
        %40 = "tensor.empty"() : () -> tensor<4x6xf32>
        %41:2 = "iree_linalg_ext.scan"(%38, %40, %39) <{dimension = 1 : i64, inclusive = true}> ({
        ^bb0(%arg9: f32, %arg10: f32):
          %42 = "arith.maximumf"(%arg9, %arg10) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%42) : (f32) -> ()
        }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%41#0, %arg8) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_13", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_13_elementwise_6_i32xf32, sym_name = "main_dispatch_13_elementwise_6_i32xf32"}> ({
      %37:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%37#0, %37#1, %37#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> (), sym_name = "main_dispatch_13_elementwise_6_i32xf32"}> ({
      ^bb0(%arg2: !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>, %arg3: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>):
        %33 = "iree_tensor_ext.dispatch.tensor.load"(%arg2) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>) -> tensor<6xi32>
        %34 = "tensor.empty"() : () -> tensor<6xf32>
        %35 = "linalg.generic"(%33, %34) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg4: i32, %arg5: f32):
          %36 = "arith.uitofp"(%arg4) : (i32) -> f32
          "linalg.yield"(%36) : (f32) -> ()
        }) : (tensor<6xi32>, tensor<6xf32>) -> tensor<6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%35, %arg3) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "util.func"() <{function_type = (!hal.buffer_view, !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view), sym_name = "main"}> ({
  ^bb0(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view):
    %0 = "arith.constant"() <{value = 2 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0 : index}> : () -> index
    %2 = "util.global.load"() <{global = @__hoisted_tensor_4xi32, is_immutable}> : () -> tensor<4xi32>
    %3 = "hal.tensor.import"(%arg0) <{name = "input0", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<4x6xf32>}> : (!hal.buffer_view) -> tensor<4x6xf32>
    %4 = "hal.tensor.import"(%arg1) <{name = "input1", operandSegmentSizes = array<i32: 1, 0, 0, 0>, target_encoding = tensor<2x1xf32>}> : (!hal.buffer_view) -> tensor<2x1xf32>
    %5 = "flow.dispatch"(%3) <{entry_points = [@main_dispatch_0::@main_dispatch_0_reduction_6_f32xf32xi32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<4x6xf32>) -> tensor<i32>
    %6 = "flow.dispatch"(%5) <{entry_points = [@main_dispatch_1::@main_dispatch_1_elementwise], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<i32>) -> tensor<i32>
    %7 = "flow.tensor.load"(%6) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<i32>) -> i32
    %8 = "arith.index_cast"(%7) : (i32) -> index
    %9 = "arith.maxsi"(%8, %1) : (index, index) -> index
    %10 = "arith.minui"(%9, %0) : (index, index) -> index
    %11 = "flow.tensor.reshape"(%4) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<2x1xf32>) -> tensor<2xf32>
    %12 = "flow.dispatch"(%10, %11, %3, %10) <{entry_points = [@main_dispatch_2::@main_dispatch_2_slow_memcpy], operandSegmentSizes = array<i32: 1, 3, 0, 0>, tied_operands = [1 : index]}> : (index, tensor<2xf32>, tensor<4x6xf32>, index) -> tensor<4x6xf32>
    %13 = "flow.dispatch"(%3, %2) <{entry_points = [@main_dispatch_3::@main_dispatch_3_sort_4xf32_dispatch_tensor_store], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [1 : index]}> : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4xi32>
    %14 = "flow.dispatch"(%4) <{entry_points = [@main_dispatch_4::@main_dispatch_4_elementwise_broadcast_18_f32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<2x1xf32>) -> tensor<18xf32>
    %15 = "flow.tensor.reshape"(%14) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<18xf32>) -> tensor<3x6xf32>
    %16 = "flow.dispatch"(%15, %12) <{entry_points = [@main_dispatch_5::@main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [1 : index]}> : (tensor<3x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %17 = "flow.dispatch"(%3) <{entry_points = [@main_dispatch_6::@main_dispatch_6_elementwise_6_f32xi32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<4x6xf32>) -> tensor<6xi32>
    %18 = "flow.dispatch"(%17) <{entry_points = [@main_dispatch_7::@main_dispatch_7_sort_6xi32_dispatch_tensor_store], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [0 : index]}> : (tensor<6xi32>) -> tensor<6xi32>
    %19:2 = "flow.dispatch"(%3) <{entry_points = [@main_dispatch_8::@main_dispatch_8_topk_4x6xf32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index, -1 : index]}> : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %20 = "flow.dispatch"() <{entry_points = [@main_dispatch_9::@main_dispatch_9_transpose_6_f32], operandSegmentSizes = array<i32: 0, 0, 0, 0>, tied_operands = [-1 : index]}> : () -> tensor<6xf32>
    %21 = "flow.dispatch"(%3, %20) <{entry_points = [@main_dispatch_10::@main_dispatch_10_scan_4x6xf32_dispatch_tensor_store], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]}> : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %22 = "flow.dispatch"() <{entry_points = [@main_dispatch_11::@main_dispatch_11_transpose_4_f32], operandSegmentSizes = array<i32: 0, 0, 0, 0>, tied_operands = [-1 : index]}> : () -> tensor<4xf32>
    %23 = "flow.dispatch"(%3, %22) <{entry_points = [@main_dispatch_12::@main_dispatch_12_scan_4x6xf32_dispatch_tensor_store], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]}> : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4x6xf32>
    %24 = "flow.dispatch"(%18) <{entry_points = [@main_dispatch_13::@main_dispatch_13_elementwise_6_i32xf32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<6xi32>) -> tensor<6xf32>
    %25 = "hal.tensor.export"(%12) <{name = "output0", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %26 = "hal.tensor.export"(%13) <{name = "output1", source_encoding = tensor<4xi32>}> : (tensor<4xi32>) -> !hal.buffer_view
    %27 = "hal.tensor.export"(%16) <{name = "output2", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %28 = "hal.tensor.export"(%19#0) <{name = "output3", source_encoding = tensor<4x2xf32>}> : (tensor<4x2xf32>) -> !hal.buffer_view
    %29 = "hal.tensor.export"(%19#1) <{name = "output4", source_encoding = tensor<4x2xi32>}> : (tensor<4x2xi32>) -> !hal.buffer_view
    %30 = "hal.tensor.export"(%21) <{name = "output5", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %31 = "hal.tensor.export"(%23) <{name = "output6", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %32 = "hal.tensor.export"(%24) <{name = "output7", source_encoding = tensor<6xf32>}> : (tensor<6xf32>) -> !hal.buffer_view
    "util.return"(%25, %26, %27, %28, %29, %30, %31, %32) : (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view) -> ()
  }) {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<4x6xf32>, %input1: tensor<2x1xf32>) -> (%output0: tensor<4x6xf32>, %output1: tensor<4xi32>, %output2: tensor<4x6xf32>, %output3: tensor<4x2xf32>, %output4: tensor<4x2xi32>, %output5: tensor<4x6xf32>, %output6: tensor<4x6xf32>, %output7: tensor<6xf32>)"}} : () -> ()
}) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()