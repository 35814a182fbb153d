"""How a program changes, and why it does not: passes that give the next graph, with their edits and remarks."""
