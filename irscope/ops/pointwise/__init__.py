"""Which ops compute each element of a result from one element of each operand?"""
