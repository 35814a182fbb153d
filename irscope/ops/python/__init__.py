"""What does a Python program do beside its tensors: numbers, lists, control flow, questions about tensors?"""
