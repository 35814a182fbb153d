from .alias_db import AliasDb

__all__ = ["AliasDb"]
