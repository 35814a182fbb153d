"""Which values may share memory? `AliasDb` answers, `points_to` argues why the answers hold."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
