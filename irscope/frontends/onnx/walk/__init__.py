"""How does a model become a graph: names, bodies, functions, and how is each node imported?"""
