"""Which ops draw random numbers: two calls with equal operands differ, and their order matters.

The names are those that PyTorch tags as nondeterministic by seed. Some draw only when a flag is set: a dropout that is known not
to be training draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["draws_random_numbers"]

_ALWAYS: Final = frozenset(f"aten::{name}" for name in """
    _fused_dropout _sample_dirichlet _standard_gamma bernoulli bernoulli_ binomial cauchy cauchy_ exponential exponential_ geometric
    geometric_ log_normal log_normal_ multinomial normal normal_ normal_functional poisson rand rand_like randint
    randint_like randn randn_like random random_ randperm uniform uniform_ _fill_mem_eff_dropout_mask_
    _cudnn_init_dropout_state""".split())

_WHEN_TRAINING: Final[Mapping[str, str]] = {
    **{f"aten::{name}{mark}": "train" for mark in ("", "_") for name in
       ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")},
    **{f"aten::{name}": "training" for name in ("rrelu", "rrelu_", "rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_functional")},
    **{f"aten::{name}": "train" for name in ("native_dropout", "lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "miopen_rnn", "_lstm_mps")},
}
"""Op name to the flag that must be set."""

_WHEN_DROPPING: Final = frozenset(f"aten::{name}" for name in """
    scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
    _flash_attention_forward _efficient_attention_forward""".split())
"""Ops that draw unless the probability `dropout_p` is zero."""


def draws_random_numbers(name: str, known: Mapping[str, Any] | None = None) -> bool:
    """Whether an op may draw random numbers, given those of its arguments whose values are known.

    >>> draws_random_numbers("aten::dropout"), draws_random_numbers("aten::dropout", {"train": False})
    (True, False)
    """
    known = known or {}
    if name in _ALWAYS:
        return True
    if name in _WHEN_TRAINING:
        return known.get(_WHEN_TRAINING[name], True) is not False
    return name in _WHEN_DROPPING and known.get("dropout_p", 1.0) != 0.0
