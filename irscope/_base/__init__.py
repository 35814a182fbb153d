"""Small structures that every layer may use and that know nothing of programs."""
