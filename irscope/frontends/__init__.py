"""How a program gets in: text, TorchScript, torch.export, MLIR, JAX, ONNX, plain Python; `load` picks the frontend that reads a source."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
