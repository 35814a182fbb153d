"""What is the builder of an op given: what names stand for, one node with its inputs, and the means to append to the graph?"""
