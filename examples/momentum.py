"""A NumPy function written for speed, with `+=` and a preallocated buffer, becomes one kernel.

No torch is needed. The writes go to memory that nobody outside sees, so they are made pure; what is computed twice is
computed once, and the rest shares one kernel. A write that the caller sees stays where it is, and says so.

    python examples/momentum.py [rows]
"""

import sys

import numpy as np


def momentum(x, y):
    """A damped step: the buffer `z` is written four times."""
    z = np.empty_like(x)
    z[:] = np.tanh(x * y)
    z += x
    z *= 0.5
    z -= np.tanh(x * y)
    return z


def momentum_into(x, y):
    """The same into the caller's `y`."""
    y += np.tanh(x * y)
    return y * 0.5


def main(rows: int = 1000) -> None:
    import irscope as irs

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(rows, 256)).astype(np.float32) for _ in range(2))

    done = irs.Pipeline("functionalize,canonicalize,cse,dce,fuse")(irs.load(momentum, x, y))
    print(done.table().to_string(index=False))
    (group,) = done.results["fuse"].groups
    ops = [node.op.removeprefix("aten::") for node in group.blocks[0].nodes if node.op != "prim::Constant"]
    print(f"one kernel of {len(ops)} ops: {', '.join(ops)}")
    assert ops.count("tanh") == 1  # it was written twice

    run = irs.compile(done.graph)
    difference = np.abs(run(x, y) - momentum(x, y)).max()
    assert len(run.kernels) == 1
    print(f"largest difference from NumPy {difference:.1g}")
    np.testing.assert_allclose(run(x, y), momentum(x, y), atol=1e-6)

    seen = irs.functionalize(irs.load(momentum_into, x, y))
    print(*seen.remarks, sep="\n")
    assert [remark.kind for remark in seen.remarks] == ["missed"]
    ours, theirs = y.copy(), y.copy()
    np.testing.assert_allclose(irs.compile(seen.after)(x, ours), momentum_into(x, theirs), atol=1e-6)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
