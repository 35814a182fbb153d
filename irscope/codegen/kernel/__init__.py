"""What is a kernel, whatever the target: instructions, loops, passes, memory traffic?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
