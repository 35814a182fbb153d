"""Linked views of one program in a notebook cell. Importing this package imports nothing; its modules need `irscope[lab]`."""
