"""Which boxes does a program have, how are they nested, and where does each go?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
