"""The levels of the table."""

FIRST_SEED = 3_000_000
"""No comparison state is drawn with these seeds."""
