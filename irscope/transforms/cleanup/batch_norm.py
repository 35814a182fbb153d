"""Folds batch norms that do not train into the convolution or linear before them: scaled weights, and a shifted bias."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np

from irscope._base.nested import is_fixed, torch_guards
from irscope._base.words import plural
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.errors import RunError
from irscope.ir import (
    NONE,
    NOT_CONSTANT,
    Graph,
    Node,
    Rewriter,
    TensorData,
    TensorType,
    Value,
    argument_type,
    constant_of,
    make_value,
    new_id,
)
from irscope.ops.registry import bind
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.fold import cleaned, constant_node, with_bound

# With statistics that stay, a batch norm multiplies each channel by `scale = weight / sqrt(running_var + eps)` and adds `bias -
# running_mean * scale`. A convolution or linear before it does both at no cost, with its weights multiplied by `scale` once.
#
# **Rounding.** The new weights and bias are computed in float64 and rounded once. The sum over a window was rounded before it was
# scaled, and now its terms are scaled before they are added: results differ by a few roundings of the largest terms, which before,
# too, were large where terms cancel. New weights that would overflow, or lose bits to underflow, are not made.
#
# **When.** The result of the convolution has no other reader, so nobody misses it; it stays at its place, and so reads what it read.
# All weights and statistics are bound or constant, and the alias db knows of no write to them: each run computes the
# same new weights. Between runs, the owner of a model may write its weights. Each call of the program compares torch's counts of writes,
# and, as those through `.data` are not counted, a hash of the contents (of tensors of a processor), and computes the new weights
# again. A caller's own NumPy arrays, which nobody counts, are not folded.
#
# **Gradients.** A joint graph of forward and backward is left as it is. Any other program differentiates nothing: its results refuse
# `backward` if a weight requires a gradient. A new weight requires one if a part of it does, so that they still refuse.

_NORMS: Final = frozenset(
    f"aten::{name}" for name in "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training".split()
)
_CONVOLUTIONS: Final = frozenset(f"aten::{name}" for name in "conv1d conv2d conv3d convolution _convolution".split())
_TRANSPOSED: Final = frozenset(f"aten::conv_transpose{rank}d" for rank in (1, 2, 3))
_LAYERS: Final = dict.fromkeys(_CONVOLUTIONS | _TRANSPOSED | {"aten::linear"}, (1, 2)) | {"aten::addmm": (2, 0)}
"""The places of the weight and the bias among the operands."""
_TURNS: Final = frozenset({"aten::t", "aten::transpose", "aten::permute", "aten::numpy_T"})
_ROUNDING: Final = {"float64": "1e-15", "float32": "1e-6", "float16": "1e-3", "bfloat16": "1e-2"}
"""How far results differ, relative to the terms of a sum."""
_SMALLEST: Final = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""The smallest number of full precision."""

Array = np.ndarray[Any, Any]


class _Declined(Exception):
    """Says why a batch norm stays: the rule, and the reason with its evidence."""

    def __init__(self, rule: str, because: str, *evidence: Value | Node) -> None:
        self.rule, self.because, self.evidence = rule, because, evidence


@timed
@starts_at("fold-batch-norm", _NORMS)
def fold_batch_norm(graph: Graph) -> PassRecord:
    """Fold batch norms in inference mode into the convolution, transposed convolution, `linear` or `addmm` that alone feeds them, where
    weights and statistics are bound or constant. Results differ by rounding: one multiplication and one addition less for each element.

    Once such a tensor of torch's has been written, the next call of the compiled program computes the new weights again.
    """
    fold = _Fold(graph)
    for node in graph.nodes():
        if node.op in _NORMS:
            fold.consider(node)
    return fold.record()


@dataclass(frozen=True, slots=True)
class _Known:
    """A tensor that is the same in every run."""

    value: Value
    """The bound input, or the result of the constant."""
    payload: Any
    """A tensor of torch, an array, or the constant's TensorData."""
    type: TensorType
    view: Node | None = None
    """The transpose of two axes through which it is read."""

    @property
    def numbers(self) -> Array:
        """Its elements in float64, as they are now. Raises _Declined if its owner has made another tensor of it."""
        tensor = self.tensor
        if tensor is not None and (tuple(tensor.shape), str(tensor.dtype)) != (self.type.shape, f"torch.{self.type.dtype}"):
            raise _Declined("written", f"it is a tensor of {tensor.dtype} and shape {tuple(tensor.shape)} now", self.value)
        if tensor is not None and tensor.numel() and not tensor.data_ptr():
            raise _Declined("written", "its memory was freed", self.value)
        found = _numbers(self.payload)
        assert found is not None  # as when it was chosen
        return found if self.view is None else found.T

    @property
    def shape(self) -> tuple[Any, ...]:
        shape = self.type.shape or ()
        return shape if self.view is None else shape[::-1]

    @property
    def tensor(self) -> Any:
        """The tensor of torch; None if it is NumPy's."""
        held = self.payload.original if isinstance(self.payload, TensorData) else self.payload
        return held if hasattr(held, "untyped_storage") else None

    @property
    def array(self) -> Any:
        """The array of NumPy, if there is no tensor of torch; of bfloat16, a constant has the bits."""
        return self.payload.array if isinstance(self.payload, TensorData) else self.payload


@dataclass(frozen=True, slots=True)
class _Norm:
    """A batch norm with statistics that stay."""

    node: Node
    weight: _Known | None
    bias: _Known | None
    mean: _Known
    variance: _Known
    eps: float

    @property
    def parts(self) -> list[_Known]:
        return [part for part in (self.weight, self.bias, self.mean, self.variance) if part is not None]

    def numbers(self) -> tuple[Array, Array]:
        """What it multiplies each channel by, and what it adds."""
        scale = 1 / np.sqrt(self.variance.numbers + self.eps) * (1 if self.weight is None else self.weight.numbers)
        return scale, (0 if self.bias is None else self.bias.numbers) - self.mean.numbers * scale


@dataclass(slots=True)
class _Layer:
    """A convolution or linear, and the batch norms that follow it."""

    node: Node
    weight: _Known
    bias: _Known | None
    groups: int
    """The groups of a transposed convolution; 0 for all other layers."""
    norms: list[_Norm]

    @property
    def parts(self) -> list[_Known]:
        own = [self.weight, *([self.bias] if self.bias is not None else [])]
        return own + [part for norm in self.norms for part in norm.parts]

    @property
    def is_constant(self) -> bool:
        """Whether the weight is written in the program."""
        return isinstance(self.weight.payload, TensorData)

    @np.errstate(all="ignore")
    def numbers(self) -> tuple[Array, Array]:
        """The new weight and bias, rounded to their element type. Raises _Declined if its range is too small."""
        dtype = self.weight.type.dtype or ""
        scale, shift = np.ones(1), np.zeros(1) if self.bias is None else self.bias.numbers
        for norm in self.norms:
            by, plus = norm.numbers()
            scale, shift = scale * by, shift * by + plus
        wide = self.weight.numbers
        if self.groups:  # each group of inputs has its own outputs
            apart = wide.reshape(self.groups, -1, *wide.shape[1:])
            ones = [1] * (wide.ndim - 2)
            scaled = (apart * scale.reshape(self.groups, 1, -1, *ones)).reshape(wide.shape)
            axes: tuple[int, ...] = (0, *range(2, wide.ndim))
        else:
            axis = self.axis
            scaled = wide * scale.reshape([-1 if here == axis else 1 for here in range(wide.ndim)])
            axes = tuple(here for here in range(wide.ndim) if here != axis)
        weight, bias = _rounded(scaled, dtype), _rounded(shift, dtype)
        largest = np.abs(scaled).max(axis=axes)
        if not np.isfinite(weight).all() or not np.isfinite(bias).all() or ((largest > 0) & (largest < _SMALLEST[dtype])).any():
            raise _Declined("range", f"the new weights would be too large or too small for {dtype}", self.weight.value)
        return weight, bias

    @property
    def axis(self) -> int:
        """The axis of the weight that counts the channels of the result."""
        return int(self.node.op == "aten::addmm" or self.node.op in _TRANSPOSED or self.groups > 0)


def _rounded(numbers: Array, dtype: str) -> Array:
    """The nearest numbers of an element type, in float64; rounding twice, as conversions by way of float32 do, may miss them."""
    if dtype != "bfloat16":
        return numbers.astype(dtype).astype(np.float64)
    unit = np.maximum(np.frexp(numbers)[1] - 8, -133)
    nearest = np.ldexp(np.rint(np.ldexp(numbers, -unit)), unit)
    return np.asarray(nearest.astype(np.float32), np.float64)


class _Fold:
    """The folds of one graph: first each is decided, then all are carried out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.remarks: list[Remark] = []
        self.layers: dict[Value, _Layer] = {}
        """The layer whose channels a value holds, as scaled so far."""

    def consider(self, norm: Node) -> None:
        """Give a batch norm to its layer, or say why it stays."""
        try:
            self._give(norm)
        except _Declined as why:
            self.remarks.append(Remark("missed", why.rule, norm, why.because, why.evidence))

    def _give(self, norm: Node) -> None:
        graph, shapes = self.graph, shapes_of(self.graph)
        source = norm.inputs[0]
        name, maker = f"%{graph.names[source]}", graph.producer.get(source)
        layer = self.layers.get(source)
        if layer is None and (maker is None or maker.op not in _LAYERS):
            what = "an input" if maker is None else f"a result of {maker.op}"
            raise _Declined("no-layer", f"{name} is {what}, not of a convolution or linear", source)
        assert maker is not None
        if graph.gradients:
            raise _Declined("gradients", "the program computes gradients, for which it must stay apart from its weights", maker)
        operands = bind(norm)
        if self._number(operands, "training", False) is not False:
            raise _Declined("training", "it may be in training mode, and then takes the statistics of its operand", norm)
        users = len(graph.users[source])
        if users > 1:
            raise _Declined("other-readers", f"{name} has {plural(users, 'reader')}, and the others need it as it is", source)
        if graph.block_of[norm] is not graph.block_of[maker]:
            raise _Declined("nested", f"{name} is computed in another block", source)
        if any(value in graph.users for value in norm.outputs[1:]):
            raise _Declined("other-readers", "the statistics that it returns are read", norm)
        before, after = shapes.type(source), shapes.type(norm.outputs[0])
        are_alike = isinstance(before, TensorType) and isinstance(after, TensorType) and (
            before.with_(requires_grad=None) == after.with_(requires_grad=None)
        )  # fmt: skip
        if not isinstance(before, TensorType) or before.dtype not in _ROUNDING or len(before.shape or ()) < 2 or not are_alike:
            raise _Declined("unknown-sizes", f"{name} is {before}, and its result {after}: they must be of one known type", source)
        statistics = self._statistics(norm, operands, before)
        if layer is None:
            layer = self._layer(maker, before, statistics.mean.shape[0])
        layer.norms.append(statistics)
        self.layers[norm.outputs[0]] = layer

    def _statistics(self, node: Node, operands: dict[str, Any], type: TensorType) -> _Norm:
        shapes, found = shapes_of(self.graph), dict[str, _Known | None]()
        for name in ("weight", "bias", "running_mean", "running_var"):
            operand: Any = operands.get(name)
            is_there = isinstance(operand, Value) and operand.type != NONE and shapes.known(operand) is not None
            found[name] = self._known(operand, type, (type.shape or (0, 0))[1:2]) if is_there else None
        mean, variance, eps = found["running_mean"], found["running_var"], self._number(operands, "eps", None)
        if mean is None or variance is None or not isinstance(eps, int | float):
            raise _Declined("training", "it keeps no statistics, or their eps is not known")
        return _Norm(node, found["weight"], found["bias"], mean, variance, eps)

    def _layer(self, node: Node, made: TensorType, channels: int) -> _Layer:
        """A convolution or linear with known weights; `made` is the type of its result."""
        shapes, graph = shapes_of(self.graph), self.graph
        at_weight, at_bias = _LAYERS[node.op]
        number = partial(self._number, bind(node))
        turned = node.op in _TRANSPOSED or number("transposed", False)
        groups, factors = number("groups", 1), (number("alpha", 1), number("beta", 1))
        if turned not in (True, False) or not isinstance(groups, int) or factors != (1, 1):
            raise _Declined("unknown-weights", f"{node.op} has factors or groups that are not known", node)
        weight = self._known(node.inputs[at_weight], made)
        bias = node.inputs[at_bias] if at_bias < len(node.inputs) else None
        held = None if bias is None or bias.type == NONE or shapes.known(bias) is None else self._known(bias, made, (channels,))
        layer = _Layer(node, weight, held, groups if turned else 0, [])
        given = shapes.type(node.inputs[1 if node.op == "aten::addmm" else 0])
        rank = len(made.shape or ())
        if isinstance(given, TensorType) and given.dtype == made.dtype and len(weight.shape) == rank and 0 not in weight.shape:
            outputs = weight.shape[layer.axis] * (groups if turned else 1)
            if outputs == channels and groups > 0 and (not turned or weight.shape[0] % groups == 0):
                return layer
        what = f"%{graph.names[node.output]} has another element type or rank than its weight, or channels that nothing computes"
        raise _Declined("unknown-sizes", what, node)

    def _number(self, operands: Mapping[str, Any], name: str, default: Any) -> Any:
        operand = operands.get(name, default)
        return shapes_of(self.graph).known(operand) if isinstance(operand, Value) else operand

    def _known(self, value: Value, like: TensorType, shape: tuple[Any, ...] | None = None) -> _Known:
        """A tensor that is the same in every run, of one element type with another. Raises _Declined if it may not be."""
        shapes, name, view, read = shapes_of(self.graph), f"%{self.graph.names[value]}", self.graph.producer.get(value), value
        base, turned = shapes.type(view.inputs[0]) if view is not None and view.op in _TURNS else None, shapes.type(value)
        is_turned = (
            isinstance(base, TensorType) and isinstance(turned, TensorType) and base.rank == 2 and base.shape is not None
            and base.strides is not None and (turned.shape, turned.strides) == (base.shape[::-1], base.strides[::-1])
        )  # fmt: skip
        if view is not None and is_turned:
            value = view.inputs[0]
        else:
            view = None
        payload = self.graph.bound.get(value, NOT_CONSTANT)
        payload = constant_of(self.graph, value) if payload is NOT_CONSTANT else payload
        numbers = _numbers(payload)
        type = shapes.type(value)
        if numbers is None or not isinstance(type, TensorType) or type.shape != numbers.shape:
            raise _Declined("unknown-weights", f"{name} is neither a parameter nor a constant whose elements are known", value)
        if shape is not None and type.shape != shape:
            raise _Declined("unknown-sizes", f"{name} is {type}, not one number for each channel", value)
        if type.dtype != like.dtype:
            raise _Declined("element-types", f"{name} is of {type.dtype}, and what is normalised of {like.dtype}", value)
        if isinstance(payload, np.ndarray) and not is_fixed(payload):
            raise _Declined("written", f"{name} is an array that its owner may write, and no count of writes is kept", value)
        if alias_db_of(self.graph).is_written(value) or not shapes.reshaped.isdisjoint((value, read)):
            raise _Declined("written", f"the program may write {name}", value)
        if any(alias_db_of(self.graph).may_contain_alias(output, value) for output in self.graph.outputs):
            raise _Declined("seen", f"the caller gets {name}, and may write it", value)
        return _Known(value, payload, type, view)

    def record(self) -> PassRecord:
        rewriter, made, done = Rewriter(self.graph), dict[Value, list[tuple[Value, Any]]](), list[tuple[_Layer, tuple[Any, Any]]]()
        for layer in {id(layer): layer for layer in self.layers.values()}.values():
            try:
                done.append((layer, self._replace(layer, rewriter, made)))
            except _Declined as why:
                self.remarks += [Remark("missed", why.rule, norm.node, why.because, why.evidence) for norm in layer.norms]
        record = cleaned("fold-batch-norm", rewriter, self.remarks)
        if not record.edits:
            return record
        after = with_bound(record.after, made, {part.value for layer, _ in done for part in layer.parts})
        names = {id(part.tensor): self.graph.names[part.value] for layer, _ in done for part in layer.parts}
        weights = [
            Made(tensors, partial(_fold_again, layer, news, names), not layer.is_constant, news if layer.weight.tensor is not None else ())
            for layer, news in done
            if (tensors := [part.tensor for part in layer.parts if part.tensor is not None])
        ]
        if weights:
            after = replace(after, modes=Followed(weights, self.graph.modes))
        return replace(record, after=after)

    def _replace(self, layer: _Layer, rewriter: Rewriter, made: dict[Value, list[tuple[Value, Any]]]) -> tuple[Any, Any]:
        """Put a layer of new weights in the place of the old one, with the result of the last batch norm; return the new weights."""
        names, old, last, weight = self.graph.names, layer.node, layer.norms[-1].node, layer.weight
        trained = weight.tensor is not None and any(getattr(part.tensor, "requires_grad", False) for part in layer.parts)
        new_weight, new_bias = layer.numbers()
        news = _as_weight(weight, new_weight, trained=trained), _as_bias(weight, new_bias, trained=trained)
        rounding = f"results differ by rounding: rtol ~{_ROUNDING[weight.type.dtype or '']}"
        because = f"one multiplication and one addition less for each element; {rounding}"
        inputs, nodes = list(old.inputs), list[Node]()
        base = names[weight.value]
        titles = base, f"{base}_bias" if layer.bias is None else names[layer.bias.value]
        for place, tensor, title in zip(_LAYERS[old.op], news, titles, strict=True):
            type = argument_type(tensor)
            assert isinstance(type, TensorType)
            value = make_value(new_id(), replace(type, dtype=weight.type.dtype, device=weight.type.device), f"{title}_folded")
            if layer.is_constant:
                is_array, payload = isinstance(tensor, np.ndarray), weight.payload
                data = TensorData(payload.dtype, tensor.shape, tensor, payload.device) if is_array else _torch_types().tensor_data(tensor)
                nodes.append(constant_node(value, data, like=old))
            else:
                made.setdefault(weight.value, []).append((value, tensor))
            inputs[place : place + 1] = [value]
        new = replace(old, id=new_id(), inputs=tuple(inputs), outputs=last.outputs[:1])
        rewriter.replace_node(old, [*nodes, new], reason=because)
        evidence: tuple[Value | Node, ...] = (old, *[part.value for part in layer.parts])
        for norm in layer.norms:
            rewriter.erase(norm.node, reason=because)
            told = f"{old.op} of %{names[old.output]} does it with scaled weights and a shifted bias: {because}"
            self.remarks.append(Remark("passed", "batch-norm", norm.node, told, evidence))
        return news


# Elements, in and out of the libraries.


def _numbers(payload: Any) -> Array | None:
    """The elements of a tensor in float64; None if they are not known, or not real floats."""
    held, dtype = payload, ""
    if isinstance(payload, TensorData):
        held, dtype = payload.array, payload.dtype
        if dtype not in _ROUNDING or held is None:
            return None
    if dtype == "bfloat16":
        bits: Array = held.astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    if isinstance(held, np.ndarray):
        return held.astype(np.float64) if str(held.dtype) in _ROUNDING else None
    if not hasattr(held, "untyped_storage") or str(held.dtype).removeprefix("torch.") not in _ROUNDING:
        return None
    try:
        wide: Array = held.detach().cpu().double().resolve_neg().numpy()
    except (RuntimeError, TypeError):  # it has no elements, or they are not laid out by strides
        return None
    return wide


def _as_weight(weight: _Known, numbers: Array, *, trained: bool) -> Any:
    """A tensor of these numbers, of the library, layout and device of the weight. Raises _Declined if its memory has gaps."""
    base = weight.array if weight.tensor is None else weight.tensor.detach()
    like = np.empty_like(base, subok=False) if weight.tensor is None else base.clone()
    made = _filled(like, numbers if weight.view is None else numbers.T)
    before, after = (each.strides if weight.tensor is None else each.stride() for each in (base, made))
    if after != before:
        raise _Declined("unknown-sizes", "the memory of the weight has gaps, or elements that share it", weight.value)
    made = made if weight.view is None else made.T
    return made.requires_grad_() if trained else made


def _as_bias(weight: _Known, numbers: Array, *, trained: bool) -> Any:
    """A tensor of these numbers, one for each channel, of the library and device of the weight."""
    like = np.empty(numbers.shape, weight.array.dtype) if weight.tensor is None else weight.tensor.detach().new_empty(numbers.shape)
    made = _filled(like, numbers)
    return made.requires_grad_() if trained else made


def _torch_types() -> Any:
    from irscope.frontends.torch import types

    return types


def _filled(like: Any, numbers: Array) -> Any:
    """The tensor, filled with numbers of its element type."""
    if isinstance(like, np.ndarray):
        is_bits = like.dtype == np.uint16  # of a constant of bfloat16
        like[...] = numbers.astype(np.float32).view(np.uint32) >> 16 if is_bits else numbers
        return like
    torch = _torch_types().require_torch("to fill a tensor")
    with torch.inference_mode() if like.is_inference() else torch.no_grad():  # elsewhere torch refuses to write what that mode made
        like.copy_(torch.from_numpy(np.array(numbers)))
    return like


Hasher = Callable[[Sequence[Any]], Callable[[], int]]
"""Returns, for tensors of torch, what hashes the elements that they hold at a call."""


class Made(NamedTuple):
    """What was made once of tensors of torch."""

    tensors: Sequence[Any]
    again: Callable[[Any], object]
    """Makes it again; gets one of the tensors that were written."""
    is_hashed: bool = True
    """Whether contents are compared, besides torch's counts of writes; not of tensors that nobody else has."""
    own: Sequence[Any] = ()
    """The tensors that it is, which nobody else has."""


class Followed:
    """Tensors of torch of which something was made once: a call has it made again where they were written since, and then says whether a
    model is in another mode, as `Graph.modes` does.

    Torch counts the writes to a tensor, but not those through `.data`, through NumPy's view of it or by a pointer. Given a hasher, the
    contents of tensors of a processor are compared as well."""

    def __init__(
        self, made: Sequence[Made], then: Callable[[], str] | None = None, hasher: Hasher | None = None, before: "Followed | None" = None
    ) -> None:  # fmt: skip
        """`before`: what makes some of these tensors, `own` of it, and is asked before this is."""
        self.made = made
        self.before = before
        self.renewed = 0
        """How often something was made again."""
        self.is_known = True
        """Whether all was made of the tensors as `state` has them; not while it is made again, nor after that failed half-way."""
        self.then = then
        self.hasher = hasher
        self.lock = Lock()
        ours: set[int] = set() if before is None else before.own
        shown = {id(tensor): tensor for each in made if each.is_hashed for tensor in each.tensors if id(tensor) not in ours}
        self.shown = list(shown.values())
        """The tensors that others have too, who may give them other memory and another layout."""
        self.tensors = [*self.shown, *{id(x): x for each in made for x in each.tensors if id(x) not in shown.keys() | ours}.values()]
        self.compared = {id(tensor) for tensor in self.shown if tensor.is_cpu}
        self.own: set[int] = {id(tensor) for each in made for tensor in each.own if not tensor.is_inference()}
        """Those that only the program has, whose writes torch counts."""
        self.has_layouts: Callable[..., bool] = _never
        """Torch's guard of their layouts; where it fails, these are compared one by one, which takes three times as long."""
        self.state = self._look()

    def watch(self, hasher: Hasher, *, is_new: bool) -> None:
        """Compares contents from now on, too. Unless all was made just now, it is made again."""
        with self.lock:
            if self.hasher is None:
                self.hasher = hasher
                self.is_known = is_new
                if is_new:
                    self.state = self._look()
                else:
                    self._renew()

    def __call__(self) -> str:
        state = self.state
        is_there = self.is_known and [tensor.data_ptr() for tensor in self.shown] == state.places
        is_there = is_there and (not self.shown or self.has_layouts(*self.shown) or self._compare_layouts(state.layouts))
        is_there = is_there and (self.before is None or self.before.renewed == state.renewed)
        if not is_there or [_count(tensor) for tensor in state.counted] != state.counts or state.held() != state.contents:
            with self.lock:
                self._renew()
        return self.then() if self.then is not None else ""

    def _compare_layouts(self, layouts: Sequence[Any]) -> bool:
        if list(map(_layout, self.shown)) != layouts:
            return False
        guards = _guards(sys.modules["torch"])
        if guards is not None:
            self.has_layouts = guards(self.shown, inside=True)
        return True

    def _look(self) -> "_Seen":
        compared = self.compared if self.hasher is not None else set()
        counted = [tensor for tensor in self.tensors if id(tensor) not in compared]
        held: Callable[[], int] = int
        if self.hasher is not None:
            held = self.hasher([tensor for tensor in self.tensors if id(tensor) in compared])
        places, layouts = [tensor.data_ptr() for tensor in self.shown], list(map(_layout, self.shown))
        renewed = 0 if self.before is None else self.before.renewed
        return _Seen(places, layouts, counted, list(map(_count, counted)), list(map(_count, self.tensors)), held, held(), renewed)

    def _renew(self) -> None:
        """Makes again what was made of tensors that were written or exchanged; of all that are compared, where their contents differ; and
        of all that others have, where it is not known what of."""
        old, now = self.state, self._look()  # first: what is written meanwhile counts
        others = self.compared if now.contents != old.contents else set()
        written = {id(tensor) for tensor, a, b in zip(self.tensors, now.all_counts, old.all_counts, strict=True) if a != b}
        before, after = (zip(each.places, each.layouts, strict=True) for each in (old, now))
        written |= {id(tensor) for tensor, a, b in zip(self.shown, before, after, strict=True) if a != b}
        if self.before is not None and now.renewed != old.renewed:
            written |= self.before.own
        is_known, self.is_known = self.is_known, False
        for tensors, again, is_hashed, _ in self.made:
            found = [tensor for tensor in tensors if id(tensor) in written]
            found += [tensor for tensor in tensors if is_hashed and id(tensor) in others]
            if found or (is_hashed and not is_known):
                again((found or tensors)[0])
                self.renewed += 1
        self.has_layouts = _never  # it knows those before
        self.state, self.is_known = now, True  # last: another call waits until all is made, and fails as well where that failed

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy has weights of its own, which nobody else can write


_guards: Final = cache(torch_guards)


class _Seen(NamedTuple):
    """The tensors at one moment: where those are that others have, and how they are laid out; which are told by counts of writes alone,
    and their counts; the counts of all; what hashes the others, and their hash; how often was made what is made before."""

    places: list[int]
    layouts: list[Any]
    counted: list[Any]
    counts: list[int]
    all_counts: list[int]
    held: Callable[[], int]
    contents: int
    renewed: int


def _never(*tensors: Any) -> bool:
    return False


def _layout(tensor: Any) -> Any:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.is_neg()  # the last two are others' view of the same memory


def _count(tensor: Any) -> int:
    """How often torch has counted a write to a tensor."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _fold_again(layer: _Layer, news: tuple[Any, Any], names: Mapping[int, str], written: Any) -> None:
    """Computes the new weight and bias of a layer again, as a tensor that they come from was written."""
    try:
        if layer.is_constant:
            raise _Declined("constant", "they are constants of the program")
        for tensor, numbers in zip(news, layer.numbers(), strict=True):
            _filled(tensor, numbers)
    except _Declined as why:
        raise RunError(
            f"%{names[id(written)]} has been written since fold-batch-norm computed other weights from it: {why.because}",
            rule="folded-weights", hint="run the pass again on the graph before it, or load the model again",
        ) from None  # fmt: skip
