"""The overloads that TorchScript differentiates inside a subgraph, for torch 2.13.

Source: torch itself. For each schema of its registry, `torch._C._jit_pass_create_autodiff_subgraphs` with threshold 1 was
run on a graph of that node between two that have formulas; an overload is listed if the node was put into the subgraph.
`tests/transforms/autodiff/test_differentiable_ops.py` repeats this. The list says which ops torch has a formula for, not
which have a derivative: `aten::ceil` and comparisons are in it, `aten::atan2` is not.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DIFFERENTIABLE", "LEFT_OUTSIDE"]

LEFT_OUTSIDE: Final = frozenset(
    "aten::view aten::view_as aten::reshape aten::reshape_as aten::transpose aten::expand aten::expand_as".split()
)
"""View ops that torch has formulas for, but leaves outside: a view that leaves a subgraph would be differentiated wrongly."""

DIFFERENTIABLE: Final = frozenset(
    """
    aten::_autocast_to_full_precision aten::_autocast_to_reduced_precision aten::_dim_arange aten::_grad_sum_to_size
    aten::_slow_conv2d_forward aten::abs aten::acos aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d
    aten::adaptive_avg_pool3d aten::add.Scalar aten::add.Tensor aten::addcmul aten::addmm aten::asin aten::atan
    aten::avg_pool2d aten::batch_norm aten::bmm aten::cat aten::ceil aten::clamp aten::clamp.Tensor aten::contiguous
    aten::cos aten::cosh aten::div.Scalar aten::div.Scalar_mode aten::div.Tensor aten::div.Tensor_mode aten::dot
    aten::dropout aten::embedding aten::eq.Scalar aten::erf aten::erfc aten::exp aten::expm1 aten::floor
    aten::fmod.Scalar aten::frac aten::ge.Scalar aten::gelu aten::gt.Scalar aten::hardshrink aten::hardsigmoid
    aten::hardswish aten::hardtanh aten::index.Tensor_hacked_twin aten::layer_norm aten::le.Scalar aten::leaky_relu
    aten::lerp.Scalar aten::lerp.Tensor aten::linear aten::log aten::log10 aten::log1p aten::log2
    aten::log_softmax.int aten::logsumexp aten::lt.Scalar aten::matmul aten::max.other aten::max_pool2d
    aten::max_pool2d_with_indices aten::mean aten::mean.dim aten::min.other aten::mm aten::mul.Scalar
    aten::mul.Tensor aten::mv aten::native_batch_norm aten::ne.Scalar aten::neg aten::nll_loss aten::nonzero
    aten::permute aten::pow.Scalar aten::pow.Tensor_Scalar aten::pow.Tensor_Tensor aten::reciprocal aten::relu
    aten::relu6 aten::remainder.Scalar aten::round aten::rsqrt aten::rsub.Scalar aten::sigmoid aten::silu aten::sin
    aten::sinh aten::softmax.int aten::softplus aten::sqrt aten::squeeze aten::squeeze.dim aten::stack aten::std
    aten::std.correction aten::std.dim aten::sub.Scalar aten::sub.Tensor aten::t aten::tan aten::tanh
    aten::threshold aten::to.prim_Device aten::trunc aten::type_as aten::unsqueeze aten::var aten::var.correction
    aten::var.dim aten::where.self prim::AutogradAdd prim::AutogradZero prim::ConstantChunk
    """.split()
)
"""Names with overloads, such as `aten::add.Tensor`; `prim::ConstantChunk` has no schema and is listed by its name."""
