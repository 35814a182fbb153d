"""What may share memory: `AliasDb` answers, `points_to` argues why the answers hold."""

from irscope.analysis.alias.alias_db import AliasDb

__all__ = ["AliasDb"]
