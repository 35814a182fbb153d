"""Where is each tensor in memory, and when?"""
