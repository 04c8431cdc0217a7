"""The command ``vagen``, the runner, the report and the speed benchmarks."""
