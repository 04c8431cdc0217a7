"""A sampler that says what is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vagen_adapters.parity.recordings import Recording
from vagen_adapters.parity.stage import Pixels, Stage


@dataclass(frozen=True, eq=False)
class Call:
    """What the sampler was shown for a reply, and what it said.

    Attributes:
        ids: the prompt, as it came: a picture is one image token, or as many as it has merged patches.
        pictures: as they came.
        reply: the tokens.
        logprobs: of the reply, given exactly this.
    """

    ids: tuple[int, ...]
    pictures: tuple[Pixels, ...]
    reply: tuple[int, ...]
    logprobs: tuple[float, ...]


class RecordedSampler:
    """Says the recording's replies in order, with the log-probabilities that the model gives them for what it is shown.

    A picture that isn't handed over isn't seen: its tokens are there and its pixels aren't, as on a server.
    """

    def __init__(self, stage: Stage, recording: Recording) -> None:
        self.stage, self.recording = stage, recording
        self.calls: list[Call] = []

    def generate(self, prompt_ids: Sequence[int], pictures: Sequence[Pixels]) -> tuple[list[int], list[float]]:
        """The next reply: its tokens and their log-probabilities at temperature 1. After the last, it begins again."""
        reply = self.recording.reply_ids(len(self.calls) % len(self.recording.moves), self.stage)
        features = self.stage.features(pictures)
        sizes = self.stage.patches(features["image_grid_thw"]) if features else []
        prompt = self.stage.expand(prompt_ids, sizes)
        runs = self.stage.collapse(prompt)[0].count(self.stage.image_token)
        seen = pictures if runs == len(pictures) else ()
        said = [0 if token == self.stage.image_token else token for token in reply]  # the model can't read its own
        scores = self.stage.logprobs(self.stage.inputs([*prompt, *said], seen))[len(prompt) :]
        self.calls.append(Call(tuple(prompt_ids), tuple(pictures), reply, tuple(scores)))
        return list(reply), scores
