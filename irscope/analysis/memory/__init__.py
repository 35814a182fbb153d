"""How much memory does a program need at once, what makes the peak, and which values may reuse the memory of others?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
