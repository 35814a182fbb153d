"""How a program is read: text, TorchScript, torch.export, MLIR, JAX, ONNX, plain Python; `load` selects the frontend."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
