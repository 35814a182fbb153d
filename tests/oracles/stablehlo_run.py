"""What irscope makes of the text that JAX lowers each program to, with arrays, op by op and fused, against what `jax.jit` computes.

python -m tests.oracles.stablehlo_run --only "clamp" --show
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import irscope as irs
from irscope.frontends.mlir.source import new_context, required
from tests.oracles.counts import Counts, difference, outcome, parser, report
from tests.oracles.jax_programs import Program, programs

_TOGETHER: Final = 12
"""Programs that are judged as one first, since most are right, and most of the time is compiling."""


def survey(share: int, shares: int, only: str = "", *, show: bool = False) -> Counts:
    """The outcomes of every so many-th program."""
    found = Counts("StableHLO", show=show)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [each for number, each in enumerate(each for each in programs() if only in each[0]) if number % shares == share]
        sound = [each for each in chosen if _is_lowered(each)]
        for first in range(0, len(sound), _TOGETHER):
            several = sound[first : first + _TOGETHER]
            whole = Counts("StableHLO")
            judge(_joined(several), whole)
            if whole.ways["passed"]:
                found.ways["passed"] += len(several)
            else:
                for each in several:
                    judge(each, found)
            jax.clear_caches()
    return found


def _is_lowered(program: Program) -> bool:
    """Whether JAX takes this function with these arguments."""
    _, function, arguments = program
    try:
        jax.eval_shape(function, *arguments)
    except Exception:
        return False
    return True


def _joined(several: Sequence[Program]) -> Program:
    """The program that computes all of them."""

    def function(arguments: list[tuple[Any, ...]]) -> Any:
        return [each(*given) for (_, each, _), given in zip(several, arguments, strict=True)]

    return " + ".join(name for name, *_ in several), function, ([list(given) for *_, given in several],)


def judge(program: Program, found: Counts) -> None:
    """Counts how a program ends; not at all if JAX refuses it."""
    name, function, arguments = program
    try:
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        wanted = _listed(lowered.compile()(*arguments))
    except Exception:
        return
    try:
        bindings = required("jaxlib")
        graph = irs.load(bindings.ir.Module.parse(lowered.as_text(), new_context(bindings)), graph="main")  # with its constants
        for fused in (False, True):
            run = irs.compile(irs.fuse(graph) if fused else graph)
            got = _listed(run(*jax.tree_util.tree_leaves(arguments)))
            said = _compared(got, wanted, name)
            if said and all(_compared(got, other, name) for other in _second_opinions(program)):
                found.add("wrong", f"{'fused' if fused else 'op by op'}: {said}", name)
                return
    except Exception as error:
        found.add(*outcome(error), name)
    else:
        found.add("passed")


def _second_opinions(program: Program) -> Iterator[list[np.ndarray[Any, Any]]]:
    """What JAX computes op by op, since XLA folds some constants otherwise than it computes; and of a function of complex numbers
    what NumPy computes, since XLA forgets the sign of zero at branch cuts."""
    name, function, arguments = program
    with jax.disable_jit():
        yield _listed(function(*jax.tree_util.tree_map(jnp.asarray, arguments)))
    plain = getattr(np, name.partition(" ")[0], None)
    if plain is not None and "complex" in name:
        with np.errstate(all="ignore"):
            yield _listed(plain(*arguments))


def _listed(results: Any) -> list[np.ndarray[Any, Any]]:
    return [_array(leaf) for leaf in jax.tree_util.tree_leaves(results)]


def _compared(got: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]], name: str) -> str:
    """What is wrong with the first wrong result; empty if all are right."""
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    return next((said for one, want in zip(got, wanted, strict=True) if (said := differs(one, want, name))), "")


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key) else leaf)


_SUMS: Final = ("fft", "solve", "inv", "det", "eig", "singular", "qr", "expm", "cholesky")
"""Programs whose results are sums of many terms: their error is relative to the largest result."""


def differs(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], name: str = "") -> str:
    """What is wrong with a result, if anything: whole numbers and bools are exact, floats nearly so.

    Near a root of the gamma functions XLA's own terms cancel. Where a complex number is not finite, its parts depend on the order of
    operations, and StableHLO says nothing of them.
    """

    def near(got: Any, want: Any) -> Any:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        step = float(jnp.finfo(want.dtype).eps)
        least = float(jnp.finfo(want.dtype).tiny)
        a, b = got.astype(wide), want.astype(wide)
        with np.errstate(all="ignore"):
            if "gamma" in name:
                least = 16 * step
            elif any(word in name for word in _SUMS):
                least = 64 * step * float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
            close = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= 4 * least + 128 * step * np.abs(b))
        unfinished = ~np.isfinite(a) & ~np.isfinite(b) if wide is np.complex128 else False
        return (a == b) | (np.isnan(a) & np.isnan(b)) | close | unfinished

    return difference(got, want, near)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", help="programs with this in their names")
    given = options.parse_args()
    report(survey(*given.share, given.only, show=given.show), given.json)


if __name__ == "__main__":
    main()
