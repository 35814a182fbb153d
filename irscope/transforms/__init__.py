"""How does a program change, and why does it not? Passes that return the next graph, with their edits and remarks."""
