"""Speed, measured side by side in one run: `python -m vagen_benchmarks.perf.<name>`."""
