"""How do other tools show a profile, and how are theirs laid over a graph?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
