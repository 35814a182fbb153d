"""YOLOv3: the graph behind the alias analysis and deduplication work in TorchScript.

Most of its 2,800 nodes are small pointwise ones that repeat, and its decoder overwrites slices of its own buffer, which is what an
alias analysis must see through.

    python examples/yolov3.py [image size]
"""

import sys

import torch
from networks.yolov3 import yolov3

__all__ = ["yolov3"]


def main(size: int = 160) -> None:
    import irscope as irs

    model = torch.jit.script(yolov3())
    x = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(1))
    graph = irs.load(model, x)
    db = irs.AliasDb(graph)
    fusion = irs.fuse(graph)
    classes = irs.dedup(fusion).classes
    run = irs.compile(fusion)
    slices = [node for node in graph.nodes() if node.op == "aten::slice" and db.has_writers(node)]
    print(f"{sum(1 for _ in graph.nodes())} nodes; {len(slices)} slices of a buffer that is written in place")
    print(f"{len(fusion.groups)} fusion groups, {len(classes)} classes, {len(run.kernels)} kernels")
    with torch.no_grad():
        expected = model(x)
    error = (run(x) - expected).abs().max().item()
    print(f"{len(expected[0])} boxes, largest difference from eager {error:.2g}")
    assert torch.allclose(run(x), expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
