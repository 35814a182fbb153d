"""What Inductor would compile, without compiling it."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class _Planned(Exception):
    """Inductor has planned; nothing needs to be compiled."""


def planned(model: torch.nn.Module, arguments: tuple[torch.Tensor, ...], read: Callable[[Any], T], *, dynamic: bool | None = None) -> T:
    """What `read` finds in Inductor's lowering of a model once its kernels are generated."""
    from torch._inductor import config, graph

    found: list[T] = []

    def stop(self: Any) -> None:
        self.codegen()
        found.append(read(self))
        raise _Planned

    kept, config.force_disable_caches = graph.GraphLowering.compile_to_module, True
    graph.GraphLowering.compile_to_module = stop
    torch._dynamo.reset()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.compile(model, fullgraph=True, dynamic=dynamic)(*arguments)
    except Exception as error:
        if "_Planned" not in repr(error):
            raise
    finally:
        graph.GraphLowering.compile_to_module = kept
    return found[0]
