"""What each op means: its schema with alias annotations, what it does to memory, its type rule, its NumPy reference
and its kernel expression."""
