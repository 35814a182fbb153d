"""Recurrent layers and their cells: LSTM and GRU over a sequence, in one or two directions.

A layer is a loop in NumPy over the steps of its cell. The weights are in torch's order: for each layer and
direction `w_ih, w_hh` and, with biases, `b_ih, b_hh`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from irscope.ir import TENSOR, TensorType
from irscope.ops.numpy_layout import Array, at
from irscope.ops.op import define
from irscope.ops.type_rules import Abstract, Unknown, refined

State = tuple[Array, ...]
Cell = Callable[[Array, State, Sequence[Array]], State]


def _layer_type(input: TensorType, first: TensorType, bidirectional: Abstract) -> TensorType:
    """Return the type of the sequence of hidden states: the input's, with the features of the hidden state, doubled if bidirectional."""
    if input.shape is None or first.shape is None or isinstance(bidirectional, Unknown):
        return TensorType(input.dtype)
    width = first.shape[-1]
    width = width * 2 if bidirectional and isinstance(width, int) else width
    return refined(input.dtype, (*input.shape[:-1], width))


def _rule(count: int, *, is_layer: bool) -> Callable[..., Any]:
    """Return the rule of a layer or cell with this many states: a layer gives all hidden states too, before the states at the end."""

    def rule(input: TensorType, hx: Abstract, bidirectional: Abstract = False, **rest: Abstract) -> Any:
        states = [hx] if isinstance(hx, TensorType) else hx
        if isinstance(hx, Unknown) or len(states) != count:
            return (TENSOR,) * (count + is_layer)
        ends = tuple(refined(state.dtype, state.shape) for state in states)
        return (_layer_type(input, states[0], bidirectional), *ends) if is_layer else ends if count > 1 else ends[0]

    return rule


def _sigmoid(array: Array) -> Array:  # faster for small arrays than that of `irscope.ops.expr`
    return np.asarray(1 / (1 + np.exp(-array)), array.dtype)


def _affine(array: Array, weight: Array, bias: Array | None) -> Array:
    product = array @ weight.T
    return product if bias is None else product + bias


def _lstm_step(x: Array, state: State, weights: Sequence[Any]) -> State:
    w_ih, w_hh, b_ih, b_hh = weights
    h, c = state
    gates = _affine(x, w_ih, b_ih) + _affine(h, w_hh, b_hh)
    i, f, g, o = np.split(gates, 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru_step(x: Array, state: State, weights: Sequence[Any]) -> State:
    w_ih, w_hh, b_ih, b_hh = weights
    (h,) = state
    xr, xz, xn = np.split(_affine(x, w_ih, b_ih), 3, axis=-1)
    hr, hz, hn = np.split(_affine(h, w_hh, b_hh), 3, axis=-1)
    z = _sigmoid(xz + hz)
    n = np.tanh(xn + _sigmoid(xr + hr) * hn)
    return ((1 - z) * n + z * h,)


def _cell(step: Cell, input: Array, hx: Any, w_ih: Array, w_hh: Array, b_ih: Any = None, b_hh: Any = None) -> Any:
    end = step(input, (hx,) if isinstance(hx, np.ndarray) else tuple(hx), (w_ih, w_hh, b_ih, b_hh))
    return end if len(end) > 1 else end[0]


def _layers(
    step: Cell, input: Array, hx: Any, params: Sequence[Array], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Run all layers over the sequence; initial and final states have one row per layer and direction."""
    states = [hx] if isinstance(hx, np.ndarray) else hx
    sequence = np.swapaxes(input, 0, 1) if batch_first and input.ndim == 3 else input
    each, directions = (4 if has_biases else 2), (2 if bidirectional else 1)
    ends: list[State] = []
    for layer in range(num_layers):
        passes = []
        for direction in range(directions):
            row = layer * directions + direction
            weights = [*params[row * each : (row + 1) * each], *[None] * (4 - each)]
            hidden, end = _scan(step, sequence[::-1] if direction else sequence, [state[row] for state in states], weights)
            passes.append(hidden[::-1] if direction else hidden)
            ends.append(end)
        sequence = np.concatenate(passes, axis=-1)
    result = np.swapaxes(sequence, 0, 1) if batch_first and input.ndim == 3 else sequence
    return (result, *(np.stack(parts) for parts in zip(*ends, strict=True)))


def _scan(step: Cell, sequence: Array, state: Sequence[Array], weights: Sequence[Any]) -> tuple[Array, State]:
    """The hidden states and the last state, which for a sequence of length 0 is the first."""
    now, hidden = tuple(state), []
    for index in range(len(sequence)):
        now = step(at(sequence, index), now, weights)
        hidden.append(now[0])
    return np.stack(hidden) if hidden else np.zeros((0, *now[0].shape), now[0].dtype), now


OPS = tuple(
    define(f"aten::{overload}", category="other", type_rule=rule, reference=reference)
    for overload, rule, reference in (
        ("lstm.input", _rule(2, is_layer=True), partial(_layers, _lstm_step)),
        ("gru.input", _rule(1, is_layer=True), partial(_layers, _gru_step)),
        ("lstm_cell", _rule(2, is_layer=False), partial(_cell, _lstm_step)),
        ("gru_cell", _rule(1, is_layer=False), partial(_cell, _gru_step)),
    )
)
