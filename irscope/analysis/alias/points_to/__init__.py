"""What is a points-to graph, what does each node add to it, read and write (mod/ref), and how do edits change it?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
