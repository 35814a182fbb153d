"""What a program is: values, nodes, blocks and graphs, their text, their rules, and how to edit them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
