"""Speed benchmarks of the clone, outside the wheel: ours beside what others make, in one run. `make
perf` runs them.
"""
