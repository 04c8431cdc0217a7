"""The parity kit's adapter of `vagen_adapters.ppo`."""

from __future__ import annotations

from collections.abc import Sequence

from vagen_adapters.context import ContextPolicy
from vagen_adapters.parity.sampler import RecordedSampler
from vagen_adapters.parity.trained import Playback, TrainedSequence
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_adapters.ppo.generation import Prompt, SampledReply, SampleSettings, model_inputs
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import TokenSequence, training_sequences


class PPOTrainerAdapter:
    """Plays with `Rollout`; `training_sequences` and `model_inputs` build the training data.

    Args:
        context: as in the trainer.
    """

    def __init__(self, context: str = "all") -> None:
        self.context = ContextPolicy.parse(context)
        self.name = f"vagen_adapters.ppo, {context}"
        self.refusals = {
            "image token": "TrainingDataError: prompt 0: its pictures take",
            "no room": "left out",
        }

    def play(self, playback: Playback) -> Sequence[TrainedSequence]:
        """See `Trainer.play`."""
        encoder = playback.model.encoder
        longest = 100_000
        if playback.room is not None:
            observation, _ = playback.env.reset()
            system = playback.env.unwrapped.system_prompt  # type: ignore[attr-defined]
            longest = len(encoder.show(system, observation).first_ids) + playback.room
        rollout = Rollout(
            [playback.env],
            encoder,
            _Sampler(playback.sampler, self.context.summary_tokens, encoder.thought_end_id),
            SampleSettings(
                temperature=1.0,
                top_p=1.0,
                max_tokens=8,
                max_thinking_tokens=0 if encoder.thought_end_id is None else 8,
            ),
            context=self.context,
            max_length=longest,
        )
        (episode,) = rollout.play([LevelSeed(playback.recording.seed)], seed=0)
        if episode.failure is not None:
            return []
        sequences = training_sequences(episode, self.context)
        return [self._trained(playback, episode, sequence) for sequence in sequences]

    def _trained(
        self, playback: Playback, episode: PPOEpisode, sequence: TokenSequence
    ) -> TrainedSequence:
        inputs = model_inputs([sequence.prompt], playback.model.encoder, "cpu")
        ids = inputs.pop("input_ids")[0].tolist()
        turns = sorted({turn for turn in sequence.turn_ids if turn >= 0})
        rewards = [0.0] * len(ids)
        for turn in turns:
            rewards[max(at for at, owner in enumerate(sequence.turn_ids) if owner == turn)] = (
                episode.steps[turn].reward
            )
        return TrainedSequence(
            input_ids=ids,
            mask=[turn >= 0 for turn in sequence.turn_ids],
            forward=inputs,
            logprobs=sequence.logprobs,
            rewards=rewards,
            terminated=episode.terminated,
            truncated=episode.truncated,
            turns=turns,
        )


class _Sampler:
    """Plays a recording; a reply with thoughts is asked for in two parts."""

    def __init__(
        self, recorded: RecordedSampler, summary_tokens: int, thought_end_id: int | None
    ) -> None:
        self.recorded, self.summary_tokens = recorded, summary_tokens
        self.thought_end_id, self.rest = thought_end_id, {}

    def sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        replies = []
        for prompt in prompts:
            if prompt.ids in self.rest:
                replies.append(self.rest.pop(prompt.ids))
                continue
            pictures = [picture.pixels for shown in prompt.shown for picture in shown.pictures]
            ids, scores = self.recorded.generate(
                prompt.ids, pictures, summary=sampling.max_tokens == self.summary_tokens
            )
            cut = len(ids)
            if sampling.stop_id in ids:
                cut = ids.index(sampling.stop_id) + 1
                left = SampledReply(tuple(ids[cut:]), tuple(scores[cut:]))
                self.rest[(*prompt.ids, *ids[:cut])] = left
            replies.append(SampledReply(tuple(ids[:cut]), tuple(scores[:cut])))
        return replies

    def sync(self) -> None:
        """Nothing to do."""


adapter = PPOTrainerAdapter()
