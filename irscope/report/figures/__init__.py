"""What do results look like that have a picture of their own, beside the program's?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
