"""What does the builder of an op work with: meanings of names, one node with its inputs, and the means to append to the
graph?"""
