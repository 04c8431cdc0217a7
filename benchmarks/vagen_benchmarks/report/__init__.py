"""One self-contained HTML page that shows a run: `write_report`."""

from vagen_benchmarks.report.build import write_report

__all__ = ["write_report"]
