"""How a program gets in: text, TorchScript, torch.export; `load` picks the frontend that reads a source."""

from irscope.frontends.base import FRONTENDS, Frontend, load

__all__ = ["FRONTENDS", "Frontend", "load"]
