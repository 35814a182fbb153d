"""Recognises sums of products that are convolutions: one operand is read in windows, over whose positions the sum runs.

The loops determine everything. Those of the windows are the spatial loops of the result and of the kernel; of the
others, those of the image alone are its batch, those of the kernel alone its features, and shared ones are summed
(channels) or kept (groups).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from irscope.frontends.mlir.control.reach import Place
from irscope.frontends.mlir.emit import Emitter, dtype_of, shape_of
from irscope.frontends.mlir.meaning.shaping import permuted, reshaped, sliced
from irscope.ir import Value

__all__ = ["convolved"]


def convolved(
    e: Emitter, operands: Sequence[Value], maps: Sequence[Sequence[Place]], kept: Sequence[int], extents: Sequence[int]
) -> Value | None:
    """Emits the `aten::convolution` with the loops `kept`, in this order, as dimensions; None if there is none."""
    (image, kernel), (there, here) = operands, maps
    windows = [(axis, place) for axis, place in enumerate(there) if len(place.steps) == 2]
    plain = {place.loop: axis for axis, place in enumerate(there) if place.loop is not None}
    weights = {place.loop: axis for axis, place in enumerate(here) if place.loop is not None}
    if not 1 <= len(windows) <= 3 or len(plain) + len(windows) != len(there) or len(weights) != len(here):
        return None
    pairs = []
    for _, place in windows:
        (out, step), (inside, gap) = place.steps if place.steps[0][0] in kept else place.steps[::-1]
        if out not in kept or inside in kept or inside not in weights or {out, inside} & plain.keys() or out in weights:
            return None
        pairs.append((out, step, inside, gap))
    inner = [inside for _, _, inside, _ in pairs]
    batch = [loop for loop in plain if loop not in weights]
    groups = [loop for loop in plain if loop in weights and loop in kept]
    channels = [loop for loop in plain if loop in weights and loop not in kept]
    features = [loop for loop in weights if loop in kept and loop not in plain]
    outs = [out for out, *_ in pairs]
    loops = [*batch, *groups, *features, *outs]
    others = [loop for loop in weights if loop not in (*groups, *channels, *features, *inner)]
    if others or sorted(loops) != list(kept) or any(place.start for _, place in windows):
        return None

    def size(names: Sequence[int | None]) -> int:
        return prod(extents[name] for name in names if name is not None)

    dtype, spatial = dtype_of(image), [axis for axis, _ in windows]
    before = shape_of(image) or ()
    places = [before[axis] for axis in spatial]
    x = permuted(e, image, [*(plain[loop] for loop in (*batch, *groups, *channels)), *spatial])
    x = reshaped(e, x, [size(batch), size(groups) * size(channels), *places])
    w = permuted(e, kernel, [weights[loop] for loop in (*groups, *features, *channels, *inner)])
    w = reshaped(e, w, [size(groups) * size(features), size(channels), *(extents[loop] for loop in inner)])
    steps, gaps = [step for _, step, _, _ in pairs], [gap for *_, gap in pairs]
    sizes = [
        (extent - (extents[loop] - 1) * gap - 1) // step + 1
        for extent, loop, gap, step in zip(places, inner, gaps, steps, strict=True)
    ]
    zeros = [0] * len(pairs)
    made = e.tensor(
        "convolution", x, w, None, steps, zeros, gaps, False, zeros, size(groups),
        dtype=dtype, shape=[size(batch), size(groups) * size(features), *sizes],
    )  # fmt: skip
    for number, out in enumerate(outs):
        made = sliced(e, made, 2 + number, 0, extents[out])
    made = reshaped(e, made, [extents[loop] for loop in loops])
    return permuted(e, made, [loops.index(loop) for loop in kept])
