"""The reader.

Claims of English sentences, dictionaries and grids (docs/judges.md has the grammar).
"""

from vagen_rewards.reader.claims import Claim, Fact, Marks, Reading, mark, read, register_reader

__all__ = ["Claim", "Fact", "Marks", "Reading", "mark", "read", "register_reader"]
