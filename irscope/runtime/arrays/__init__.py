"""Whose arrays are these (NumPy, torch, CuPy, DLPack), and where does memory for results come from?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
