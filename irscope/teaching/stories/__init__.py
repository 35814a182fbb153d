"""How does a story lead through a program: which views, in which order, and with which sentences?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
