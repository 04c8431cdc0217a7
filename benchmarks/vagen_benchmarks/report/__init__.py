"""Self-contained HTML pages: `write_report` shows a run, `Overview` a folder of runs."""

from vagen_benchmarks.report.build import write_report
from vagen_benchmarks.report.overview import Overview

__all__ = ["Overview", "write_report"]
