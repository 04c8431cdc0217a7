"""Scores of a turn: what the agent says it sees and predicts, held against the truth."""
