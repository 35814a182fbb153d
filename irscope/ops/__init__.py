"""Describes each op: its schema with alias annotations, its effect on memory, its type rule, its NumPy reference
and its kernel expression."""
