"""Which pictures need no graph layout? Byte maps, memory plans, profiles."""
