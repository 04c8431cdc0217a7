"""Is a judge right? A labelled set of statements about real levels, and what a judge makes of it."""

from vagen_rewards.calibration.labelled import CATEGORIES, Labelled, labelled_set
from vagen_rewards.calibration.report import Report, calibrate

__all__ = ["CATEGORIES", "Labelled", "Report", "calibrate", "labelled_set"]
