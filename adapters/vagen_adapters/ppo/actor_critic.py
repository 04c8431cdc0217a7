"""The policy, its critic and its reference: what is trained, and what it is held to."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import safetensors.torch
import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.features import as_taken_by
from vagen_adapters.ppo.introspection import (
    backbone_of,
    base_of,
    logits_of,
    read_policy,
    vision_parameters,
)
from vagen_adapters.ppo.lora import merged, merged_critic
from vagen_adapters.ppo.packed_rows import in_one_row, in_rows
from vagen_adapters.ppo.scoring import (
    PIECES,
    Distribution,
    Nucleus,
    SampledTokens,
    as_autocast_rounds,
    pieces_for,
    score,
)
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.vision_cache import VisionFeatureCache

CRITIC_FILE = "critic.safetensors"
FOR_CRITIC = "critic_"
"""How the names of inputs begin that the language model doesn't take."""
Critic = Literal["own", "shared", "none"]
"""A backbone of its own, a value head on the policy's, or none where advantages need no values."""


class ActorCritic(nn.Module):
    """A vision-language model as policy, with a critic and a reference.

    All that needs weights goes through `forward`, so that whatever wraps this module (DDP, FSDP,
    DeepSpeed) sees it.

    Args:
        policy: an image-text-to-text model of transformers, with or without a PEFT wrapper.
        critic: a backbone of the same family for the critic; None for a value head on the policy's
            last hidden state.
        values: False for estimators without a critic.

    Attributes:
        vision_cache: cached features of frozen vision towers; None if towers are trained.
        packs: concatenate a batch's sequences into one row without padding; see `packed_rows`.
        spread: weights are sharded over processes (FSDP, ZeRO 3), which must call each layer
            equally often.
    """

    critic_prefixes: tuple[str, ...] = ("critic.", "value_head.")
    """How the names of the critic's weights begin; a subclass with further heads adds theirs."""

    def __init__(self, policy: Any, critic: Any | None, *, values: bool = True) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic
        self.value_head: nn.Linear | None = None
        if values:
            self.value_head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
            # Every state has value 0 until the critic has seen a return.
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
        self.reference: Any | None = None
        self.vision_cache: VisionFeatureCache | None = None
        self.packs = False
        self.spread = False

    @classmethod
    def from_pretrained(cls, path: str, *, critic: Critic = "own", **options: Any) -> Self:
        """Read the policy from `path`, and the critic's backbone from the same folder.

        If the folder holds a trained critic (`critic.safetensors`), it is read too. Adapters that
        it holds are merged into their model. `options` are those of transformers'
        `from_pretrained`.
        """
        from transformers import AutoModel

        base = base_of(path)
        policy = read_policy(base or path, **options)
        backbone = None
        if critic == "own":
            backbone = AutoModel.from_pretrained(base or path, **options)
        trained = Path(path) / CRITIC_FILE
        state = safetensors.torch.load_file(trained) if trained.exists() else {}
        if base is not None:
            policy = merged(policy, path)
            backbone = backbone and merged_critic(backbone, path, state)
        model = cls(policy, backbone, values=critic != "none")
        if critic != "none" and state:
            model.load_critic(trained, state)
        check_finite(model, path)
        return model

    @property
    def config(self) -> Any:
        """The policy's configuration, which Trainer looks for."""
        return self.policy.config

    def tie_weights(self) -> None:
        """Tie the language heads to the embeddings again, after weights were sharded over
        processes.
        """
        for model in (self.policy, self.critic, self.reference):
            if model is not None:
                model.tie_weights()

    @property
    def _no_split_modules(self) -> list[str]:
        """The layers that FSDP gathers one at a time, by accelerate's name for them."""
        return sorted(self.policy._no_split_modules or ())

    @property
    def has_adapters(self) -> bool:
        """Whether policy and critic are trained through PEFT adapters over frozen weights."""
        return hasattr(self.policy, "disable_adapter")

    def add_reference(
        self, arithmetic: torch.dtype = torch.float32, path: str | None = None
    ) -> None:
        """Remember the policy as it is now. With adapters that is the policy without them, and
        costs nothing.

        Args:
            arithmetic: in which autocast computes. What it would round at every use is stored
                rounded.
            path: the policy's folder, while it is what was read there, in the type that it is
                stored in: a machine's processes share a file's pages, and no copy.
        """
        if self.has_adapters:
            return
        if path is None:
            reference = copy.deepcopy(self.policy)
        else:
            reference = type(self.policy).from_pretrained(path, dtype="auto")
        self.reference = reference.eval().requires_grad_(False)
        if arithmetic != torch.float32:
            as_autocast_rounds(self.reference, arithmetic)

    def forward(
        self,
        inputs: dict[str, Tensor],
        want: Collection[str],
        *,
        temperature: float,
        forbidden_ids: tuple[int, ...] = (),
        mask: Tensor | None = None,
        values_teach: float = 1.0,
        entropies_teach: bool = True,
        nucleus: Nucleus | None = None,
    ) -> dict[str, Tensor]:
        """The outputs for a batch of B sequences of L tokens.

        Args:
            inputs: see `generation.model_inputs`.
            want: `logprobs`, `entropies` and `log_shares` of the policy, (B, L) (see `scoring`);
                `values`, (B, L + 1), V before each token and after the last (0 before the first);
                `reference_logprobs`, (B, L).
            temperature: of the sampler.
            forbidden_ids: that the sampler leaves out.
            mask: (B, L) bool, the tokens whose log-probabilities are wanted; all by default.
            values_teach: share of the values' gradient that flows into a backbone that is shared
                with the policy; 0 for none. The head gets all of it.
            entropies_teach: whether gradients flow through the entropies.
            nucleus: whose `log_shares` are wanted.
        """
        of_policy = {"logprobs", "entropies", "log_shares"} & set(want)
        found: dict[str, Tensor] = {}
        hidden = None
        if of_policy or (self.critic is None and "values" in want):
            is_learnt_from = bool(of_policy) or values_teach > 0
            with torch.set_grad_enabled(torch.is_grad_enabled() and is_learnt_from):
                hidden = self.hidden(self.policy, inputs)
        if mask is None:
            mask = torch.ones_like(inputs["input_ids"], dtype=torch.bool)
        tokens = SampledTokens(mask)
        ids = tokens.ids(inputs["input_ids"])
        pieces = PIECES
        if not self.spread:
            pieces = pieces_for(len(ids), self.config.get_text_config().vocab_size)

        def scores(
            model: Any, hidden: Tensor, want: Collection[str], nucleus: Nucleus | None = None
        ) -> dict[str, Tensor]:
            head = functools.partial(logits_of, model)
            draws = Distribution(temperature, forbidden_ids)
            before = tokens.before(hidden)
            return score(
                want,
                draws,
                ids,
                head,
                before,
                pieces=pieces,
                entropies_teach=entropies_teach,
                nucleus=nucleus,
            )

        if of_policy and hidden is not None:
            shares = nucleus if "log_shares" in want else None
            found |= scores(self.policy, hidden, of_policy, shares)
        if "reference_logprobs" in want:
            with torch.no_grad(), self._reference() as reference:
                hidden_then = self.hidden(reference, inputs)
                of_reference = scores(reference, hidden_then, ["logprobs"])
                found["reference_logprobs"] = of_reference["logprobs"]
        found = {name: tokens.back(entries) for name, entries in found.items()}
        if "values" in want:
            if self.critic is not None:
                hidden = self.hidden(self.critic, inputs)
            assert hidden is not None  # noqa: S101 - for the type checker
            if self.critic is None and values_teach != 1:
                still = hidden.detach()
                hidden = still + values_teach * (hidden - still) if values_teach else still
            found["values"] = nn.functional.pad(self.values_after(hidden, inputs), (1, 0))
        return found

    def hidden(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """(B, L, H) The last hidden states of one of these models."""
        inputs = {
            name: tensor for name, tensor in inputs.items() if not name.startswith(FOR_CRITIC)
        }
        if self.vision_cache is not None:
            inputs = self.vision_cache.given(model, inputs)
        read = in_one_row(model, inputs) if self.packs else inputs
        hidden: Tensor = backbone_of(model)(
            **as_taken_by(model, read), use_cache=False
        ).last_hidden_state
        return in_rows(hidden, inputs["attention_mask"]) if self.packs else hidden

    def values_after(self, hidden: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """(B, L) Values after each position, from the last hidden states, (B, L, H). A subclass may
        add heads.
        """
        assert self.value_head is not None  # noqa: S101 - for the type checker
        values: Tensor = self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(2).float()
        return values

    def critic_inputs(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """Further inputs that only `values_after` reads; their names begin with `FOR_CRITIC`. None
        by default.
        """
        return {}

    @contextlib.contextmanager
    def _reference(self) -> Iterator[Any]:
        if self.reference is not None:
            yield self.reference
        else:
            with self.policy.disable_adapter():
                yield self.policy

    def train(self, mode: bool = True) -> Self:
        """As of any module, but the reference stays in evaluation mode."""
        super().train(mode)
        if self.reference is not None:
            self.reference.eval()
        return self

    def activation_checkpointing_enable(self, **options: Any) -> None:
        """Trade compute for memory, by computing activations again when gradients need them."""
        for backbone in self._backbones():
            former = backbone.gradient_checkpointing_enable
            getattr(backbone, "activation_checkpointing_enable", former)(**options)

    gradient_checkpointing_enable = (
        activation_checkpointing_enable  # its name before transformers 5.20
    )

    def freeze_vision(self) -> None:
        """Keep the vision towers, and what fits them to the language model, as they are."""
        for backbone in self._backbones():
            for parameter in vision_parameters(backbone):
                parameter.requires_grad_(False)

    def trainable(self, *, critic: bool) -> list[nn.Parameter]:
        """The parameters of the critic, or of the policy, that are trained. A shared backbone is
        the policy's.
        """
        return [
            parameter
            for name, parameter in self.named_parameters()
            if parameter.requires_grad
            and name.startswith(self.critic_prefixes if critic else "policy.")
        ]

    def save_pretrained(
        self, folder: str | Path, state: Mapping[str, Tensor] | None = None
    ) -> None:
        """Write the policy as any checkpoint of its family, and the critic beside it in one file.

        With adapters only they are written, the policy's in PEFT's layout. `state` is this module's
        state where the weights are spread over processes.
        """
        state = self.state_dict() if state is None else state
        of_policy = {
            name.removeprefix("policy."): each
            for name, each in state.items()
            if name.startswith("policy.")
        }
        self.policy.save_pretrained(folder, state_dict=of_policy)
        critic = {name: each.contiguous() for name, each in state.items() if self._is_critics(name)}
        if critic:
            safetensors.torch.save_file(
                critic, Path(folder) / CRITIC_FILE, metadata={"format": "pt"}
            )

    def load_critic(self, file: str | Path, state: dict[str, Tensor] | None = None) -> None:
        """Read what `save_pretrained` wrote of the critic, or take it from `state`.

        Raises:
            TrainingConfigError: the file holds a critic with other weights than this one's.
        """
        state = safetensors.torch.load_file(file) if state is None else state
        own = self.state_dict()
        expected = {name: own[name].shape for name in own if self._is_critics(name)}
        stored = {name: tensor.shape for name, tensor in state.items()}
        differing = dict(expected.items() ^ stored.items())
        if differing:
            raise TrainingConfigError(
                f"{file} holds another critic: {min(differing)} and {len(differing) - 1} more "
                "weights differ. Keep shared_backbone and lora as they were in its training, or "
                "remove the file to start a new critic"
            )
        self.load_state_dict(state, strict=False)

    def load_trained(self, folder: str | Path) -> None:
        """Take over all that `save_pretrained` wrote, as it was."""
        if self.has_adapters:
            from peft import load_peft_weights, set_peft_model_state_dict

            set_peft_model_state_dict(self.policy, load_peft_weights(str(folder)))
        else:
            self.policy.load_state_dict(read_policy(folder, dtype=self.policy.dtype).state_dict())
        if self.vision_cache is not None:
            self.vision_cache.kept.clear()
        if self.value_head is not None:
            self.load_critic(Path(folder) / CRITIC_FILE)
        check_finite(self, folder)

    def _is_critics(self, name: str) -> bool:
        if name.startswith("critic."):
            return not self.has_adapters or "lora_" in name
        return name.startswith(self.critic_prefixes)

    def _backbones(self) -> list[Any]:
        return [self.policy] if self.critic is None else [self.policy, self.critic]


def critic_kind_of(folder: str | Path) -> Critic:
    """The critic that a folder's `critic.safetensors` is of."""
    file = Path(folder) / CRITIC_FILE
    if not file.is_file():
        return "none"
    names = safetensors.torch.load_file(file)
    return "own" if any(name.startswith("critic.") for name in names) else "shared"


def check_finite(
    model: nn.Module, name: object, fix: str = "copy it anew, or take an earlier one"
) -> None:
    """Raise TrainingConfigError if a weight of the model that `name` names is NaN or infinite."""
    broken = [key for key, weight in model.named_parameters() if not weight.isfinite().all()]
    if broken:
        raise TrainingConfigError(
            f"{name} has {len(broken)} weights with NaN or infinity, such as {broken[0]}; {fix}"
        )
