"""Log-probabilities and entropies by a policy's own forward pass, with which the trainer's are compared."""

from vagen_adapters.ppo.scoring import Distribution, SampledTokens, score


def score_tokens(policy, inputs, *, temperature, forbidden_ids):
    """(B, L), (B, L). Log-probability and entropy of every token; 0 at the first."""
    tokens = SampledTokens(inputs["input_ids"] == inputs["input_ids"])
    logits = tokens.before(policy(**inputs, use_cache=False).logits)
    ids = tokens.ids(inputs["input_ids"])
    found = score(
        ("logprobs", "entropies"),
        Distribution(temperature, forbidden_ids),
        ids,
        lambda each: each,
        logits,
    )
    return tokens.back(found["logprobs"]), tokens.back(found["entropies"])
