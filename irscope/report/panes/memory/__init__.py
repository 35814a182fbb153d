"""Where does each tensor lie, and when?"""
