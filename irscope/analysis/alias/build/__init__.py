"""What does each node add to the points-to graph, what does it read and write (mod/ref), and what do edits change?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
