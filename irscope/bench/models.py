"""The suite of whole models: the effect of fusion and shared kernels beside torch op by op, the model itself and torch.compile.

The models are those of the examples (YOLOv3 with Darknet-53 at a small image, a hand-written LSTM over 100 steps, a
BERT encoder of four layers) and a tiny vision transformer of the transformers package; all with random weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from irscope.errors import MissingExtra
from irscope.runtime.measure import Comparison, compare
from irscope.session import load
from irscope.transforms.fusion import fuse

__all__ = ["MODELS", "model_runs"]


@dataclass(frozen=True)
class _Model:
    source: Any
    """The program that `load` reads."""
    eager: Any
    """The model itself, which torch.compile compiles."""
    args: tuple[Any, ...]


def _yolov3() -> _Model:
    import torch

    model = import_module("yolov3").yolov3()
    return _Model(torch.jit.script(model), model, (torch.rand(1, 3, 160, 160),))


def _lstm() -> _Model:
    import torch

    model = import_module("lstm").lstm()
    return _Model(model, model, (torch.rand(100, 8, 64),))


def _bert() -> _Model:
    module = import_module("bert")
    model = module.bert()
    return _Model(model, model, (module.tokens(),))


def _vit() -> _Model:
    import torch
    from torch import nn
    from transformers import ViTConfig, ViTModel

    class Plain(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            config = ViTConfig(
                hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, image_size=224,
                attn_implementation="eager",
            )  # fmt: skip
            self.inner = ViTModel(config, add_pooling_layer=False)

        def forward(self, pixels: torch.Tensor) -> Any:
            return self.inner(pixels, return_dict=False)[0]

    torch.manual_seed(0)
    model = Plain().eval()
    return _Model(model, model, (torch.rand(1, 3, 224, 224),))


MODELS: Final[dict[str, Callable[[], _Model]]] = {
    "YOLOv3": _yolov3, "LSTM-100": _lstm, "BERT-4": _bert, "ViT-tiny": _vit,
}  # fmt: skip


def model_runs(
    threads: int, *, names: Sequence[str] = (), peers: Sequence[str] = ("eager", "torch.compile"), rounds: int = 7,
    step: Callable[[str], object] = str,
) -> Iterator[Comparison | tuple[str, str]]:  # fmt: skip
    """Measures in this process; yields a name and a reason for a model that cannot be built here."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", purpose="to run the suite of models") from None
    torch.set_num_threads(threads)
    _find_examples()
    for name, make in MODELS.items():
        if names and name not in names:
            continue
        step(name)
        try:
            model = make()
        except ImportError as error:
            yield name, f"{error.name or error} is not installed"
            continue
        fusion = fuse(load(model.source, *model.args, name=name))
        eager = model.eager if "eager" in peers else None
        others = {"torch.compile": torch.compile(model.eager)} if "torch.compile" in peers else {}
        yield replace(compare(fusion, *model.args, eager=eager, peers=others, repeats=rounds), name=name)


def _find_examples() -> None:
    """Makes the examples importable: the checkout's, or the installed ones."""
    package = Path(__file__).parents[1]
    for folder in (package.parent / "examples", package / "share" / "examples"):
        if (folder / "yolov3.py").exists():
            if str(folder) not in sys.path:
                sys.path.append(str(folder))
            return
