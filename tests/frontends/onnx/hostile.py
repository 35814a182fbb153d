"""Models that `tests/oracles/damaged_files.py` damages."""

from typing import Any

import numpy as np

from tests.frontends.onnx.node_tests import cases


def sources() -> list[Any]:
    """Every 40th node case, and one with functions, bodies and weights."""
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
