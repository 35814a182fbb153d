"""What did another compiler decide: which kernels, of which ops, and why no others?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
