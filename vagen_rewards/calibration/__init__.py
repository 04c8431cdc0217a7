"""Is a judge right? A labelled set of statements about real levels, and what a judge makes of it."""

from vagen_rewards.calibration.file import INDEPENDENT, labelled_file
from vagen_rewards.calibration.labelled import CATEGORIES, Labelled, labelled_set
from vagen_rewards.calibration.report import Report, calibrate

__all__ = ["CATEGORIES", "INDEPENDENT", "Labelled", "Report", "calibrate", "labelled_file", "labelled_set"]
