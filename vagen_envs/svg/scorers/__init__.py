"""How like two pictures are. Every scorer says what it is: none stands in for another."""

from vagen_envs.svg.scorers.base import Scorer, ScorerError
from vagen_envs.svg.scorers.choosing import doctor, make_scorer

__all__ = ["Scorer", "ScorerError", "doctor", "make_scorer"]
