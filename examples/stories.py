"""Three stories from real programs: the decoder of YOLOv3, the blocks of a ResNet, the steps of a GRU.

A story is a walk through the explorer, one sentence a step. Each is checked against its program and written as one page that plays
from disk (`n` and `p`), with no kernel and no network.

    python examples/stories.py [folder]
"""

import sys
from pathlib import Path

import torch


def decoder():
    """Slices of one buffer, written in place."""
    from networks.yolov3 import ANCHORS, Detect

    import irscope as irs

    torch.manual_seed(0)
    graph = irs.load(torch.jit.script(Detect(4, ANCHORS[0], 3).eval()), torch.rand(1, 4, 4, 4), 32)
    told = irs.story(graph, title="One buffer, many names")
    buffer = next(node.output for node in graph.nodes() if node.op == "aten::contiguous")
    db = irs.AliasDb(graph)
    views = irs.ViewAliases(graph)
    names = [value for value in views.tensors() if views.root(value) is buffer and value in told.exploration.graph.names]
    told.add(f"`%{graph.names[buffer]}` holds all boxes of the picture.", selection=buffer)
    told.add("These are **the same memory**: views, and views of views.", selection=names[:6])
    told.add(f"{len(db.writers(buffer))} nodes wrote it in place. No one can tell, so they were made pure.", state=0)
    told.add("Made pure, they fuse.", selection=told.exploration.fusion.groups, state=-1)
    return told


def blocks():
    """What fuses between convolutions."""
    from resnet import resnet

    import irscope as irs

    told = irs.story(irs.load(resnet(), torch.rand(1, 3, 32, 32)), title="Between two convolutions")
    fusion = told.exploration.fusion
    convolutions = [node for node in fusion.graph.nodes() if "conv" in node.op]
    told.add(f"{len(convolutions)} convolutions run through the library.", selection=convolutions)
    told.add(f"Between them stand {len(fusion.groups)} kernels.", selection=fusion.groups, colour="equal")
    why = fusion.why_not(*convolutions[:2]).because
    told.add(f"No more is fused, because {why}.", selection=convolutions[:2])
    return told


def steps():
    """One kernel for all steps."""
    from gru import Unrolled

    import irscope as irs

    torch.manual_seed(0)
    told = irs.story(irs.load(Unrolled().eval(), torch.randn(4, 2, 16)), title="Four steps, one kernel")
    fusion, classes = told.exploration.fusion, told.exploration.dedup.classes
    told.add("A GRU, unrolled four times. As written it is a long list of small ops.", state=0)
    told.add("Fused, each step is two products of matrices and one kernel.", selection=fusion.groups, state=-1)
    told.add(f"They differ in names alone: {len(classes)} class.", selection=classes[0].members, colour="equal")
    return told


def main(folder: str = ".") -> None:
    for make in (decoder, blocks, steps):
        told = make()
        assert len(told) >= 3
        assert told.check() == []
        print(told, "→", told.save(Path(folder) / f"{make.__name__}.html"), end="\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
