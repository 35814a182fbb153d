"""What is true of a program: facts about a graph, each with the evidence for it. Nothing here changes a graph."""
