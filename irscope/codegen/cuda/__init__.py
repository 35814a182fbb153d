"""What is the CUDA text of a kernel spec, and how is it laid over threads?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
