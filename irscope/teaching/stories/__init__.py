"""How is somebody led through a program: which views, in which order, and what is said of each?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
