"""How does a model become a graph: names, bodies, functions, and which way leads from each node?"""
