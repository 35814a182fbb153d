"""How does one learn to see this: through questions before the answer is shown, and through guided walks?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
