"""Analyses: facts about a graph, each with the evidence for it. Nothing here changes a graph."""
