"""Every ONNX op × its attributes, optional inputs, element types and versions, judged by onnxruntime.

ONNX's node tests ask for each form once; what a reader ignores are attributes. So each of their models of one op is varied, one
thing at a time: every value of every attribute that the op's schema has (`_values`), every optional input left out, every element
type that the schema allows, special numbers, every older version of the op (an input that was an attribute then becomes one), and
all inputs but the first as weights, and the same with inputs of unknown extents. What onnxruntime does not take is not a program.

    .venv/bin/python -m tests.oracles.onnx_sweep [OP …] [--share 3/10] [--json out.json] [--show]

`--without-onnxruntime` hides it from irscope: the judge of which forms ONNX's reference implementation really computes.
"""

import itertools
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

import irscope as irs
from irscope.frontends.onnx.call import builders
from irscope.frontends.onnx.importer import FLAGS as _FLAGS
from tests.oracles.counts import Counts, difference, outcome, parser, report
from tests.oracles.watched import Ended, Stage, watched

_RANDOM: Final = frozenset("Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split())
"""Two implementations draw different numbers."""
_BODIES: Final = frozenset("If Loop Scan SequenceMap Gradient".split())
"""Ops with bodies, which are programs of their own."""
_OLDEST: Final = 7
_DEVIATIONS: Final = ("AveragePool 1 opset 7", "MaxUnpool 1")
"""Windows larger than the operand, of which onnxruntime makes one; an output shape, in which it counts indices, and ONNX does not."""
_BASES: Final = 3
"""The most models of an op that are varied: the first, the one with the most inputs, the one with the most attributes."""
_RENAMED: Final = {"constant_value": "value"}
"""Inputs that were attributes of another name."""

Program = tuple[str, Any, tuple[Any, ...]]
"""A name, a model, and its arguments."""


def _array(item: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


@cache
def _bases() -> Mapping[str, Sequence[tuple[Any, list[Any]]]]:
    """The node of each op with arrays for its inputs (None where one is left out), of a few models each."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    found: dict[str, list[tuple[Any, list[Any]]]] = {}
    for case in cases:
        graph, opsets = case.model.graph, {entry.domain: entry.version for entry in case.model.opset_import}
        if len(graph.node) != 1 or len(case.data_sets) != 1 or graph.initializer:
            continue
        (node,) = graph.node
        held = dict(zip([info.name for info in graph.input], map(_array, case.data_sets[0][0]), strict=True))
        inputs = [held.get(name) for name in node.input]
        if node.domain or node.op_type in _RANDOM | _BODIES or not all(_is_plain(item) for item in inputs):
            continue
        node.doc_string = str(opsets.get("", 1))
        found.setdefault(node.op_type, []).append((node, inputs))
    return {op: _few(rows) for op, rows in sorted(found.items())}


def _few(rows: Sequence[tuple[Any, list[Any]]]) -> Sequence[tuple[Any, list[Any]]]:
    most = [rows[0], max(rows, key=lambda row: len(row[1])), max(rows, key=lambda row: len(row[0].attribute))]
    return [row for index, row in enumerate(most) if not any(row is other for other in most[:index])][:_BASES]


def _is_plain(item: Any) -> bool:
    return item is None or (isinstance(item, np.ndarray) and item.dtype.kind in "biufO" and item.dtype.isbuiltin == 1)


def programs(op: str) -> Iterator[Program]:
    """The variations of an op's models."""
    seen: set[bytes] = set()
    for number, (node, inputs) in enumerate(_bases()[op]):
        newest = int(node.doc_string)
        for title, made, given, opset in _variations(op, node, inputs, newest):
            for form in ("", " frozen", " open"):
                program = _model(made, given, opset, form)
                if program is None or f"{op} {number} opset {opset}".startswith(_DEVIATIONS):
                    continue
                model, arguments = program
                key = model.SerializeToString(deterministic=True) + b"".join(item.tobytes() for item in arguments)
                if key not in seen:
                    seen.add(key)
                    yield f"{op} {number} opset {opset} {title}{form}", model, arguments


def _variations(op: str, node: Any, inputs: list[Any], newest: int) -> Iterator[tuple[str, Any, list[Any], int]]:
    import onnx

    schema = onnx.defs.get_schema(op, newest)
    yield "as it is", node, inputs, newest
    known = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, declared in sorted(schema.attributes.items()):
        for value in _values(name, declared, known.get(name), op):
            yield f"{name}={value!r}", _with(node, name, value), inputs, newest
        if name in known and not declared.required:
            yield f"without {name}", _with(node, name, None), inputs, newest
    numbers = sorted(name for name in known if isinstance(known[name], int) and (op, name) != ("TopK", "sorted"))
    for first, second in itertools.combinations(numbers, 2):
        yield f"{first}, {second} changed", _with(_with(node, first, 1 - known[first]), second, 1 - known[second]), inputs, newest
    for index, formal in enumerate(schema.inputs):
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional and index < len(inputs) and inputs[index] is not None:
            yield f"without {formal.name}", node, [*inputs[:index], None, *inputs[index + 1 :]], newest
    if len(node.output) > 1 and op != "Split":  # whose results are counted
        only = type(node)()
        only.CopyFrom(node)
        del only.output[1:]
        yield "only the first result", only, inputs, newest
        for name, declared in sorted(schema.attributes.items()):
            for value in _values(name, declared, known.get(name), op):
                yield f"only the first result, {name}={value!r}", _with(only, name, value), inputs, newest
    for index, formal in enumerate(schema.inputs[: len(inputs)]):
        item = inputs[index]
        if formal.name in ("sequence_lens", "nonpad_kv_seqlen") and item is not None:
            shorter = np.maximum(item - np.arange(item.size, dtype=item.dtype), 1)
            yield f"shorter {formal.name}", node, [*inputs[:index], shorter, *inputs[index + 1 :]], newest
    yield from (("special numbers", node, given, newest) for given in _special(op, inputs))
    yield from _in_types(schema, node, inputs, newest)
    yield from _older(op, node, inputs, schema.since_version)


def _values(name: str, declared: Any, known: Any, op: str) -> Sequence[Any]:
    kind = declared.type.name
    if name in ("stash_type", "softmax_precision"):
        return []  # a precision, which changes the last digits
    if name in ("softcap", "group", "num_outputs", "qk_matmul_output_mode", "rotary_embedding_dim"):
        return [2.0] if kind == "FLOAT" else [1] if name == "group" else []  # onnxruntime crashes, or takes what it should not
    if kind == "INT":
        if (op, name) == ("TopK", "sorted"):
            return []  # in any order
        if name in _FLAGS or name in _MORE_FLAGS:
            return [0, 1]
        if name == "batch_dims":
            return [0, 1, 2]  # onnxruntime crashes at negative ones
        if name == "precision":
            return [1, 10, 11]
        if name in ("to", "dtype", "output_dtype"):
            return [1, 10, 11, 6, 7, 2, 3, 9]
        return [0, 1, 2, 3, -1, -2] if known is None or abs(known) < 4 else [known - 1, known + 1]
    if kind == "FLOAT":
        return [0.0, 0.25, 1.0, 2.0, -0.75]
    if kind == "STRING":
        return sorted(_words(op, name))
    if kind == "STRINGS":
        return [item for item in _lists(op, name) if item != known] + ([["Relu"] * len(known)] if known else [])
    if kind == "INTS":
        lists = _lists(op, name)
        size = len(known) if known else max(map(len, lists), default=2)
        made = [[0] * size, [1] * size, [2] * size, list(range(size)), list(range(size, 0, -1)), [1] * (size // 2) + [2] * (-(-size // 2))]
        distinct = name in ("axes", "perm")
        return [item for item in [*made, *lists] if item != known and (not distinct or len(set(item)) == len(item))]
    if kind == "FLOATS":
        return [[0.5] * len(known), [float(index) for index in range(len(known))]] if known else _lists(op, name)
    return []


_MORE_FLAGS: Final = frozenset(
    """
    batch_axis center_point_box detect_negative detect_positive interleaved inverse is_causal onesided periodic saturate storage_order
    time_axis training_mode""".split()
)
_WORDS: Final = {
    "auto_pad": ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"], "direction": ["forward", "reverse", "bidirectional", "LEFT", "RIGHT"],
    "coordinate_transformation_mode": ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                                       "tf_crop_and_resize", "tf_half_pixel_for_nn"],
    "nearest_mode": ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"], "approximate": ["none", "tanh"],
    "reduction": ["none", "add", "mul", "max", "min", "sum", "mean"], "round_mode": ["up", "down", "nearest"],
    "keep_aspect_ratio_policy": ["stretch", "not_larger", "not_smaller"],
}  # fmt: skip
"""The values of attributes of text that schemas write in prose."""


@cache
def _used(op: str, name: str) -> tuple[Any, ...]:
    """All values of an attribute in the models of an op."""
    import onnx

    found = [onnx.helper.get_attribute_value(a) for node, _ in _bases()[op] for a in node.attribute if a.name == name]
    return tuple(found)


def _words(op: str, name: str) -> set[str]:
    return {item.decode() for item in _used(op, name) if isinstance(item, bytes)} | set(_WORDS.get(name, ())) | set(_prose(op, name))


@cache
def _prose(op: str, name: str) -> tuple[str, ...]:
    """The words in quotes in the description of an attribute."""
    import re

    import onnx

    text = onnx.defs.get_schema(op).attributes[name].description if name in onnx.defs.get_schema(op).attributes else ""
    return tuple(re.findall(r"[`'\"]([A-Za-z_]{2,20})[`'\"]", text))


def _lists(op: str, name: str) -> list[list[Any]]:
    return [list(item) for item in _used(op, name) if isinstance(item, list)]


def _special(op: str, inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """Puts NaN, infinities, zeros and ends of the range into floating operands, one operand after the other."""
    for index, item in enumerate(inputs):
        if item is None or inputs[0] is None or item.shape != inputs[0].shape or op not in _EXACT:
            continue
        if item.dtype.kind == "f" and item.size:
            numbers = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 0.5, 3e4, -7.0], item.dtype)
            made = item.copy().reshape(-1)
            made[: numbers.size] = numbers[: made.size]
            yield [*inputs[:index], made.reshape(item.shape), *inputs[index + 1 :]]
        elif item.dtype.kind == "i" and item.size and op in _SIGNED:
            yield [*inputs[:index], -item, *inputs[index + 1 :]]


_NOT_ELEMENTWISE: Final = frozenset(
    """
    Identity Cast CastLike BitCast Constant SequenceEmpty SequenceConstruct SequenceAt SequenceLength SequenceInsert
    SequenceErase ConcatFromSequence SplitToSequence Optional OptionalHasElement OptionalGetElement DequantizeLinear
    QuantizeLinear MatMulInteger QLinearMatMul ConvInteger QLinearConv""".split()
)
_ALONG_AXES: Final = frozenset(name for name in builders() if name.startswith("Reduce")) | {"ArgMax", "ArgMin", "CumSum", "CumProd"}
_POINTWISE: Final = frozenset(
    name for name, ((_, first), *_) in builders().items() if getattr(first, "func", first).__module__.endswith("pointwise")
)
_ELEMENTWISE: Final = _POINTWISE - _ALONG_AXES - _NOT_ELEMENTWISE
_EXACT: Final = (_ELEMENTWISE | _ALONG_AXES | {"Softmax", "LogSoftmax", "Clip"}) - {"ArgMax", "ArgMin"}
"""Ops for which it is defined what becomes of NaN and infinities, by element or over an axis."""
_SIGNED: Final = frozenset("Abs Add Sub Mul Div Mod Neg Sign Max Min ReduceSum ReduceMean ReduceMax ReduceMin Pow Clip CumSum".split())


def _in_types(schema: Any, node: Any, inputs: list[Any], opset: int) -> Iterator[tuple[str, Any, list[Any], int]]:
    """Changes the type of all operands that share a type variable."""
    for constraint in schema.type_constraints:
        word = constraint.type_param_str
        own = [i for i, _ in enumerate(inputs) if schema.inputs and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == word]
        for text in constraint.allowed_type_strs if own else ():
            dtype = {"float": "float32", "double": "float64", "string": "object"}.get(text[7:-1], text[7:-1])
            if not text.startswith("tensor(") or dtype not in _TYPES:
                continue
            given = list(inputs)
            for i in own:
                given[i] = None if given[i] is None else _converted(given[i], dtype)
            yield f"{word}={dtype}", node, given, opset


_TYPES: Final = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())


def _converted(item: Any, dtype: str) -> Any:
    if item.dtype == object:
        return item
    if dtype[0] in "iu" and item.dtype.kind == "f":
        item = np.where(np.isfinite(item), np.round(item * 3), 1)
    return (np.abs(item) if dtype[0] == "u" and item.dtype.kind in "fi" else item).astype(dtype)


def _older(op: str, node: Any, inputs: list[Any], newest: int) -> Iterator[tuple[str, Any, list[Any], int]]:
    """The same in every older version of the op; what was an attribute then becomes one again."""
    import onnx

    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.name != op or schema.domain or schema.since_version >= newest:
            continue
        opset = max(schema.since_version, _OLDEST)
        if onnx.defs.get_schema(op, opset).since_version != schema.since_version:
            continue
        made, given = type(node)(), list(inputs)
        made.CopyFrom(node)
        del made.attribute[:]
        made.attribute.extend(a for a in node.attribute if a.name in schema.attributes)
        formals = onnx.defs.get_schema(op, newest).inputs
        for index, item in enumerate(inputs[len(schema.inputs) :], len(schema.inputs)):
            if index >= len(formals) or item is None or (schema.inputs and _is_variadic(schema.inputs[-1])):
                continue
            wanted = _RENAMED.get(formals[index].name, formals[index].name).lower()
            name = next((name for name in schema.attributes if name.lower() == wanted), "")
            if name and item.dtype.kind in "iufb" and item.size:
                flat = item.reshape(-1).tolist()
                made = _with(made, name, flat if schema.attributes[name].type.name in ("INTS", "FLOATS") else flat[0])
        if schema.inputs and not _is_variadic(schema.inputs[-1]):
            given = given[: len(schema.inputs)]
        yield "older", made, given, opset
        known = {a.name: onnx.helper.get_attribute_value(a) for a in made.attribute}
        for name, declared in sorted(schema.attributes.items()):
            for value in _values(name, declared, known.get(name), op):
                yield f"older {name}={value!r}", _with(made, name, value), given, opset


def _is_variadic(formal: Any) -> bool:
    import onnx

    return bool(formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic)


def _with(node: Any, name: str, value: Any) -> Any:
    """The node with an attribute, or without it."""
    import onnx

    made = type(node)()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(a for a in node.attribute if a.name != name and node.op_type != "Constant")  # which has one
    if value is not None:
        made.attribute.append(onnx.helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS if value == [] else None))
    return made


def _model(node: Any, inputs: Sequence[Any], opset: int, form: str) -> tuple[Any, tuple[Any, ...]] | None:
    """A model of the node; frozen, all its inputs but the first are weights; open, so are they, and no extent of the first is known."""
    import onnx
    from onnx import helper, numpy_helper

    made = type(node)()
    made.CopyFrom(node)
    made.doc_string = ""
    del made.input[:]
    made.input.extend("" if item is None else f"x{index}" for index, item in enumerate(inputs))
    while made.input and not made.input[-1]:
        del made.input[-1]
    given = {f"x{index}": item for index, item in enumerate(inputs) if item is not None}
    free = list(given)[:1] if form else list(given)
    if form == " frozen" and len(given) < 2:
        return None
    shapes = {name: [None] * item.ndim if form == " open" else item.shape for name, item in given.items()}
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(given[name].dtype), shapes[name]) for name in free]
    weights = [numpy_helper.from_array(item, name) for name, item in given.items() if name not in free]
    outputs = [onnx.ValueInfoProto(name=name) for name in made.output if name]
    graph = helper.make_graph([made], "g", infos, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", min(opset, 26))], ir_version=10)
    return model, tuple(given[name] for name in free)


# Judging


def _judged(program: Program, *, arrays: str) -> tuple[str, str]:
    """How a program ends, and what is said of it."""
    _, model, arguments = program
    wanted = _by_onnxruntime(model, arguments)
    if isinstance(wanted, str):
        return "torch", wanted
    given = [_argument(item, arrays) for item in arguments]
    try:
        found = irs.compile(irs.fuse(irs.load(model)))(*given)
    except Exception as error:
        return outcome(error)
    results = found if isinstance(found, tuple) and len(wanted) != 1 else (found,)
    halves = any(item.dtype == np.float16 for item in arguments) or any(held.data_type == 10 for held in model.graph.initializer)
    alone = all(node.op_type in _ELEMENTWISE for node in model.graph.node)
    differences = [_difference(a, b, halves, alone) for a, b in zip(results, wanted, strict=True)]
    said = next((item for item in differences if item), "")
    return ("wrong", said) if said else ("passed", "")


def _by_onnxruntime(model: Any, arguments: Sequence[Any]) -> Any:
    onnxruntime = _judge()
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {info.name: item for info, item in zip(model.graph.input, arguments, strict=True)})
    except Exception as error:
        return str(error).strip()[:200]


def _argument(item: Any, arrays: str) -> Any:
    if arrays != "torch" or item.dtype.kind not in "biuf":
        return item.copy()
    import torch

    return torch.from_numpy(item.copy())


def _difference(ours: Any, theirs: Any, halves: bool, alone: bool = False) -> str:
    """What differs, in words; empty if nothing does beyond rounding, which is coarse where an operand has half precision.

    Each element is judged by its own size if it is computed `alone`, else by that of the largest, which it may be a sum with.
    """
    if isinstance(theirs, list):
        if not isinstance(ours, list | tuple) or len(ours) != len(theirs):
            return f"{type(ours).__name__} for a list of {len(theirs)}"
        return next((said for a, b in zip(ours, theirs, strict=True) if (said := _difference(a, b, halves, alone))), "")
    if theirs is None:
        return "" if ours is None else "something for nothing"
    ours, theirs = np.asarray(ours.numpy() if hasattr(ours, "detach") else ours), np.asarray(theirs)
    if theirs.dtype.kind in "OUS" and ours.shape == theirs.shape:
        return "" if ours.astype(str).tolist() == theirs.astype(str).tolist() else "other texts"

    def near(ours: Any, theirs: Any) -> Any:
        finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
        bound = 4e-3 if halves else {2: 4e-3, 4: 2e-5, 8: 1e-6}[theirs.dtype.itemsize]
        room = 1e-7 if alone else bound * float(finite.max(initial=0)) + 1e-7
        return np.isclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=10 * bound, atol=room, equal_nan=True)

    return difference(ours, theirs, near)


def _work(job: tuple[str, str], skip: int) -> Iterator[Stage | Ended]:
    op, arrays = job
    warnings.simplefilter("ignore")
    for program in itertools.islice(programs(op), skip, None):
        title = f"{program[0]} {arrays}"
        yield Stage(title, ours=True)
        yield Ended(title, *_judged(program, arrays=arrays))


@cache
def _judge() -> Any:
    """The judge, which irscope may be kept from importing."""
    import onnxruntime

    return onnxruntime


def survey(ops: Sequence[str] = (), share: tuple[int, int] = (0, 1), *, alone: bool = False, show: bool = False) -> Counts:
    """Counts how the programs of these ops, or of a share of all, ended; with arrays, and with tensors."""
    chosen = [op for index, op in enumerate(_bases()) if (op in ops if ops else index % share[1] == share[0])]
    found = Counts(f"ONNX ops by onnxruntime{', hidden from irscope' if alone else ''}", show=show)
    if _judge() and alone:
        sys.modules["onnxruntime"] = None  # type: ignore[assignment]
    for ended in watched(_work, [(op, arrays) for op in chosen for arrays in ("numpy", "torch")], each=20):
        found.add(ended.way, ended.said, ended.program)
    return found


def main() -> None:
    options = parser("judge irscope's ONNX ops by onnxruntime")
    options.add_argument("ops", nargs="*")
    options.add_argument("--without-onnxruntime", action="store_true")
    given = options.parse_args()
    report(survey(given.ops, given.share, alone=given.without_onnxruntime, show=given.show), given.json)


if __name__ == "__main__":
    main()
