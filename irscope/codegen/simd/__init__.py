"""How is an instruction computed on a vector of lanes in LLVM IR?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
