"""Linked views of one program in a notebook cell. Importing this imports nothing; the modules need `irscope[lab]`."""
