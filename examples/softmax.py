"""One softmax, five ops, one kernel: its text for the processor and for a GPU, and how exact it is.

No torch is needed. The kernel reads each row once: its maximum, the sum and the result are three passes over
registers. The text for CUDA is written on any machine; where there is a GPU, `irs.compile(..., device="cuda")` runs it.

    python examples/softmax.py [columns]
"""

import sys

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main(columns: int = 1000) -> None:
    import irscope as irs

    x = np.random.default_rng(0).normal(scale=10, size=(512, columns)).astype(np.float32)
    fusion = irs.fuse(irs.load(softmax, x))
    print(fusion.table().loc[0].to_string())
    row = fusion.table().loc[0]
    assert (row["kind"], row["bytes after"]) == ("reduction", 2 * x.nbytes)  # read once, written once

    run = irs.compile(fusion)
    (kernel,) = run.kernels
    print(f"\nloops {kernel.spec.rank}, of which {kernel.spec.reduced} are reduced:")
    print(" → ".join(step.op for step in kernel.spec.instructions))
    cpu, _, cuda = irs.devices()
    for device in (cpu, cuda):
        text = device.source(kernel.spec)
        ours = sum(node >= 0 for node in text.line_nodes)
        print(f"{device.name:>6}: {len(text.line_nodes):4} lines of text, {ours} of them compute a node")

    exact = softmax(x.astype(np.float64))
    errors = {"NumPy": np.abs(softmax(x) - exact).max(), "kernel": np.abs(run(x) - exact).max()}
    print("largest error:", ", ".join(f"{name} {error:.1e}" for name, error in errors.items()))
    assert errors["kernel"] < 1e-6
    np.testing.assert_allclose(run(x).sum(axis=-1), 1, rtol=1e-5)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
