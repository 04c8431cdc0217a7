"""The policy, its critic and its reference: what is trained, and what it is held to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import safetensors.torch
import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.anatomy import decoder_of, logits_of, sight_of, states_of, without_head
from vagen_adapters.ppo.codec import Shown
from vagen_adapters.ppo.features import as_taken_by
from vagen_adapters.ppo.narrowing import narrowed
from vagen_adapters.ppo.quick_layers import quicken
from vagen_adapters.ppo.reading import COUNTS, THINGS, ReadingHead, Watched, pictures_in, told_of
from vagen_adapters.ppo.scoring import (
    PIECES,
    Distribution,
    SampledTokens,
    as_autocast_rounds,
    pieces_for,
    score,
)
from vagen_adapters.ppo.seeing import FrozenSight
from vagen_adapters.ppo.unpadding import in_one_row, in_rows, placed, unmasked

CRITIC_FILE = "critic.safetensors"
Critic = Literal["own", "shared", "none"]
"""A backbone of its own, a value head on the policy's, or none where advantages need no values."""


class ActorCritic(nn.Module):
    """A vision-language model as policy, with a critic and a reference.

    All that needs weights goes through `forward`, so that whatever wraps this module (DDP, FSDP, DeepSpeed) sees it.

    Args:
        policy: an image-text-to-text model of transformers, or that in a PEFT wrapper.
        critic: the model of the same family without its language head, trained on its own; None for a value
            head on the policy's last hidden state.
        values: whether there is a critic at all.
        reads: whether it also reads the latest picture's tokens in their places; see `reading`.
        told: whether it is told the latest state instead, which the policy isn't.
        convolutions: of what it reads; see `reading.ReadingHead`.

    Attributes:
        sight: what the frozen towers of these models have said, where pictures are given by number.
        packs: whether a batch goes through these models as one row without padding; see `unpadding`.
        masks: whether rows that are padded on the right have a mask that says so.
        narrows: whether last layers are computed only where they are read; see `narrowing`.
        spread: whether weights are spread over processes, which must call each part equally often then.
    """

    def __init__(
        self, policy: Any, critic: Any | None, *, values: bool = True, reads: bool = False, told: bool = False,
        convolutions: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.policy = policy
        self.critic = critic
        self.value_head: nn.Linear | None = None
        if values:
            self.value_head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
            nn.init.zeros_(self.value_head.weight)  # every state is worth 0 until the critic has seen a return
            nn.init.zeros_(self.value_head.bias)
        width = policy.config.get_text_config().hidden_size
        self.reading_head = ReadingHead(width, convolutions) if values and reads else None
        self.told_head = ReadingHead(width) if values and told else None
        self.reference: Any | None = None
        self.sight: FrozenSight | None = None
        self.packs = False
        self.masks = True
        self.narrows = False
        self.spread = False
        quicken(self)

    @classmethod
    def from_pretrained(
        cls, path: str, critic_path: str | None = None, *, critic: Critic = "own", reads: bool = False,
        told: bool = False, convolutions: int = 0, **options: Any,
    ) -> Self:  # fmt: skip
        """Read the policy from `path`, and the critic's backbone from `critic_path` or the same folder.

        A folder that was saved by training has a trained critic, which is read too.
        """
        from transformers import AutoModelForImageTextToText

        policy = AutoModelForImageTextToText.from_pretrained(path, **options)
        backbone = None
        if critic == "own":
            source = critic_path or path
            backbone = without_head(critic_class(policy.config).from_pretrained(source, **options))
        model = cls(policy, backbone, values=critic != "none", reads=reads, told=told, convolutions=convolutions)
        trained = Path(critic_path or path) / CRITIC_FILE
        if critic != "none" and trained.exists():
            model.load_critic(trained)
        return model

    @property
    def config(self) -> Any:
        """The policy's configuration, which Trainer looks for."""
        return self.policy.config

    def tie_weights(self) -> None:
        """Make language heads their embeddings again, where they are, after weights were spread over processes."""
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

    def add_adapters(self, settings: Mapping[str, Any]) -> None:
        """Freeze the backbones and train low-rank adapters in them. `settings`: of `peft.LoraConfig`."""
        from peft import LoraConfig, get_peft_model

        try:
            self.policy = get_peft_model(self.policy, LoraConfig(**settings))
            if self.critic is not None:
                self.critic = get_peft_model(self.critic, LoraConfig(**settings))
        except Exception as error:  # PEFT raises whatever it likes
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise TrainingConfigError(
                f"lora={dict(settings)} can't be taken ({reason}); see peft.LoraConfig"
            ) from error

    def add_reference(self, arithmetic: torch.dtype = torch.float32, path: str | None = None) -> None:
        """Remember the policy as it is now. With adapters that is the policy without them, and costs nothing.

        Args:
            arithmetic: in which autocast computes. What it would round at every use is stored rounded.
            path: the policy's folder, while it is what was read there, in the type that it is stored in: a machine's
                processes share a file's pages, and no copy.
        """
        if self.has_adapters:
            return
        if path is None:
            reference = copy.deepcopy(self.policy)
        else:
            reference = type(self.policy).from_pretrained(path, dtype="auto")
            quicken(reference)
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
        detach_backbone: bool = False,
        entropies_teach: bool = True,
    ) -> dict[str, Tensor]:
        """What is asked for of a batch of B sequences of L tokens.

        Args:
            inputs: see `generation.model_inputs`.
            want: of `logprobs` and `entropies`, (B, L), of the policy (see `scoring`); `values`, (B, L + 1), V
                before each token and after the last (before the first nothing is known, and it is 0);
                `reference_logprobs`, (B, L); `kl`, (B, L), KL[π‖π_ref] over the whole vocabulary at each token.
            temperature: of the sampler.
            forbidden_ids: that the sampler leaves out.
            mask: (B, L) bool, the tokens whose scores are wanted, all by default. Values come before and after these,
                and after the last of each sequence; what stands elsewhere is no value if `narrows`.
            detach_backbone: no gradient flows from the values into a backbone that is shared with the policy.
            entropies_teach: whether gradients flow through the entropies.
        """
        of_tokens = [name for name in want if name != "values"]
        of_policy = {"logprobs", "entropies", "kl"} & set(want)
        found: dict[str, Tensor] = {}
        hidden = given = None
        if self.lays_out:
            inputs = placed(self.policy, inputs)
        read = self._read_at(inputs["attention_mask"], mask, "values" in want)
        if of_policy or (self.critic is None and "values" in want):
            with torch.set_grad_enabled(torch.is_grad_enabled() and (bool(of_policy) or not detach_backbone)):
                hidden, given = self._hidden_and_given(self.policy, inputs, read)
        if of_tokens:
            tokens = SampledTokens(torch.ones_like(inputs["input_ids"], dtype=torch.bool) if mask is None else mask)
            other = None
            if {"reference_logprobs", "kl"} & set(want):
                with torch.no_grad():
                    other = tokens.before(self._of_reference(lambda model: self.hidden(model, inputs, read)))
            ids = tokens.ids(inputs["input_ids"])
            scores = score(
                of_tokens, Distribution(temperature, forbidden_ids), ids,
                lambda each: logits_of(self.policy, each),
                tokens.before(hidden) if of_policy and hidden is not None else None,
                lambda each: self._of_reference(lambda model: logits_of(model, each)), other,
                pieces=PIECES if self.spread else pieces_for(len(ids), self.config.get_text_config().vocab_size),
                entropies_teach=entropies_teach,
            )  # fmt: skip
            found = {name: tokens.back(entries) for name, entries in scores.items()}
        if "values" in want:
            found["values"] = self._values(inputs, hidden, given, detach_backbone, read)
        return found

    @property
    def lays_out(self) -> bool:
        """Whether what models read isn't rows with a mask, so that their tokens' places must be given."""
        return self.packs or not self.masks

    def readers(self, want: Collection[str]) -> list[Any]:
        """The models that read a batch for what is wanted of it; see `forward`."""
        policy = {"logprobs", "entropies", "kl"} & set(want) or (self.critic is None and "values" in want)
        found = [self.policy] if policy else []
        if "values" in want and self.critic is not None:
            found.append(self.critic)
        if {"reference_logprobs", "kl"} & set(want):
            found.append(self.policy if self.reference is None else self.reference)
        return found

    def hidden(self, model: Any, inputs: Mapping[str, Any], wanted: Tensor | None = None) -> Tensor:
        """(B, L, H) The last states of one of these models; where `wanted`, (B, L), says so, if it isn't None."""
        inputs = {name: each for name, each in inputs.items() if name not in (THINGS, COUNTS)}  # for heads alone
        if self.sight is not None:
            inputs = self.sight.given(model, inputs)
        lay_out = in_one_row if self.packs else unmasked
        read = lay_out(model, inputs) if self.lays_out else inputs
        if self.packs and wanted is not None:
            wanted = wanted[inputs["attention_mask"].bool()][None]
        with narrowed(model, wanted):
            hidden = states_of(model, as_taken_by(model, read))
        return in_rows(hidden, inputs["attention_mask"]) if self.packs else hidden

    def _read_at(self, tokens: Tensor, mask: Tensor | None, for_values: bool) -> Tensor | None:
        """(B, L) bool. The tokens whose states are read, from the mask of tokens and that of wanted scores."""
        if mask is None or not self.narrows:
            return None
        wanted = nn.functional.pad(mask[:, 1:], (0, 1))
        if for_values:
            last = tokens.bool() & ~nn.functional.pad(tokens[:, 1:], (0, 1)).bool()
            wanted = wanted | mask | last
        return wanted

    def _of_reference(self, compute: Callable[[Any], Tensor]) -> Tensor:
        if self.reference is not None:
            return compute(self.reference)
        with self.policy.disable_adapter():
            return compute(self.policy)

    def _hidden_and_given(
        self, model: Any, inputs: dict[str, Tensor], wanted: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The last states, and what the language model was given, if the critic reads that."""
        if self.reading_head is None:
            return self.hidden(model, inputs, wanted), None
        with Watched(decoder_of(model)) as watched:
            hidden = self.hidden(model, inputs, wanted)
        given = watched.given
        return hidden, in_rows(given, inputs["attention_mask"]) if self.packs and given is not None else given

    def _values(
        self, inputs: dict[str, Tensor], hidden: Tensor | None, given: Tensor | None, detach_backbone: bool,
        wanted: Tensor | None,
    ) -> Tensor:  # fmt: skip
        if self.critic is not None:
            hidden, given = self._hidden_and_given(self.critic, inputs, wanted)
        assert hidden is not None  # noqa: S101 - for the type checker
        if detach_backbone and self.critic is None:
            hidden, given = hidden.detach(), given if given is None else given.detach()
        after = self.of_heads(hidden, self._pictures(inputs, hidden, given))
        return nn.functional.pad(after, (1, 0))

    def of_heads(self, hidden: Tensor, pictures: tuple[Tensor, Tensor, Tensor] | None) -> Tensor:
        """(B, L) Values after each position, of the last states (B, L, H) and `pictures_in` what was read."""
        assert self.value_head is not None  # noqa: S101 - for the type checker
        after = self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(2).float()
        head = self.reading_head if self.told_head is None else self.told_head
        if head is not None and pictures is not None:
            after = after + head(hidden, *pictures)
        return after

    def told(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """What the critic is told of observations, as further inputs of `forward`; nothing if it isn't."""
        if self.told_head is None:
            return {}
        found = told_of(shown, self.told_head.token.in_features)
        return {name: each.to(self.told_head.token.weight.device) for name, each in found.items()}

    @torch.no_grad()
    def before_heads(self, inputs: dict[str, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor] | None]:
        """What `of_heads` takes, of a batch; the backbone is the critic's, or that which it shares."""
        hidden, given = self._hidden_and_given(self.policy if self.critic is None else self.critic, inputs)
        return hidden, self._pictures(inputs, hidden, given)

    def _pictures(
        self, inputs: dict[str, Tensor], hidden: Tensor, given: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """What heads ask their questions of: pictures, or in their places the things of each, as a column."""
        counts = inputs.get(COUNTS)
        if given is None and counts is None:
            return None
        seen = pictures_in(inputs, hidden if given is None else given, self.config.vision_config.spatial_merge_size)
        if counts is None:
            return seen
        return inputs[THINGS], torch.stack([counts, torch.ones_like(counts)], 1), seen[2]

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
        """Keep the vision towers, and what fits them to the language model, as they are."""
        for backbone in self._backbones():
            for parameter in sight_of(backbone):
                parameter.requires_grad_(False)

    def trainable(self, *, critic: bool) -> list[nn.Parameter]:
        """The parameters of the critic, or of the policy, that are trained. A shared backbone is the policy's."""
        modules = (self.policy,) if not critic else (self.critic, self.value_head, self.reading_head, self.told_head)
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
        if critic:
            safetensors.torch.save_file(critic, Path(folder) / CRITIC_FILE, metadata={"format": "pt"})

    def load_critic(self, file: str | Path) -> None:
        """Read what `save_pretrained` wrote of the critic.

        One that didn't read pictures goes on as one that does, and whichever as one that is told states.

        Raises:
            TrainingConfigError: it is of another kind.
        """
        state = safetensors.torch.load_file(file)
        if self.told_head is not None:
            state = {name: each for name, each in state.items() if not name.startswith("reading_head.")}
        expected = {name: each.shape for name, each in self.state_dict().items() if self._is_critics(name)}
        if not any(map(_is_of_head, state)):
            expected = {name: shape for name, shape in expected.items() if not _is_of_head(name)}
        differing = dict(expected.items() ^ {name: each.shape for name, each in state.items()}.items())
        if differing:
            raise TrainingConfigError(
                f"{file} is of another critic: {min(differing)} and {len(differing) - 1} more differ. Leave "
                "shared_backbone, critic_reads, critic_convolutions and critic_told as they were when it was trained, "
                "or remove that file to begin anew"
            )
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
        if self.sight is not None:
            self.sight.clear()
        if self.value_head is not None:
            self.load_critic(Path(folder) / CRITIC_FILE)

    def _is_critics(self, name: str) -> bool:
        if name.startswith("critic."):
            return not self.has_adapters or "lora_" in name
        return name.startswith("value_head.") or _is_of_head(name)

    def _backbones(self) -> list[Any]:
        return [self.policy] if self.critic is None else [self.policy, self.critic]


def critic_class(config: Any) -> Any:
    """Which of transformers' classes gives a critic: of families without a model that has no head, the one with it."""
    from transformers import AutoModel, AutoModelForImageTextToText

    return AutoModel if type(config) in AutoModel._model_mapping else AutoModelForImageTextToText


def _is_of_head(name: str) -> bool:
    return name.startswith(("reading_head.", "told_head."))
