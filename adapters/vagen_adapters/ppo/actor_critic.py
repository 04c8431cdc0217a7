"""The policy, its critic and its reference: what is trained, and what it is held to."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor, nn

CRITIC_FILE = "critic.safetensors"

_NEVER = -1e9  # as a logit: its probability is 0 in float32, and entropy stays a number where -inf gives NaN


class ActorCritic(nn.Module):
    """A vision-language model as policy, with a critic and a reference.

    All that needs weights goes through `forward`, so that whatever wraps this module (DDP, FSDP, DeepSpeed) sees it.

    Args:
        policy: an image-text-to-text model of transformers, or that in a PEFT wrapper.
        critic: the model of the same family without its language head, trained on its own; None for a value
            head on the policy's last hidden state.
    """

    def __init__(self, policy: Any, critic: Any | None) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic
        self.value_head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.value_head.weight)  # every state is worth 0 until the critic has seen a return
        nn.init.zeros_(self.value_head.bias)
        self.reference: Any | None = None

    @classmethod
    def from_pretrained(
        cls, path: str, critic_path: str | None = None, *, shared: bool = False, **options: Any
    ) -> Self:
        """Read the policy from `path`, and the critic's backbone from `critic_path` or the same folder.

        A folder that was saved by training has a trained critic, which is read too. `shared` leaves out the
        critic's own backbone.
        """
        from transformers import AutoModel, AutoModelForImageTextToText

        policy = AutoModelForImageTextToText.from_pretrained(path, **options)
        critic = None if shared else AutoModel.from_pretrained(critic_path or path, **options)
        model = cls(policy, critic)
        trained = Path(critic_path or path) / CRITIC_FILE
        if trained.exists():
            model.load_critic(trained)
        return model

    @property
    def config(self) -> Any:
        """The policy's configuration, which Trainer looks for."""
        return self.policy.config

    @property
    def _no_split_modules(self) -> list[str]:
        """The layers that FSDP gathers one at a time, by accelerate's name for them."""
        return sorted(self.policy._no_split_modules)

    @property
    def has_adapters(self) -> bool:
        """Whether policy and critic are trained through PEFT adapters over frozen weights."""
        return hasattr(self.policy, "disable_adapter")

    def add_adapters(self, settings: Mapping[str, Any]) -> None:
        """Freeze the backbones and train low-rank adapters in them. `settings`: of `peft.LoraConfig`."""
        from peft import LoraConfig, get_peft_model

        self.policy = get_peft_model(self.policy, LoraConfig(**settings))
        if self.critic is not None:
            self.critic = get_peft_model(self.critic, LoraConfig(**settings))

    def add_reference(self) -> None:
        """Remember the policy as it is now. With adapters that is the policy without them, and costs nothing."""
        if not self.has_adapters:
            self.reference = copy.deepcopy(self.policy).eval().requires_grad_(False)

    def forward(
        self,
        inputs: dict[str, Tensor],
        want: Collection[str],
        *,
        temperature: float,
        forbidden_ids: tuple[int, ...] = (),
        detach_backbone: bool = False,
    ) -> dict[str, Tensor]:
        """What is asked for of a batch of B sequences of L tokens.

        Args:
            inputs: see `generation.model_inputs`.
            want: of `logprobs` and `entropies`, (B, L), of the policy (see `score_tokens`); `values`, (B, L + 1), V
                before each token and after the last (before the first nothing is known, and it is 0);
                `reference_logprobs`, (B, L); `kl`, (B, L), KL[π‖π_ref] over the whole vocabulary at each token.
            temperature: of the sampler.
            forbidden_ids: that the sampler leaves out.
            detach_backbone: no gradient flows from the values into a backbone that is shared with the policy.
        """
        found: dict[str, Tensor] = {}
        hidden = logits = None
        if {"logprobs", "entropies", "kl"} & set(want) or (self.critic is None and "values" in want):
            output = self.policy(**inputs, use_cache=False, output_hidden_states=self.critic is None)
            logits = _sampler_logits(output.logits, temperature, forbidden_ids)
            hidden = output.hidden_states[-1] if self.critic is None else None
        if logits is not None and {"logprobs", "entropies"} & set(want):
            found["logprobs"], found["entropies"] = _score(logits, inputs["input_ids"])
        if "values" in want:
            if hidden is None:
                assert self.critic is not None  # noqa: S101 - for the type checker
                hidden = self.critic(**inputs, use_cache=False).last_hidden_state
            elif detach_backbone:
                hidden = hidden.detach()
            after = self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(2).float()
            found["values"] = nn.functional.pad(after, (1, 0))
        if {"reference_logprobs", "kl"} & set(want):
            with torch.no_grad():
                other = _sampler_logits(self._reference_logits(inputs), temperature, forbidden_ids)
                found["reference_logprobs"] = _score(other, inputs["input_ids"])[0]
            if "kl" in want:
                assert logits is not None  # noqa: S101 - for the type checker
                found["kl"] = _exact_kl(logits, other)
        return {name: found[name] for name in want}

    def _reference_logits(self, inputs: dict[str, Tensor]) -> Tensor:
        if self.reference is not None:
            return self.reference(**inputs, use_cache=False).logits
        with self.policy.disable_adapter():
            return self.policy(**inputs, use_cache=False).logits

    def train(self, mode: bool = True) -> Self:
        """As of any module, but the reference stays in evaluation mode."""
        super().train(mode)
        if self.reference is not None:
            self.reference.eval()
        return self

    def activation_checkpointing_enable(self, **options: Any) -> None:
        """Trade compute for memory, by computing activations again when gradients need them."""
        for backbone in self._backbones():
            backbone.activation_checkpointing_enable(**options)

    def gradient_checkpointing_enable(self, **options: Any) -> None:
        """The same by its name before transformers 5.20."""
        for backbone in self._backbones():
            backbone.gradient_checkpointing_enable(**options)

    def freeze_vision(self) -> None:
        """Keep the vision towers as they are."""
        for name, parameter in self.named_parameters():
            if ".visual." in name:
                parameter.requires_grad_(False)

    def trainable(self, *, critic: bool) -> list[nn.Parameter]:
        """The parameters of the critic, or of the policy, that are trained. A shared backbone is the policy's."""
        modules = (self.policy,) if not critic else (self.critic, self.value_head)
        parameters = [each for module in modules if module is not None for each in module.parameters()]
        return [parameter for parameter in parameters if parameter.requires_grad]

    def save_pretrained(self, folder: str | Path, state: Mapping[str, Tensor] | None = None) -> None:
        """Write the policy as any checkpoint of its family, and the critic beside it in one file.

        With adapters only they are written, the policy's in PEFT's layout. `state` is this module's state
        where the weights are spread over processes.
        """
        state = self.state_dict() if state is None else state
        of_policy = {name.removeprefix("policy."): each for name, each in state.items() if name.startswith("policy.")}
        self.policy.save_pretrained(folder, state_dict=of_policy)
        critic = {name: each.contiguous() for name, each in state.items() if self._is_critics(name)}
        safetensors.torch.save_file(critic, Path(folder) / CRITIC_FILE, metadata={"format": "pt"})

    def load_critic(self, file: str | Path) -> None:
        """Read what `save_pretrained` wrote of the critic. Raises RuntimeError if it is of another shape."""
        state = safetensors.torch.load_file(file)
        expected = {name for name in self.state_dict() if self._is_critics(name)}
        if state.keys() != expected:
            differing = sorted(expected.symmetric_difference(state))
            raise RuntimeError(f"{file} is of another critic: {differing[0]} and {len(differing) - 1} more differ")
        self.load_state_dict(state, strict=False)

    def load_trained(self, folder: str | Path) -> None:
        """Take over all that `save_pretrained` wrote, as it was."""
        from transformers import AutoModelForImageTextToText

        if self.has_adapters:
            from peft import load_peft_weights, set_peft_model_state_dict

            set_peft_model_state_dict(self.policy, load_peft_weights(str(folder)))
        else:
            stored = AutoModelForImageTextToText.from_pretrained(folder, dtype=self.policy.dtype)
            self.policy.load_state_dict(stored.state_dict())
        self.load_critic(Path(folder) / CRITIC_FILE)

    def _is_critics(self, name: str) -> bool:
        if name.startswith("critic."):
            return not self.has_adapters or "lora_" in name
        return name.startswith("value_head.")

    def _backbones(self) -> list[Any]:
        return [self.policy] if self.critic is None else [self.policy, self.critic]


def score_tokens(
    policy: Any, inputs: dict[str, Tensor], *, temperature: float, forbidden_ids: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """(B, L), (B, L). The log-probability of each token after those before it, and the entropy there; first 0, 0.

    The distribution is the sampler's: logits divided by the temperature, forbidden tokens left out. Not so
    top-p, whose cut moves with the weights: a sampled token outside the new cut would have probability 0.
    """
    logits = _sampler_logits(policy(**inputs, use_cache=False).logits, temperature, forbidden_ids)
    return _score(logits, inputs["input_ids"])


def _sampler_logits(logits: Tensor, temperature: float, forbidden_ids: tuple[int, ...]) -> Tensor:
    """(B, L, V) → (B, L - 1, V) float32, before each token but the first."""
    logits = logits[:, :-1].float() / temperature
    return logits.index_fill(2, torch.tensor(forbidden_ids, dtype=torch.int64, device=logits.device), _NEVER)


def _score(logits: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
    from trl.trainer.utils import selective_log_softmax_and_entropy

    logprobs, entropies = selective_log_softmax_and_entropy(logits, input_ids[:, 1:])
    return nn.functional.pad(logprobs, (1, 0)), nn.functional.pad(entropies, (1, 0))


def _exact_kl(logits: Tensor, reference: Tensor) -> Tensor:
    """(B, L - 1, V), (B, L - 1, V) → (B, L)."""
    logprobs, others = logits.log_softmax(2), reference.log_softmax(2)
    return nn.functional.pad((logprobs.exp() * (logprobs - others)).sum(2), (1, 0))
