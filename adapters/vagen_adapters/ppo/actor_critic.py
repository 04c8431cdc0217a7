"""The policy and its critic: what is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor, nn

CRITIC_FILE = "critic.safetensors"

_NEVER = -1e9  # as a logit: its probability is 0 in float32, and entropy stays a number where -inf gives NaN


class ActorCritic(nn.Module):
    """A vision-language model as policy, and another as critic with a linear value head.

    Args:
        policy: an image-text-to-text model of transformers.
        critic: the model of the same family without its language head, trained on its own.
    """

    def __init__(self, policy: Any, critic: Any) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic
        self.value_head = nn.Linear(critic.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.value_head.weight)  # every state is worth 0 until the critic has seen a return
        nn.init.zeros_(self.value_head.bias)

    @classmethod
    def from_pretrained(cls, path: str, critic_path: str | None = None, **options: Any) -> Self:
        """Read the policy from `path`, and the critic's backbone from `critic_path` or the same folder.

        A folder that was saved by training has a trained critic, which is read too.
        """
        from transformers import AutoModel, AutoModelForImageTextToText

        policy = AutoModelForImageTextToText.from_pretrained(path, **options)
        model = cls(policy, AutoModel.from_pretrained(critic_path or path, **options))
        trained = Path(critic_path or path) / CRITIC_FILE
        if trained.exists():
            model.load_critic(trained)
        return model

    @property
    def config(self) -> Any:
        """The policy's configuration, which Trainer looks for."""
        return self.policy.config

    def activation_checkpointing_enable(self, **options: Any) -> None:
        """Trade compute for memory in both models, by computing activations again when gradients need them."""
        self.policy.activation_checkpointing_enable(**options)
        self.critic.activation_checkpointing_enable(**options)

    def freeze_vision(self) -> None:
        """Keep both vision towers as they are."""
        for name, parameter in self.named_parameters():
            if ".visual." in name:
                parameter.requires_grad_(False)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the policy as any checkpoint of its family, and the critic beside it in one file."""
        self.policy.save_pretrained(folder)
        critic = {name: tensor.contiguous() for name, tensor in self._critic_state().items()}
        safetensors.torch.save_file(critic, Path(folder) / CRITIC_FILE, metadata={"format": "pt"})

    def load_critic(self, file: str | Path) -> None:
        """Read what `save_pretrained` wrote of the critic. Raises RuntimeError if it is of another shape."""
        state = safetensors.torch.load_file(file)
        self.value_head.load_state_dict({name: state.pop(f"value_head.{name}") for name in ("weight", "bias")})
        self.critic.load_state_dict({name.removeprefix("critic."): tensor for name, tensor in state.items()})

    def values(self, inputs: dict[str, Tensor]) -> Tensor:
        """(B, L + 1) V before each token and after the last; before the first nothing is known, and it is 0."""
        hidden = self.critic(**inputs, use_cache=False).last_hidden_state
        after = self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(2).float()
        return nn.functional.pad(after, (1, 0))

    def _critic_state(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("policy.")}


def score_tokens(
    policy: Any, inputs: dict[str, Tensor], *, temperature: float, forbidden_ids: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """(B, L), (B, L). The log-probability of each token after those before it, and the entropy there; first 0, 0.

    The distribution is the sampler's: logits divided by the temperature, forbidden tokens left out. Not so
    top-p, whose cut moves with the weights: a sampled token outside the new cut would have probability 0.
    """
    from trl.trainer.utils import selective_log_softmax_and_entropy

    logits = policy(**inputs, use_cache=False).logits[:, :-1].float() / temperature
    logits = logits.index_fill(2, torch.tensor(forbidden_ids, dtype=torch.int64, device=logits.device), _NEVER)
    logprobs, entropies = selective_log_softmax_and_entropy(logits, inputs["input_ids"][:, 1:])
    return nn.functional.pad(logprobs, (1, 0)), nn.functional.pad(entropies, (1, 0))
