"""What would you say, before it is shown: who shares memory, what moves, what fuses, what copies, what is the same, what is faster?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
