"""How much memory tensors take, by torch's own accounting."""

import torch


def peak_bytes(function):
    """What a function returns, and how far the CPU allocator's total rose above where it began."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        found = function()
    events = [
        each for each in profile.profiler.kineto_results.events() if each.name() == "[memory]"
    ]
    changes = [each.nbytes() for each in sorted(events, key=lambda each: each.start_ns())]
    total = highest = 0
    for change in changes:
        total += change
        highest = max(highest, total)
    return found, highest
