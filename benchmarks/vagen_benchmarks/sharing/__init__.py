"""Runs for others: checked, on a page, as data."""
