"""Self-contained HTML pages: `write_report` shows a run, `write_overview` a folder of runs."""

from vagen_benchmarks.report.build import write_report
from vagen_benchmarks.report.overview import write_overview

__all__ = ["write_overview", "write_report"]
