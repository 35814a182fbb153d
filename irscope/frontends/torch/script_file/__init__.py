"""What may a `torch.jit.save` file do, and is its content consistent? The check runs before torch reads it."""
