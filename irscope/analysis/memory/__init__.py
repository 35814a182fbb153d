"""How much memory does a program need at once, what makes the peak, and what may lie in memory that something else had?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
