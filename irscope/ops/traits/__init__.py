"""What kind of op does a name denote? One set of names for each question that passes ask, with the reason for it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
