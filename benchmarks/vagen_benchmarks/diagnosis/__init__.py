"""Find out whether an agent fails by perception, prediction or planning.

The same levels are played twice: with the picture, and with the true symbols. What is lost only with the picture is due
to perception. What is lost with the true symbols as well is due to prediction if the agent predicted the outcome of its
actions wrongly, else to planning.
"""

from vagen_benchmarks.diagnosis.attribution import CAUSES, Diagnosis, attribute
from vagen_benchmarks.diagnosis.playing import CONDITIONS, Subject, TurnLoss
from vagen_benchmarks.diagnosis.session import diagnose

__all__ = ["CAUSES", "CONDITIONS", "Diagnosis", "Subject", "TurnLoss", "attribute", "diagnose"]
