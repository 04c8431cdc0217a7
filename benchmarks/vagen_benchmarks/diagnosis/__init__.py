"""Find out whether an agent fails by perception, prediction or planning.

The same levels are played twice: with the picture, and with the true state as text. What is lost only with the picture
is due to perception. What is lost with the text as well is due to prediction if the agent predicted the outcome of its
actions wrongly, else to planning.
"""

from vagen_benchmarks.diagnosis.attribution import CAUSES, Diagnosis, attribute, diagnose
from vagen_benchmarks.diagnosis.losses import CONDITIONS, TurnLoss, diagnosis_tasks

__all__ = ["CAUSES", "CONDITIONS", "Diagnosis", "TurnLoss", "attribute", "diagnose", "diagnosis_tasks"]
