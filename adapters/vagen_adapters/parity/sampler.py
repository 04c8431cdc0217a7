"""A sampler that replays recorded replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vagen_adapters.parity.recordings import Recording
from vagen_adapters.parity.reference_model import Pixels, ReferenceModel


@dataclass(frozen=True, eq=False)
class SamplerCall:
    """The input and the reply of one call of the sampler.

    Attributes:
        ids: the prompt as received; a picture is one image token, or one per merged patch.
        pictures: as received.
        reply: sampled tokens.
        logprobs: of the reply, given this input.
        turn: how many turns were played before.
        summary: whether the reply is a summary of them instead of the next turn's.
    """

    ids: tuple[int, ...]
    pictures: tuple[Pixels, ...]
    reply: tuple[int, ...]
    logprobs: tuple[float, ...]
    turn: int
    summary: bool = False

    @property
    def seen(self) -> int:
        """How many observations the environment had shown that the input may hold."""
        return self.turn + (not self.summary)


class RecordedSampler:
    """Returns the recording's replies in order, with the model's log-probabilities for the given
    input.

    If a picture isn't passed, its tokens have no pixels, as on a server.
    """

    def __init__(self, model: ReferenceModel, recording: Recording) -> None:
        self.model = model
        self.recording = recording
        self.calls: list[SamplerCall] = []

    def generate(
        self, prompt_ids: Sequence[int], pictures: Sequence[Pixels], *, summary: bool = False
    ) -> tuple[list[int], list[float]]:
        """Return the next reply's tokens and their log-probabilities at temperature 1; then start
        again.

        `summary` asks for a summary of the turns so far instead.
        """
        turn = sum(not call.summary for call in self.calls)
        asked = self.recording.summary_ids if summary else self.recording.reply_ids
        reply = asked(turn % len(self.recording.moves), self.model)
        features = self.model.features(pictures)
        sizes = self.model.patches(features["image_grid_thw"]) if features else []
        prompt = self.model.expand(prompt_ids, sizes)
        runs = self.model.collapse(prompt)[0].count(self.model.image_token)
        seen = pictures if runs == len(pictures) else ()
        # The model has no pixels for a sampled image token.
        reply_inputs = [0 if token == self.model.image_token else token for token in reply]
        inputs = self.model.inputs([*prompt, *reply_inputs], seen)
        scores = self.model.logprobs(inputs)[len(prompt) :]
        call = SamplerCall(tuple(prompt_ids), tuple(pictures), reply, tuple(scores), turn, summary)
        self.calls.append(call)
        return list(reply), scores
