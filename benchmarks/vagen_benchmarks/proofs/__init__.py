"""Tiny models that learn: proofs of the recipes, what they found, and the weights that come with the package."""
