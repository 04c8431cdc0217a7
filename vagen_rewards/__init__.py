"""Scores of a turn: what the agent says it sees and predicts, held against the truth."""

from vagen_rewards.hacking import RepetitionPenalty
from vagen_rewards.judges import FallbackJudge, make_judge
from vagen_rewards.reward import ReasoningReward
from vagen_rewards.rule_judge import RuleJudge
from vagen_rewards.scores import (
    Judge,
    Score,
    Statement,
    Tally,
    TurnScores,
    score_turn,
    statements_of,
)
from vagen_rewards.wrapper import VisualReasoningReward, with_reasoning

__all__ = [
    "FallbackJudge",
    "Judge",
    "ReasoningReward",
    "RepetitionPenalty",
    "RuleJudge",
    "Score",
    "Statement",
    "Tally",
    "TurnScores",
    "VisualReasoningReward",
    "make_judge",
    "score_turn",
    "statements_of",
    "with_reasoning",
]
