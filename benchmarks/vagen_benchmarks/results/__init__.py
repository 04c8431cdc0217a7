"""What came out of runs: tables, statistics and comparisons."""
