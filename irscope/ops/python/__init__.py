"""What does a Python program do besides its tensor ops: numbers, lists, control flow, queries of tensors?"""
