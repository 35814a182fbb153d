"""Which parts repeat without being marked, what would one piece for a whole class cost, and what does the program look like with it?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
