"""What do MLIR's types, attributes, constants and locations become?"""
