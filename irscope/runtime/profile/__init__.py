"""Where do the time, the bytes and the memory of a run go, node by node, and what would help?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
