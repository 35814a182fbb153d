"""An ONNX model with a batch of any size: what becomes `aten::`, what fuses, and that it computes what ONNX says.

The model is built here with `onnx.helper`; `irs.load("model.onnx")` reads a file in the same way. No torch is needed.

    python examples/onnx_model.py [rows]
"""

import sys

import numpy as np


def build():
    """Two linear layers, a softmax, a reshape as exporters write it, and a Swish of op by op."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = {"w1": random.normal(size=(8, 16)), "b1": random.normal(size=16), "w2": random.normal(size=(16, 4))}
    held = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    held += [numpy_helper.from_array(np.array(0), "zero"), numpy_helper.from_array(np.array([0]), "axis")]
    held += [numpy_helper.from_array(np.array([2, -1]), "rest")]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"], name="/mlp/first"),
        helper.make_node("Gelu", ["hidden"], ["active"], name="/mlp/gelu"),
        helper.make_node("MatMul", ["active", "w2"], ["logits"], name="/mlp/second"),
        helper.make_node("Softmax", ["logits"], ["share"], name="/head/softmax"),
        helper.make_node("Shape", ["share"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["share", "target"], ["pairs"]),
        helper.make_node("Sigmoid", ["pairs"], ["gate"]),
        helper.make_node("Mul", ["pairs", "gate"], ["swish"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("pairs", "swish")]
    graph = helper.make_graph(nodes, "two_layers", [x], outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def main(rows: int = 64) -> None:
    from onnx.reference import ReferenceEvaluator

    import irscope as irs

    model = build()
    graph = irs.load(model)
    print(graph)
    assert str(graph.value("swish").type) == "Float(batch, 2, *)"  # the symbolic extent keeps its name
    assert graph.node("pairs").op == "aten::reshape"  # with integers: the shape is no tensor any more
    apart = irs.AliasDb(graph).may_alias("x", "w1")
    print(f"\nmay %x and %w1 share memory? {apart}")

    x = np.random.default_rng(1).normal(size=(rows, 8)).astype(np.float32)
    fusion = irs.fuse(irs.load(model, x))
    print(fusion.table()[["ops", "bytes before", "bytes after"]].to_string())
    found = irs.compile(fusion)(x)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    errors = [float(np.abs(ours - theirs).max()) for ours, theirs in zip(found, wanted, strict=True)]
    print(f"largest difference to onnx.reference: {max(errors):.1e}")
    assert max(errors) < 1e-5


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
