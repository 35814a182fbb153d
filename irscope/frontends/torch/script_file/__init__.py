"""What may a file of `torch.jit.save` do, and does it hold what it says? Looked at before torch reads it."""
