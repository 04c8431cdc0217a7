"""Scores of the similarity of two pictures. Each names its scorer, and none stands in for another."""

from vagen_envs.errors import ScorerError
from vagen_envs.svg.scorers.choosing import Scorer, make_scorer, missing

__all__ = ["Scorer", "ScorerError", "make_scorer", "missing"]
