"""The ops that draw random numbers: two calls with equal operands differ, and their order matters.

The names are those that PyTorch tags as nondeterministic by seed. Some draw only when a flag is set: a dropout that is
known not to be training draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["draws_random_numbers"]

_ALWAYS: Final = frozenset(
    """
    aten::_cudnn_init_dropout_state aten::_fill_mem_eff_dropout_mask_ aten::_fused_dropout aten::_sample_dirichlet
    aten::_standard_gamma aten::bernoulli aten::bernoulli_ aten::binomial aten::cauchy aten::cauchy_ aten::exponential
    aten::exponential_ aten::geometric aten::geometric_ aten::log_normal aten::log_normal_ aten::multinomial
    aten::normal aten::normal_ aten::normal_functional aten::poisson aten::rand aten::rand_like aten::randint
    aten::randint_like aten::randn aten::randn_like aten::random aten::random_ aten::randperm aten::uniform
    aten::uniform_
    """.split()
)

_ONNX: Final = frozenset(
    f"onnx::{name}"
    for name in "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)

_WHEN_TRAINING: Final[Mapping[str, str]] = {
    "aten::dropout": "train",
    "aten::dropout_": "train",
    "aten::alpha_dropout": "train",
    "aten::alpha_dropout_": "train",
    "aten::feature_dropout": "train",
    "aten::feature_dropout_": "train",
    "aten::feature_alpha_dropout": "train",
    "aten::feature_alpha_dropout_": "train",
    "aten::native_dropout": "train",
    "aten::lstm": "train",
    "aten::gru": "train",
    "aten::rnn_tanh": "train",
    "aten::rnn_relu": "train",
    "aten::_cudnn_rnn": "train",
    "aten::_lstm_mps": "train",
    "aten::miopen_rnn": "train",
    "aten::rrelu": "training",
    "aten::rrelu_": "training",
    "aten::rrelu_with_noise": "training",
    "aten::rrelu_with_noise_": "training",
    "aten::rrelu_with_noise_functional": "training",
}
"""The flag that must be set, by op name."""

_WHEN_DROPPING: Final = frozenset({
    "aten::scaled_dot_product_attention",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
})  # fmt: skip
"""Ops that draw unless the probability `dropout_p` is zero."""


def draws_random_numbers(name: str, known: Mapping[str, Any] | None = None) -> bool:
    """Whether an op may draw random numbers, given those of its arguments whose values are known.

    >>> draws_random_numbers("aten::dropout"), draws_random_numbers("aten::dropout", {"train": False})
    (True, False)
    """
    known = known or {}
    if name in _ALWAYS or name in _ONNX:
        return True
    if name in _WHEN_TRAINING:
        return known.get(_WHEN_TRAINING[name], True) is not False
    return name in _WHEN_DROPPING and known.get("dropout_p", 1.0) != 0.0
