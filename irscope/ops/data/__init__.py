"""Which ops move, join, index or create tensors without computing elements?"""
