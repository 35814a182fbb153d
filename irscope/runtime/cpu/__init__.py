"""How does LLVM text become code that runs on the cores of this processor? Nothing here imports NumPy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
