"""A back-end whose weights stay as they are while the policy is trained, as a server's do."""

import copy

import torch

from vagen_adapters.ppo.generation import TransformersSampler


class CopySampler(TransformersSampler):
    """Samples from a copy of the policy."""

    def __init__(self, policy, encoder):
        super().__init__(copy.deepcopy(policy).eval().requires_grad_(False), encoder)
        self.policy = policy

    @torch.no_grad()
    def sync(self):
        for mine, its in zip(self.model.parameters(), self.policy.parameters(), strict=True):
            mine.copy_(its)
