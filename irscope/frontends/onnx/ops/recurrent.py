"""Builders of LSTM, GRU and RNN as `aten::lstm` and related ops, with the gates in torch's order.

ONNX keeps both directions and all gates in one tensor: `W[direction, gates·hidden, input]`. It orders the gates of an
LSTM as i, o, f, c and those of a GRU as z, r, h; torch has i, f, c, o and r, z, h. Torch's GRU applies the reset gate
after the product (`linear_before_reset`); the other variant has no `aten::` op.
"""

from __future__ import annotations

from typing import Final

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.ir import TENSOR, Value

__all__ = ["OPS"]

OPS: Table = {}
_ORDER: Final = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The positions of torch's gates in ONNX's order."""
_DEFAULTS: Final = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@op(OPS, "LSTM")
def _lstm(call: Call) -> list[Value]:
    if call.has(7) or call.integer("input_forget", 0):
        raise call.refuse("it has peepholes, or couples its gates")
    return _recurrent(call, "lstm")


@op(OPS, "GRU")
def _gru(call: Call) -> list[Value]:
    if not call.integer("linear_before_reset", 0):
        raise call.refuse("its reset gate is applied before the matrix product (linear_before_reset=0)")
    return _recurrent(call, "gru")


@op(OPS, "RNN")
def _rnn(call: Call) -> list[Value]:
    kinds = {name.lower() for name in call.attr("activations", ["Tanh"])}
    if len(kinds) != 1 or not kinds <= {"tanh", "relu"}:
        raise call.refuse(f"its activations are {', '.join(sorted(kinds))}")
    return _recurrent(call, f"rnn_{kinds.pop()}")


def _recurrent(call: Call, name: str) -> list[Value]:
    kind, direction = call.node.op_type, call.text("direction", "forward")
    both = direction == "bidirectional"
    _check(call, kind, both)
    x, layout = call.x(0), call.integer("layout", 0)
    x = call.op("transpose", x, 0, 1) if layout else x
    x = call.op("flip", x, [0]) if direction == "reverse" else x
    hidden = call.integer("hidden_size", _hidden(call))
    count = 2 if both else 1
    batch = call.size(x, 1)
    states = [_state(call, index, layout, (count, batch, hidden)) for index in ((5, 6) if kind == "LSTM" else (5,))]
    weights = [part for side in range(count) for part in _weights(call, kind, side, hidden)]
    start = call.emit.list(states, TENSOR) if kind == "LSTM" else states[0]
    listed = call.emit.list(weights, TENSOR)
    made = call.ops(name, len(states) + 1, x, start, listed, call.has(3), 1, 0.0, False, both, False)
    rows = call.op("reshape", made[0], [call.size(x, 0), batch, count, hidden])
    rows = call.op("flip", rows, [0]) if direction == "reverse" else rows
    y = rows if layout else call.op("permute", rows, [0, 2, 1, 3])
    y = call.op("permute", rows, [1, 0, 2, 3]) if layout else y
    return [y, *(call.op("transpose", state, 0, 1) if layout else state for state in made[1:])]


def _check(call: Call, kind: str, both: bool) -> None:
    wanted = _DEFAULTS[kind] * (2 if both else 1)
    given = [name.lower() for name in call.attr("activations", wanted)]
    if kind != "RNN" and given != [name.lower() for name in wanted]:
        raise call.refuse("its activations are not the defaults")
    if "clip" in call.attributes:
        raise call.refuse("it clips the inputs of its activations")
    if call.has(4):
        known, length = call.held(4).known(), call.shape(0)[1 if call.integer("layout", 0) else 0]
        if known is None or not (known == length).all():
            raise call.refuse("its rows differ in length")


def _hidden(call: Call) -> int:
    extent = call.shape(2)[-1]
    if not isinstance(extent, int):
        raise call.refuse("the size of its state is not known")
    return extent


def _state(call: Call, index: int, layout: int, shape: tuple[object, ...]) -> Value:
    if not call.has(index):
        from irscope.frontends.emit import CODES

        return call.op("zeros", list(shape), CODES[str(call.dtype())], None, None, None)
    return call.op("transpose", call.x(index), 0, 1) if layout else call.x(index)


def _weights(call: Call, kind: str, side: int, hidden: int) -> list[Value]:
    """Returns input weight, recurrent weight, and their biases, of one direction."""
    found = [_gates(call, kind, call.op("select", call.x(index), 0, side), 0, hidden) for index in (1, 2)]
    if call.has(3):
        bias = call.op("select", call.x(3), 0, side)
        gates = len(_ORDER[kind])
        found += [_gates(call, kind, bias, start, hidden) for start in (0, gates * hidden)]
    return found


def _gates(call: Call, kind: str, x: Value, start: int, hidden: int) -> Value:
    """Returns the gates of a weight or bias in torch's order."""
    parts = [call.op("slice", x, 0, start + g * hidden, start + (g + 1) * hidden, 1) for g in _ORDER[kind]]
    return parts[0] if len(parts) == 1 else call.op("cat", call.emit.list(parts, TENSOR), 0)
