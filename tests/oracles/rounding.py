"""How far a program's numbers may move by rounding alone, found by running it again and again with other roundings.

A result may differ from torch's because sums were added in another order, or a function was a unit off in the last place.
How much that is, no tolerance says: behind a norm of equal numbers, or at a tie of two minima, a unit in the last place of
one op becomes any number at all. So the program itself is asked (Monte Carlo arithmetic: Parker, 1997). It runs in torch, its
own element types, with every number that an op has rounded moved by up to `_UNITS` units of its last place. Ops that gather
many numbers (sums, norms, products of matrices) have their operands moved as well, for that is what another order of
adding comes to: an exact sum of operands that differ in the last places. Copies, choices and comparisons round nothing and
are left exact. What all runs agree on must be so; elsewhere a result may lie as far off as they do, a few times over.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_RUNS: Final = 8
_UNITS: Final = 4.0
_ROOM: Final = 4.0
"""How many times the spread of the runs a result may be off."""

_EXACT: Final = frozenset(
    """_local_scalar_dense _reshape_alias _to_copy _unsafe_view abs alias amax amin arange argmax argmin as_strided aminmax
    cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy detach diag_embed diagonal empty empty_like empty_strided
    expand fill flip floor fmax fmin full full_like gather hardtanh index index_put index_select lift_fresh masked_fill
    masked_select max max_pool2d_with_indices maximum min minimum nan_to_num neg new_empty new_full new_zeros ones ones_like
    permute put relu repeat resize roll round scatter select set sign slice sort split squeeze stack t take threshold topk transpose
    tril triu trunc unbind unfold unsqueeze view where zero zeros zeros_like cummax cummin median kthvalue""".split()
)
_GATHER: Final = frozenset(
    """_adaptive_avg_pool2d _fused_rms_norm _log_softmax _softmax addbmm addmm addmv addr avg_pool2d baddbmm bmm convolution
    cumprod cumsum dot linalg_vector_norm logcumsumexp logsumexp mean mm mv native_batch_norm native_group_norm
    native_layer_norm norm prod std std_mean sum upsample_bilinear2d var var_mean _native_batch_norm_legit index_add
    scatter_add renorm dist _cdist_forward nansum addcdiv addcmul lerp""".split()
)
"""Ops that add several numbers. A product is rounded before it is added, or not, as the processor has it."""
_RUNNING: Final = frozenset("native_batch_norm native_group_norm native_layer_norm std_mean var_mean".split())
"""Ops that keep a running mean, which an infinite number makes infinite or, if another follows, no number at all."""


class _OtherRoundings(TorchDispatchMode):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.make = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        name = name if name.endswith("__") else name.removesuffix("_")
        if name in _GATHER and not func._schema.is_mutable:
            args = tree_map(lambda x: self.moved(x.clone()) if isinstance(x, torch.Tensor) else x, args)
        found = func(*args, **(kwargs or {}))
        if name in _RUNNING and self.seed % 2:
            found = tree_map(lambda x: x.nan_to_num(torch.inf, torch.inf, -torch.inf), found)
        return found if name in _EXACT else tree_map(self.moved, found)

    def moved(self, x: Any) -> Any:
        """The tensor, with other last places written into it."""
        if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel():
            noise = torch.rand(x.shape, generator=self.make, dtype=torch.float64) * 2 - 1
            x.copy_(x.double() * (1 + noise * (_UNITS * torch.finfo(x.dtype).eps)))
        return x


def rounded_runs(run: Callable[[], Sequence[Any]]) -> list[Sequence[Any]]:
    """What a program gives with other roundings; a run that torch refuses is left out, its roundings chose another way."""
    found = []
    for seed in range(_RUNS):
        try:
            with torch.no_grad(), _OtherRoundings(seed):
                found.append(run())
        except (RuntimeError, IndexError, ValueError):
            continue
    return found


def spread(eager: torch.Tensor, runs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The largest distance of a run from torch's number, for each element; infinite where a run gave none like it."""
    b = eager.double()
    far = torch.zeros_like(b)
    for run in runs:
        if run.shape != eager.shape:
            return torch.full_like(b, torch.inf)
        a = run.double()
        same = (a == b) | (a.isnan() & b.isnan())
        off = torch.where(same, 0.0, (a - b).abs())
        far = torch.maximum(far, torch.where(off.isnan(), torch.inf, off))
    return far


def near(found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None, far: torch.Tensor) -> torch.Tensor:
    """Where a result is as near to torch's number, or to the exact one, as roundings can explain, or nearer to the exact one than
    torch's: its functions round inside too (its `gelu` of float32 is up to a ten-thousandth off around -3)."""
    a, b = found.double(), eager.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if not eager.dtype.is_floating_point:
        return same | (far > 0)
    same |= far.isinf()
    true = exact.double() if exact is not None and exact.shape == eager.shape else b
    same |= (a - true).abs() < (b - true).abs()
    for right in (b, true):
        same |= (a == right) | ((a - right).abs() <= _ROOM * (far + allowance(right, eager.dtype)))
    return same


def allowance(numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One unit in the last place of each number, as its element type has it; nothing where there is no such place."""
    limits = torch.finfo(dtype)
    return torch.where(numbers.isfinite(), limits.eps * numbers.abs() + limits.tiny, 0.0)
