"""Models with fields changed anywhere in the tree; whatever is raised must be an error of irscope's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import irscope as irs
from irscope.errors import IrscopeError
from tests.frontends.onnx.node_tests import cases


def sources() -> list[Any]:
    """Models that are mutated: every 40th node case, and one with functions, bodies and weights."""
    return [case.model for case in cases()[::40]] + [rich_model()]


def rich_model() -> Any:
    """A function called twice, a loop, an if, weights dense and sparse, a custom op, shapes computed from shapes."""
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper

    double = helper.make_function(
        "mine", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    value = helper.make_tensor_value_info
    step = helper.make_graph(
        [helper.make_node("Add", ["s", "one"], ["t"]), helper.make_node("Identity", ["c"], ["d"])], "step",
        [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, ["n", 4])],
        [value("d", T.BOOL, []), value("t", T.FLOAT, ["n", 4]), value("t", T.FLOAT, ["n", 4])],
    )  # fmt: skip
    yes = helper.make_graph([helper.make_node("Relu", ["y"], ["u"])], "yes", [], [value("u", T.FLOAT, None)])
    no = helper.make_graph([helper.make_node("Neg", ["y"], ["v"])], "no", [], [value("v", T.FLOAT, None)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Double", ["h"], ["g"], domain="mine"),
        helper.make_node("Double", ["g"], ["k"], domain="mine"),
        helper.make_node("Loop", ["three", "yes", "k"], ["y", "rows"], body=step),
        helper.make_node("ReduceMax", ["y"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "one"], ["big"]),
        helper.make_node("If", ["big"], ["z"], then_branch=yes, else_branch=no),
        helper.make_node("Shape", ["z"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["z", "target"], ["r"]),
        helper.make_node("Odd", ["r"], ["o"], domain="mine", depth=3, name_of="odd"),
    ]
    weights = [
        numpy_helper.from_array(np.ones((4, 4), np.float32), "w"), numpy_helper.from_array(np.float32(1), "one"),
        numpy_helper.from_array(np.int64(3), "three"), numpy_helper.from_array(np.array(True), "yes"),
        numpy_helper.from_array(np.int64(0), "zero"), numpy_helper.from_array(np.array([0]), "axis"),
        numpy_helper.from_array(np.array([2, -1]), "rest"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "rich", [value("x", T.FLOAT, ["n", 4])], [value("o", T.FLOAT, None), value("rows", T.FLOAT, None)], weights
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, functions=[double], opset_imports=opsets, ir_version=8)


def mutations(count: int, seed: int = 0, models: Sequence[Any] = ()) -> Iterator[bytes]:
    """Files with fields changed; `tests/oracles/damaged_files.py` changes bytes."""
    pick = random.Random(seed)
    models = models or sources()
    for _ in range(count):
        yield _with_fields_changed(pick.choice(models), pick).SerializeToString()


_NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**62, -(2**63), 2**63 - 1)


def _with_fields_changed(model: Any, pick: random.Random) -> Any:
    """A copy with some fields, anywhere in the tree, set to other values of their kind."""
    made = type(model)()
    made.CopyFrom(model)
    for _ in range(pick.randint(1, 4)):
        message, depth = made, 0
        while depth < 12:
            depth += 1
            fields = message.ListFields()
            if not fields:
                break
            field, value = pick.choice(fields)
            if field.message_type is not None:
                several = hasattr(value, "__len__")
                message = pick.choice(list(value)) if several else value
                continue
            _change(message, field, value, pick)
            break
    return made


def _change(message: Any, field: Any, value: Any, pick: random.Random) -> None:
    kind = type(value[0] if hasattr(value, "append") and len(value) else value)
    new: Any = {
        int: lambda: pick.choice(_NUMBERS), float: lambda: pick.choice([0.0, float("nan"), float("inf"), -1e38]),
        str: lambda: pick.choice(["", "x", "Reshape", "Loop", "a::b", "\u2603", "w"]),
        bytes: lambda: bytes(pick.randrange(256) for _ in range(pick.randrange(9))), bool: lambda: pick.choice([False, True]),
    }.get(kind, lambda: value)()  # fmt: skip
    try:
        if hasattr(value, "append"):
            place = pick.randrange(len(value) + 1)
            value.insert(place, new) if pick.random() < 0.5 or place == len(value) else value.__setitem__(place, new)
        else:
            setattr(message, field.name, new)
    except (ValueError, TypeError, OverflowError):
        pass  # the field is of a narrower kind: it stays as it was


def load_bytes(content: bytes, folder: Path) -> str:
    """What comes of loading a file: `loaded` or the name of the error."""
    path = folder / "model.onnx"
    path.write_bytes(content)
    try:
        graph = irs.load(path)
        str(graph)
    except IrscopeError as error:
        assert str(error)
        return type(error).__name__
    return "loaded"
