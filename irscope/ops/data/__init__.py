"""Which ops move, join, index or make tensors without computing elements?"""
