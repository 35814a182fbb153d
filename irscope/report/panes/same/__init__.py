"""Which pieces are the same, and what keeps the others apart?"""
