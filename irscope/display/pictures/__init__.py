"""Which pictures are drawn from parts, without a layout: byte maps, memory plans, profiles."""
