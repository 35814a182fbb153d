from .alias_db import AliasDb as AliasDb
