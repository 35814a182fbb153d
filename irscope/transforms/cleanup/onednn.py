"""Gives convolutions and linears to oneDNN, or to kernels of our own, together with the sum and the activation after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isinf
from typing import Any, Final

import numpy as np

from irscope._base.frozen import EMPTY
from irscope._base.nested import is_fixed
from irscope.analysis.layers import CONVOLUTIONS, LARGE, layer_of
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.ir import (
    FLOAT,
    INT,
    NONE,
    NOT_CONSTANT,
    STR,
    Block,
    Graph,
    ListType,
    Node,
    Rewriter,
    TensorType,
    Type,
    Value,
    constant_of,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.nn.onednn import EPILOGUES
from irscope.ops.numpy_layout import type_suggests_channels_last
from irscope.ops.registry import bind
from irscope.ops.type_rules import channels_last_strides, static_shape
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.channels_last import reads_padding_alone
from irscope.transforms.cleanup.fold import cleaned, constant_node, with_constants

# A convolution of oneDNN can add another tensor to its result and apply an activation before it stores it, which saves a call and a pass
# over memory for each. Torch has such layers as ops, and these also take weights in an order of oneDNN's own; a program that holds
# the weights lays them out once, when it is bound (`irscope.runtime.arrays`), and so needs memory for a second copy of them.
#
# **Rounding.** A layer sums in another order than torch's op, and its activations are oneDNN's approximations, as good as torch's.
#
# **NaN and infinity.** oneDNN's relu and clamp make 0 of NaN, and its gelu makes NaN of infinity. A model that has gone wrong would look
# right, so these are left to kernels unless the caller says that all numbers are finite.
#
# **When.** On a CPU, in float32. A convolution reads and makes channels last, as `channels-last` before this pass leaves it: it would copy
# others. One of windows of one point is a product, which torch computes as quickly if it is small. The result of each op but the last
# has no other reader, all are of one type, and no operand is written: so the layer may take the place of the last op.
#
# **Kernels of our own.** Convolutions whose weights stay the same, and which are small enough that a call of oneDNN takes longer to begin
# than to compute, kernels make (`irscope.analysis.layers`): they become `irscope::convolution`, with the sum and the relu or clamp after
# them, which keep NaN there. Such a kernel reads an operand of any layout, so that no copy before it is made; and zeros in the place of
# what lies outside of it, so that no padding with zeros is.

_LAYERS: Final = frozenset({"aten::conv2d", "aten::convolution", "aten::_convolution", "aten::linear"})
_ACTIVATIONS: Final = frozenset({*EPILOGUES, "aten::clamp"})
_UNSAFE: Final = frozenset({"relu", "hardtanh", "gelu"})
"""Activations for finite numbers only."""
_COPIES: Final = frozenset({"aten::contiguous", "aten::pad", "aten::constant_pad_nd"})
_LARGE: Final = 1 << 20
"""Multiplications from which a product gains by oneDNN."""
_LARGEST: Final = float(np.finfo(np.float32).max)


@timed
@starts_at("onednn", _LAYERS)
def use_onednn(graph: Graph, *, finite: bool = False, own: bool = True) -> PassRecord:
    """Give convolutions and linears of float32 to oneDNN with the sum and the activation that alone read their results, and lay out
    the weights that a program holds once. For programs on a CPU, after `channels-last`.

    Results differ by rounding: in the order of a sum (rtol ~1e-6) and in the approximation of an activation. With `finite`, also relu,
    clamp and gelu are oneDNN's, which hide a NaN or make one of an infinity. A weight that was written is laid out again.
    With `own`, convolutions of small and medium extents are left to kernels of our own, with the sum and the clamp after them.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(64, 256, strides=[256, 1]), %w : Float(128, 256, strides=[256, 1]), %b : Float(128, strides=[1])):
    ...   %a : Float(64, 128, strides=[128, 1]) = aten::linear(%x, %w, %b)
    ...   %y : Float(64, 128, strides=[128, 1]) = aten::tanh(%a)
    ...   return (%y)''')
    >>> record = use_onednn(g)
    >>> record.after.node("y").op, str(record.remarks[0])
    ('mkldnn::_linear_pointwise', 'passed [onednn] %y: oneDNN does linear and tanh at once; results differ by rounding: rtol ~1e-6')
    """
    layers = _Layers(graph, finite=finite, own=own)
    for node in graph.nodes():
        if (layer := layers.layer(node)) is not None:
            layers.replace(layer)
    return cleaned("onednn", layers.rewriter, layers.remarks)


@timed
@starts_at("split-linears", frozenset({"mkldnn::_linear_pointwise"}))
def split_linears(graph: Graph) -> PassRecord:
    """Give linears of oneDNN, and the activations that it does with them, back to torch, for programs whose memory is planned: oneDNN takes
    memory of its own at each call, and an activation may be written in place of what it reads.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(64, 256, strides=[256, 1]), %w : Float(128, 256, strides=[256, 1]), %b : Float(128, strides=[1])):
    ...   %a : Float(64, 128, strides=[128, 1]) = aten::linear(%x, %w, %b)
    ...   %y : Float(64, 128, strides=[128, 1]) = aten::tanh(%a)
    ...   return (%y)''')
    >>> [node.op for node in split_linears(use_onednn(g).after).after.nodes()]
    ['aten::linear', 'aten::tanh']
    """
    rewriter, remarks = Rewriter(graph), list[Remark]()
    activations = {attr: (op, len(names)) for op, (attr, names) in EPILOGUES.items()}
    for node in graph.nodes():
        given = bind(node) if node.op == "mkldnn::_linear_pointwise" else {}
        if not given:
            continue
        attr: Any = constant_of(graph, given["attr"])
        numbers: Any = constant_of(graph, given["scalars"])
        op, count = activations.get(attr, ("", 0))
        if (not op and attr != "none") or (count and (numbers is NOT_CONSTANT or len(numbers) != count)):
            continue
        made = make_value(new_id(), node.output.type, "") if op else node.output
        new = with_constants(node, "aten::linear", made, [given[name] for name in ("X", "W", "B")])
        if op:
            rest = [given["algorithm"]] if attr == "gelu" else map(float, numbers[:count])
            new += with_constants(node, op, node.output, [made, *rest])
        because = "torch does what oneDNN would do at once: oneDNN takes memory of its own at each call"
        rewriter.replace_node(node, new, reason=because)
        remarks.append(Remark("passed", "split-linears", node, because))
    return cleaned("split-linears", rewriter, remarks)


@dataclass(slots=True)
class _Layer:
    """A convolution or linear, and the ops after it that one layer of oneDNN does with it."""

    node: Node
    operands: Sequence[Value | None]
    """The input, the weight and the bias."""
    is_own: bool
    """Whether a kernel of ours does it."""
    window: tuple[Any, ...]
    """Padding, stride, dilation and groups of a convolution; nothing for a linear."""
    rest: list[Node] = field(default_factory=list)
    other: Value | None = None
    """The tensor that is added."""
    epilogue: tuple[str, tuple[float, ...], str] = ("none", (), "")
    """Torch's name of the activation, its numbers and its algorithm."""

    @property
    def last(self) -> Node:
        return self.rest[-1] if self.rest else self.node


class _Layers:
    """The layers of one graph: finds them, and puts them in."""

    def __init__(self, graph: Graph, *, finite: bool, own: bool) -> None:
        self.graph = graph
        self.finite = finite
        self.own = own
        self.shapes = shapes_of(graph)
        self.remarks: list[Remark] = []
        self.rewriter = Rewriter(graph)
        self.constants: dict[tuple[Block, str, Any], Value] = {}
        self.made: dict[Value, Any] = {}
        """What these are."""
        self.taken: set[Node] = set()
        """The nodes that a layer does."""

    def known(self, value: Any) -> Any:
        return self.shapes.known(value) if isinstance(value, Value) else value

    def type(self, value: Any) -> TensorType | None:
        """The type of a tensor of float32 on a CPU of known extents and layout; None for any other value."""
        found = self.shapes.type(value) if isinstance(value, Value) else None
        if not isinstance(found, TensorType) or found.dtype != "float32" or not found.is_static or found.strides is None:
            return None
        return found if found.device in (None, "cpu") else None

    def layer(self, node: Node) -> _Layer | None:
        """The layer that begins with a node; None if none does, or torch's own op is as good."""
        given = bind(node) if node.op in _LAYERS else {}
        if not given:
            return None
        operands = [given["input"], given["weight"], given.get("bias")]
        types = [found for value in (*operands[:2], node.output) if (found := self.type(value)) is not None]
        if len(types) < 3 or (self.known(operands[2]) is not None and self.type(operands[2]) is None):
            return None
        if any(isinstance(operand, Value) and alias_db_of(self.graph).has_writers(operand) for operand in operands):
            return None
        window = () if node.op == "aten::linear" else self.window(given)
        if window is None:
            return None
        layer = _Layer(node, operands, self.is_own(node), window)
        while self.grow(layer):
            pass
        if layer.is_own:
            return layer
        points, matrix = types[2].numel or 0, types[1].shape or ()
        is_product = not window or matrix[2:] == (1, 1)
        small = is_product and points * (types[1].numel or 0) // max(int(matrix[0] or 0), 1) < _LARGE
        return None if small or (not window and not layer.rest) else layer

    def is_own(self, node: Node) -> bool:
        """Whether a kernel of ours computes a convolution."""
        found = layer_of(node, self.fixed) if self.own and node.op in CONVOLUTIONS else None
        made = None if found is None else self.type(node.output)
        is_last = made is not None and made.strides == channels_last_strides(static_shape(made) or ())
        return found is not None and found.multiplications < LARGE and is_last

    def fixed(self, value: Value) -> Any:
        """What a value is in each run; None if that is unknown or may change."""
        held = self.made[value] if value in self.made else self.graph.bound.get(value)
        if held is not None:
            return None if isinstance(held, np.ndarray) and not is_fixed(held) else held
        found = constant_of(self.graph, value)
        return None if found is NOT_CONSTANT else found

    def window(self, given: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Padding, stride, dilation and groups of a plain convolution over channels last; None for another one."""
        known = [self.known(given[name]) for name in ("padding", "stride", "dilation")]
        groups = self.known(given["groups"])
        lists = all(isinstance(each, list | tuple) and len(each) == 2 and all(type(one) is int for one in each) for each in known)
        if not lists or type(groups) is not int or self.known(given.get("transposed", False)) is not False:
            return None
        if reads_padding_alone(self.type(given["weight"]), known[0], known[2]):
            return None
        return (*map(tuple, known), groups) if type_suggests_channels_last(self.type(given["input"]) or TensorType()) else None

    def grow(self, layer: _Layer) -> bool:
        """Let the layer do the only reader of its result too, if it can."""
        made = layer.last.output
        node = self.reader(made)
        given = bind(node) if node is not None else {}
        if node is None or not given or layer.epilogue[0] != "none" or node in self.taken:
            return False
        is_here = self.graph.block_of[node] is self.graph.block_of[layer.node]
        if not is_here or len(node.outputs) != 1 or self.layout(node.output) != self.layout(made):
            return False
        if node.op == "aten::add" and layer.window and layer.other is None and self.known(given.get("alpha", 1)) == 1:
            a, b = given["self"], given["other"]
            other = b if a is made else a
            if self.layout(other) != self.layout(made) or alias_db_of(self.graph).has_writers(other):
                return False
            after = None if layer.is_own else self.reader(node.output)
            if after is not None and after.op in _ACTIVATIONS and not (self.finite and after.op == "aten::relu"):
                return False  # a kernel does both: after a sum, oneDNN has no other activation
            layer.other = other
        elif (epilogue := self.epilogue(node, is_own=layer.is_own)) is not None:
            layer.epilogue = epilogue
        else:
            return False
        layer.rest.append(node)
        self.taken.add(node)
        return True

    def reader(self, value: Value) -> Node | None:
        uses = self.graph.users.get(value, ())
        user = uses[0].user if len(uses) == 1 else None
        return user if isinstance(user, Node) else None

    def layout(self, value: Any) -> object:
        found = self.type(value)
        return value if found is None else (found.shape, found.strides)

    def epilogue(self, node: Node, *, is_own: bool) -> tuple[str, tuple[float, ...], str] | None:
        """What oneDNN calls an activation; None for one that it, or our kernel, has not, or that is not safe."""
        op, given = node.op, bind(node)
        if op == "aten::clamp":
            op, given = "aten::hardtanh", {"min_val": given.get("min"), "max_val": given.get("max")}
        if op not in EPILOGUES or not given:
            return None
        attr, names = EPILOGUES[op]
        numbers = [self.known(given[name]) for name in names]
        algorithm = self.known(given["approximate"]) if op == "aten::gelu" else ""
        if not all(isinstance(number, int | float) for number in numbers) or not isinstance(algorithm, str):
            return None
        if is_own:
            fit = all(abs(number) <= _LARGEST or isinf(number) for number in numbers)  # no NaN, and none that torch refuses
            return (attr, tuple(map(float, numbers)), "") if attr in ("relu", "hardtanh") and fit else None
        is_safe = attr not in _UNSAFE or algorithm == "tanh"
        return (attr, tuple(map(float, numbers)), algorithm) if is_safe or self.finite else None

    def replace(self, layer: _Layer) -> None:
        """Put the layer in the place of the last op that it does."""
        attr, numbers, algorithm = layer.epilogue
        x, weight, bias = layer.operands
        made = partial(self.constant, layer.node)
        tail = [made(STR, attr), made(ListType(FLOAT), numbers), made(STR, algorithm)]
        if layer.other is not None:
            tail = [made(STR, "add"), made(NONE, None), *(tail if numbers or attr != "none" else [made(NONE, None), *tail[1:]])]
        tensors = [*([] if layer.other is None else [layer.other]), weight, made(NONE, None) if bias is None else bias]
        op = "mkldnn::_convolution_pointwise" if layer.window else "mkldnn::_linear_pointwise"
        op = "irscope::convolution" if layer.is_own else op
        last, done = layer.last, [layer.node, *layer.rest]
        names = " and ".join(node.op.partition("::")[2] for node in done)
        hides = "; what is NaN or infinite may not stay so" if attr in _UNSAFE and algorithm != "tanh" and not layer.is_own else ""
        who = "a kernel" if layer.is_own else "oneDNN"
        because = f"{who} does {names}{' at once' if layer.rest else ''}; results differ by rounding: rtol ~1e-6{hides}"

        def reading(x: Value | None, *padding: tuple[int, ...]) -> Node:
            window = [made(INT if isinstance(each, int) else ListType(INT), each) for each in (*padding, *layer.window[1:])]
            return make_node(new_id(), op, (x, *tensors, *window, *tail), last.outputs, EMPTY, (), last.location, last.scope)

        new, read = reading(x, *layer.window[:1]), (x, *layer.window[:1])
        while layer.is_own and (source := self.instead(*read)) is not None:
            before = reading(*source)
            if layer_of(before, self.fixed) is None:
                break
            new, read = before, source
        for node in done[:-1]:
            self.rewriter.erase(node, reason=because)
        self.rewriter.replace_node(last, [new], reason=because)
        self.remarks.append(Remark("passed", "onednn", last, because, tuple(done)))

    def instead(self, x: Any, padding: tuple[int, ...]) -> tuple[Value, tuple[int, ...]] | None:
        """What a kernel of ours reads, with which padding, in the place of a copy into another layout or a padding with zeros that is made
        for it alone; None for any other operand."""
        node = self.graph.producer.get(x)
        if node is None or len(self.graph.users[x]) > 1 or node.op not in _COPIES or alias_db_of(self.graph).has_writers(node.inputs[0]):
            return None
        if node.op == "aten::contiguous":
            return node.inputs[0], padding
        given = {name: self.known(value) for name, value in bind(node).items()}
        pad, is_zero = given.get("pad"), given.get("mode", "constant") == "constant" and given.get("value") in (None, 0)
        if not isinstance(pad, list | tuple) or len(pad) not in (2, 4) or not is_zero or min(pad) < 0 or (any(pad) and any(padding)):
            return None
        return node.inputs[0], (*pad[2:], *[0] * (4 - len(pad)), *pad[:2]) if any(pad) else padding

    def constant(self, anchor: Node, type: Type, payload: Any) -> Value:
        """The constant in the block of a node, made before the first node that asks for it."""
        key = self.graph.block_of[anchor], str(type), repr(payload)
        if key not in self.constants:
            value = self.constants[key] = make_value(new_id(), type, "")
            self.made[value] = payload
            self.rewriter.insert_before(anchor, constant_node(value, payload, like=anchor), reason="an operand of a layer")
        return self.constants[key]
