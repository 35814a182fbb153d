"""Recurrent layers and their cells: LSTM and GRU over a sequence, in one or two directions.

A layer is a loop in NumPy over the steps of its cell. The weights are in torch's order: for each layer and
direction `w_ih, w_hh` and, with biases, `b_ih, b_hh`.
"""

from collections.abc import Callable, Sequence
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


def _lstm(input: TensorType, hx: Abstract, bidirectional: Abstract, **rest: Abstract) -> tuple[TensorType, ...]:
    if isinstance(hx, Unknown) or len(hx) != 2:
        return TENSOR, TENSOR, TENSOR
    states = [refined(state.dtype, state.shape) for state in hx]
    return (_layer_type(input, hx[0], bidirectional), *states)


def _gru(input: TensorType, hx: TensorType, bidirectional: Abstract, **rest: Abstract) -> tuple[TensorType, TensorType]:
    return _layer_type(input, hx, bidirectional), refined(hx.dtype, hx.shape)


def _lstm_cell(input: TensorType, hx: Abstract, **rest: Abstract) -> tuple[TensorType, TensorType]:
    if isinstance(hx, Unknown) or len(hx) != 2:
        return TENSOR, TENSOR
    return refined(hx[0].dtype, hx[0].shape), refined(hx[1].dtype, hx[1].shape)


def _sigmoid(array: Array) -> Array:
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


def _run(
    step: Cell, input: Array, states: Sequence[Array], params: Sequence[Array], has_biases: bool, num_layers: int,
    bidirectional: bool, batch_first: bool,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """Run all layers over the sequence; initial and final states have one row per layer and direction."""
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
    return result, [np.stack(parts) for parts in zip(*ends, strict=True)]


def _scan(step: Cell, sequence: Array, state: Sequence[Array], weights: Sequence[Any]) -> tuple[Array, State]:
    now, hidden = tuple(state), []
    for index in range(len(sequence)):
        now = step(at(sequence, index), now, weights)
        hidden.append(now[0])
    return np.stack(hidden), now


def _lstm_arrays(
    input: Array, hx: Sequence[Array], params: Sequence[Array], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Array, ...]:  # fmt: skip
    result, states = _run(_lstm_step, input, hx, params, has_biases, num_layers, bidirectional, batch_first)
    return (result, *states)


def _gru_arrays(
    input: Array, hx: Array, params: Sequence[Array], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Array, ...]:  # fmt: skip
    result, states = _run(_gru_step, input, [hx], params, has_biases, num_layers, bidirectional, batch_first)
    return (result, *states)


def _lstm_cell_arrays(input: Array, hx: Sequence[Array], w_ih: Array, w_hh: Array, b_ih: Any = None, b_hh: Any = None) -> State:
    return _lstm_step(input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


def _gru_cell_array(input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Any = None, b_hh: Any = None) -> Array:
    return _gru_step(input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


OPS = tuple(
    define(f"aten::{overload}", category="other", type_rule=rule, reference=reference)
    for overload, rule, reference in (
        ("lstm.input", _lstm, _lstm_arrays),
        ("gru.input", _gru, _gru_arrays),
        ("lstm_cell", _lstm_cell, _lstm_cell_arrays),
        ("gru_cell", lambda input, hx, **rest: refined(hx.dtype, hx.shape), _gru_cell_array),
    )
)
