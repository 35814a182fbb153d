"builtin.module"() <{sym_name = "jit_ops"}> ({
  "util.global"() <{initial_value = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "", cpu_features = "", data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128", iree.encoding.resolver = #iree_cpu.cpu_encoding_resolver<>, max_stack_allocation_size = 32768 : i64, native_vector_size = 16 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device, sym_name = "__device_0", sym_visibility = "private", type = !hal.device}> : () -> ()
  "util.global"() <{sym_name = "__hoisted_tensor_4xi32", sym_visibility = "private", type = tensor<4xi32>}> {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()
  "flow.executable"() <{sym_name = "_initializer_0_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @_initializer_0_dispatch_0_elementwise_broadcast_4_i32, sym_name = "_initializer_0_dispatch_0_elementwise_broadcast_4_i32"}> ({
      %203:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%203#0, %203#1, %203#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>) -> (), sym_name = "_initializer_0_dispatch_0_elementwise_broadcast_4_i32"}> ({
      ^bb0(%arg87: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>):
        %199 = "tensor.empty"() : () -> tensor<4xi32>
        %200 = "linalg.generic"(%199) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg88: i32):
          %201 = "linalg.index"() <{dim = 0 : i64}> : () -> index
          %202 = "arith.index_cast"(%201) : (index) -> i32
          "linalg.yield"(%202) : (i32) -> ()
        }) : (tensor<4xi32>) -> tensor<4xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%200, %arg87) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "util.initializer"() <{function_type = () -> ()}> ({
    %198 = "flow.dispatch"() <{entry_points = [@_initializer_0_dispatch_0::@_initializer_0_dispatch_0_elementwise_broadcast_4_i32], operandSegmentSizes = array<i32: 0, 0, 0, 0>, tied_operands = [-1 : index]}> : () -> tensor<4xi32>
    "util.global.store"(%198) <{global = @__hoisted_tensor_4xi32}> : (tensor<4xi32>) -> ()
    "util.return"() : () -> ()
  }) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_0", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_0_reduction_6_f32xf32xi32, sym_name = "main_dispatch_0_reduction_6_f32xf32xi32"}> ({
      %197:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%197#0, %197#1, %197#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> (), sym_name = "main_dispatch_0_reduction_6_f32xf32xi32"}> ({
      ^bb0(%arg78: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg79: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>):
        %178 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %179 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %180 = "tensor.empty"() : () -> tensor<i32>
        %181 = "tensor.empty"() : () -> tensor<f32>
        %182 = "iree_tensor_ext.dispatch.tensor.load"(%arg78) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<6xf32>
        %183 = "linalg.fill"(%178, %181) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg85: f32, %arg86: f32):
          "linalg.yield"(%arg85) : (f32) -> ()
        }) : (f32, tensor<f32>) -> tensor<f32>
        %184 = "linalg.fill"(%179, %180) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg83: i32, %arg84: i32):
          "linalg.yield"(%arg83) : (i32) -> ()
        }) : (i32, tensor<i32>) -> tensor<i32>
        %185:2 = "linalg.generic"(%182, %183, %184) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 2>}> ({
        ^bb0(%arg80: f32, %arg81: f32, %arg82: i32):
          %186 = "linalg.index"() <{dim = 0 : i64}> : () -> index
          %187 = "arith.index_cast"(%186) : (index) -> i32
          %188 = "arith.cmpf"(%arg81, %arg80) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (f32, f32) -> i1
          %189 = "arith.cmpf"(%arg81, %arg81) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %190 = "arith.ori"(%188, %189) : (i1, i1) -> i1
          %191 = "arith.cmpf"(%arg81, %arg80) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %192 = "arith.cmpi"(%arg82, %187) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %193 = "arith.andi"(%191, %192) : (i1, i1) -> i1
          %194 = "arith.ori"(%190, %193) : (i1, i1) -> i1
          %195 = "arith.select"(%190, %arg81, %arg80) : (i1, f32, f32) -> f32
          %196 = "arith.select"(%194, %arg82, %187) : (i1, i32, i32) -> i32
          "linalg.yield"(%195, %196) : (f32, i32) -> ()
        }) : (tensor<6xf32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
        "iree_tensor_ext.dispatch.tensor.store"(%185#1, %arg79) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_1", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_1_elementwise, sym_name = "main_dispatch_1_elementwise"}> ({
      %177 = "arith.constant"() <{value = 1 : index}> : () -> index
      "flow.return"(%177, %177, %177) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> (), sym_name = "main_dispatch_1_elementwise"}> ({
      ^bb0(%arg74: !iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>, %arg75: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>):
        %169 = "arith.constant"() <{value = 4 : i32}> : () -> i32
        %170 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %171 = "iree_tensor_ext.dispatch.tensor.load"(%arg74) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<i32>>) -> tensor<i32>
        %172 = "tensor.empty"() : () -> tensor<i32>
        %173 = "linalg.generic"(%171, %172) <{indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = [], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg76: i32, %arg77: i32):
          %174 = "arith.addi"(%arg76, %169) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %175 = "arith.cmpi"(%arg76, %170) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %176 = "arith.select"(%175, %174, %arg76) : (i1, i32, i32) -> i32
          "linalg.yield"(%176) : (i32) -> ()
        }) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "iree_tensor_ext.dispatch.tensor.store"(%173, %arg75) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64>, static_sizes = array<i64>, static_strides = array<i64>}> : (tensor<i32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<i32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_2", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_2_slow_memcpy, sym_name = "main_dispatch_2_slow_memcpy"}> ({
    ^bb0(%arg73: index):
      %168:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"(%arg73) : (index) -> (index, index, index)
      "flow.return"(%168#0, %168#1, %168#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, index) -> (), sym_name = "main_dispatch_2_slow_memcpy"}> ({
      ^bb0(%arg70: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>, %arg71: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, %arg72: index):
        %166 = "iree_tensor_ext.dispatch.workload.ordinal"(%arg72) <{ordinal = 0 : index}> : (index) -> index
        %167 = "iree_tensor_ext.dispatch.tensor.load"(%arg70) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2xf32>>) -> tensor<2xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%167, %arg71, %166) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 2>, static_sizes = array<i64: 2, 1>, static_strides = array<i64: 1, 1>}> : (tensor<2xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>, index) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_3", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_3_sort_4xf32_dispatch_tensor_store, sym_name = "main_dispatch_3_sort_4xf32_dispatch_tensor_store"}> ({
      %165:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%165#0, %165#1, %165#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> (), sym_name = "main_dispatch_3_sort_4xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg64: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg65: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>):
        %137 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %138 = "arith.constant"() <{value = 0x7FC00000 : f32}> : () -> f32
        %139 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %140 = "arith.constant"() <{value = 2147483647 : i32}> : () -> i32
        %141 = "iree_tensor_ext.dispatch.tensor.load"(%arg65) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> tensor<4xi32>
        %142 = "iree_tensor_ext.dispatch.tensor.load"(%arg64) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 1>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4xf32>
        %143:2 = "iree_linalg_ext.sort"(%142, %141) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 2>}> ({
        ^bb0(%arg66: f32, %arg67: f32, %arg68: i32, %arg69: i32):
          %144 = "arith.cmpf"(%arg66, %137) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %145 = "arith.select"(%144, %137, %arg66) : (i1, f32, f32) -> f32
          %146 = "arith.cmpf"(%arg66, %arg66) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %147 = "arith.select"(%146, %138, %145) : (i1, f32, f32) -> f32
          %148 = "arith.cmpf"(%arg67, %137) <{fastmath = #arith.fastmath<none>, predicate = 1 : i64}> : (f32, f32) -> i1
          %149 = "arith.select"(%148, %137, %arg67) : (i1, f32, f32) -> f32
          %150 = "arith.cmpf"(%arg67, %arg67) <{fastmath = #arith.fastmath<none>, predicate = 13 : i64}> : (f32, f32) -> i1
          %151 = "arith.select"(%150, %138, %149) : (i1, f32, f32) -> f32
          %152 = "arith.cmpi"(%arg68, %arg69) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %153 = "arith.bitcast"(%147) : (f32) -> i32
          %154 = "arith.cmpi"(%153, %139) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %155 = "arith.subi"(%140, %153) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %156 = "arith.select"(%154, %155, %153) : (i1, i32, i32) -> i32
          %157 = "arith.bitcast"(%151) : (f32) -> i32
          %158 = "arith.cmpi"(%157, %139) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %159 = "arith.subi"(%140, %157) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %160 = "arith.select"(%158, %159, %157) : (i1, i32, i32) -> i32
          %161 = "arith.cmpi"(%156, %160) <{predicate = 2 : i64}> : (i32, i32) -> i1
          %162 = "arith.cmpi"(%156, %160) <{predicate = 0 : i64}> : (i32, i32) -> i1
          %163 = "arith.andi"(%162, %152) : (i1, i1) -> i1
          %164 = "arith.ori"(%161, %163) : (i1, i1) -> i1
          "iree_linalg_ext.yield"(%164) : (i1) -> ()
        }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
        "iree_tensor_ext.dispatch.tensor.store"(%143#1, %arg65) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xi32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_4", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_4_elementwise_broadcast_18_f32, sym_name = "main_dispatch_4_elementwise_broadcast_18_f32"}> ({
      %136:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%136#0, %136#1, %136#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>) -> (), sym_name = "main_dispatch_4_elementwise_broadcast_18_f32"}> ({
      ^bb0(%arg60: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>, %arg61: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>):
        %133 = "iree_tensor_ext.dispatch.tensor.load"(%arg60) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 1>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<2x1xf32>>) -> tensor<f32>
        %134 = "tensor.empty"() : () -> tensor<18xf32>
        %135 = "linalg.generic"(%133, %134) <{indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg62: f32, %arg63: f32):
          "linalg.yield"(%arg62) : (f32) -> ()
        }) : (tensor<f32>, tensor<18xf32>) -> tensor<18xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%135, %arg61) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 18>, static_strides = array<i64: 1>}> : (tensor<18xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<18xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_5", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store"}> ({
      %132:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%132#0, %132#1, %132#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_5_scatter_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg56: !iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>, %arg57: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>):
        %127 = "arith.constant"() <{value = dense<[1, 3, 1]> : tensor<3xi32>}> : () -> tensor<3xi32>
        %128 = "iree_tensor_ext.dispatch.tensor.load"(%arg56) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 3, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<3x6xf32>>) -> tensor<3x6xf32>
        %129 = "iree_tensor_ext.dispatch.tensor.load"(%arg57) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %130 = "iree_linalg_ext.scatter"(%128, %127, %129) <{dimension_map = array<i64: 0>, unique_indices = false}> ({
        ^bb0(%arg58: f32, %arg59: f32):
          %131 = "arith.addf"(%arg59, %arg58) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%131) : (f32) -> ()
        }) : (tensor<3x6xf32>, tensor<3xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%130, %arg57) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_6", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_6_elementwise_6_f32xi32, sym_name = "main_dispatch_6_elementwise_6_f32xi32"}> ({
      %126:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%126#0, %126#1, %126#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>) -> (), sym_name = "main_dispatch_6_elementwise_6_f32xi32"}> ({
      ^bb0(%arg52: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg53: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>):
        %120 = "arith.constant"() <{value = 9.000000e+00 : f32}> : () -> f32
        %121 = "tensor.empty"() : () -> tensor<6xi32>
        %122 = "iree_tensor_ext.dispatch.tensor.load"(%arg52) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 1, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<6xf32>
        %123 = "linalg.generic"(%122, %121) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg54: f32, %arg55: i32):
          %124 = "arith.mulf"(%arg54, %120) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %125 = "arith.fptosi"(%124) : (f32) -> i32
          "linalg.yield"(%125) : (i32) -> ()
        }) : (tensor<6xf32>, tensor<6xi32>) -> tensor<6xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%123, %arg53) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_7", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_7_sort_6xi32_dispatch_tensor_store, sym_name = "main_dispatch_7_sort_6xi32_dispatch_tensor_store"}> ({
      %119:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%119#0, %119#1, %119#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> (), sym_name = "main_dispatch_7_sort_6xi32_dispatch_tensor_store"}> ({
      ^bb0(%arg49: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>):
        %116 = "iree_tensor_ext.dispatch.tensor.load"(%arg49) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> tensor<6xi32>
        %117 = "iree_linalg_ext.sort"(%116) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg50: i32, %arg51: i32):
          %118 = "arith.cmpi"(%arg50, %arg51) <{predicate = 6 : i64}> : (i32, i32) -> i1
          "iree_linalg_ext.yield"(%118) : (i1) -> ()
        }) : (tensor<6xi32>) -> tensor<6xi32>
        "iree_tensor_ext.dispatch.tensor.store"(%117, %arg49) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xi32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<6xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_8", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_8_topk_4x6xf32, sym_name = "main_dispatch_8_topk_4x6xf32"}> ({
      %115:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%115#0, %115#1, %115#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>) -> (), sym_name = "main_dispatch_8_topk_4x6xf32"}> ({
      ^bb0(%arg40: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg41: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>, %arg42: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>):
        %106 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %107 = "arith.constant"() <{value = 2147483647 : i32}> : () -> i32
        %108 = "iree_tensor_ext.dispatch.tensor.load"(%arg40) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %109 = "tensor.empty"() : () -> tensor<4x2xi32>
        %110 = "tensor.empty"() : () -> tensor<4x2xf32>
        %111 = "linalg.fill"(%107, %109) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg47: i32, %arg48: i32):
          "linalg.yield"(%arg47) : (i32) -> ()
        }) : (i32, tensor<4x2xi32>) -> tensor<4x2xi32>
        %112 = "linalg.fill"(%106, %110) <{operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg45: f32, %arg46: f32):
          "linalg.yield"(%arg45) : (f32) -> ()
        }) : (f32, tensor<4x2xf32>) -> tensor<4x2xf32>
        %113:2 = "iree_linalg_ext.topk"(%108, %112, %111) <{dimension = 1 : i64}> ({
        ^bb0(%arg43: f32, %arg44: f32):
          %114 = "arith.cmpf"(%arg43, %arg44) <{fastmath = #arith.fastmath<none>, predicate = 2 : i64}> : (f32, f32) -> i1
          "iree_linalg_ext.yield"(%114) : (i1) -> ()
        }) : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
        "iree_tensor_ext.dispatch.tensor.store"(%113#0, %arg41) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 2>, static_strides = array<i64: 1, 1>}> : (tensor<4x2xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xf32>>) -> ()
        "iree_tensor_ext.dispatch.tensor.store"(%113#1, %arg42) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 2>, static_strides = array<i64: 1, 1>}> : (tensor<4x2xi32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x2xi32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_9", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_9_transpose_6_f32, sym_name = "main_dispatch_9_transpose_6_f32"}> ({
      %105:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%105#0, %105#1, %105#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> (), sym_name = "main_dispatch_9_transpose_6_f32"}> ({
      ^bb0(%arg38: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>):
        %102 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %103 = "tensor.empty"() : () -> tensor<6xf32>
        %104 = "linalg.generic"(%103) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg39: f32):
          "linalg.yield"(%102) : (f32) -> ()
        }) : (tensor<6xf32>) -> tensor<6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%104, %arg38) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_10", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_10_scan_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_10_scan_4x6xf32_dispatch_tensor_store"}> ({
      %101:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%101#0, %101#1, %101#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_10_scan_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg33: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg34: !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>, %arg35: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>):
        %96 = "iree_tensor_ext.dispatch.tensor.load"(%arg33) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %97 = "iree_tensor_ext.dispatch.tensor.load"(%arg34) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xf32>>) -> tensor<6xf32>
        %98 = "tensor.empty"() : () -> tensor<4x6xf32>
        %99:2 = "iree_linalg_ext.scan"(%96, %98, %97) <{dimension = 0 : i64, inclusive = true}> ({
        ^bb0(%arg36: f32, %arg37: f32):
          %100 = "arith.addf"(%arg36, %arg37) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%100) : (f32) -> ()
        }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%99#0, %arg35) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_11", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_11_transpose_4_f32, sym_name = "main_dispatch_11_transpose_4_f32"}> ({
      %95:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%95#0, %95#1, %95#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) -> (), sym_name = "main_dispatch_11_transpose_4_f32"}> ({
      ^bb0(%arg31: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>):
        %92 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
        %93 = "tensor.empty"() : () -> tensor<4xf32>
        %94 = "linalg.generic"(%93) <{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
        ^bb0(%arg32: f32):
          "linalg.yield"(%92) : (f32) -> ()
        }) : (tensor<4xf32>) -> tensor<4xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%94, %arg31) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (tensor<4xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_12", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_12_scan_4x6xf32_dispatch_tensor_store, sym_name = "main_dispatch_12_scan_4x6xf32_dispatch_tensor_store"}> ({
      %91:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%91#0, %91#1, %91#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> (), sym_name = "main_dispatch_12_scan_4x6xf32_dispatch_tensor_store"}> ({
      ^bb0(%arg26: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg27: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, %arg28: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>):
        %86 = "iree_tensor_ext.dispatch.tensor.load"(%arg26) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x6xf32>
        %87 = "iree_tensor_ext.dispatch.tensor.load"(%arg27) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>) -> tensor<4xf32>
        %88 = "tensor.empty"() : () -> tensor<4x6xf32>
        %89:2 = "iree_linalg_ext.scan"(%86, %88, %87) <{dimension = 1 : i64, inclusive = true}> ({
        ^bb0(%arg29: f32, %arg30: f32):
          %90 = "arith.maximumf"(%arg29, %arg30) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "iree_linalg_ext.yield"(%90) : (f32) -> ()
        }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%89#0, %arg28) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>}> : (tensor<4x6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_13", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_13_elementwise_6_i32xf32, sym_name = "main_dispatch_13_elementwise_6_i32xf32"}> ({
      %85:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%85#0, %85#1, %85#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> (), sym_name = "main_dispatch_13_elementwise_6_i32xf32"}> ({
      ^bb0(%arg22: !iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>, %arg23: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>):
        %81 = "iree_tensor_ext.dispatch.tensor.load"(%arg22) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<6xi32>>) -> tensor<6xi32>
        %82 = "tensor.empty"() : () -> tensor<6xf32>
        %83 = "linalg.generic"(%81, %82) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg24: i32, %arg25: f32):
          %84 = "arith.uitofp"(%arg24) : (i32) -> f32
          "linalg.yield"(%84) : (f32) -> ()
        }) : (tensor<6xi32>, tensor<6xf32>) -> tensor<6xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%83, %arg23) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 6>, static_strides = array<i64: 1>}> : (tensor<6xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<6xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_14", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_14_elementwise_4x4_f32xcomplex_f32_, sym_name = "main_dispatch_14_elementwise_4x4_f32xcomplex_f32_"}> ({
      %80:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%80#0, %80#1, %80#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xcomplex<f32>>>) -> (), sym_name = "main_dispatch_14_elementwise_4x4_f32xcomplex_f32_"}> ({
      ^bb0(%arg18: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>, %arg19: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xcomplex<f32>>>):
        %75 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
        %76 = "tensor.empty"() : () -> tensor<4x4xcomplex<f32>>
        %77 = "iree_tensor_ext.dispatch.tensor.load"(%arg18) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>) -> tensor<4x4xf32>
        %78 = "linalg.generic"(%77, %76) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
        ^bb0(%arg20: f32, %arg21: complex<f32>):
          %79 = "complex.create"(%arg20, %75) : (f32, f32) -> complex<f32>
          "linalg.yield"(%79) : (complex<f32>) -> ()
        }) : (tensor<4x4xf32>, tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
        "iree_tensor_ext.dispatch.tensor.store"(%78, %arg19) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xcomplex<f32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xcomplex<f32>>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_15", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_15_elementwise_broadcast_4x4_i64xf32xf32, sym_name = "main_dispatch_15_elementwise_broadcast_4x4_i64xf32xf32"}> ({
      %74:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%74#0, %74#1, %74#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x4xcomplex<f32>>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>) -> (), sym_name = "main_dispatch_15_elementwise_broadcast_4x4_i64xf32xf32"}> ({
      ^bb0(%arg12: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x4xcomplex<f32>>>, %arg13: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>, %arg14: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>):
        %65 = "arith.constant"() <{value = dense<[0, 2, 1, 3]> : tensor<4xi64>}> : () -> tensor<4xi64>
        %66 = "iree_tensor_ext.dispatch.tensor.load"(%arg12) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<4x4xcomplex<f32>>>) -> tensor<4x4xcomplex<f32>>
        %67 = "tensor.empty"() : () -> tensor<4x4xf32>
        %68:2 = "linalg.generic"(%65, %67, %67) <{indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 2>}> ({
        ^bb0(%arg15: i64, %arg16: f32, %arg17: f32):
          %69 = "linalg.index"() <{dim = 0 : i64}> : () -> index
          %70 = "arith.index_cast"(%arg15) : (i64) -> index
          %71 = "tensor.extract"(%66, %69, %70) : (tensor<4x4xcomplex<f32>>, index, index) -> complex<f32>
          %72 = "complex.re"(%71) <{fastmath = #arith.fastmath<none>}> : (complex<f32>) -> f32
          %73 = "complex.im"(%71) <{fastmath = #arith.fastmath<none>}> : (complex<f32>) -> f32
          "linalg.yield"(%72, %73) : (f32, f32) -> ()
        }) : (tensor<4xi64>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%68#0, %arg13) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>) -> ()
        "iree_tensor_ext.dispatch.tensor.store"(%68#1, %arg14) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x4xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_16", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_16_fft_4x4xf32, sym_name = "main_dispatch_16_fft_4x4xf32"}> ({
      %64:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%64#0, %64#1, %64#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> (), sym_name = "main_dispatch_16_fft_4x4xf32"}> ({
      ^bb0(%arg10: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>, %arg11: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>):
        %58 = "arith.constant"() <{value = dense<1.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
        %59 = "arith.constant"() <{value = dense<-0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
        %60 = "arith.constant"() <{value = 1 : index}> : () -> index
        %61 = "iree_tensor_ext.dispatch.tensor.load"(%arg10) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> tensor<4x4xf32>
        %62 = "iree_tensor_ext.dispatch.tensor.load"(%arg11) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> tensor<4x4xf32>
        %63:2 = "iree_linalg_ext.fft"(%60, %58, %59, %61, %62) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}> : (index, tensor<1xf32>, tensor<1xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%63#0, %arg10) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> ()
        "iree_tensor_ext.dispatch.tensor.store"(%63#1, %arg11) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_17", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_17_fft_4x4xf32, sym_name = "main_dispatch_17_fft_4x4xf32"}> ({
      %57:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%57#0, %57#1, %57#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> (), sym_name = "main_dispatch_17_fft_4x4xf32"}> ({
      ^bb0(%arg8: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>, %arg9: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>):
        %51 = "arith.constant"() <{value = dense<[1.000000e+00, 6.12323426E-17]> : tensor<2xf32>}> : () -> tensor<2xf32>
        %52 = "arith.constant"() <{value = dense<[-0.000000e+00, -1.000000e+00]> : tensor<2xf32>}> : () -> tensor<2xf32>
        %53 = "arith.constant"() <{value = 2 : index}> : () -> index
        %54 = "iree_tensor_ext.dispatch.tensor.load"(%arg8) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> tensor<4x4xf32>
        %55 = "iree_tensor_ext.dispatch.tensor.load"(%arg9) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (!iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> tensor<4x4xf32>
        %56:2 = "iree_linalg_ext.fft"(%53, %51, %52, %54, %55) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}> : (index, tensor<2xf32>, tensor<2xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
        "iree_tensor_ext.dispatch.tensor.store"(%56#0, %arg8) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> ()
        "iree_tensor_ext.dispatch.tensor.store"(%56#1, %arg9) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 4>, static_strides = array<i64: 1, 1>}> : (tensor<4x4xf32>, !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4x4xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "flow.executable"() <{sym_name = "main_dispatch_18", sym_visibility = "private"}> ({
    "flow.executable.export"() <{function_ref = @main_dispatch_18_elementwise_16_f32, sym_name = "main_dispatch_18_elementwise_16_f32"}> ({
      %50:3 = "iree_tensor_ext.dispatch.workgroup_count_from_slice"() : () -> (index, index, index)
      "flow.return"(%50#0, %50#1, %50#2) : (index, index, index) -> ()
    }) : () -> ()
    "builtin.module"() ({
      "func.func"() <{function_type = (!iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>, !iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<16xf32>>) -> (), sym_name = "main_dispatch_18_elementwise_16_f32"}> ({
      ^bb0(%arg2: !iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>, %arg3: !iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>, %arg4: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<16xf32>>):
        %42 = "iree_tensor_ext.dispatch.tensor.load"(%arg2) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 16>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>) -> tensor<16xf32>
        %43 = "iree_tensor_ext.dispatch.tensor.load"(%arg3) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 16>, static_strides = array<i64: 1>}> : (!iree_tensor_ext.dispatch.tensor<readonly:tensor<16xf32>>) -> tensor<16xf32>
        %44 = "tensor.empty"() : () -> tensor<16xf32>
        %45 = "linalg.generic"(%42, %43, %44) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%arg5: f32, %arg6: f32, %arg7: f32):
          %46 = "arith.mulf"(%arg6, %arg6) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %47 = "arith.mulf"(%arg5, %arg5) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %48 = "arith.addf"(%47, %46) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          %49 = "math.sqrt"(%48) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32
          "linalg.yield"(%49) : (f32) -> ()
        }) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        "iree_tensor_ext.dispatch.tensor.store"(%45, %arg4) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>, static_offsets = array<i64: 0>, static_sizes = array<i64: 16>, static_strides = array<i64: 1>}> : (tensor<16xf32>, !iree_tensor_ext.dispatch.tensor<writeonly:tensor<16xf32>>) -> ()
        "func.return"() : () -> ()
      }) : () -> ()
    }) : () -> ()
    "flow.executable_end"() : () -> ()
  }) : () -> ()
  "util.func"() <{function_type = (!hal.buffer_view, !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view), sym_name = "main"}> ({
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
    %25 = "flow.dispatch"(%3) <{entry_points = [@main_dispatch_14::@main_dispatch_14_elementwise_4x4_f32xcomplex_f32_], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index]}> : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
    %26:2 = "flow.dispatch"(%25) <{entry_points = [@main_dispatch_15::@main_dispatch_15_elementwise_broadcast_4x4_i64xf32xf32], operandSegmentSizes = array<i32: 0, 1, 0, 0>, tied_operands = [-1 : index, -1 : index]}> : (tensor<4x4xcomplex<f32>>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %27:2 = "flow.dispatch"(%26#0, %26#1) <{entry_points = [@main_dispatch_16::@main_dispatch_16_fft_4x4xf32], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [0 : index, 1 : index]}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %28:2 = "flow.dispatch"(%27#0, %27#1) <{entry_points = [@main_dispatch_17::@main_dispatch_17_fft_4x4xf32], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [0 : index, 1 : index]}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %29 = "flow.tensor.reshape"(%28#0) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<4x4xf32>) -> tensor<16xf32>
    %30 = "flow.tensor.reshape"(%28#1) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<4x4xf32>) -> tensor<16xf32>
    %31 = "flow.dispatch"(%29, %30) <{entry_points = [@main_dispatch_18::@main_dispatch_18_elementwise_16_f32], operandSegmentSizes = array<i32: 0, 2, 0, 0>, tied_operands = [-1 : index]}> : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %32 = "flow.tensor.reshape"(%31) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<16xf32>) -> tensor<4x4xf32>
    %33 = "hal.tensor.export"(%12) <{name = "output0", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %34 = "hal.tensor.export"(%13) <{name = "output1", source_encoding = tensor<4xi32>}> : (tensor<4xi32>) -> !hal.buffer_view
    %35 = "hal.tensor.export"(%16) <{name = "output2", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %36 = "hal.tensor.export"(%19#0) <{name = "output3", source_encoding = tensor<4x2xf32>}> : (tensor<4x2xf32>) -> !hal.buffer_view
    %37 = "hal.tensor.export"(%19#1) <{name = "output4", source_encoding = tensor<4x2xi32>}> : (tensor<4x2xi32>) -> !hal.buffer_view
    %38 = "hal.tensor.export"(%21) <{name = "output5", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %39 = "hal.tensor.export"(%23) <{name = "output6", source_encoding = tensor<4x6xf32>}> : (tensor<4x6xf32>) -> !hal.buffer_view
    %40 = "hal.tensor.export"(%24) <{name = "output7", source_encoding = tensor<6xf32>}> : (tensor<6xf32>) -> !hal.buffer_view
    %41 = "hal.tensor.export"(%32) <{name = "output8", source_encoding = tensor<4x4xf32>}> : (tensor<4x4xf32>) -> !hal.buffer_view
    "util.return"(%33, %34, %35, %36, %37, %38, %39, %40, %41) : (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view) -> ()
  }) {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<4x6xf32>, %input1: tensor<2x1xf32>) -> (%output0: tensor<4x6xf32>, %output1: tensor<4xi32>, %output2: tensor<4x6xf32>, %output3: tensor<4x2xf32>, %output4: tensor<4x2xi32>, %output5: tensor<4x6xf32>, %output6: tensor<4x6xf32>, %output7: tensor<6xf32>, %output8: tensor<4x4xf32>)"}} : () -> ()
}) {stream.affinity.default = #hal.device.affinity<@__device_0>} : () -> ()