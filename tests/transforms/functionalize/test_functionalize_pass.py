"""Functionalisation: the caller sees no difference, what can become pure does, and what cannot says why."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.analysis.shapes import infer
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType
from irscope.ir.invariants import verify
from irscope.ops.registry import effect_of
from irscope.ops.traits import MOVES_STATISTICS
from irscope.transforms.cleanup import fold_constants
from irscope.transforms.functionalize import functionalize
from tests.programs import parsed

torch = pytest.importorskip("torch")

from tests.transforms.same_meaning import check_pass, observed  # noqa: E402
from tests.work import some  # noqa: E402


def in_place(graph: Graph) -> list[str]:
    written = [node.op for node in graph.nodes() if effect_of(node) == "in-place" and node.op.endswith("_")]
    return [op for op in written if op not in MOVES_STATISTICS]


UNLIKELY = {20456: 40, 40763: 45, 40417: 45, 100124: 60}
"""Seeds and sizes. A part that was written, then read after an if through whose result the whole was written. A result that
lay otherwise because of the stride of a dimension of one element. Writes that only a second run found."""


@pytest.mark.parametrize("seed", UNLIKELY)
def test_callers_see_no_difference_where_it_once_was(seed: int) -> None:
    check_pass(functionalize, seed, size=UNLIKELY[seed])


@pytest.mark.parametrize("seed", some(range(80, 110), 12))
def test_callers_see_no_difference_without_copies_of_the_whole(seed: int) -> None:
    record = check_pass(lambda graph: functionalize(graph, scatter=False), seed)
    assert not any("scatter" in node.op for node in record.after.nodes())


WRITES = [lambda b: b.mul_(2.0), lambda b: b[:2].mul_(3.0), lambda b: b[0].add_(1.0), lambda b: b.t()[0].neg_(), lambda b: b[1].neg_()]


@pytest.mark.parametrize("write", WRITES)
def test_a_part_that_was_written_is_read_again_after_another_write(write: Callable[[Any], Any]) -> None:
    def program(x: Any) -> Any:
        whole = x.neg()
        part = whole[0]
        part.relu_()
        write(whole)
        return part + part.exp(), whole

    x = torch.linspace(-1, 1, 9).view(3, 3)
    graph = irs.load(program, x)
    pure = functionalize(graph).after
    assert not in_place(pure) and observed(pure, [x]) == observed(graph, [x])


def test_the_record_of_a_program_without_writes_is_the_program() -> None:
    graph = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)")
    assert functionalize(graph).after is graph


def test_a_mistake_is_reported() -> None:
    with pytest.raises(ArgumentError, match="functionalize works on a Graph"):
        functionalize("graph()")  # type: ignore[arg-type]


class Residual(torch.nn.Module):  # type: ignore[misc]
    """What a residual network does in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(3)
        self.relu = torch.nn.ReLU(inplace=True)
        self.drop = torch.nn.Dropout(0.5)
        self.leaky = torch.nn.LeakyReLU(0.1, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            out = self.relu(self.norm(self.conv(x)))
            out = self.norm(self.conv(out))
            out += x
            x = self.drop(self.leaky(out))
            x.mul_(0.5)
        return x


def assert_types_are_true(graph: Graph) -> None:
    """What the values' types say of element types, shapes and strides is what the type rules say."""
    shapes = infer(Graph(graph.body, graph.name))
    for value in graph.values():
        told, found = value.type, shapes.type(value)
        if isinstance(told, TensorType) and isinstance(found, TensorType):
            assert told.dtype in (None, found.dtype), value
            assert told.shape in (None, found.shape), value
            assert told.strides is None or found.strides in (None, told.strides), value


@pytest.mark.parametrize(("name", "count"), [("residual, scripted", 4), ("residual, traced", 8), ("yolov3", 24)])
def test_a_model_becomes_pure(name: str, count: int) -> None:
    from yolov3 import yolov3

    model, x = (yolov3(width=4).eval(), torch.randn(1, 3, 64, 64)) if name == "yolov3" else (Residual().eval(), torch.randn(1, 3, 5, 5))
    source = torch.jit.trace(model, x) if "traced" in name else torch.jit.script(model)  # a scripted one has a loop
    graph = fold_constants(irs.load(source, x)).after
    record = functionalize(graph)
    verify(record.after)
    assert len(in_place(graph)) == count and in_place(record.after) == []
    assert_types_are_true(record.after)
    with torch.no_grad():
        torch.testing.assert_close(irs.compile(irs.fuse(record.after))(x), model(x), rtol=1e-3, atol=1e-3)


BEFORE = "a = neg x; row = select a zero one; w = relu_ row; s = exp row"
AGAIN = "e = add_ s row one; mid = slice a one zero one one; m = mul_ a mid"
AFTER = "f = add s row one; r:(Tensor, Tensor) = TupleConstruct f a"

PROGRAMS = {
    "a part is taken again after a write that stays": (f"{BEFORE}; {AGAIN}; {AFTER}", ["aten::mul_"]),
    "in a loop, too": (f"{BEFORE}; Loop two true {{i:int | {AGAIN} | true}}; {AFTER}", ["aten::mul_"]),
    "a list gets the view and not a tensor of the same elements": (
        "a = neg x; row = select a zero one; row2 = relu_ row; xs:Tensor[] = ListConstruct row2; back = __getitem__ xs zero; "
        "w = add_ back one one; r:(Tensor, Tensor) = TupleConstruct a row", ["aten::add_"],
    ),
    "result of an if, nested": (
        "y = If c {| p = If c {| a = neg x | a} {| b = exp x | b}; q = relu_ p | p} {| d = exp x | d}; row = select y zero zero; "
        "z = tanh_ row; r:(Tensor, Tensor) = TupleConstruct y row", [],
    ),
    "result of an if, in a list, too": (
        "xs:Tensor[] = ListConstruct x; y = If c {| a = neg x; ys:Tensor[] = append xs a | a} {| d = exp x | d}; z = tanh_ y; "
        "r:(Tensor, Tensor[]) = TupleConstruct y xs", ["aten::tanh_"],
    ),
    "result of an if, a view": (
        "y = If c {| a = neg x; v = t a | v} {| d = exp x | d}; z = tanh_ y; r:(Tensor, Tensor) = TupleConstruct y z", ["aten::tanh_"],
    ),
    "result of an if, written in a loop around it": (
        "w = clone x none; Loop two true {i:int | y = If c {| a = mul w x | a} {| d = exp w | d}; z = tanh_ y; s = add_ w y two | true}; "
        "r:(Tensor, Tensor) = TupleConstruct w x", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_stays_in_place_is_seen_under_each_name(name: str, flag: bool) -> None:
    body, left = PROGRAMS[name]
    graph = parsed(f"x c:bool | zero = 0; one = 1; two = 2; true = True; none = None; {body} | r")
    record = functionalize(graph)
    verify(record.after)
    given = [[np.array([[1.0, -2.0], [3.0, -0.5]], np.float32), flag] for _ in range(2)]
    assert observed(graph, given[0]) == observed(record.after, given[1])
    assert in_place(record.after) == left


def calls_of(schema: Any, target: Any) -> Any:
    """Arguments for an overload, by the types of its arguments; None where there is one that we do not know to make."""
    rows = (torch.arange(float(target.numel())).reshape(target.shape) + 1) / 8
    known = {
        "Tensor": rows, "Optional[Tensor]": rows, "number": 0.5, "float": 0.5, "Optional[number]": 0.5, "bool": False,
        "Optional[float]": 0.5, "int": 1, "Optional[int]": None, "Optional[str]": None, "NoneType": None, "str": "none",
        "Optional[Generator]": None,
    }  # fmt: skip
    given = {"mask": rows > 0.3, "index": torch.zeros(target.shape, dtype=torch.int64), "dim": 0, "diagonal": 0}
    arguments = [target]
    for argument in schema.arguments[1:]:
        if argument.name not in given and str(argument.type) not in known:
            return None
        arguments.append(given.get(argument.name, known.get(str(argument.type))))
    return arguments


TARGETS = {
    "rows": lambda: torch.arange(6.0).reshape(3, 2),
    "columns": lambda: torch.arange(6.0).reshape(2, 3).t(),
    "one row": lambda: torch.arange(3.0).reshape(1, 3),
    "one column": lambda: torch.arange(3.0).reshape(1, 3).t(),
    "gaps and an extent of one": lambda: torch.arange(12.0).reshape(2, 3, 2)[:, :, :1].transpose(1, 2),
    "odd stride of one": lambda: torch.arange(6.0).as_strided((2, 1, 3), (1, 77, 2)),
    "a number": lambda: torch.tensor(2.0),
    "nothing": lambda: torch.zeros(0, 3).t(),
}


@pytest.mark.parametrize("name", TARGETS)
def test_functional_variants_lie_in_memory_as_what_is_written(name: str) -> None:
    """Of every in-place op of torch for which we claim that the pure result lies as its first operand, to the last
    stride, and has its element type."""
    from irscope.ir.payload import argument_type
    from irscope.ops.type_rules import is_dense

    target = (TARGETS[name]() + 1) / 8
    told = argument_type(target)
    without_strides = told.with_(strides=None)
    tried = claimed = 0
    for schema, arguments in in_place_calls(target):
        for type in (told, without_strides, TensorType()):
            twin = twin_of(schema, arguments, type)
            if twin is None or not (twin.keeps_strides or twin.keeps_dense_strides or twin.keeps_dtype):
                continue
            try:
                written = torch.ops.aten.copy(target, target)  # of the same strides, whatever they are
                call(schema.name, schema, [written, *arguments[1:]])
                pure_one = call(twin.op, schema, arguments)
            except (RuntimeError, IndexError, AttributeError, TypeError):
                continue
            tried += 1
            assert pure_one.dtype == written.dtype or not twin.keeps_dtype, schema.full_name
            if twin.keeps_strides or (twin.keeps_dense_strides and is_dense(target.shape, target.stride())):
                claimed += 1
                assert (pure_one.shape, pure_one.stride()) == (target.shape, target.stride()), schema.full_name
            torch.testing.assert_close(pure_one.to(written.dtype), written, equal_nan=True)
    assert tried > 60
    assert claimed > 2  # there are copies


def test_results_of_pointwise_ops_lie_without_gaps() -> None:
    """Whatever the operands' strides are: `families` calls a result of such an op dense."""
    from irscope.ops.registry import known_names, lookup, overloads
    from irscope.ops.type_rules import is_dense

    tried = 0
    for name in known_names():
        op = lookup(name)
        if op is None or op.category != "pointwise" or name.endswith("_") or name == "aten::copy":
            continue
        for schema, make in ((schema, make) for schema in overloads(name) for make in TARGETS.values()):
            arguments = calls_of(schema, (make() + 1) / 8)
            if arguments is None or not schema.arguments or not isinstance(schema.arguments[0].type, TensorType):
                continue
            try:
                result = call(name, schema, arguments)
            except (RuntimeError, IndexError, AttributeError, TypeError):
                continue
            if isinstance(result, torch.Tensor):
                tried += 1
                assert is_dense(result.shape, result.stride()), (schema.full_name, result.stride())
    assert tried > 300


def in_place_calls(target: Any) -> list[tuple[Any, Any]]:
    """Every in-place overload whose arguments we know to make, with arguments."""
    from irscope.ops.registry import known_names, lookup, overloads

    names = [name for name in known_names() if name.endswith("_") and lookup(name) is not None]
    schemas = [schema for name in names for schema in overloads(name)]
    found = [(s, calls_of(s, target)) for s in schemas if isinstance(s.arguments[0].type, TensorType)]
    return [(schema, arguments) for schema, arguments in found if arguments is not None]


def twin_of(schema: Any, arguments: Any, type: TensorType) -> Any:
    """The functional variant that we claim for an overload whose first operand has a type; the others have the types they have."""
    from irscope.ir.core import make_node, make_value, new_id
    from irscope.ir.payload import argument_type
    from irscope.ops.registry import schema_of
    from irscope.transforms.functionalize.pure_ops import Twin, Twins

    types = [type]
    for argument, operand in zip(schema.arguments[1:], arguments[1:], strict=True):
        types.append(argument_type(operand) if isinstance(operand, torch.Tensor) else argument.type)
    values = tuple(make_value(new_id(), each, "v") for each in types)
    node = make_node(new_id(), schema.name, values, (), {}, (), None, "")
    graph = irs.parse("graph(%x : Tensor):\n  return (%x)")
    twin = Twins(graph, infer(graph)).of(node, schema) if schema_of(node) is schema else None
    return twin if isinstance(twin, Twin) else None


def call(name: str, schema: Any, arguments: list[Any]) -> Any:
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
    only = {a.name: v for a, v in zip(schema.arguments, arguments, strict=True) if a.keyword_only}
    plain = [v for a, v in zip(schema.arguments, arguments, strict=True) if not a.keyword_only]
    return getattr(packet, schema.overload or "default")(*plain, **only)
