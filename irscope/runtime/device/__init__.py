"""What must a device be able to do, and where are compiled kernels kept?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
