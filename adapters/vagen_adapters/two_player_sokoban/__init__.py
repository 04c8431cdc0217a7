"""Two-player Sokoban: one board, two players who push together, each with its own picture and replies."""
