"""Lowers fusion groups to kernels: what a group computes, without sizes, and its text for each target."""
