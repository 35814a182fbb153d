"""What may share memory: `AliasDb` answers, `points_to` argues why the answers hold."""
