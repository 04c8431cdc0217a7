"""Where an agent fails: at seeing, at foreseeing, or at planning.

The same levels are played three times: with the picture, with the true symbols, and with the symbols that the agent
itself reads off the picture. What is lost only with the picture is sight. What is still lost with the true symbols is
prediction where the agent foretold its actions' outcome wrongly, and planning where it knew the outcome and chose it.
"""

from vagen_benchmarks.diagnosis.attribution import CAUSES, Diagnosis, diagnose
from vagen_benchmarks.diagnosis.playing import CONDITIONS, Played, Subject

__all__ = ["CAUSES", "CONDITIONS", "Diagnosis", "Played", "Subject", "diagnose"]
