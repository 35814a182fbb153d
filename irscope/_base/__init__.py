"""Small utilities that every layer may use, independent of programs."""
