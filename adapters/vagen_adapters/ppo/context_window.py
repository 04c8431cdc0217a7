"""What a model reads before its next reply, and whether there is room for it."""

from __future__ import annotations

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.generation import Prompt, SampleSettings
from vagen_adapters.ppo.thoughts import shown_thoughts
from vagen_adapters.ppo.token_sequences import lay_out, remembered


class ContextWindow:
    """The tokens that a model may read and write in one sequence.

    Args:
        encoder: of the model.
        sampling: of its replies.
        context: which earlier turns are shown.
        max_length: tokens of a sequence, the reply's included.
    """

    def __init__(
        self,
        encoder: ChatEncoder,
        sampling: SampleSettings,
        context: ContextPolicy,
        max_length: int,
    ) -> None:
        self.encoder = encoder
        self.sampling = sampling
        self.context = context
        self.max_length = max_length

    def prompt(self, episode: PPOEpisode) -> Prompt:
        """The tokens and pictures before an episode's next reply."""
        steps = episode.steps
        thoughts = shown_thoughts(self.context, for_summary=episode.pending is not None)
        earlier = remembered(steps, len(steps), self.context)
        return lay_out(earlier, (), episode.last_shown, thoughts=thoughts).prompt

    def reply_limit(self, episode: PPOEpisode) -> int:
        """The most tokens of the next reply, or of the summary that is asked for."""
        if episode.pending is None:
            return self.sampling.max_tokens
        return self.context.summary_tokens

    def has_room(self, episode: PPOEpisode) -> bool:
        """Whether another reply can be read and written."""
        written = self.reply_limit(episode)
        if self.sampling.max_thinking_tokens:
            written += self.sampling.max_thinking_tokens + len(self.encoder.closing_ids)
        return len(self.prompt(episode).ids) + written <= self.max_length

    def fits(self, episode: PPOEpisode) -> bool:
        """Whether the last turn with its history and the observation after it can be read."""
        steps = episode.steps
        history = remembered(steps, len(steps) - 1, self.context)
        thoughts = shown_thoughts(self.context, for_summary=False)
        laid_out = lay_out(history, steps[-1:], episode.last_shown, thoughts=thoughts)
        return len(laid_out.prompt.ids) <= self.max_length
