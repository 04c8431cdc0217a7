"""Log-probabilities and entropies of sampled tokens, without the logits of all the others.

A vocabulary of 152,000 makes logits the largest tensor of an update: 4 bytes for each token and
word of it, several times over for softmax, entropy and their gradients. So the language head reads
only the positions before tokens that were sampled, a sixteenth of them at a time, and computes a
piece's logits again for its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.generation import TopPLogitsWarper

PIECES = 16
"""Into how many pieces sampled positions are cut at most. 6.6 copies of a piece's logits live at
once (measured), so this keeps an update's peak below half a copy of all."""
SMALL = 1 << 18
"""Logits that needn't be cut in pieces: a MiB."""

# As a logit: its probability is 0 in float32, and entropy stays a number where -inf gives NaN.
_NEVER = -1e9


@dataclass(frozen=True)
class Distribution:
    """What the sampler draws from: logits over the temperature, without the forbidden tokens.

    Not so top-p, whose cut moves with the weights: a sampled token outside the new cut would have
    probability 0.
    """

    temperature: float
    forbidden_ids: tuple[int, ...] = ()

    def __call__(self, logits: Tensor) -> Tensor:
        """(N, V) → (N, V) float32."""
        logits = logits.float()
        if self.temperature != 1:
            logits = logits / self.temperature
        return logits.index_fill(
            1, torch.tensor(self.forbidden_ids, dtype=torch.int64, device=logits.device), _NEVER
        )


@dataclass(frozen=True)
class Nucleus:
    """The tokens that top-p sampling draws from: the smallest set with this probability, without
    the forbidden ones.
    """

    top_p: float
    forbidden_ids: tuple[int, ...] = ()

    @torch.no_grad()
    def log_share(self, logits: Tensor) -> Tensor:
        """(N, V) logits → (N,) log of the set's probability, by which the sampler's
        log-probabilities are higher.
        """
        drawn = logits.index_fill(
            1, torch.tensor(self.forbidden_ids, dtype=torch.int64, device=logits.device), -torch.inf
        )
        if self.top_p < 1:
            drawn = TopPLogitsWarper(self.top_p)(None, drawn)
        return drawn.logsumexp(1) - logits.logsumexp(1)


def pieces_for(tokens: int, vocabulary: int) -> int:
    """Into how many pieces positions are cut: no more than memory asks for, since each costs forty
    operations.
    """
    return min(PIECES, max(1, -(-tokens * vocabulary // SMALL)))


class SampledTokens:
    """Which tokens of a batch are scored, by a mask (B, L), and how their scores go back to their
    places.
    """

    def __init__(self, mask: Tensor) -> None:
        # Nothing stands before a row's first token.
        self.mask = nn.functional.pad(mask[:, 1:], (1, 0))
        self.rows, self.columns = self.mask.nonzero(as_tuple=True)

    def before(self, hidden: Tensor) -> Tensor:
        """(B, L, H) → (N, H). What stands before each token."""
        return hidden[self.rows, self.columns - 1]

    def back(self, entries: Tensor) -> Tensor:
        """(N,) → (B, L), 0 elsewhere."""
        return entries.new_zeros(self.mask.shape).index_put((self.rows, self.columns), entries)

    def ids(self, input_ids: Tensor) -> Tensor:
        """(B, L) → (N,)."""
        return input_ids[self.rows, self.columns]


def score(
    want: Collection[str],
    distribution: Distribution,
    ids: Tensor,
    head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    *,
    pieces: int = PIECES,
    entropies_teach: bool = True,
    nucleus: Nucleus | None = None,
) -> dict[str, Tensor]:
    """The `logprobs`, (N,), of N sampled tokens, and their `entropies` and `log_shares`, (N,), if
    those are in `want`.

    Args:
        want: names of the scores.
        distribution: of the sampler.
        ids: (N,) the tokens.
        head: the language head, (n, H) → (n, V).
        hidden: (N, H) before each token.
        pieces: into which they are cut, empty ones too; a single one's logits aren't computed
            again. Where weights are spread over processes each call of the head gathers them, and
            all processes must call it equally often.
        entropies_teach: whether gradients flow through the entropies.
        nucleus: that the sampler draws from; its `log_shares` are wanted.
    """
    names = [name for name in ("logprobs", "entropies", "log_shares") if name in want]
    names = names if "logprobs" in names else ["logprobs", *names]
    from trl.trainer.utils import selective_log_softmax, selective_log_softmax_and_entropy

    def of_piece(ids: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        logits = distribution(head(hidden))[None]
        ids = ids.clamp(max=logits.shape[-1] - 1)[
            None
        ]  # a picture's token may be none of what a policy can say
        shares = () if nucleus is None else (nucleus.log_share(logits[0]),)
        if "entropies" not in want:
            return selective_log_softmax(logits, ids)[0], *shares
        logprobs, entropies = selective_log_softmax_and_entropy(
            logits, ids, entropy_requires_grad=entropies_teach
        )
        return logprobs[0], entropies[0], *shares

    cut = zip(ids.tensor_split(pieces), hidden.tensor_split(pieces), strict=True)
    if torch.is_grad_enabled() and pieces > 1:
        scored = [checkpoint(of_piece, *piece, use_reentrant=False) for piece in cut]
    else:
        scored = [of_piece(*piece) for piece in cut]
    return dict(zip(names, map(torch.cat, zip(*scored, strict=True)), strict=True))


def as_autocast_rounds(model: nn.Module, dtype: torch.dtype) -> None:
    """Store in `dtype` the weights of a frozen model that autocast would round to it at every use:
    results stay equal.

    Norms and embeddings, which it uses whole, stay as they are; so does a language head that is the
    embedding.
    """
    whole = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d) or type(module).__name__.endswith(
            "Experts"
        ):
            for parameter in module.parameters(recurse=False):
                if id(parameter) not in whole:
                    parameter.data = parameter.data.to(dtype)
