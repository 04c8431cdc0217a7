"""Two-player Sokoban: two players push boxes on one board, each with its own picture and
replies.
"""
