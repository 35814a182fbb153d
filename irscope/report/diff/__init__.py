"""What do two programs, or two states of one, have in common, and what differs?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
