"""`python -m vagen_benchmarks` is the command `vagen`."""

from vagen_benchmarks.cli import main

main()
