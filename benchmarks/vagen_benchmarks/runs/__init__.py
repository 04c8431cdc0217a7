"""A run: which episodes, how they are played, and how they are stored."""
