"""Runs for others: checked, on a page, as data, on a hub, in a tracker."""
