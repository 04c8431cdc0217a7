"""Learning experiments with a one-million-parameter model; `benchmarks/experiments/README.md` lists
them.
"""
