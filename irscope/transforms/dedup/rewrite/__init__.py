"""What would one piece cost that stands for a whole class, and what does the program look like with it?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
