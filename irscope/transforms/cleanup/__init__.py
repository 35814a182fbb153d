"""Which small, classic clean-ups are done: canonicalize, CSE, DCE, constant folding and pooling?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
